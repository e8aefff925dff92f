#!/bin/sh
# symbols.sh LIBRARY [SANITIZERS]: the guest library asks for nothing newer than glibc 2.17 and for no library but
# glibc's, and exports its entry points only.
set -eu
[ -z "${2:-}" ] || { echo "skipped: sanitizers ($2) ask for symbols of their own"; exit 77; }
command -v objdump >/dev/null || { echo "skipped: no objdump"; exit 77; }
bad=0
objdump -T "$1" | sed -n 's/.*(*GLIBC_\([0-9]*\)\.\([0-9]*\)[0-9.]*)* *\([^ ]*\)$/\1 \2 \3/p' |
    awk '$1 > 2 || $2 > 17 { print "needs glibc " $1 "." $2 " for " $3; bad = 1 } END { exit bad }' || bad=1
objdump -p "$1" | awk '$1 == "NEEDED" && $2 !~ /^(libc|libpthread|libdl|libm|ld-linux.*)\.so/ {
    print "needs " $2; bad = 1 } END { exit bad }' || bad=1
objdump -T "$1" | awk '/ g .*Base/ && $NF !~ /^(tw_trace_[a-z]*|InitializeInjection|InitializeInjectionNvtx2|InitializeInjectionNvtxExtension)$/ {
    print "exports " $NF; bad = 1 } END { exit bad }' || bad=1
objdump -T "$1" | grep -qw InitializeInjection || { echo "no InitializeInjection"; bad=1; }
exit $bad
