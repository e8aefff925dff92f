#!/bin/sh
# run.sh [DATA]: recomputes the tables of docs/accuracy.md from public data (../shared/data) and prints them. About 5 minutes.
# TWINFER names the program (build/twinfer); OUT keeps the CSV files there.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
data=${1:-$here/../shared/data}
[ -d "$data/vllm_h100" ] || data=/work/shared/data
tw=${TWINFER:-$here/build/twinfer}
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
[ -n "${OUT:-}" ] || trap 'rm -rf "$out"' EXIT
h100=$data/vllm_h100
models="llama-2-7b-tp1:llama2_7b codellama-34b-tp2:codellama_34b llama-2-70b-tp4:llama2_70b mixtral-8x7b-tp2:mixtral_8x7b"

# table FILE E2E_P50 E2E_P90 TTFT_P50 TTFT_P90 [E2E_P50_OF_7B]: a line a stage; limits in %, 0 = none. A limit that the naive
# copy meets too gates nothing.
table() {
    awk -F, -v l1="$2" -v l2="$3" -v l3="$4" -v l4="$5" -v l7="${6:-$2}" '
    function cell(v, copy, limit,   s) {
        s = sprintf("%+.1f", v)
        if (limit && (v > limit || v < -limit)) {
            if (copy != "" && copy <= limit && copy >= -limit) s = s " (copy fits)"
            else { s = s " **over " limit "**"; over++ }
        }
        return s
    }
    BEGIN {
        split("e2e_mean e2e_p50 e2e_p90 ttft_p50 ttft_p90 ttft_p99", names, " ")
        limit["e2e_p50"] = l1; limit["e2e_p90"] = l2; limit["ttft_p50"] = l3; limit["ttft_p90"] = l4
        print "| experiment | stage | E2E mean | E2E P50 | E2E P90 | TTFT P50 | TTFT P90 | TTFT P99 | E2E P50: observed, interval | copy: E2E P50, TTFT P50 |"
        print "|---|---|---|---|---|---|---|---|---|---|"
    }
    $1 == "experiment" { next }
    {
        key = $1 "," $2
        if (!(key in seen)) { order[++n] = key; seen[key] = 1 }
        error[key, $3] = $6
        copied[key, $3] = $9 == "" ? "" : 100 * ($9 / $4 - 1)
        if ($3 == "e2e_p50") span[key] = sprintf("%.3f s, %.3f to %.3f%s", $4, $7, $8, $4 < $7 || $4 > $8 ? " (outside)" : "")
    }
    END {
        for (i = 1; i <= n; i++) {
            split(order[i], k, ",")
            line = "| " k[1] " | " k[2]
            limit["e2e_p50"] = k[1] ~ /llama-2-7b/ ? l7 : l1
            for (m = 1; m <= 6; m++)
                line = line " | " cell(error[order[i], names[m]], copied[order[i], names[m]], limit[names[m]])
            c1 = copied[order[i], "e2e_p50"]; c2 = copied[order[i], "ttft_p50"]
            print line " | " span[order[i]] " | " (c1 == "" ? "" : sprintf("%+.1f, %+.1f", c1, c2)) " |"
        }
        if (over) print "\n" over " over their limit."
    }' "$1"
}

# Median of the absolute errors of a metric.
median() {
    awk -F, -v m="$2" '$3 == m { print $6 < 0 ? -$6 : $6 }' "$1" | sort -g |
        awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

stage() {
    FULL=1 "$here/bench/accuracy/stage.sh" "$@"
}

cd "$here"
rm -f "$out"/*.csv
for x in $models; do
    n=${x%%:*}
    stage "calibrate=$h100/$n-general" "predict=$h100/$n-roleplay" >>"$out/other_workload.csv"
    stage "calibrate=$h100/$n-general" "predict=$h100/$n-general" stages=0,1 >>"$out/other_rate.csv"
    stage "calibrate=$h100/$n-general" "predict=$h100/$n-general" stages=1,0 >>"$out/other_rate.csv"
    stage "predict=$h100/$n-general" >>"$out/uncalibrated.csv"
    stage "predict=$h100/$n-roleplay" >>"$out/uncalibrated.csv"
    rm -rf "$out/root-$n"
    "$tw" calibrate "from=[$h100/$n-general]" "model=${x##*:}" hardware=h100 "out=$out/root-$n" log.level=error >/dev/null ||
        [ $? = 5 ]
done
for x in $models; do
    n=${x%%:*} others=''
    for y in $models; do
        [ "$y" = "$x" ] || others="$others${others:+,}$out/root-${y%%:*}"
    done
    rm -rf "$out/left-$n"
    "$tw" calibrate "prior=[$others]" "check=[$h100/$n-general,$h100/$n-roleplay]" "model=${x##*:}" hardware=h100 \
        "out=$out/left-$n" log.level=error >/dev/null
    cat "$out/left-$n/check.csv" >>"$out/left_one_out.csv"
done
t=$data/h200_transformers
rm -rf "$out/transformers"
# The transformers worker fills its batches with one prompt, then decodes once: lightllm with one decode between prompts.
"$tw" calibrate "from=[$t/a_idle]" "check=[$t/a_load,$t/a_load2]" model=qwen3_0_6b hardware=h200 scheduler=lightllm \
    scheduler.max_waiting_iters=1 scheduler.max_tokens_in_batch=412 scheduler.block_size=1 "out=$out/transformers" \
    log.level=error >/dev/null || [ $? = 5 ]
cp "$out/transformers/check.csv" "$out/transformers.csv"

echo "## Calibrated on general, both rates; roleplay predicted"
echo
table "$out/other_workload.csv" 3 3 6 10
echo
echo "## Calibrated on one rate of general; the other predicted"
echo
table "$out/other_rate.csv" 5 0 10 0 12
echo
echo "Limits of the 7B: E2E P50 12 %, as one operating point cannot tell its constant from its slope."
echo
echo "## Uncalibrated"
echo
table "$out/uncalibrated.csv" 0 0 0 0
echo
echo "Median error: E2E P50 $(median "$out/uncalibrated.csv" e2e_p50) % (limit 12), TTFT P50 $(median "$out/uncalibrated.csv" ttft_p50) % (limit 30); of the means: E2E $(median "$out/uncalibrated.csv" e2e_mean) %, TTFT $(median "$out/uncalibrated.csv" ttft_mean) %."
echo
echo "## Calibrated on the other three models"
echo
table "$out/left_one_out.csv" 0 0 0 0
echo
echo "Median error: E2E P50 $(median "$out/left_one_out.csv" e2e_p50) % (limit 10), of the means $(median "$out/left_one_out.csv" e2e_mean) %; TTFT P50 $(median "$out/left_one_out.csv" ttft_p50) %."
echo
echo "## transformers on an H200, calibrated on the batches of a_idle"
echo
table "$out/transformers.csv" 8 8 8 8
