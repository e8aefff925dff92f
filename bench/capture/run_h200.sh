#!/bin/sh
# Captures of real programs, each verified by a replay:
#
#     bench/capture/run_h200.sh OUT [engine | cupy | triton | compile | bloom | qwen3]...
#
# A decode step and a prefill of engine=cuda; app.py's programs: CuPy with its usual pool and with cudaMallocAsync, PyTorch with its
# usual allocator and with expandable segments (virtual memory). On a machine with a GPU; what is not installed there is skipped.
# Some 20 s each, quickest first: TIME=120 stops after two minutes, and the next call with the same OUT goes on. A capsule is up to
# 3 GB and removed when it was verified, unless KEEP is set. PYTHON: with torch. APP: another command to capture.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
steps_open "$@"
shift

taken() { # REGION COMMAND...
    region=$1
    shift
    rm -rf "${out:?}/$step_name" "$out/$step_name-replay"
    "$tw" capture region="$region" out="$out/$step_name" -- "$@" >"$out/$step_name.capture" ||
        { code=$?; tail -n 5 "$out/$step_name.capture"; return $code; }
    bytes=$(du -sm "$out/$step_name" | cut -f1)
    rc=0
    "$tw" replay verify capsule="$out/$step_name" out="$out/$step_name-replay" >"$out/$step_name.replay" || rc=$?
    {
        echo "$step_name: $bytes MB"
        grep -hE '^(operations|kernels|timed|changed|stopped|captured_ms|other_ms|[a-z_]*bytes|verif|NOT verif|fault|note)' \
            "$out/$step_name.capture" "$out/$step_name.replay" | cut -c1-150 | sed 's/^/    /'
    } | figure
    cat "$out/$step_name.capture" "$out/$step_name.replay"
    [ -n "${KEEP:-}" ] || rm -rf "${out:?}/$step_name"
    return $rc
}

# In rehearsals no more than 16 tokens a batch: products of more are cuBLASLt's, and tools do not see the stand-in for that.
engine() { # REGION
    rm -rf "$out/$step_name-run"
    taken "$1" "$tw" bench engine=cuda "$(small model=qwen3_0_6b model=micro)" model.weights=random:1 workload=synthetic \
        workload.num_requests="$(small 4 1)" workload.arrival.rate=1000 workload.lengths.kind=fixed \
        workload.lengths.prefill_tokens="$(small 512 12)" workload.lengths.decode_tokens=12 \
        scheduler.max_model_len="$(small 1024 64)" scheduler.num_blocks=256 scheduler.token_budget=1024 scheduler.batch_cap=4 \
        out="$out/$step_name-run"
    rm -rf "$out/$step_name-run"
}

app() { # PROGRAM EXPANDABLE MODULE...
    program=$1
    export PYTORCH_CUDA_ALLOC_CONF="expandable_segments:$2"
    shift 2
    if [ -n "${APP:-}" ]; then
        # shellcheck disable=SC2086  # several words
        taken 'step#2' $APP
        return
    fi
    for module in "$@"; do
        "$python" -c "import $module" >/dev/null 2>&1 ||
            { echo "$step_name: skipped: no $module" | figure; return 0; }
    done
    taken 'step#2' "$python" "$here/app.py" "$program"
}

steps_begin "$@"
[ $# -gt 0 ] || set -- engine cupy triton compile bloom qwen3
for what in "$@"; do
    case $what in
    engine)
        step engine-decode 10 100 engine 'decode#5'
        step engine-prefill 10 100 engine prefill
        ;;
    cupy)
        step cupy 10 100 app cupy False cupy
        step cupy-async 10 100 app cupy_async False cupy
        ;;
    triton) modules="torch triton" ;;
    compile | bloom | qwen3) modules="torch transformers" ;;
    *) no_piece "$what" ;;
    esac
    case $what in
    engine | cupy) ;;
    *)
        for expandable in False True; do
            # shellcheck disable=SC2086  # several words
            step "$what-expandable-$expandable" 20 150 app "$what" $expandable $modules
        done
        ;;
    esac
done
steps_end
