#!/bin/sh
# What recording costs in a launch-bound program:
#
#     bench/trace/launches_h200.sh [OUT]
#
# Builds launch_bound.c against the CUDA headers that it finds, runs it twice under twinfer trace (launches alone; and with the host
# work of a framework between them), then the eager forward of overhead.py where PyTorch is there. OUT is $OUT or ./trace-launches
# when it is left out; launches_*.txt, launches_*.json, eager.md, results.json stay there, and the tables are printed last. About 4
# minutes; SECONDS_EACH (50) and EAGER (60 rounds, 0 leaves it out) shorten it. CUPTI names the library where it lies elsewhere.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
[ $# -gt 0 ] || set -- "${OUT:-trace-launches}"
steps_open "$@"
shift
# shellcheck source=bench/trace/find.sh
. "$here/find.sh"
include=$(find_cuda_include)
[ -n "$include" ] || { echo "launches_h200: no folder with cupti.h and nvtx3 (TW_CUDA_INCLUDE=)"; exit 4; }
cupti=$(find_cupti)
cc=$(find_cc)
[ -n "$cc" ] || { echo "launches_h200: no C compiler"; exit 4; }

programs() {
    uname -a
    nvidia-smi 2>&1 | head -15 || :
    echo "twinfer $tw, headers $include, CUPTI ${cupti:-as the loader finds it}"
    cat /sys/devices/system/clocksource/clocksource0/current_clocksource || :
    "$cc" -O2 -I"$include" -o "$out/launch_bound" "$here/launch_bound.c" "$here/bare_cupti.c" -ldl -lpthread
    "$cc" -O2 -shared -fPIC -I"$include" -o "$out/libbare_cupti.so" "$here/bare_cupti.c" -ldl
}

launches() { # NS of host work between launches
    work=$(mktemp -d)
    rc=0
    "$tw" trace ${cupti:+trace.cupti="$cupti"} out="$work/trace" -- "$out/launch_bound" "work_ns=$1" \
        "seconds=${SECONDS_EACH:-50}" "json=$out/launches_$1.json" >"$out/launches_$1.txt" || rc=$?
    rm -rf "$work"
    sed '/^out  /,$d' "$out/launches_$1.txt" | figure
    return $rc
}

forward() { # ROUNDS of the eager forward
    work=$(mktemp -d)
    rc=0
    TEARDOWN_CUPTI=1 "$tw" trace out="$work/eager" -- "$python" "$here/overhead.py" --eager "$1" --results "$out/results.json" \
        --bare "$out/libbare_cupti.so" || rc=$?
    rm -rf "$work"
    [ $rc = 0 ] || return $rc
    (cd "$here" && PYTHONDONTWRITEBYTECODE=1 "$python" report.py "$out" none) >"$out/eager.md"
    sed -n '1,/bare CUPTI:/p' "$out/eager.md" | figure
}

steps_begin "$@"
each=${SECONDS_EACH:-50}
step programs 5 60 programs
for ns in 0 10000; do step "launches-$ns" $((each + 5)) $((each + 70)) launches $ns; done
if [ "${EAGER:-60}" -gt 0 ] && "$python" -c 'import torch, transformers' 2>/dev/null; then
    step eager 90 200 forward "${EAGER:-60}"
fi
steps_end
