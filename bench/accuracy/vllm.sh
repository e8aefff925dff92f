#!/bin/sh
# A real vLLM on this machine's GPU: measured by `twinfer bench`, sealed, and predicted.
#
#     bench/accuracy/vllm.sh OUT [record | predict | trace | capture | energy | tp2 | other | extras | peers]...
#
# The first two without words:
#
#   record    of each model a server with its log of iterations, warm from requests of all sizes; a3, a12 to calibrate on and a12b, the same
#             again with other prompts; six loads to predict
#             (same shape at 20/s, long prompts, long answers, 128 at once, bursts, long tails), the first five times for the spread.
#             OUT/runs/MODEL_LOAD is the run with its part of that log, /metrics before and after, and power where there is a GPU here.
#             OUT/sealed/MODEL_LOAD, written when a run ends: date, program, sha256 of each file.
#   predict   without a GPU: each run on its own arrivals and lengths, uncalibrated, calibrated on the latencies of a3 and a12, and on
#             their logs. OUT/predict/tables.md: errors in %, limits, intervals; what was predicted blind apart from what was seen.
#   trace     the server below `twinfer trace` with one load: OUT/kernels/MODEL, its iterations by kind (kernels.iterations=true).
#   capture   a decode step and a mixed step of the server as capsules, each verified by a replay, timed, and its energy measured.
#             The server gets --profiler-config for it, which /start_profile switches on, and CAPTURE_ARGS (less memory, since all
#             that is live is copied). DECODE_REGION (profiler/graph:20), MIXED_REGION: which launches of CUDA graphs; the latter
#             without it is one step of the PIECES launches that trace counted, with --compilation-config for pieces alone.
#   energy    J per output token of three loads (a3 a12 a20), of all GPUs of the server's processes, beside those simulated by a
#             bundle with energy: PROFILES names its profile.root, else the CUDA engine's is measured here when the server is down.
#   tp2       with --tensor-parallel-size 2 on two GPUs: a3, a12 and three loads (a20 long chat), predicted uncalibrated, from the
#             calibration of one GPU (predict) with the all-reduce that all_reduce.py measures, and calibrated. ALL_REDUCE: its table.
#   other     another engine: OTHER is its command, which takes $PORT and $MODEL (the reference): a3 and a12 to calibrate on, long and
#             chat to predict. OTHER_CLIENT: settings of the client (client.prompts=ids), OTHER_SET: of its simulation
#             (scheduler=vllm_0_33), OTHER_RATE: a factor of all rates, for one that would be overloaded. That of transformers:
#                 OTHER='python3 bench/accuracy/transformers_serve.py /tmp/models/$MODEL --port $PORT --cb-max-batch-tokens 2048 --cb-num-blocks 512'
#                 OTHER_CLIENT='client.prompts=text client.tokenizer=/tmp/models/$MODEL/tokenizer.json'
#                 OTHER_SET='scheduler=vllm_0_33 scheduler.token_budget=2048 scheduler.batch_cap=1024 scheduler.block_size=256
#                 scheduler.num_blocks=512' OTHER_RATE=0.25
#   extras    once each, predicted uncalibrated: prompts with a common beginning, with the tokens found in the cache; sampling with
#             temperature and top-p, beside greedy; --quantization fp8.
#   peers     AIConfigurator's and AISimulate's predictions of the runs, where PYTHON has these packages.
#
# The server is yours, one of
#     VLLM='vllm serve'     a command: MODEL's reference, --served-model-name, --port and so on are added
#     VLLM_DIR=FOLDER       `run_vllm.sh start NAME [ARGS]` and `stop` in it, which take LOG, PORT, PIDF and WAIT
#     URL=http://...        one that is up, of one model; SERVER_LOG names its log
# VLLM_ARGS: further arguments. PORT (8000), WAIT (400 s to come up), MAXLEN (8192). It stays up between calls; the last step ends it.
# MODELS: a word for each, NAME:GROUP[:SEQUENCES[:REFERENCE]], the group of configs/model, --max-num-seqs (0: vLLM's default), and what
# `vllm serve` takes (NAME). LOADS: those of record (a3 a12 a12b a20 a20_r2 .. a20_r5 long chat burst bursts tails). HARDWARE (h100): the
# GPU's group. TWINFER_ARGS: further settings of predictions, as hardware.host_speed=0.75.
# DATA (OUT/runs): another folder of such runs for predict, as ../shared/data/vllm_024; what has no seal counts as seen.
#
# Blind is a prediction by the commit that first opened a run, or an older one; a program with uncommitted changes makes none. Who reads
# runs by hand before that is not noticed. A rehearsal takes `twinfer serve` for the server where none is named.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
. "$root/bench/accuracy/vllm_server.sh"
. "$root/bench/accuracy/vllm_predict.sh"
. "$root/bench/accuracy/vllm_pieces.sh"
. "$root/bench/accuracy/vllm_more.sh"
steps_open "$@"
shift
hardware=${HARDWARE:-h100}
models=${MODELS:-$(small 'Llama-3.1-8B:llama3_1_8b Qwen3-30B-A3B:qwen3_30b_a3b:128' micro:micro)}
runs=$out/runs

# model_of WORD: name, group, sequences, reference; of, the name of its runs: with `variant`, of a piece that changes the server
model_of() {
    IFS=: read -r name group sequences reference <<END
$1
END
    [ -n "$group" ] || { echo "MODELS: '$1' is not NAME:GROUP[:SEQUENCES[:REFERENCE]]" >&2; exit 2; }
    sequences=${sequences:-0} reference=${reference:-$name} of=$name${variant:-}
}

# The loads: name, seed, requests, then what says their arrivals and lengths (prompts, answers: mean and standard deviation); or = and
# another load, whose requests come again with other prompts, so that a prefix cache has none of them.
loads='a3 1 150 rate=3 512 256 128 64
a12 2 420 rate=12 512 256 128 64
a12b 102 = a12
a20 11 600 rate=20 512 256 128 64
long 12 120 rate=4 3000 750 64 16
chat 13 240 rate=8 64 16 400 100
burst 14 128 static 256 0 128 0
bursts 15 240 rate=8,burstiness=0.25 512 256 128 64
tails 16 200 rate=5 800 1000 200 250
t12 31 150 rate=12 512 256 128 64
steady 32 32 static 64 0 1500 0
prompts 33 200 rate=20 2000 500 64 16
prefix 34 240 rate=8 256 64 128 32
warm 35 240 rate=8 1000 2000 32 32
a20_r2 112 = a20
a20_r3 113 = a20
a20_r4 114 = a20
a20_r5 115 = a20'

# settings_of LOAD: of its workload
settings_of() {
    # shellcheck disable=SC2046  # several words
    set -- $(printf '%s\n' "$loads" | grep "^$1 ")
    if [ "$3" = = ]; then
        echo "workload.prompts_seed=$2"
        settings_of "$4"
        return
    fi
    n=$3 scale=1
    if [ -n "${REHEARSE:-}" ]; then # calibrations take 50 and more
        n=12 scale=8
        case $1 in
        a3 | a12) n=55 ;;
        steady | prompts) n=2 scale=1 && set -- "$1" "$2" 2 static 12 0 24 0 ;; # the stand-in that computes is small
        esac
    fi
    echo "seed=$2 workload=synthetic workload.num_requests=$n"
    case $4 in
    static) echo workload.arrival.kind=static ;;
    *burstiness=*) echo "workload.arrival.kind=gamma workload.arrival.burstiness=${4##*=}" ;;
    esac
    case $4 in
    rate=*)
        rate=${4#rate=}
        echo "workload.arrival.rate=$(awk -v r="${rate%%,*}" -v s=$scale -v f="${rate_factor:-1}" 'BEGIN { print r * s * f }')"
        ;;
    esac
    # shellcheck disable=SC2046  # several words
    set -- $(for x in $5 $6 $7 $8; do awk -v x="$x" -v s=$scale 'BEGIN { y = int(x / s); print (x > 0 && y < 2 ? 2 : y) }'; done)
    if [ "$2$4" = 00 ]; then
        echo "workload.lengths.kind=fixed workload.lengths.prefill_tokens=$1 workload.lengths.decode_tokens=$3"
    else
        echo "workload.lengths.kind=lognormal workload.lengths.prefill_tokens=$1 workload.lengths.prefill_stddev=$2" \
            "workload.lengths.decode_tokens=$3 workload.lengths.decode_stddev=$4"
    fi
}

power() { # energy.record where the server's GPU is in this machine, of its processes where they are known
    case ${ENERGY:-$(nvidia-smi -L >/dev/null 2>&1 && echo yes || echo no)} in
    yes) echo "energy.record=true${1:+ client.server_pid=$1}" ;;
    esac
}

# load_into FOLDER LOAD [SETTING]...: a run of the client. A rehearsal takes one that is rejected: its machine may be busy.
load_into() {
    to=$1 of_load=$2
    shift 2
    code=0
    # shellcheck disable=SC2046,SC2086  # several words
    "$tw" bench engine=openai "url=$url" ${client_set:-client.prompts=ids} "model=$group" "hardware=$hardware" \
        $(settings_of "$of_load") "out=$to" "$@" || code=$?
    [ $code = 0 ] || [ $code,"${REHEARSE:-}" = 5,1 ] || return $code
}

# recorded MODEL LOAD [SETTING]...: a run, sealed
recorded() {
    model_of "$1"
    load=$2
    shift 2
    # shellcheck disable=SC2086  # several words
    server_up "$name" "$group" "$sequences" "$reference" ${server_args:-}
    name=$of
    if [ -f "$out/server/fresh" ]; then # kernels are compiled when a batch first needs them; that is in no run
        load_into "$out/server/warm-$(date +%s)" warm >/dev/null || [ $code = 5 ] || return $code
        rm -f "$out/server/fresh"
    fi
    to=$runs/${name}_$load
    rm -rf "$to" "$out/sealed/${name}_$load" "$out/opened/${name}_$load" "$out/server/metrics"
    mkdir -p "$runs" "$out/sealed"
    fetch "$url/metrics" >"$out/server/metrics" || :
    from=$(server_log_size)
    # shellcheck disable=SC2046  # several words
    load_into "$to" "$load" $(power "$(server_pid)") "$@" || {
        [ $code = 4 ] && [ -n "$(power)" ] || return $code # NVML does not tell whose processes they are
        echo "$name, $load: the server's processes are not known to NVML here: power is that of GPU 0, whoever computed" | figure
        load_into "$to" "$load" $(power) "$@"
    }
    server_log_part "$to/iterations.log" "$from"
    fetch "$url/metrics" >"$to/metrics_after.txt" || rm -f "$to/metrics_after.txt" # another engine may have none
    [ ! -s "$out/server/metrics" ] || mv "$out/server/metrics" "$to/metrics_before.txt"
    server_facts >"$runs/$name.facts"
    settings_of_server >"$runs/$name.settings"
    sealed "${name}_$load"
    awk -F, -v what="$name, $load" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["status"] == "ok" { n++ } END { print what ": " n " of " NR - 1 " requests" }' "$to/request_metrics.csv" | figure
}

# Settings of a simulation: those that its log states, and those it was started with.
settings_of_server() {
    if [ -n "${REHEARSE:-}" ]; then # of the stand-in, which has another log
        printf '%s\n' scheduler.batch_cap=32 scheduler.max_model_len=1024 scheduler.num_blocks=600
    else
        stated=''
        [ -n "${server_other:-}" ] || stated=$(server_settings)
        for word in "scheduler.batch_cap=$sequences" "scheduler.max_model_len=${MAXLEN:-8192}"; do
            printf '%s\n' "$stated" | grep -q "^${word%%=*}=" || echo "$word"
        done
        [ -z "$stated" ] || printf '%s\n' "$stated"
    fi
    for setting in ${variant_set:-}; do echo "$setting"; done
}

sealed() { # RUN
    {
        echo "date $(date -u +%Y-%m-%dT%H:%M:%SZ)"
        echo "program $("$tw" --version)"
        echo "server $(tr '\n' ' ' <"$out/server/words")$(fetch "$url/version" 2>/dev/null || :)"
        (cd "$runs/$1" && find . -type f | LC_ALL=C sort | sed 's|^\./||' | while read -r file; do sha256sum "$file"; done)
    } >"$out/sealed/$1"
}

steps_begin "$@"
[ $# -gt 0 ] || set -- record predict
for piece in "$@"; do
    case $piece in
    record)
        [ -z "${URL:-}" ] || [ "${models#* }" = "$models" ] || { echo "URL is a server of one model: MODELS names it" >&2; exit 2; }
        for model in $models; do
            for load in ${LOADS:-a3 a12 a12b a20 a20_r2 a20_r3 a20_r4 a20_r5 long chat burst bursts tails}; do
                step "${model%%:*}-$load" "$(small 60 5)" "$(small 560 120)" recorded "$model" "$load"
            done
        done
        ;;
    predict)
        for model in $models; do
            for basis in uncalibrated latencies log; do
                step "${model%%:*}-$basis" 20 300 predicted "$model" $basis
            done
        done
        step tables 1 30 tables
        ;;
    trace | capture | energy | tp2 | other | extras | peers) "steps_$piece" ;;
    *) no_piece "$piece" ;;
    esac
done
[ -n "$steps_late" ] || server_down # else the next call goes on with it
steps_end
