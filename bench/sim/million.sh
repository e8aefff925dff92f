#!/bin/sh
# million.sh TWINFER DATA: time and peak memory of 100,000 and of 1,000,000 requests through
# `twinfer simulate`, one process each: the memory must not grow with the requests. DATA as in run.sh.
set -eu
export LC_ALL=C # where a locale has a comma, mawk reads "1.5" as 1
root=$(cd "$(dirname "$0")/../.." && pwd)
tw=$(realpath "$1") data=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root" # the default workload names its prompts from there

for n in 100000 1000000; do
    rm -rf "$work/run"
    begin=$(date +%s%N)
    "$tw" simulate model=codellama_34b hardware=a100 parallel.tp=2 predictor=vidur_tables \
        predictor.tables="$data/tables/cl34" scheduler=sarathi scheduler.max_model_len=4096 \
        workload.arrival.kind=poisson workload.arrival.rate=1.4 workload.lengths.kind=uniform \
        workload.lengths.min_tokens=1024 workload.lengths.max_tokens=4096 \
        workload.lengths.prefill_decode_ratio=4 workload.num_requests=$n \
        output.tokens=none output.batches=none out="$work/run" >/dev/null 2>&1
    end=$(date +%s%N)
    tr -d ' ,"' <"$work/run/run_meta.json" | awk -F: -v n=$n -v ns=$((end - begin)) '
        $1 == "iterations" { i = $2 } $1 == "loop_seconds" { s = $2 } $1 == "peak_rss_bytes" { b = $2 }
        END {
            printf "%8d requests: %.2f s, %.2f s of it in the loop; %d iterations of %.0f ns; peak memory %.1f MB\n",
                n, ns / 1e9, s, i, s / i * 1e9, b / 1e6
        }'
done
