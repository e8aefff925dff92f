#!/bin/sh
# symbols.sh BUILD: no two modules of the program define the same symbol. A linker that finds both in
# archives takes the first and says nothing.
set -eu
command -v nm >/dev/null || { echo "skipped: no nm"; exit 77; }
for lib in "$1"/lib*.a; do
    nm -g --defined-only "$lib" 2>/dev/null | awk -v lib="${lib##*/}" 'NF == 3 && !/ [VWvw] / { print $3, lib }'
done | sort | awk '$1 == last { print $1 ": " before " and " $2; bad = 1 } { last = $1; before = $2 } END { exit bad }'
