#!/bin/sh
# How far the real runs of a demo are from each other: the difference, in %, that two sets of as many
# such repeats may show (95 %: 1.96 sqrt(2 / n) of their standard deviation), in the judged cell where it
# is largest. A simulation without any error could not be told to be nearer than this.
#
#     sh bench/demo/itself.sh DEMO idle|loaded
set -eu
demo=$1 name=$2

# A line a request: repeat, then TTFT, TPOT and E2E in ns. Columns are found by their names.
# shellcheck disable=SC2016  # awk's
values='
FNR == 1 { repeat++; for (i = 1; i <= NF; i++) at[$i] = i; next }
$at["status"] == "ok" && $at["warmup"] != 1 {
    e2e = $at["completion_time_ns"] - $at["arrival_time_ns"]
    ttft = $at["first_token_time_ns"] - $at["arrival_time_ns"]
    print repeat, "TTFT", ttft
    print repeat, "E2E", e2e
    n = $at["num_decode_tokens_actual"]
    if (n > 1) print repeat, "TPOT", (e2e - ttft) / (n - 1)
}'
# Percentiles of each repeat, interpolated between order statistics, then their spread.
# shellcheck disable=SC2016
spread='
function end_of_group(   p, x, i, v) {
    if (n == 0) return
    for (p = 50; p <= 90; p += 40) {
        x = (n - 1) * p / 100 + 1
        i = int(x)
        v = value[i] + (i < n ? (x - i) * (value[i + 1] - value[i]) : 0)
        sum[metric " P" p] += v
        sum2[metric " P" p] += v * v
        count[metric " P" p]++
    }
}
{ if ($1 " " $2 != group) { end_of_group(); group = $1 " " $2; metric = $2; n = 0 } value[++n] = $3 }
END {
    end_of_group()
    for (cell in sum) {
        k = count[cell]
        if (k < 2) continue
        mean = sum[cell] / k
        variance = (sum2[cell] - k * mean * mean) / (k - 1)
        d = 100 * 1.96 * sqrt(2 / k * (variance > 0 ? variance : 0)) / mean
        if (worst == "" || d > most || (d == most && cell < worst)) { most = d; worst = cell }
    }
    if (worst == "") { print "too few real runs"; exit 1 }
    printf "%s +-%.0f %%\n", worst, most
}'
LC_ALL=C awk -F, "$values" "$demo"/runs/"$name"-real-*/request_metrics.csv |
    LC_ALL=C sort -k1,1n -k2,2 -k3,3n | LC_ALL=C awk "$spread"
