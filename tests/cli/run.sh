#!/bin/sh
# run.sh TWINFER SOURCE CASE: runs CASE/cmd with sh in an empty folder and compares its stdout, stderr
# and exit code with CASE/out, CASE/err (not looked at when absent) and CASE/code (0 when absent).
# Code 77 behind a first line `skipped: ...` skips the case. In cmd: $TW is the program, $SRC the
# source tree. UPDATE=1 rewrites out and err.
set -u
TW=$1 SRC=$2 case=$3
export TW SRC
export LC_ALL=C # ls and sort, and what they say
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY # a client that leaves one aside says so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/in"

(cd "$work/in" && sh -u "$case/cmd" >"$work/out.raw" 2>"$work/err.raw")
code=$?
if [ $code = 77 ] && head -n 1 "$work/out.raw" | grep -q '^skipped: '; then # it says what is missing here
    cat "$work/out.raw"
    exit 77
fi

for s in out err; do
    # whether the machine is busy is not for a golden file to say, nor how far a stage was after 10 s
    sed -e "s|$work/in|TMP|g" -e "s|$SRC|SRC|g" -e '/the machine was busy with something else/d' \
        -e '/^[a-z]*: [0-9]*\(\/[0-9]*\)\{0,1\} [a-z ]*, [0-9]* s\(, .*\)\{0,1\}$/d' \
        "$work/$s.raw" >"$work/$s"
done
want=0
[ -f "$case/code" ] && want=$(cat "$case/code")

bad=0
if [ "${UPDATE:-}" = 1 ]; then
    cp "$work/out" "$case/out"
    if [ -f "$case/err" ] || [ -s "$work/err" ]; then cp "$work/err" "$case/err"; fi
    rm -f "$case/code"
    [ "$code" = 0 ] || echo "$code" >"$case/code"
    exit 0
fi
[ "$code" = "$want" ] || { echo "exit code $code, expected $want"; bad=1; }
diff -u "$case/out" "$work/out" || { echo "stdout differs"; bad=1; }
if [ -f "$case/err" ]; then
    diff -u "$case/err" "$work/err" || { echo "stderr differs"; bad=1; }
elif [ $bad = 1 ]; then
    echo "stderr was:"
    cat "$work/err"
fi
exit $bad
