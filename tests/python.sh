#!/bin/sh
# python.sh SCRIPT [ARGUMENTS]: a test written in Python, skipped where there is none.
set -eu
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
exec python3 "$@"
