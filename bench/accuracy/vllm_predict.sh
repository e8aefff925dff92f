# shellcheck shell=sh disable=SC2154,SC2034  # out, tw, root, runs, hardware and what model_of leaves are the caller's
# Sourced by bench/accuracy/vllm.sh: predictions of recorded runs, and their tables.

# quoted TEXT: as the command line's grammar takes it, whatever is in it.
quoted() {
    printf "'%s'" "$(printf %s "$1" | sed -e 's/\\/\\\\/g' -e "s/'/\\\\'/g")"
}

# data_folder: where the runs are
data_folder() {
    (cd "${DATA:-$runs}" 2>/dev/null && pwd) || { echo "no runs in ${DATA:-$runs}: record first, or DATA=FOLDER" >&2; return 2; }
}

# The commit of the program; nothing where it has changes of its own.
commit_of() {
    sed -n 's/.*(commit \([0-9a-f]*\)).*/\1/p'
}

# opened RUN: from now on it is in view. A run that is not what was sealed is refused.
opened() {
    [ -f "$out/sealed/$1" ] && [ -z "${DATA:-}" ] || return 0
    (cd "$runs/$1" && grep -E '^[0-9a-f]{64} ' "$out/sealed/$1" | sha256sum -c --quiet >/dev/null 2>&1) || {
        echo "$1 is not what was sealed ($(head -n 1 "$out/sealed/$1")): record it again (AGAIN='${1%_*}-${1##*_}')" >&2
        return 3
    }
    mkdir -p "$out/opened"
    [ -f "$out/opened/$1" ] || echo "date $(date -u +%Y-%m-%dT%H:%M:%SZ), $("$tw" --version)" >"$out/opened/$1"
}

is_blind() { # RUN
    [ -f "$out/opened/$1" ] && [ -z "${DATA:-}" ] || return 1
    mine=$("$tw" --version | commit_of) first=$(commit_of <"$out/opened/$1")
    [ -n "$mine" ] && [ -n "$first" ] || return 1
    [ "$mine" = "$first" ] || git -C "$root" merge-base --is-ancestor "$mine" "$first" 2>/dev/null
}

has_log() {
    [ -f "$1/iterations.log" ] || [ -f "$1/iterations.log.gz" ]
}

# predicted MODEL BASIS [SETTING]...: OUT/predict/NAME-BASIS.csv, a row for each run and metric
predicted() {
    model_of "$1"
    name=$of basis=$2
    shift 2
    more="$*"
    data=$(data_folder)
    check='' from='' none='' logged='' names=''
    for run in "$data/${name}"_* "$data/it_${name}"_*; do
        [ -f "$run/request_metrics.csv" ] || continue
        opened "$(basename "$run")"
        check=$check${check:+,}$(quoted "$run")
        names="$names $(basename "$run")"
        case $(basename "$run") in
        "${name}_a3" | "${name}_a12")
            from=$from${from:+,}$(quoted "$run")
            none=$none${none:+,}none
            ! has_log "$run" || logged=$logged${logged:+,}$(quoted "$run")
            ;;
        esac
    done
    [ -n "$check" ] || { echo "no runs of $name in $data" >&2; return 2; }
    if [ -z "$logged" ]; then # those of a run beside them
        for run in "$data/it_${name}"_*; do
            ! has_log "$run" || logged=$logged${logged:+,}$(quoted "$run")
        done
    fi
    set -- "check=[$check]"
    case $basis in
    latencies)
        [ -n "$from" ] || { echo "neither ${name}_a3 nor ${name}_a12 in $data" >&2; return 2; }
        set -- "$@" "from=[$from]" "calibrate.iteration_log=[$none]"
        fitted=$from
        ;;
    log)
        [ -n "$logged" ] || { echo "$name: no log of iterations: left out" | figure; return 0; }
        set -- "$@" "from=[$logged]"
        fitted=$logged
        ;;
    *) fitted='' ;;
    esac
    settings="scheduler.batch_cap=$sequences scheduler.max_model_len=8192"
    [ ! -f "$data/$name.settings" ] || settings=$(cat "$data/$name.settings")
    to=$out/predict/$name-$basis
    mkdir -p "$out/predict"
    rm -rf "$to" "$to.csv"
    code=0 # 5: does not fit, which its notes say
    # shellcheck disable=SC2086  # several words
    "$tw" calibrate "hardware=$hardware" "model=$group" "${scheduler_set:-scheduler=vllm_0_33}" $settings $more "$@" "out=$to" ${TWINFER_ARGS:-} log.level=error || code=$?
    [ $code = 0 ] || [ $code = 5 ] || return $code
    for run in $names; do
        role=seen
        ! is_blind "$run" || role=blind
        case ",$fitted," in
        ,,) ;;
        *"/$run',"*) role=fitted ;;
        *"/${name}_a12',"*) case $run in *_a12b) role=repeat ;; esac ;;
        esac
        awk -F, -v OFS=, -v model="$name" -v basis="$basis" -v run="$run" -v role=$role \
            '$1 == run { print model, basis, run, role, $3, $4, $5, $6, $7, $8 }' "$to/check.csv"
    done >"$to.csv"
    sed -n '/does not fit/p' "$out/steps/$step_name.txt" | cut -c1-200 | sed "s/^/$name, $basis: /" | figure
}

# simulated MODEL BASIS SETTING...: the same rows, without intervals, of simulations with these settings and nothing fitted here
simulated() {
    model_of "$1"
    name=$of basis=$2
    shift 2
    [ -z "${DATA:-}" ] || { echo "the loads of DATA are not known: simulated are those that were recorded here" >&2; return 2; }
    to=$out/predict/$name-$basis
    rm -rf "$to" "$to.csv"
    mkdir -p "$to"
    for run in "$runs/${name}"_*; do
        [ -f "$run/request_metrics.csv" ] || continue
        load=$(basename "$run")
        opened "$load"
        load=${load#"${name}"_}
        # shellcheck disable=SC2046,SC2086  # several words
        "$tw" simulate "model=$group" "hardware=$hardware" "${scheduler_set:-scheduler=vllm_0_33}" $(cat "$runs/$name.settings") \
            $(settings_of "$load" | grep -v prompts_seed) ${client_workload:-} "$@" "out=$to/$load" ${TWINFER_ARGS:-} log.level=error >/dev/null || return
        "$tw" compare "real_run_dir=$run" "sim_run_dir=$to/$load" "out=$to/$load-compare" log.level=error >"$to/$load.txt" ||
            case $? in 1 | 5) ;; *) return 1 ;; esac # it judges, and so do the tables
        role=seen
        ! is_blind "${name}_$load" || role=blind
        awk -v OFS=, -v model="$name" -v basis="$basis" -v run="${name}_$load" -v role=$role \
            '$1 ~ /^(TTFT|TPOT|E2E)$/ && $2 ~ /^P[59]0$/ && $3 > 0 {
                print model, basis, run, role, tolower($1) "_" tolower($2), $3 / 1e3, $4 / 1e3, sprintf("%.2f", 100 * ($4 / $3 - 1)), "", "" }' \
            "$to/$load.txt" >>"$to.csv"
    done
    [ -s "$to.csv" ] || { echo "no runs of $name" >&2; return 2; }
}

# tables: OUT/predict/tables.md of all that was predicted, blind and seen apart; limits as checks
tables() {
    mkdir -p "$out/predict"
    cat "$out"/predict/*.csv >"$out/predict/all" 2>/dev/null || { echo "nothing was predicted" >&2; return 2; }
    {
        "$tw" --version
        [ ! -d "$out/sealed" ] || (cd "$out/sealed" && for run in *; do echo "$run: sealed $(sed -n 's/^date //p' "$run"), opened $(sed 's/^date //' "../opened/$run" 2>/dev/null || echo never)"; done)
    } >"$out/predict/dates.txt"
    awk -F, -v checks="$out/predict/checks" "$tables_awk" "$out/predict/all" >"$out/predict/tables.md"
    {
        cat "$out/predict/tables.md"
        echo
        cat "$out/predict/dates.txt"
    } | figure
    while IFS='|' read -r what value unit limit n spread; do
        check "$what" "$value" "$unit" "$limit" "$n" "$spread"
    done <"$out/predict/checks"
}

# Columns of its input: model, basis, run, role, metric, observed, predicted, error, low, high (low .. high: the 95 % interval).
# Limits on what was not calibrated on, %, or the spread of five repeats where that is larger.
# shellcheck disable=SC2016  # awk's $
tables_awk='
function size(x) { return x < 0 ? -x : x }
function sort(v, n,   i, k, x) {
    for (i = 2; i <= n; i++) { x = v[i]; for (k = i - 1; k >= 1 && v[k] > x; k--) v[k + 1] = v[k]; v[k + 1] = x }
}
function spread_of(model, metric,   key, n, i, v, most) { # largest distance of a repeat from the median
    key = model SUBSEP metric
    n = repeats[key]
    if (n < 5) return 0
    for (i = 1; i <= n; i++) v[i] = repeated[key, i]
    sort(v, n)
    for (i = 1; i <= n; i++) if (size(v[i] / v[int((n + 1) / 2)] - 1) * 100 > most) most = size(v[i] / v[int((n + 1) / 2)] - 1) * 100
    return most
}
function limit_of(model, basis, metric,   l, s) {
    l = limits[basis, metric]
    s = spread_of(model, metric)
    return l == "" ? "" : s > l ? s : l
}
function cell(model, basis, run, metric,   e, l) {
    if (!((model, basis, run, metric) in error)) return "n/a"
    e = error[model, basis, run, metric]
    l = role[model, basis, run] ~ /blind|seen/ ? limit_of(model, basis, metric) : ""
    return sprintf("%+.1f%s", e, l != "" && size(e) > l ? " **over " sprintf("%.3g", l) "**" : "")
}
BEGIN {
    split("ttft_p50 ttft_p90 tpot_p50 e2e_p50 e2e_p90", metrics, " ")
    limits["latencies", "e2e_p50"] = limits["latencies", "e2e_p90"] = limits["latencies", "tpot_p50"] = 4
    limits["latencies", "ttft_p50"] = 12
    limits["log", "e2e_p50"] = limits["log", "e2e_p90"] = 3; limits["log", "tpot_p50"] = 2
    limits["log", "ttft_p50"] = 8; limits["log", "ttft_p90"] = 12
    limits["uncalibrated", "e2e_p50"] = 10; limits["uncalibrated", "ttft_p50"] = 20
    title["blind"] = "Blind"; title["seen"] = "Seen"; title["repeat"] = "The fitted requests again"; title["fitted"] = "Fitted"
    title_of["uncalibrated"] = "nothing"; title_of["latencies"] = "latencies of a3, a12"; title_of["log"] = "log of iterations"
    title_of["one_gpu"] = "one GPU, and the all-reduce"; title_of["aiconfigurator"] = "AIConfigurator'"'"'s tables"
}
{
    base = $3
    if (sub(/_r[0-9]+$/, "", base)) again[$1, base] = 1
    if (!seen_observed[$1, $3, $5]++) observed[$1, $5, base, ++many[$1, $5, base]] = $6
    if (base != $3) next
    key = $1 SUBSEP $2
    if (!known[key]++) order[++keys] = key
    if (!(($1, $2, $3) in role)) { role[$1, $2, $3] = $4; runs_of[key] = runs_of[key] " " $3; roles[$4] = 1 }
    error[$1, $2, $3, $5] = $8
    if ($5 ~ /_p[59]0$/ && $9 != "" && $7 > 0) {
        cells[$1, $2, $3]++; held[$1, $2, $3] += $6 >= $9 && $6 <= $10
        half[$1, $2, $3, cells[$1, $2, $3]] = 100 * ($10 - $9) / 2 / $7
    }
}
END {
    for (k in again) {
        split(k, p, SUBSEP)
        for (m = 1; m <= 5; m++) {
            n = many[p[1], metrics[m], p[2]]
            repeats[p[1], metrics[m]] = n
            for (i = 1; i <= n; i++) repeated[p[1], metrics[m], i] = observed[p[1], metrics[m], p[2], i]
        }
    }
    r = split("blind seen repeat fitted", kinds, " ")
    for (i = 1; i <= r; i++) {
        if (!(kinds[i] in roles)) continue
        printf "%s## %s: predicted / observed - 1, %%\n\n", printed++ ? "\n" : "", title[kinds[i]]
        print "| model | from | run | TTFT P50 | TTFT P90 | TPOT P50 | E2E P50 | E2E P90 | in the 95 % interval |"
        print "|---|---|---|---|---|---|---|---|---|"
        for (k = 1; k <= keys; k++) {
            split(order[k], p, SUBSEP)
            n = split(runs_of[order[k]], list, " ")
            for (j = 1; j <= n; j++) {
                run = list[j]
                if (role[p[1], p[2], run] != kinds[i]) continue
                name = run
                if (index(name, p[1] "_") == 1) name = substr(name, length(p[1]) + 2)
                printf "| %s | %s | %s |", p[1], title_of[p[2]], name
                for (m = 1; m <= 5; m++) printf " %s |", cell(p[1], p[2], run, metrics[m])
                printf " %d of %d |\n", held[p[1], p[2], run], cells[p[1], p[2], run]
            }
        }
    }
    judged = "blind" in roles ? "blind" : "seen"
    for (k = 1; k <= keys; k++) {
        split(order[k], p, SUBSEP)
        n = split(runs_of[order[k]], list, " ")
        for (m = 1; m <= 5; m++) {
            worst = ""; count = 0
            for (j = 1; j <= n; j++) {
                if (role[p[1], p[2], list[j]] != judged || !((p[1], p[2], list[j], metrics[m]) in error)) continue
                count++
                e = error[p[1], p[2], list[j], metrics[m]]
                if (worst == "" || size(e) > size(worst)) worst = e
            }
            l = limit_of(p[1], p[2], metrics[m])
            s = spread_of(p[1], metrics[m])
            of = toupper(metrics[m]); sub(/_/, " ", of)
            if (count && l != "")
                printf "%s from %s: %s, worst of %s runs|%+.1f|%%|+- %.3g|%d|%s\n", p[1], title_of[p[2]], of, judged, worst, l, count, s ? sprintf("%.1f", s) : "-" >checks
        }
        inside = all = 0
        for (j = 1; j <= n; j++) {
            if (role[p[1], p[2], list[j]] != judged) continue
            inside += held[p[1], p[2], list[j]]
            for (c = 1; c <= cells[p[1], p[2], list[j]]; c++) widths[++all] = half[p[1], p[2], list[j], c]
        }
        if (!all) continue
        sort(widths, all)
        printf "%s from %s: cells of %s runs in their interval|%.0f|%%|>= 90|%d|-\n", p[1], title_of[p[2]], judged, 100 * inside / all, all >checks
        printf "%s from %s: median half-width of the intervals|%.1f|%%|<= 10|%d|-\n", p[1], title_of[p[2]], widths[int((all + 1) / 2)], all >checks
    }
    printf "" >checks
}'
