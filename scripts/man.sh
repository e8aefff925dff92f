#!/bin/sh
# man.sh TWINFER FOLDER: the manual pages, twinfer.1 and one a command, into the folder. Pages of
# commands that are gone go, too.
set -eu
tw=$1 out=$2
mkdir -p "$out"
rm -f "$out"/twinfer-*.1 "$out/twinfer.1"
"$tw" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | while read -r command; do
    "$tw" --man "$command" >"$out/twinfer-$command.1"
done
"$tw" --man >"$out/twinfer.1" # last: the build knows by it that all are there
