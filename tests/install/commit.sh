#!/bin/sh
# commit.sh CMAKE SOURCE: what cmake/commit.cmake finds in source trees of every kind.
set -eu
cmake=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export HOME="$work" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
unset GIT_DIR GIT_WORK_TREE
command -v git >/dev/null || { echo "skipped: no git here"; exit 77; }

bad=0
# expect WHAT TREE COMMIT [COMMAND-LINE COMMIT]
expect() {
    "$cmake" -DOUT="$work/commit.c" -DSOURCE="$2" -DCOMMIT="${4:-}" -P "$source/cmake/commit.cmake"
    found=$(sed -n 's/.*build_commit\[\] = "\(.*\)";/\1/p' commit.c)
    [ "$found" = "$3" ] || { echo "$1: '$found', expected '$3'"; bad=1; }
}

tree="$work/a tree"
mkdir -p "$tree/cmake" "$tree/src" "$tree/docs"
cp "$source/cmake/commit.txt" "$tree/cmake/"
cp "$source/.gitattributes" "$tree/"
echo one >"$tree/src/a.c"
expect "neither git nor an archive" "$tree" ""
expect "a commit that was given" "$tree" given given

git -C "$tree" -c init.defaultBranch=main init -q
expect "a repository without commits" "$tree" ""
git -C "$tree" add . && git -C "$tree" commit -qm one
head=$(git -C "$tree" rev-parse HEAD)
expect "as committed" "$tree" "$head"
touch -d '2001-01-01' commit.c
expect "again" "$tree" "$head"
[ -z "$(find commit.c -newer "$tree/src/a.c")" ] || { echo "the same text was written again"; bad=1; }

echo more >"$tree/docs/page.md"
expect "a new page" "$tree" "$head"
echo two >"$tree/src/b.c"
expect "a new source file" "$tree" "$head-dirty"
git -C "$tree" config status.showUntrackedFiles no
expect "a new source file that git status does not show" "$tree" "$head-dirty"
git -C "$tree" add . && git -C "$tree" commit -qm two
second=$(git -C "$tree" rev-parse HEAD)
expect "the next commit" "$tree" "$second"
echo three >"$tree/src/a.c"
expect "a changed source file" "$tree" "$second-dirty"

mkdir archive
git -C "$tree" archive HEAD | tar -xf - -C archive
expect "an archive made by git" "$work/archive" "$second"

git -C "$work" -c init.defaultBranch=main init -q
git -C "$work" add archive && git -C "$work" commit -qm other
expect "an archive inside somebody else's repository" "$work/archive" "$second"
cp "$source/cmake/commit.txt" archive/cmake/
expect "a copy inside somebody else's repository" "$work/archive" ""
exit $bad
