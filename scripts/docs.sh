#!/bin/sh
# docs.sh [TWINFER] [FOLDER]: a page for the program and one per command, made from --help, into
# docs/cli (or FOLDER).
set -eu
cd "$(dirname "$0")/.."
tw=${1:-build/twinfer}
out=${2:-docs/cli}
mkdir -p "$out"
page() { # TITLE [COMMAND]
    printf '# %s\n\n```text\n' "$1"
    "$tw" ${2:+"$2"} --help
    printf '```\n'
}
page twinfer >"$out/twinfer.md"
"$tw" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | while read -r command; do
    page "twinfer $command" "$command" >"$out/$command.md"
done
