#!/bin/sh
# What recording costs in a launch-bound program: launches_h200.sh [FOLDER], or $OUT, or
# ./trace-launches. Builds launch_bound.c against the CUDA headers that it finds, runs it twice under
# twinfer trace (launches alone; and with the host work of a framework between them), then the eager
# forward of overhead.py where PyTorch is there. Leaves launches_*.txt, launches_*.json, eager.md,
# results.json, log.txt; prints the tables last. About 4 minutes; SECONDS_EACH (50) and EAGER (60
# rounds, 0 leaves it out) shorten it. CUPTI names the library where it lies elsewhere.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${1:-${OUT:-trace-launches}}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$out/log.txt
py=${PYTHON:-python3}
: >"$log"

# shellcheck source=bench/trace/find.sh
. bench/trace/find.sh
tw=$(find_twinfer)
[ -n "$tw" ] || { echo "launches_h200: no twinfer program that runs here"; exit 3; }
include=$(find_cuda_include)
[ -n "$include" ] || { echo "launches_h200: no folder with cupti.h and nvtx3 (TW_CUDA_INCLUDE=)"; exit 4; }
cupti=$(find_cupti)
cc=$(find_cc)
[ -n "$cc" ] || { echo "launches_h200: no C compiler"; exit 4; }
{
    uname -a
    nvidia-smi 2>&1 | head -15
    echo "twinfer $tw, headers $include, CUPTI ${cupti:-as the loader finds it}"
    cat /sys/devices/system/clocksource/clocksource0/current_clocksource
} >>"$log" 2>&1

"$cc" -O2 -I"$include" -o "$work/launch_bound" bench/trace/launch_bound.c bench/trace/bare_cupti.c \
    -ldl -lpthread >>"$log" 2>&1 || { tail -5 "$log"; exit 3; }

for ns in 0 10000; do
    timeout 120 "$tw" trace ${cupti:+trace.cupti="$cupti"} out="$work/trace$ns" -- \
        "$work/launch_bound" work_ns=$ns seconds="${SECONDS_EACH:-50}" json="$out/launches_$ns.json" \
        >"$out/launches_$ns.txt" 2>>"$log" || echo "launch_bound work_ns=$ns failed: see log.txt"
    rm -rf "$work/trace$ns"
done

eager=${EAGER:-60}
if [ "$eager" -gt 0 ] && "$py" -c 'import torch, transformers' 2>>"$log"; then
    "$cc" -O2 -shared -fPIC -I"$include" -o "$work/libbare_cupti.so" bench/trace/bare_cupti.c -ldl >>"$log" 2>&1
    TEARDOWN_CUPTI=1 timeout 150 "$tw" trace out="$work/eager" -- "$py" bench/trace/overhead.py \
        --eager "$eager" --results "$out/results.json" --bare "$work/libbare_cupti.so" >>"$log" 2>&1 ||
        echo "overhead.py failed: see log.txt"
    (cd bench/trace && "$py" report.py "$out" none) >"$out/eager.md" 2>>"$log"
    sed -n '1,/bare CUPTI:/p' "$out/eager.md"
fi
for ns in 0 10000; do
    sed '/^out  /,$d' "$out/launches_$ns.txt"
done
