#!/bin/sh
# docs.sh [TWINFER] [FOLDER]: one page per command, made from its --help, into docs/cli (or FOLDER).
set -eu
cd "$(dirname "$0")/.."
tw=${1:-build/twinfer}
out=${2:-docs/cli}
mkdir -p "$out"
"$tw" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | while read -r command; do
    {
        printf '# twinfer %s\n\n```text\n' "$command"
        "$tw" "$command" --help
        printf '```\n'
    } >"$out/$command.md"
done
