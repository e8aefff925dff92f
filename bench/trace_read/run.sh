#!/bin/sh
# run.sh BUILD [FOLDER]: the three figures of README.md. BUILD is a build with TW_BENCH on; FOLDER
# (default /tmp) needs 3 GB.
set -eu
build=$1
at=${2:-/tmp}/twinfer_trace_read
src=$(cd "$(dirname "$0")/../.." && pwd)
bench=$build/bench/trace_read/bench_trace_read
rm -rf "$at"
mkdir -p "$at"
trap 'rm -rf "$at"' EXIT

reports() { # SPOOL: from the page cache, three times
    cat "$1" >/dev/null
    for i in 1 2 3; do
        start=$(date +%s%N)
        "$build/twinfer" kernels kernels.trace="$1" out="$at/kernels$i" >/dev/null
        echo "twinfer kernels: $((($(date +%s%N) - start) / 1000000)) ms"
    done
}

echo "== kernels on 10 million kernels, with their launches"
"$bench" spool "$at/ten.spool" 3333334
reports "$at/ten.spool"
"$bench" read "$at/ten.spool"
rm -rf "$at"/ten.spool "$at"/kernels*

echo "== kernels on 10 million kernels, with their launches and a range every six kernels"
"$bench" ranges "$at/ranged.spool" 3333334
reports "$at/ranged.spool"
rm -rf "$at"/ranged.spool "$at"/kernels*

echo "== spool to SQLite, one million kernels"
"$bench" spool "$at/one.spool" 333334
"$bench" sqlite "$at/one.spool" "$at/one.sqlite"

echo "== Kineto JSON"
trace=$src/../shared/data/kineto/bloom_kineto.json.gz
if [ -f "$trace" ]; then
    "$bench" kineto "$at/big.json" "$trace" 60
    for i in 1 2 3; do "$bench" read "$at/big.json"; done
else
    echo "not measured: $trace is not here"
fi
