#!/bin/sh
# run.sh TWINFER DATA [RUNS]: Vidur's benchmark case (README.md beside this file) through `twinfer
# simulate`. DATA: folder with Vidur's processed_traces/splitwise_conv.csv and the prediction tables
# tables/cl34, as data/vidur of the test data.
set -eu
export LC_ALL=C # where a locale has a comma, mawk reads "1.5" as 1
tw=$1 data=$2 runs=${3:-15}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

lengths=$(find "$data" -name splitwise_conv.csv | head -n 1)
python3 "$here/make_trace.py" "$lengths" 10000 2.5 >"$work/trace.csv"

# measure NAME VIDUR_ITERATIONS_PER_S words...: one line, medians with the range of all runs.
measure() {
    name=$1 vidur=$2
    shift 2
    i=0
    : >"$work/figures"
    while [ $i -lt "$runs" ]; do
        rm -rf "$work/run"
        "$tw" simulate model=codellama_34b hardware=a100 parallel.tp=2 predictor=vidur_tables \
            predictor.tables="$data/tables/cl34" workload.trace="$work/trace.csv" \
            scheduler.max_model_len=4096 output.tokens=none output.batches=none \
            out="$work/run" "$@" >/dev/null 2>&1
        tr -d ' ,"' <"$work/run/run_meta.json" | awk -F: '
            $1 == "iterations" { n = $2 } $1 == "loop_seconds" { s = $2 } $1 == "setup_seconds" { u = $2 }
            END { print n / s / 1e6, n, s * 1e3, u * 1e3 }' >>"$work/figures"
        i=$((i + 1))
    done
    sort -n "$work/figures" | awk -v name="$name" -v vidur="$vidur" '
        { rate[NR] = $1; n = $2; setup[NR] = $4 }
        END {
            m = rate[int((NR + 1) / 2)]
            printf "%-10s %d iterations: %.2f M iterations/s (%.2f to %.2f, %d runs), %.0f ns each, %.0f x Vidur; %.0f ms before the loop\n",
                name, n, m, rate[1], rate[NR], NR, 1e3 / m, m * 1e6 / vidur, setup[int((NR + 1) / 2)]
        }'
}

# Iterations per second of Vidur's own loop on the same case, a machine with 2 cores.
measure sarathi 2427 scheduler=sarathi
measure vllm 2547 scheduler=vllm
