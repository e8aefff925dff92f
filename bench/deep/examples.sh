#!/bin/sh
# What bench/deep/run.sh left, into docs/examples: qwen3, vlm and tp, as many as are there.
#
#     bench/deep/examples.sh FROM        its OUT, or the PACK of it
#
# Summaries, rooflines and pages are made anew by this tree's program (TWINFER, else build/twinfer) where their deep.json allows.
# docs/examples/README.md says in words what each is: look at it afterwards.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
from=${1:?bench/deep/examples.sh FROM}
tw=${TWINFER:-$root/build/twinfer}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -d "$from" ]; then
    cp -r "$from/examples" "$work/"
else
    tar xzf "$from" -C "$work" ./examples
fi
for name in qwen3 vlm tp; do
    [ -s "$work/examples/$name/deep.json" ] || { echo "$name: not there" && continue; }
    to=$root/docs/examples/$name
    rm -rf "$to"
    mkdir -p "$to"
    cp "$work/examples/$name"/* "$to/"
    if "$tw" report report.inputs="['$to']" out="$work/page_$name" >/dev/null; then cp "$work/page_$name/report.html" "$to/"; fi
    echo "$name: $(find "$to" -type f | wc -l) files, $(du -sk "$to" | cut -f1) KiB"
done
echo "next: ctest -R unit.deep.summary, docs/examples/README.md"
