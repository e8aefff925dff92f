#!/bin/sh
# vllm.sh [DATA [OUT]]: how far predictions of a real vLLM are off, as tables of docs/accuracy.md.
#
# DATA (../shared/data/vllm_024) has run directories of `twinfer bench engine=openai`, named MODEL_SHAPE: of each model a3 and a12, which
# calibrate, and others, which are predicted, on their own arrivals and lengths. MODEL_NAME with iterations.log.gz beside it (it_MODEL_SHAPE)
# calibrates by that log instead. OUT keeps what was computed. MODELS: a word for each model, NAME:GROUP:SEQUENCES, the group of configs/model
# and --max-num-seqs of its server (0: vLLM's default). HARDWARE (h100): its group. TWINFER names the program (build/twinfer).
#
# In each cell P50, P90: predicted / observed - 1 in %. Inside: cells whose 95 % interval holds the observed value, and the median half-width.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
data=${1:-$here/../shared/data/vllm_024}
tw=${TWINFER:-$here/build/twinfer}
models=${MODELS:-Llama-3.1-8B:llama3_1_8b:0 Qwen3-30B-A3B:qwen3_30b_a3b:128}
[ -d "$data" ] || { echo "vllm.sh: $data is not there" >&2; exit 2; }
[ -x "$tw" ] || { echo "vllm.sh: $tw is not there; ./do build makes it, TWINFER names another" >&2; exit 2; }
data=$(cd "$data" && pwd)
out=${2:-$(mktemp -d)}
mkdir -p "$out"
[ -n "${2:-}" ] || trap 'rm -rf "$out"' EXIT
cd "$here"

# predict LABEL GROUP SEQUENCES FROM CHECK: rows of check.csv; FROM empty: uncalibrated.
predict() {
    rm -rf "${out:?}/$1"
    "$tw" calibrate "hardware=${HARDWARE:-h100}" "model=$2" scheduler=vllm_0_33 "scheduler.batch_cap=$3" scheduler.max_model_len=8192 \
        ${4:+"from=[$4]"} "check=[$5]" "out=$out/$1" log.level=error >"$out/$1.txt" 2>&1 || [ $? = 5 ] || { cat "$out/$1.txt" >&2; exit 3; }
    awk -F, -v label="$1" '
        NR == 1 { next }
        { run[$1] = 1; error[$1, $3] = $6 }
        $3 ~ /_p(50|90)$/ { n++; inside += $4 >= $7 && $4 <= $8; half[n] = 100 * ($8 - $7) / 2 / $5 }
        function cell(r, m) { return sprintf("%+.1f, %+.1f", error[r, m "_p50"], error[r, m "_p90"]) }
        END {
            for (r in run) printf "| %s | %s | %s | %s | %s |\n", label, r, cell(r, "ttft"), cell(r, "tpot"), cell(r, "e2e") | "sort"
            close("sort")
            for (i = 1; i <= n; i++) for (k = i + 1; k <= n; k++) if (half[k] < half[i]) { x = half[i]; half[i] = half[k]; half[k] = x }
            printf "| %s | inside %d of %d, half-width %.0f %% | | | |\n", label, inside, n, half[int((n + 1) / 2)]
        }' "$out/$1/check.csv"
}

echo "| calibrated from | run | TTFT | TPOT | E2E |"
echo "|---|---|---|---|---|"
for model in $models; do
    name=${model%%:*} rest=${model#*:}
    group=${rest%%:*} sequences=${rest#*:}
    all='' logged=''
    for run in "$data/${name}"_* "$data/it_${name}"_*; do
        [ -f "$run/request_metrics.csv" ] || continue
        all=$all${all:+,}$run
        [ ! -f "$run/iterations.log.gz" ] || logged=$logged${logged:+,}$run
    done
    [ -n "$all" ] || { echo "vllm.sh: no runs of $name in $data" >&2; exit 2; }
    predict "nothing-$name" "$group" "$sequences" '' "$all"
    predict "a3_a12-$name" "$group" "$sequences" "$data/${name}_a3,$data/${name}_a12" "$all"
    [ -z "$logged" ] || predict "log-$name" "$group" "$sequences" "$logged" "$all"
done
