# shellcheck shell=sh disable=SC2154,SC2034  # what the caller and model_of leave; server_args, variant and the like are theirs
# Sourced by bench/accuracy/vllm.sh: servers that differ from the first one, and what others predict.
#
# A variant names the runs of its server apart, OUT/runs/MODEL-VARIANT_LOAD: server_args, what its server is started with besides;
# client_set and variant_set, settings of the client and of simulations; rate_factor, of its loads. `tp2 recorded MODEL LOAD` is `recorded` for that server.

bases() { # PREFIX MODEL BASIS...: a step for each prediction of that variant
    of_variant=$1 of_model=$2
    shift 2
    for basis in "$@"; do
        step "${of_model%%:*}-$of_variant-$basis" 20 300 "$of_variant" predicted "$of_model" "$basis"
    done
}

# ---- two GPUs ----

tp2_loads='a3 a12 a20 long chat'

tp2() { # FUNCTION [ARG]...
    variant=-tp2 server_args='--tensor-parallel-size 2' variant_set=parallel.tp=2
    "$@"
}

steps_tp2() {
    for model in $models; do
        for load in $tp2_loads; do
            step "${model%%:*}-tp2-$load" "$(small 60 5)" "$(small 580 120)" tp2 recorded "$model" "$load"
        done
    done
    step all-reduce 60 "$(small 300 60)" all_reduce
    for model in $models; do
        bases tp2 "$model" uncalibrated latencies
        step "${model%%:*}-tp2-one_gpu" 20 300 tp2 from_one_gpu "$model"
    done
    step tables-tp2 1 30 tables
}

# OUT/all_reduce/times.csv, bytes and us of one all-reduce on two GPUs; in parameters, what the roofline makes of it.
all_reduce() {
    mkdir -p "$out/all_reduce"
    times=$out/all_reduce/times.csv
    if [ -n "${ALL_REDUCE:-}" ]; then
        cp "$ALL_REDUCE" "$times"
    else
        server_down # it has the GPUs
        "$python" "$root/bench/accuracy/all_reduce.py" 2 >"$times"
    fi
    link=$("$tw" simulate "hardware=$hardware" --cfg 2>/dev/null | sed -n 's/^ *link_gb_per_s: //p')
    [ -n "$link" ] || { echo "hardware=$hardware states no link_gb_per_s" >&2; return 2; }
    # Of two devices each sends 2 (2 - 1) / 2 = 1 time the bytes. Least squares of time = collective_s + bytes / rate, each time
    # weighed by 1 / time, as the other defaults were found.
    awk -F, -v link="$link" '$1 ~ /^[0-9]+$/ && $2 > 0 {
            w = 1 / ($2 * $2); n++
            s += w; x += w * $1; y += w * $2; xx += w * $1 * $1; xy += w * $1 * $2
        }
        END {
            d = s * xx - x * x
            if (n < 3 || d <= 0) { print "all_reduce: fewer than three sizes" >"/dev/stderr"; exit 2 }
            slope = (s * xy - x * y) / d; constant = (y - slope * x) / s # us a byte, us
            if (slope <= 0 || constant <= 0) { print "all_reduce: times do not grow with the size" >"/dev/stderr"; exit 2 }
            printf "+predictor.parameters.collective_s=%.4g +predictor.parameters.link_efficiency=%.4g\n", constant / 1e6, 1e-3 / slope / link
        }' "$times" >"$out/all_reduce/parameters"
    echo "all-reduce on two GPUs: $(grep -c '^[0-9]' "$times") sizes, $(cat "$out/all_reduce/parameters")" | figure
}

# What was fitted to one GPU, with the all-reduce between two: its bundle, whose calibration then says two.
from_one_gpu() { # MODEL
    model_of "$1"
    fitted=$(find "$out/predict/$name-latencies" -name calibration.json 2>/dev/null | head -n 1)
    [ -n "$fitted" ] || { echo "$name was not calibrated on one GPU: record and predict first" >&2; return 2; }
    [ -f "$out/all_reduce/parameters" ] || { echo "the all-reduce was not measured: $out/steps/all-reduce.txt" >&2; return 2; }
    bundle=$out/all_reduce/$name
    rm -rf "$bundle"
    cp -r "$out/predict/$name-latencies" "$bundle"
    # shellcheck disable=SC2046  # two words
    for_two_gpus "$fitted" $(sed 's/+predictor.parameters.[a-z_]*=//g' "$out/all_reduce/parameters") \
        >"$bundle/${fitted#"$out/predict/$name-latencies/"}"
    simulated "$1" one_gpu "profile.root=$bundle"
}

# for_two_gpus CALIBRATION COLLECTIVE_S LINK_EFFICIENCY
for_two_gpus() {
    awk -v collective="$2" -v link="$3" '
        /^    "[a-z_]*": [{]/ { name = $1 }
        /^    "tp": 1,*$/ { sub(/1/, "2"); done++ }
        name ~ /collective_s|link_efficiency/ && /"(value|low|high)": / {
            sub(/: [^,]*/, ": " (name ~ /collective/ ? collective : link)); done++
        }
        { print }
        END { if (done != 7) { print "calibration.json is not of the form that is known" >"/dev/stderr"; exit 3 } }' "$1"
}

# ---- another engine ----

other() { # FUNCTION [ARG]...
    model_of "$2" # a tokenizer is a model's
    variant=-other server_other=1 rate_factor=${OTHER_RATE:-1}
    client_set=$(printf '%s\n' "${OTHER_CLIENT:-client.prompts=ids}" | sed "s|[$]MODEL|$reference|g")
    scheduler_set='' variant_set=${OTHER_SET:-scheduler=$(small vllm_0_33 orca)}
    case " $variant_set" in
    *" scheduler="*) scheduler_set=${variant_set##*scheduler=} scheduler_set=scheduler=${scheduler_set%% *} ;;
    *) scheduler_set=scheduler=vllm_0_33 ;;
    esac
    variant_set=$(printf '%s\n' "$variant_set" | sed 's/scheduler=[^ ]*//')
    "$@"
}

steps_other() {
    [ -n "${OTHER:-}${REHEARSE:-}" ] || { echo "OTHER='...' is the command of the other engine; --help tells" >&2; exit 2; }
    for model in $models; do
        for load in a3 a12 long chat; do
            step "${model%%:*}-other-$load" "$(small 60 5)" "$(small 580 120)" other recorded "$model" "$load"
        done
    done
    for model in $models; do
        bases other "$model" uncalibrated latencies
    done
    step tables-other 1 30 tables
}

# ---- extras ----

prefix() { # FUNCTION [ARG]...
    variant=-prefix variant_set=scheduler.prefix_caching=true
    client_workload="workload.prefix.tokens=$(small 1024 32) workload.prefix.groups=4"
    client_set="client.prompts=ids $client_workload"
    "$@"
}

sampling() { # FUNCTION [ARG]...
    variant=-sampling client_set='client.prompts=ids client.temperature=0.8 +client.body.top_p=0.9'
    "$@"
}

fp8() { # FUNCTION [ARG]...
    variant=-fp8 server_args='--quantization fp8' variant_set=model.dtype=fp8
    "$@"
}

steps_extras() {
    for model in $models; do
        for extra in 'prefix prefix' 'sampling a12' 'fp8 a12'; do
            step "${model%%:*}-${extra% *}-${extra#* }" "$(small 60 5)" "$(small 580 120)" "${extra% *}" recorded "$model" "${extra#* }"
            step "${model%%:*}-${extra% *}-simulated" 20 300 "${extra% *}" simulated "$model" uncalibrated predictor=roofline \
                predictor.request_overheads=server
        done
        step "${model%%:*}-prefix-hits" 5 "$(small 120 60)" prefix prefix_hits "$model"
        step "${model%%:*}-sampling-cost" 1 30 sampling_cost "$model"
    done
    step tables-extras 1 30 tables
}

# Tokens found in the cache: what the server counted meanwhile, and what a simulation of the run does.
prefix_hits() { # MODEL
    model_of "$1"
    run=$runs/${of}_prefix
    [ -f "$run/run_meta.json" ] || { echo "no run with common prefixes: $out/steps/$name-prefix-prefix.txt" >&2; return 2; }
    rm -rf "$out/prefix/$name"
    # shellcheck disable=SC2046,SC2086  # several words
    "$tw" simulate "model=$group" "hardware=$hardware" scheduler=vllm_0_33 predictor=roofline predictor.request_overheads=server \
        $(cat "$runs/$of.settings") $(settings_of prefix) $client_workload "out=$out/prefix/$name" log.level=error >/dev/null
    # of this run alone, without what warmed the server up
    counted=$(awk -F': ' '/"cache_hits"/ { here = 1 } here && /"value"/ { sub(/,.*/, "", $2); print $2; exit }' "$run/server_metrics.json" 2>/dev/null)
    simulated=$(sed -n 's/^ *"prefix_hit_tokens": \([0-9]*\).*/\1/p' "$out/prefix/$name/run_meta.json" | head -n 1)
    if [ -n "$counted" ] && [ "$counted" != null ]; then
        echo "$name: $counted tokens found in the server's prefix cache, $simulated simulated" | figure
        check "$name: tokens found in the prefix cache, simulated / counted - 1" \
            "$(awk -v r="$counted" -v s="$simulated" 'BEGIN { if (r > 0) printf "%+.1f", 100 * (s / r - 1) }')" % '+- 5' 1 -
    else
        echo "$name: the server counts no tokens found in its cache; $simulated tokens simulated" | figure
    fi
}

# The same requests greedy, where they were recorded.
sampling_cost() { # MODEL
    model_of "$1"
    tpot() { sed -n 's/^ *"median_tpot_ms": \([0-9.]*\).*/\1/p' "$runs/$1/bench.json" 2>/dev/null; }
    greedy=$(tpot "${name}_a12") sampled=$(tpot "$name-sampling_a12")
    [ -n "$sampled" ] || { echo "no run with sampling: $out/steps/$name-sampling-a12.txt" >&2; return 2; }
    echo "$name, a12: median TPOT $sampled ms with temperature and top-p, ${greedy:-not recorded} ms greedy" | figure
}

# ---- peers ----

# Both take the hardware's and the model's names as AIConfigurator has them: SYSTEM (h100_sxm), PEER_MODEL (MODELS' reference).
steps_peers() {
    for model in $models; do
        step "${model%%:*}-aiconfigurator" 60 "$(small 580 120)" aiconfigurator "$model"
        step "${model%%:*}-aisimulate" 60 "$(small 580 120)" aisimulate "$model"
    done
    step tables-peers 1 30 tables
}

has_package() { # NAME
    "$python" -c "import $1" >/dev/null 2>&1
}

# Its operator times in this simulator: the package itself predicts a load by its means, no arrivals.
aiconfigurator() { # MODEL
    model_of "$1"
    has_package aiconfigurator_core || { echo "$name: aiconfigurator-core is not installed in $python: left out" | figure; return 0; }
    rm -rf "$out/peers/$name-tables"
    mkdir -p "$out/peers"
    "$python" "$root/adapters/aiconfigurator_iterations.py" --model "${PEER_MODEL:-$reference}" --gpu "${SYSTEM:-${hardware}_sxm}" --backend vllm \
        --tp 1 --name "$name" --hardware "$hardware" --out "$out/peers/$name-tables" || return
    simulated "$1" aiconfigurator "profile.root=$out/peers/$name-tables" "model.name=$name"
}

# AISimulate replays the arrivals and lengths of each run.
aisimulate() { # MODEL
    model_of "$1"
    has_package aisimulate || { echo "$name: aisimulate is not installed in $python: left out" | figure; return 0; }
    mkdir -p "$out/peers"
    set --
    for run in "$(data_folder)/${name}"_*; do
        [ ! -f "$run/request_metrics.csv" ] || set -- "$@" "$run"
    done
    [ $# -gt 0 ] || { echo "no runs of $name" >&2; return 2; }
    "$python" "$root/bench/accuracy/peers.py" "${PEER_MODEL:-$reference}" "${SYSTEM:-${hardware}_sxm}" "$out/peers/$name" "$@" >"$out/peers/$name.csv" || return
    figure <"$out/peers/$name.csv"
}
