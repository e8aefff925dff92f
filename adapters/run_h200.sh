#!/bin/sh
# run_h200.sh [folder]: two models of Hugging Face transformers through `twinfer bench` on a machine
# with a GPU and PyTorch, no network, no weights: Qwen3-0.6B's and BLOOM-560M's shapes with random
# ones, continuous and static batching. Checks the order of every time and every count, prints a
# table; exit 1 when a check fails. Run directories stay in the folder (default runs/transformers).
# DEVICE (cuda), REQUESTS (64), RATE (8), TWINFER_PYTHON (python3), MODELS and BATCHINGS may be set.
set -u
export LC_ALL=C # where a locale has a comma, mawk reads "1.5" as 1
cd "$(dirname "$0")/.." || exit 4
out=${1:-runs/transformers}
DEVICE=${DEVICE:-cuda} REQUESTS=${REQUESTS:-64} RATE=${RATE:-8}
tw=bin/twinfer
[ -x "$tw" ] || tw=build/twinfer
bad=0
mkdir -p "$out" || exit 3

# Order: arrival <= sent <= scheduled <= first token <= completion; counts: every token asked for has
# its row and its place; tokens of a request never go back; every batch lies in the run.
check() {
    awk -F, -v dir="$1" '
    function fail(text) { if (!said[text]++) print "FAIL " dir ": " text; bad = 1 }
    FNR == 1 { file++; for (i = 1; i <= NF; i++) col[file, $i] = i; next }
    file == 1 {
        n++; id = $col[1, "request_id"]; want[id] = $col[1, "num_decode_tokens"]
        first[id] = $col[1, "first_token_time_ns"] + 0; last[id] = $col[1, "completion_time_ns"] + 0
        if ($col[1, "status"] != "ok") fail("status " $col[1, "status"])
        if ($col[1, "num_decode_tokens_actual"] != want[id]) fail("tokens are missing")
        if ($col[1, "arrival_time_ns"] + 0 > $col[1, "sent_time_ns"] + 0) fail("sent before the arrival")
        if ($col[1, "sent_time_ns"] + 0 > $col[1, "scheduled_time_ns"] + 0) fail("scheduled before sent")
        if ($col[1, "scheduled_time_ns"] + 0 > first[id]) fail("first token before scheduled")
        if (first[id] > last[id]) fail("completion before the first token")
    }
    file == 2 {
        tokens++; id = $col[2, "request_id"]; t = $col[2, "token_time_ns"] + 0
        if ($col[2, "token_index"] != seen[id] + 0) fail("a token out of its place")
        if (seen[id]++ == 0 && t != first[id]) fail("token 0 is not the first token")
        if (t < before[id]) fail("token times go back")
        before[id] = t; end[id] = t
    }
    file == 3 { batches++; prompts += $col[3, "num_prefill_tokens"]
        if ($col[3, "start_ns"] + 0 < batch_before) fail("batches overlap")
        batch_before = $col[3, "start_ns"] + $col[3, "duration_ns"] }
    END {
        for (id in want) { if (seen[id] != want[id]) fail("rows of tokens"); if (end[id] != last[id]) fail("last token") }
        if (n == 0 || batches == 0) fail("no rows")
        exit bad
    }' "$1/request_metrics.csv" "$1/token_metrics.csv" "$1/batches.csv"
}

value() { awk -v key="$1" '$1 == key { print $2 }' "$2"; }

printf '%-12s %-11s %8s %10s %12s %12s %12s %12s %12s  %s\n' model batching requests tokens/s \
    ttft_p50_ms ttft_p90_ms tpot_p50_ms tpot_p90_ms e2e_p90_ms checks
for model in ${MODELS:-qwen3_0_6b bloom_560m}; do
    for batching in ${BATCHINGS:-continuous static}; do
        dir=$out/$model-$batching
        if ! "$tw" bench log.level=error engine=transformers model="$model" device="$DEVICE" \
            workload=synthetic workload.num_requests="$REQUESTS" workload.arrival.rate="$RATE" \
            workload.lengths.min_tokens=128 workload.lengths.max_tokens=1024 \
            +worker.options.batching="$batching" out="$dir" >"$dir.txt" 2>"$dir.err"; then
            cat "$dir.err"
            bad=1
            continue
        fi
        verdict=ok
        check "$dir" || { verdict=FAIL; bad=1; }
        printf '%-12s %-11s %8s %10.1f %12s %12s %12s %12s %12s  %s\n' "$model" "$batching" \
            "$(value requests "$dir.txt")" "$(value output_tokens_per_s "$dir.txt")" \
            "$(value ttft_p50_ms "$dir.txt")" "$(value ttft_p90_ms "$dir.txt")" \
            "$(value tpot_p50_ms "$dir.txt")" "$(value tpot_p90_ms "$dir.txt")" \
            "$(value e2e_p90_ms "$dir.txt")" "$verdict"
        sed -n 's/^ *"\(gpu\|torch\|version\|parameters\|uncertainty_ns\|same_clock\|drift_ns\)": \(.*\)/  \1 \2/p' \
            "$dir/run_meta.json" | sort -u >"$dir.facts"
    done
done
[ $bad = 0 ] || exit 1
echo "facts of the last run:"
cat "$dir.facts"
