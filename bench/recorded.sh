# shellcheck shell=sh disable=SC2154  # tw is the caller's
# Sourced by scripts of bench/ that simulate the recorded workloads of data/GPU.

# recorded_points DATA: "MODEL NAME" of each recorded workload
recorded_points() {
    for recorded_dir in "$1"/runs/*/*/; do
        [ ! -f "$recorded_dir/real-1/request_metrics.csv" ] || echo "$(basename "$(dirname "$recorded_dir")") $(basename "$recorded_dir")"
    done
}

# recorded_simulate GPU MODEL POINT ROOT OUT: simulates the workload in the folder POINT from the bundle under ROOT, with the settings of
# its first real run.
recorded_simulate() {
    recorded_settings=$(awk '/^scheduler:/ { here = 1; next } /^[^ ]/ { here = 0 }
        here && $1 ~ /^(batch_cap|token_budget|max_model_len|num_blocks):$/ && $2 != "null" { sub(/:/, "", $1); printf "scheduler.%s=%s ", $1, $2 }' "$3/real-1/config.yaml")
    recorded_words="model=$2 scheduler.hybrid_kv_cache=false" # as bench/gpu/run.sh has it
    case $2 in gpt_oss*) recorded_words="$recorded_words ~model.config.quantization_config" ;; esac
    # shellcheck disable=SC2086  # several words
    "$tw" simulate "hardware=$1" $recorded_words "profile.root=$4" $recorded_settings output.tokens=none workload.warmup_requests=10 \
        "workload.dir=$3/workload" "out=$5"
}
