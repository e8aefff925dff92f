#!/bin/sh
# What each correction of a profiling bundle is worth: run.sh OUT [bundles | vllm]...
#
# bundles   removes one correction of bundle_meta.json at a time from copies of the bundles in data/GPU, simulates every recorded workload
#           as bench/gpu/publish.sh does, and compares it with its first real run
# vllm      calibrates on the logs of a3 and a12 of each model in data/vllm_h200 (and VLLM_DATA), sets one parameter of calibration.json at
#           a time to the value at which it has no effect, and simulates every recorded run on its own arrivals and lengths
#
# OUT/cells.csv has the errors, OUT/tables.md the tables that this prints. Without words: both.
# TWINFER: the program (build/twinfer). DATA: the folder with h100, h200 and vllm_h200 (data). GPUS (h200 h100). POINTS: only workloads
# whose "MODEL NAME" matches this pattern of grep -E. VLLM_DATA (../shared/data/vllm_024): another folder of vLLM runs.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/bench/recorded.sh"
case ${1:-} in '' | -*) sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
out=$(mkdir -p "$1" && cd "$1" && pwd) || exit 3
shift
[ $# != 0 ] || set -- bundles vllm
tw=${TWINFER:-$root/build/twinfer}
data=$(cd "${DATA:-$root/data}" && pwd)
"$tw" --version >/dev/null || { echo "run.sh: no program: TWINFER, or ./do build" >&2; exit 4; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# beside REAL GROUP CASE WORKLOAD: the cells of the simulation in $work/sim, into cells.csv
beside() {
    rm -rf "$work/compare"
    rc=0
    "$tw" compare "real_run_dir=$1" "sim_run_dir=$work/sim" "out=$work/compare" log.level=error >"$work/said" 2>&1 || rc=$?
    case $rc in 0 | 1 | 5) ;; *) cat "$work/said" >&2; exit 1 ;; esac
    python3 "$here/ablation.py" cells "$work/compare/compare.json" "$2" "$3" "$4" >>"$out/cells.csv"
}

bundles() {
    for gpu in ${GPUS:-h200 h100}; do
        [ -d "$data/$gpu/runs" ] || { echo "$data/$gpu/runs is not there: left out"; continue; }
        recorded_points "$data/$gpu" | grep -E "${POINTS:-.}" >"$work/points" || :
        for case in $(python3 "$here/ablation.py" corrections); do
            rm -rf "$work/root"
            mkdir "$work/root"
            cp -R "$data/$gpu/data" "$work/root/data"
            python3 "$here/ablation.py" remove "$case" "$work/root" >"$work/concerned" # models whose bundle has it
            while read -r model name; do
                grep -qx "$model" "$work/concerned" || continue
                rm -rf "$work/sim"
                recorded_simulate "$gpu" "$model" "$data/$gpu/runs/$model/$name" "$work/root" "$work/sim" >"$work/said" 2>&1 </dev/null ||
                    { cat "$work/said" >&2; exit 1; }
                beside "$data/$gpu/runs/$model/$name/real-1" bundles "$case" "$gpu $model $name"
            done <"$work/points"
        done
    done
}

# vllm_of RUNS NAME MODEL GPU [SETTING]...
vllm_of() {
    runs=$1 name=$2 model=$3 gpu=$4
    shift 4
    # shellcheck disable=SC2046  # several words
    [ ! -f "$runs/$name.settings" ] || set -- $(cat "$runs/$name.settings")
    from=''
    for run in "$runs/${name}_a3" "$runs/${name}_a12" "$runs/it_${name}_a12"; do [ ! -f "$run/iterations.log.gz" ] || from=$from${from:+,}$run; done
    [ -n "$from" ] || { echo "$runs: no logs of $name: left out"; return 0; }
    rc=0
    rm -rf "$work/calibrated"
    "$tw" calibrate "hardware=$gpu" "model=$model" scheduler=vllm_0_33 "$@" "from=[$from]" "out=$work/calibrated" log.level=error >"$work/said" 2>&1 || rc=$?
    case $rc in 0 | 5) ;; *) cat "$work/said" >&2; exit 1 ;; esac
    for case in $(python3 "$here/ablation.py" parameters); do
        rm -rf "$work/root"
        cp -R "$work/calibrated" "$work/root"
        python3 "$here/ablation.py" neutral "$case" "$work/root" >"$work/concerned"
        [ -s "$work/concerned" ] || continue
        for run in "$runs/$name"_*; do
            [ -f "$run/request_metrics.csv" ] || continue
            case $run in *_r[2-9] | *_burst) continue ;; esac # prompts that a cache held; a client that was late
            rm -rf "$work/sim"
            python3 "$here/ablation.py" trace "$run" >"$work/trace.csv"
            "$tw" simulate "hardware=$gpu" "model=$model" scheduler=vllm_0_33 "$@" "profile.root=$work/root" "workload.trace=$work/trace.csv" \
                output.tokens=none "out=$work/sim" log.level=error >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
            beside "$run" vllm "$case" "$(basename "${runs%/runs}") $(basename "$run")"
        done
    done
}

vllm() {
    for folder in "$data/vllm_h200/runs" "${VLLM_DATA:-$root/../shared/data/vllm_024}"; do
        [ -d "$folder" ] || { echo "$folder is not there: left out"; continue; }
        gpu=h200
        case $folder in *vllm_024) gpu=h100 ;; esac # whose README has the KV tokens
        vllm_of "$folder" Llama-3.1-8B llama3_1_8b "$gpu" scheduler.batch_cap=0 scheduler.max_model_len=8192 scheduler.num_blocks=28934
        vllm_of "$folder" Qwen3-30B-A3B qwen3_30b_a3b "$gpu" scheduler.batch_cap=128 scheduler.max_model_len=8192 scheduler.num_blocks=9922
    done
}

: >"$out/cells.csv"
for piece in "$@"; do
    case $piece in
    bundles | vllm) $piece ;;
    *) echo "run.sh: no piece $piece: bundles, vllm" >&2; exit 2 ;;
    esac
done
python3 "$here/ablation.py" tables "$out/cells.csv" | tee "$out/tables.md"
