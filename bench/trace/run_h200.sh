#!/bin/sh
# Every figure of tracing that needs a GPU:
#
#     bench/trace/run_h200.sh [OUT] [programs | endings | overhead | graph]...
#
#   programs  traces of Qwen3's and BLOOM's generation, of one range, with API calls; of two processes where there are two GPUs
#   endings   a killed program, PyTorch's profiler inside, graphs as wholes
#   overhead  what recording costs in an eager forward and in a loop of graphs: ROUNDS (9) of STEPS (20)
#   graph     what the level of graphs costs, a process each, three times
#
# OUT is $OUT or ./trace-h200 when it is left out. Needs python3 (PYTHON) with torch and transformers, a C compiler and CUPTI's
# headers for the bare-CUPTI mode (that mode is left out without them). About 4 minutes. Leaves report.md, results.json and the
# traces, of which PACK takes the small ones. APP: in a rehearsal, the program of all traces.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
[ $# -gt 0 ] || set -- "${OUT:-trace-h200}"
steps_open "$@"
shift
# shellcheck source=bench/trace/find.sh
. "$here/find.sh"
w=$root/adapters/workloads
t=$out/traces

facts() {
    uname -a
    nvidia-smi 2>&1 | head -20 || :
    "$python" -c 'import torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)' || :
    "$tw" doctor || : # its exit code says what is missing; the steps say what needs it
}

bare() { # the library of the bare-CUPTI mode
    include=$(find_cuda_include)
    cc=$(find_cc)
    if [ -z "$include" ] || [ -z "$cc" ]; then
        echo "no bare CUPTI mode: headers '$include', compiler '$cc'" | figure
        return 4
    fi
    "$cc" -O2 -shared -fPIC -I"$include" -o "$out/libbare_cupti.so" "$here/bare_cupti.c" -ldl
}

# traced NAME SETTINGS... -- COMMAND; a program that is meant to be killed ends with another code.
traced() {
    of=$1
    shift
    rm -rf "${t:?}/$of"
    settings=
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    # shellcheck disable=SC2086  # several words
    [ -z "${REHEARSE:-}" ] || set -- env ${APP:?}
    rc=0
    # shellcheck disable=SC2086  # several words
    "$tw" trace $settings out="$t/$of" -- "$@" || rc=$?
    [ "$of" != killed ] || [ ! -f "$t/killed/run_meta.json" ] || rc=0
    return $rc
}

# PyTorch's profiler keeps CUPTI to itself unless it is told to tear it down.
overhead() {
    with=
    [ ! -f "$out/libbare_cupti.so" ] || with=--bare=$out/libbare_cupti.so
    # shellcheck disable=SC2086  # one word or none
    TEARDOWN_CUPTI=1 traced overhead -- "$python" "$here/overhead.py" --results "$out/results.json" \
        --rounds "${ROUNDS:-9}" --steps "${STEPS:-20}" $with
}

untraced() {
    [ -z "${REHEARSE:-}" ] || return 0
    "$python" "$here/graph_level.py" --out "$out/graph_untraced.txt"
}

report() {
    [ -z "${REHEARSE:-}" ] || { echo "no report of a rehearsal" >"$out/report.md"; return 0; }
    rm -f "$out/report.md"
    (cd "$here" && PYTHONDONTWRITEBYTECODE=1 "$python" report.py "$out") >"$out/report.part"
    mv "$out/report.part" "$out/report.md"
}

steps_begin "$@"
[ $# -gt 0 ] || set -- programs endings overhead graph
step facts 10 60 facts
for piece in "$@"; do
    case $piece in
    programs)
        step qwen3 15 120 traced qwen3 -- "$python" "$w/qwen3_generate.py"
        step bloom 15 120 traced bloom -- "$python" "$w/bloom_generate.py"
        step decode 15 120 traced decode 'trace.range=[decode]' -- "$python" "$w/qwen3_generate.py" --runs 1
        step api 15 120 traced api trace.api=all -- "$python" "$w/qwen3_generate.py" --runs 1 --tokens 4
        if [ "$("$python" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)" -ge 2 ]; then
            step nccl 40 180 traced nccl -- "$python" -m torch.distributed.run --standalone --nproc_per_node=2 "$w/nccl_steps.py"
        fi
        ;;
    endings)
        step killed 12 90 traced killed -- "$python" "$here/ending.py" kill
        step profiler 12 90 traced profiler trace.profiler=true -- "$python" "$here/ending.py" profiler
        step graph 12 90 traced graph trace.graphs=graph -- "$python" "$here/ending.py" graph
        ;;
    overhead)
        [ -n "${REHEARSE:-}" ] || step bare 5 60 bare
        step overhead 90 300 overhead
        ;;
    graph)
        for i in 1 2 3; do # the level of graphs is a process's for good
            step "untraced-$i" 10 90 untraced
            step "graph-level-$i" 10 90 traced "graph-level-$i" trace.graphs=graph -- "$python" "$here/graph_level.py" --out "$out/graph_traced.txt"
        done
        ;;
    *) no_piece "$piece" ;;
    esac
done
AGAIN="${AGAIN:-} report" step report 5 60 report
[ ! -f "$out/report.md" ] || cat "$out/report.md"
[ -n "${KEEP:-}" ] || rm -rf "$t/overhead" # larger than all others
steps_end
