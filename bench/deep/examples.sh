#!/bin/sh
# What bench/deep/run.sh left, into docs/examples: qwen3, vlm and tp, as many as are there.
#
#     bench/deep/examples.sh FROM...     its OUT, or packs with whole sessions (FILE.qwen3.tgz, FILE.vlm.tgz)
#
# All tables and pages are made anew from the sessions by this tree's program (TWINFER, else build/twinfer), with the settings of run.sh,
# the group of hardware that the session had, and the roofs in data/ of that GPU. docs/examples/README.md says in words what each is: look
# at it afterwards.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
: "${1:?bench/deep/examples.sh FROM...}"
[ -d "$root/docs/examples" ] || { echo "examples.sh: $root has no docs/examples: run it in the source tree" >&2; exit 2; }
TWINFER=${TWINFER:-$root/build/twinfer}
export TWINFER
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/sessions"
for from in "$@"; do
    if [ -d "$from" ]; then cp -r "$from/." "$work/sessions/"; else tar xzf "$from" -C "$work/sessions"; fi
done
cd "$root"
for name in qwen3 vlm tp; do
    old=$work/sessions/$name
    [ -d "$old/timeline" ] || { echo "$name: no session with a timeline" && continue; }
    # where the package lay on that machine says nothing here
    sed 's|[^ "]*/share/twinfer/||g' "$old/deep.json" >"$work/deep.json"
    mv "$work/deep.json" "$old/deep.json"
    gpu=$(sed -n '/^hardware:/,/^[^ ]/s/^ *id: *//p' "$old/config.yaml")
    REHEARSE='' PACK='' HARDWARE=$gpu ROOFS=data/$gpu/roofs.json SESSIONS=$work/sessions "$here/run.sh" "$work/out" "$name" >"$work/said" ||
        { cat "$work/said" && exit 1; }
    to=$root/docs/examples/$name
    rm -rf "$to"
    mkdir -p "$to"
    cp "$work/out/examples/$name"/* "$to/"
    rm -f "$to/gantt.svg" "$to/run_meta.json" # the page has a timeline; run_meta.json is of this machine
    sed -i "s|$work/||g" "$to"/*
    echo "$name: $(find "$to" -type f | wc -l) files, $(du -sk "$to" | cut -f1) KiB"
done
echo "next: ctest -R unit.deep.deep_document, docs/examples/README.md"
