#!/bin/sh
# man.sh TWINFER SOURCE: the manual pages hold every command and every setting, and roff readers find
# nothing to complain of.
set -eu
program=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sh "$source/scripts/man.sh" "$program" "$work"
bad=0
say() {
    echo "$*"
    bad=1
}

for page in "$work"/twinfer-*.1; do
    command=${page##*/twinfer-}
    command=${command%.1}
    grep -qF "twinfer\\-$command" "$work/twinfer.1" || say "twinfer.1 does not name $command"
    "$program" "$command" --help | sed -n '/^settings:/,$s/^  \([a-z][^ ]*\) .*/\1/p' >"$work/keys"
    sed -n 's/^\.B "\(.*\)"$/\1/p' "$page" | sed 's/\\-/-/g' >"$work/items"
    while read -r key; do
        grep -qxF "$key" "$work/items" || say "$page lacks $key"
    done <"$work/keys"
done
[ "$(find "$work" -name 'twinfer-*.1' | wc -l)" -ge 13 ] || say "pages are missing"
grep -q tiny_qwen3 "$work/twinfer-simulate.1" || say "twinfer-simulate.1 lacks the models"

if command -v mandoc >/dev/null; then
    # a date would make the bytes differ from one day to the next
    mandoc -T lint -W warning "$work"/*.1 >"$work/lint" || :
    ! grep -v 'missing date' "$work/lint" || bad=1
elif command -v groff >/dev/null; then
    groff -man -ww -z "$work"/*.1 2>"$work/lint" || :
    ! grep . "$work/lint" || bad=1
else
    echo "skipped: no mandoc and no groff here to read the pages"
    [ $bad = 1 ] || exit 77
fi
exit $bad
