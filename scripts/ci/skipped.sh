#!/bin/sh
# skipped.sh BUILD_DIR: which tests of the last ctest run skipped something, and why: the lines
# "skipped: ..." of their output, whole tests and cases of one alike.
set -eu
log=$1/Testing/Temporary/LastTest.log
[ -f "$log" ] || exit 0
awk '
/^[0-9]+\/[0-9]+ Testing: / { test = $3 }
/^skipped: / {
    reason = substr($0, 10)
    sub(/at \/.*\/shared\/data\/.*/, "beside the repository (shared/data)", reason)
    key = test "\t" reason
    if (!count[key]++) order[++n] = key
}
END {
    for (i = 1; i <= n; i++) {
        split(order[i], part, "\t")
        cases = count[order[i]]
        printf("skipped: %-30s %s%s\n", part[1], part[2], (cases > 1) ? " (" cases " cases)" : "")
    }
}' "$log"
