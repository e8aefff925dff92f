#!/bin/sh
# run.sh [DATA]: recomputes the tables of docs/accuracy.md from public data (../shared/data) and prints them. About 5 minutes.
# TWINFER names the program (build/twinfer); OUT keeps the CSV files there. SYSTEMS=.../aiconfigurator_core/systems (of the package
# aiconfigurator-core, docs/aiconfigurator.md) adds the table of closed loops, PYTHON names one with pyarrow, AISIMULATE the folder
# where the package aisimulate is installed: half an hour more. Where PYTHON (python3) has aiconfigurator-core, each EVERYth load (8) of
# all its rows is simulated too, by silicon_all.py: ten minutes more, an hour with EVERY=1.
set -eu
export LC_ALL=C # where a locale has a comma, mawk reads "1.5" as 1
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
for n in a_load a_load2; do
    stage "calibrate=$t/a_idle" "predict=$t/$n" >>"$out/transformers.csv"
done

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

echo
echo "## Every row of silicon_sample.csv, from AIConfigurator's tables of whole iterations"
echo
if "${PYTHON:-python3}" -c 'import aiconfigurator_core' 2>"$out/no_package"; then
    "${PYTHON:-python3}" bench/accuracy/silicon_all.py "$out/silicon_all" --every "${EVERY:-8}" --roofline 8 \
        --disaggregated no >"$out/silicon_all.csv" 2>"$out/silicon_all.md" || { cat "$out/silicon_all.md" >&2; exit 1; }
    cat "$out/silicon_all.md"
else
    echo "Left out: ${PYTHON:-python3} has no aiconfigurator_core (pip install aiconfigurator-core)."
fi

[ -n "${SYSTEMS:-}" ] || exit 0
"${PYTHON:-python3}" bench/accuracy/silicon.py "$SYSTEMS" "$out/silicon" ${AISIMULATE:+--aisimulate "$AISIMULATE"} >"$out/silicon.csv"
echo
echo "## Closed loops of AIConfigurator's silicon_sample.csv, from its own tables"
echo
# A line for each server: medians of the absolute errors and of the errors; then the gate, versioned vLLM rows.
awk -F, '
function abs(x) { return x < 0 ? -x : x }
function median(v, n,   i, j, t) {
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    return n == 0 ? "" : n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
function figure(key, name,   i, a, b, n) {
    n = count[key, name]
    if (!n)
        return ""
    for (i = 1; i <= n; i++) { a[i] = abs(error[key, name, i]); b[i] = error[key, name, i] }
    return sprintf("%.1f (%+.1f)", median(a, n), median(b, n))
}
function add(key, name, v) { if (v != "") error[key, name, ++count[key, name]] = v + 0 }
FNR == 1 { for (i = 1; i <= NF; i++) col[$i] = i; next }
{
    version = $col["version"] == "" ? "not stated" : $col["version"]
    key = $col["backend"] " " version ", " $col["gpu"] ", " $col["model"] " " $col["dtype"]
    if (!(key in rows)) order[++keys] = key
    gated = $col["backend"] == "vllm" && $col["version"] != ""
    for (g = 0; g <= gated; g++) {
        k = g ? "gate" : key
        rows[k]++
        add(k, "tpot", $col["tpot_error_percent"])
        add(k, "ttft", $col["ttft_error_percent"])
        add(k, "their_tpot", $col["aisimulate_tpot_error_percent"])
        add(k, "their_ttft", $col["aisimulate_ttft_error_percent"])
        if ($col["aisimulate_tpot_error_percent"] != "") {
            add(k, "same_tpot", $col["tpot_error_percent"])
            add(k, "same_ttft", $col["ttft_error_percent"])
        }
    }
}
END {
    print "| server | rows | TPOT | TTFT | AISimulate: rows, TPOT, TTFT | ours on these |"
    print "|---|---|---|---|---|---|"
    order[++keys] = "gate"
    for (i = 1; i <= keys; i++) {
        k = order[i]
        theirs = count[k, "their_tpot"] ? count[k, "their_tpot"] ", " figure(k, "their_tpot") ", " figure(k, "their_ttft") : ""
        ours = count[k, "same_tpot"] ? figure(k, "same_tpot") ", " figure(k, "same_ttft") : ""
        name = k == "gate" ? "**versioned vLLM rows** (limits: TPOT 8, TTFT 25)" : k
        print "| " name " | " rows[k] " | " figure(k, "tpot") " | " figure(k, "ttft") " | " theirs " | " ours " |"
    }
}' "$out/silicon.csv"
