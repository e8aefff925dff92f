#!/bin/sh
# Includes point one way: a folder of src/ may include only folders of a lower rank, or itself.
# The picture of the ranks is in docs/flow.md, which also has a row for each folder.
set -eu
cd "$(dirname "$0")/../.."

ranks='base 0
text 1
config 2
artifact 2
model 2
gpu 2
workload 3
capsule 3
profile/read 3
serve 4
sim 5
metrics 5
engine 6
profile 6
client 7
server 7
compare 7
trace 7
search 8
calibrate 8
kernels 8
capture 8
doctor 8
energy 8
replay 9
deep 9
report 10
job 10
cmd 11'

# shellcheck disable=SC2016  # backticks are Markdown's
for dir in src/*/; do
    dir=$(basename "$dir")
    grep -q '^|.*`'"$dir"'[`/]' docs/flow.md || { echo "docs/flow.md: its table of folders has no row for src/$dir"; exit 1; }
done
# shellcheck disable=SC2016
sed -n '/^## Which folder/,/^## What points/p' docs/flow.md | grep -o '`[a-z_/]*\.h`' | tr -d '`' | while read -r header; do
    [ -f "src/$header" ] || [ -f "$header" ] || { echo "docs/flow.md: $header is not there"; exit 1; }
done

find src -name '*.[ch]' | sort | while read -r file; do
    grep -n '^#include "' "$file" | sed "s|^\([0-9]*\):#include \"\([^\"]*\)\".*|$file \1 \2|" || :
done | awk -v ranks="$ranks" '
BEGIN {
    n = split(ranks, line, "\n")
    for (i = 1; i <= n; i++) { split(line[i], w, " "); rank[w[1]] = w[2] }
}
function folder(path,   p) {
    if (path ~ /^profile\/read\//) return "profile/read"
    p = path; sub(/\/.*/, "", p); return p
}
{
    from = folder(substr($1, 5)); to = folder($3)
    if ($1 == "src/main.c") next
    if (!(from in rank)) { print $1 ": folder " from " has no rank in scripts/ci/layers.sh"; bad = 1 }
    else if (!(to in rank)) { print $1 ":" $2 ": includes " $3 ": write the path from src/"; bad = 1 }
    else if (from != to && rank[to] >= rank[from]) {
        print $1 ":" $2 ": " from " may not include " to " (" $3 ")"; bad = 1
    }
}
END { exit bad }'
