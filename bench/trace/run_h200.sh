#!/bin/sh
# Every figure of tracing that needs a GPU: run_h200.sh [FOLDER], or $OUT, or ./trace-h200.
# Needs python3 with torch and transformers, a C compiler and CUPTI's headers for the bare-CUPTI mode
# (that mode is left out without them). TWINFER names the program; else dist/, build/, build-test/
# are looked through. Leaves report.md, results.json, log.txt and traces.tar.gz.
# About 4 minutes. A step that fails is told in log.txt and the others go on.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${1:-${OUT:-trace-h200}}
mkdir -p "$out/traces"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
log=$out/log.txt
: >"$log"
py=${PYTHON:-python3}

# shellcheck source=bench/trace/find.sh
. bench/trace/find.sh
tw=$(find_twinfer)
[ -n "$tw" ] || { echo "run_h200: no twinfer program that runs here" | tee -a "$log"; exit 3; }

step() { # step NAME command...: its output goes to the log; its exit code is told
    name=$1
    shift
    printf '\n==> %s: %s\n' "$name" "$*" >>"$log"
    start=$(date +%s)
    timeout 300 "$@" >>"$log" 2>&1
    code=$?
    printf '==> %s: exit %d, %d s\n' "$name" "$code" $(($(date +%s) - start)) | tee -a "$log"
}

{
    uname -a
    nvidia-smi 2>&1 | head -20
    "$py" -c 'import torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)'
    echo "twinfer: $tw"
} >>"$log" 2>&1
step doctor "$tw" doctor

include=$(find_cuda_include)
cc=$(find_cc)
bare=
if [ -n "$include" ] && [ -n "$cc" ]; then
    step bare "$cc" -O2 -shared -fPIC -I"$include" -o "$work/libbare_cupti.so" \
        bench/trace/bare_cupti.c -ldl
    [ -f "$work/libbare_cupti.so" ] && bare="--bare=$work/libbare_cupti.so"
else
    echo "no bare CUPTI mode: headers '$include', compiler '$cc'" | tee -a "$log"
fi

w=adapters/workloads
t=$out/traces
step qwen3 "$tw" trace out="$t/qwen3" -- "$py" $w/qwen3_generate.py
step bloom "$tw" trace out="$t/bloom" -- "$py" $w/bloom_generate.py
step decode "$tw" trace 'trace.range=[decode]' out="$t/decode" -- "$py" $w/qwen3_generate.py --runs 1
step api "$tw" trace trace.api=all out="$t/api" -- "$py" $w/qwen3_generate.py --runs 1 --tokens 4
step killed "$tw" trace out="$t/killed" -- "$py" bench/trace/ending.py kill
step profiler "$tw" trace trace.profiler=true out="$t/profiler" -- "$py" bench/trace/ending.py profiler
step graph "$tw" trace trace.graphs=graph out="$t/graph" -- "$py" bench/trace/ending.py graph
if [ "$("$py" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null)" -ge 2 ] 2>/dev/null; then
    step nccl "$tw" trace out="$t/nccl" -- "$py" -m torch.distributed.run --standalone \
        --nproc_per_node=2 $w/nccl_steps.py
fi
# PyTorch's profiler keeps CUPTI to itself unless it is told to tear it down.
# shellcheck disable=SC2086  # $bare is one word or none
step overhead env TEARDOWN_CUPTI=1 "$tw" trace out="$t/overhead" -- "$py" bench/trace/overhead.py \
    --results "$out/results.json" --rounds "${ROUNDS:-9}" --steps "${STEPS:-20}" $bare
for i in 1 2 3; do # the level of graphs is a process's for good
    step "untraced-$i" "$py" bench/trace/graph_level.py --out "$out/graph_untraced.txt"
    step "graph-level-$i" "$tw" trace trace.graphs=graph out="$t/graph-level-$i" -- \
        "$py" bench/trace/graph_level.py --out "$out/graph_traced.txt"
done

(cd bench/trace && "$py" report.py "$out") >"$out/report.md" 2>>"$log" ||
    echo "report.py failed; see log.txt" | tee -a "$log"
for d in "$t"/*/; do # run_meta of every trace, for those who look at the log alone
    [ -f "$d/run_meta.json" ] && "$py" - "$d/run_meta.json" >>"$log" 2>&1 <<'PY'
import json, sys
m = json.load(open(sys.argv[1]))
print(sys.argv[1], json.dumps({k: m.get(k) for k in ("exit_code", "signal", "processes")}, indent=1)[:6000])
PY
done
# Small traces travel; the benchmark's own does not.
(cd "$t" && find . -name '*.spool' -size -12M ! -path './overhead/*' -o -name run_meta.json |
    tar -czf "$out/traces.tar.gz" -T -) 2>>"$log"
[ -n "${KEEP:-}" ] || rm -rf "$t"
rm -rf "$work"
cat "$out/report.md"
