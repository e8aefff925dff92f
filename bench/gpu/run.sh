#!/bin/sh
# Figures of the CUDA engine on this machine's GPU, in steps of seconds to minutes:
#
#     bench/gpu/run.sh OUT [PIECE]...
#
#   roofs     rates of the machine: doctor.measure
#   start     first start of the engine, kernels unknown, and the next ones
#   tokens    float32 tokens of the GPU against the CPU engine's, tiny_qwen3
#   logits    logits of the GPU and of the CPU against transformers', three families (adapters/transformers_logits.py)
#   qwen      Qwen3-0.6B, bfloat16: decode of 1 and of 64 sequences at 1k context
#   llama     Llama-2-7B likewise, and prefill of 2k tokens
#   slo       the highest rate of Qwen3-0.6B, 512 tokens in, 64 out, under 500 ms TTFT and 10 ms TPOT
#   peers     transformers' static cache under torch.compile, the same steps (adapters/compiled_decode.py)
#   sanitize  compute-sanitizer's memcheck and racecheck on tiny_qwen3 and on the kernels' cases (gpu_bench)
#   kernels   gpu_bench (beside this script in the package of ./do dist; GPU_BENCH, or build/bench/gpu): rows of kernels
#             against their twins, their times, steps, a step as one kernel, unequal lengths
#
#   profile   bundles of MODELS (qwen3_0_6b llama2_7b; also qwen3_30b_a3b gpt_oss_20b gemma_3_27b) in OUT/profiles, BUDGET (130) seconds
#             of passes each
#   capacity  requests/s of each at saturation, for the lengths of fidelity's workloads
#   fidelity  three real runs each of a loaded, an idle and a long-prompt workload, simulated from OUT/profiles and compared;
#             needs profile and capacity before it
#
# Without pieces: roofs tokens logits qwen llama slo peers. The last table has every figure that has a limit, with its count and
# spread (OUT/checks.md; misses change no exit code). HARDWARE: the GPU's group (h200). BLOCKS: KV blocks of fidelity's runs (12000: 101 GB
# of the 7B's; 6400 where the GPU has 80 GB). PYTHON: with torch and transformers, for logits and peers. BANDWIDTH: bytes/s of a read-only stream of 4 GB or more, for the floor (weights + keys and values) / bandwidth;
# that of roofs where it was measured. bench/gpu/README.md says how long pieces take; bench/gpu/publish.sh puts results into data/h200
# and the README files.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
steps_open "$@"
shift
hardware=${HARDWARE:-h200}
models=${MODELS:-$(small 'qwen3_0_6b llama2_7b' micro)}
budget=${BUDGET:-$(small 130 6)}

# roof NAME OTHERWISE: the median that the piece `roofs` measured.
roof() {
    awk -v name="\"$1\":" -v otherwise="$2" '$1 == name { here = 1 } here && $1 == "\"median\":" { sub(/,$/, "", $2); print $2; done = 1; exit }
        END { if (!done) print otherwise }' "$out/roofs.json" 2>/dev/null || echo "$2"
}

# bench NAME SETTINGS...: a run; its folder is $out/NAME.
bench() {
    rm -rf "${out:?}/$1"
    to=$1
    shift
    "$tw" bench engine=cuda model.weights=random:0 workload=synthetic workload.lengths.kind=fixed workload.arrival.kind=static \
        log.level=debug "out=$out/$to" "$@"
}

roofs() {
    rc=0 # a machine without a figure, or in heat, is told by the exit code
    "$tw" doctor doctor.measure=true "doctor.roofs=$out/roofs.json" >"$out/doctor.txt" || rc=$?
    cat "$out/doctor.txt"
    grep -E '^measured +roofs|gpu_' "$out/doctor.txt" | cut -c1-160 | figure
    return $rc
}

# start: of tiny_qwen3, so without weights to speak of, in a cache of its own.
start() {
    rm -rf "$out/start"
    mkdir -p "$out/start"
    for time in first second third; do
        XDG_CACHE_HOME=$out/start/cache bench "start/$time" "model=$(small tiny_qwen3 micro)" workload.num_requests=1 \
            workload.lengths.prefill_tokens=4 workload.lengths.decode_tokens=2 scheduler.num_blocks=600 \
            >"$out/start/$time.txt" 2>&1 || { code=$?; cat "$out/start/$time.txt"; return $code; }
        seconds=$(sed -n 's/.*; open in \([0-9.]*\) s.*/\1/p' "$out/start/$time.txt" | tail -n 1)
        echo "start, $time: engine open in $seconds s" | figure
        case $time in
        first) check "first start of the engine" "$seconds" s '<= 15' 1 - ;;
        third) check "later starts, without weights" "$seconds" s '<= 1' 1 - ;;
        esac
    done
    rm -rf "$out/start/cache"
}

# decode MODEL SEQUENCES WEIGHT_BYTES KV_BYTES_PER_TOKEN SHARE [FUSED]: median of the decode steps in which all of the sequences take part.
# SHARE: the least of the floor. FUSED: true for steps as one kernel.
decode() {
    point=$1-b$2${6:+-fused}
    bandwidth=${BANDWIDTH:-$(roof gpu_read 4.42e12)}
    prompt=$(small 960 40) answer=$(small 129 9)
    rm -f "$out/decode/$point.numbers"
    bench "decode/$point" "model=$1" "engine.fused=${6:-false}" "workload.num_requests=$2" "workload.lengths.prefill_tokens=$prompt" \
        "workload.lengths.decode_tokens=$answer" "scheduler.batch_cap=$2" scheduler.token_budget=4096 \
        "scheduler.max_model_len=$(small 1152 64)" "scheduler.num_blocks=$(($2 * 72 + 8))"
    if [ -n "${6:-}" ] && [ -z "${REHEARSE:-}" ]; then # heads of `micro` are too small for it
        phases=$(grep -o 'last step in one kernel.*' "$out/steps/$step_name.txt" || true)
        [ -n "$phases" ] || { echo "$point: its steps were not one kernel"; return 1; }
        echo "$phases" | figure
    fi
    awk -F, -v n="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["num_prefill_tokens"] == 0 && $at["num_decode_tokens"] == n { print $at["device_ns"], $at["duration_ns"] }' \
        "$out/decode/$point/batches.csv" | sort -n |
        awk -v name="$point" -v numbers="$out/decode/$point.numbers" -v bytes="$(awk -v w="$3" -v k="$4" -v n="$2" 'BEGIN { print w + n * 1024 * k }')" -v bw="$bandwidth" '
            { d[NR] = $1; s += $2 } END {
            if (NR == 0) { print name ": no such steps"; exit 1 }
            m = d[int((NR + 1) / 2)] / 1e6; floor = bytes / bw * 1e3
            printf "%-20s %4d steps  device %8.3f ms (%.3f to %.3f)  with host %8.3f ms  floor %.3f ms  share %.2f\n",
                name, NR, m, d[1] / 1e6, d[NR] / 1e6, s / NR / 1e6, floor, floor / m
            print floor / m, NR, 100 * (d[int((3 * NR + 3) / 4)] - d[int((NR + 3) / 4)]) / 1e6 / m, m >numbers }' | figure
    read -r share steps spread ms <"$out/decode/$point.numbers"
    check "$1, batch $2${6:+, one kernel}: share of the floor" "$(printf %.3f "$share")" - ">= $5" "$steps" "$(printf '%.1f %% (quartiles)' "$spread")"
    # transformers' steps of the same OUT, where peers went before
    theirs=$(sed -n "s/^$1-b$2 transformers compiled: \([0-9.]*\) ms.*/\1/p" "$out"/steps/peers-*.figures 2>/dev/null | tail -n 1)
    [ -z "$theirs" ] || faster "$point" "$ms" "$theirs"
}

# faster NAME OURS THEIRS: ms of a step, against transformers'.
faster() {
    check "$1: step against compiled transformers" "$(awk -v a="$2" -v b="$3" 'BEGIN { printf "%.2f", b / a }')" times '>= 1' - -
}

prefill() { # MODEL
    tokens=$(small 2048 64)
    rm -f "$out/decode/$1-prefill.numbers"
    bench "decode/$1-prefill" "model=$1" workload.num_requests=8 "workload.lengths.prefill_tokens=$tokens" \
        workload.lengths.decode_tokens=2 scheduler.batch_cap=1 scheduler.token_budget=2048 \
        "scheduler.max_model_len=$(small 2112 96)" scheduler.num_blocks=160
    awk -F, -v n="$tokens" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["num_prefill_tokens"] == n { print $at["device_ns"] }' \
        "$out/decode/$1-prefill/batches.csv" | sort -n | awk -v name="$1" -v n="$tokens" -v numbers="$out/decode/$1-prefill.numbers" '{ d[NR] = $1 } END {
            if (NR == 0) { print name ": no such prompts"; exit 1 }
            m = d[int((NR + 1) / 2)]
            printf "%s prefill of %d tokens: %.2f ms, %.0f TFLOP/s of matrix products were it Llama-2-7B\n",
                name, n, m / 1e6, 2 * 6.607e9 * n / m / 1e3
            print m, NR, 100 * (d[NR] - d[1]) / m >numbers }' | figure
    read -r ns count spread <"$out/decode/$1-prefill.numbers"
    check "$1, prefill of $tokens tokens: share of the GEMM rate" "$(awk -v n="$tokens" -v ns="$ns" -v gemm="$(roof gpu_gemm_bf16 727e12)" \
        'BEGIN { printf "%.3f", 2 * 6.607e9 * n / ns * 1e9 / gemm }')" - '>= 0.60' "$count" "$(printf '%.1f %% (range)' "$spread")"
}

tokens() {
    for engine in cpu cuda; do
        type=
        [ $engine = cpu ] || type=engine.dtype=float32
        rm -rf "${out:?}/tokens-$engine"
        "$tw" bench engine=$engine $type "model=$(small tiny_qwen3 micro)" model.weights=random:0 workload=synthetic \
            "workload.num_requests=$(small 100 20)" \
            workload.arrival.rate=200 workload.lengths.kind=uniform workload.lengths.min_tokens=4 \
            "workload.lengths.max_tokens=$(small 200 40)" scheduler.num_blocks=160 "out=$out/tokens-$engine"
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            { print $at["request_id"], $at["token_index"], $at["token_id"] }' \
            "$out/tokens-$engine/token_metrics.csv" | sort >"$out/tokens-$engine.ids"
    done
    differ=$(comm -3 "$out/tokens-cpu.ids" "$out/tokens-cuda.ids" | wc -l)
    echo "tokens: $(wc -l <"$out/tokens-cpu.ids") of the CPU engine, $differ lines differ in float32" | figure
    check "float32 tokens that are not the CPU engine's" "$differ" - '<= 0' "$(wc -l <"$out/tokens-cpu.ids")" -
    [ "$differ" = 0 ]
}

logits() { # ARGUMENTS...
    "$python" "$root/adapters/transformers_logits.py" --twinfer "$tw" "$@" >"$out/$step_name.out" || { cat "$out/$step_name.out"; return 1; }
    figure <"$out/$step_name.out"
    # of each model and type the run that is furthest from transformers
    awk '$2 == "cuda" && $3 ~ /^(bfloat16|float16)$/ { r = $5 / $6; k = $1 ", " $3; n[k]++; if (r > most[k]) most[k] = r; if (!(k in least) || r < least[k]) least[k] = r }
        END { for (k in most) printf "%s|%.2f|%d|%.2f to %.2f\n", k, most[k], n[k], least[k], most[k] }' "$out/$step_name.out" | sort |
        while IFS='|' read -r what ratio count range; do
            check "logits of $what: error over transformers'" "$ratio" - '<= 1.25' "$count" "$range"
        done
}

slo() {
    rm -rf "${out:?}/slo"
    # shellcheck disable=SC2046  # several words
    "$tw" capacity engine=cuda "model=$1" model.weights=random:0 "hardware=$hardware" \
        "slo=$(small tpot:10,ttft:500 tpot:500,ttft:5000)" workload=synthetic workload.lengths.kind=fixed \
        "workload.lengths.prefill_tokens=$(small 512 16)" "workload.lengths.decode_tokens=$(small 64 4)" scheduler.batch_cap=256 \
        scheduler.max_model_len=1024 capacity.probe_s=1 $(small '' 'capacity.max_rate=20 scheduler.num_blocks=600') "out=$out/slo" >"$out/slo.txt"
    grep -E '^(capacity|start|objective|note|result)' "$out/slo.txt" | figure
}

peers() { # MODEL
    "$python" "$root/adapters/compiled_decode.py" --context 1024 --batches 1 64 --models "$1" >"$out/$step_name.out"
    figure <"$out/$step_name.out"
    sed -n 's/^\(.*-b[0-9]*\) transformers compiled: \([0-9.]*\) ms.*/\1 \2/p' "$out/$step_name.out" | while read -r name theirs; do
        read -r _ _ _ ms <"$out/decode/$name.numbers" || continue
        faster "$name" "$ms" "$theirs"
    done
}

sanitize() { # TOOL [SETTINGS]...
    tool=$1
    shift
    rm -rf "${out:?}/sanitize-$tool"
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$tw" bench engine=cuda model=tiny_qwen3 workload=synthetic \
        workload.num_requests=16 workload.arrival.rate=200 workload.lengths.kind=uniform workload.lengths.min_tokens=4 \
        workload.lengths.max_tokens=100 scheduler.num_blocks=160 "out=$out/sanitize-$tool" "$@"
    findings "$tool" "bench engine=cuda"
}

findings() { # TOOL WHAT
    compute-sanitizer --version | grep -i version | tail -n 1 | sed 's/^/compute-sanitizer, /' | figure
    grep -h 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/steps/$step_name.txt" | sed "s/^=* */$1, $2: /" | figure
    # where, without addresses and threads: "Write Thread ... at multiply(...) in step_product.cu:78", racecheck's "Race reported between ..."
    grep -h -E 'Race reported|(Read|Write) (Thread|access)|Barrier error|Invalid ' "$out/steps/$step_name.txt" |
        sed 's/^=* *//; s/([0-9]*,[0-9]*,[0-9]*)//g; s/+0x[0-9a-f]*//g; s/0x[0-9a-f]*//g; s/\[[0-9]* hazards\]//' | sort | uniq -c | sort -rn |
        head -n 8 | cut -c1-170 | figure
    check "compute-sanitizer, $1, $2: findings" "$(sed -n 's/^=*  *ERROR SUMMARY: \([0-9]*\) .*/\1/p; s/^=*  *RACECHECK SUMMARY: \([0-9]*\) .*/\1/p' \
        "$out/steps/$step_name.txt" | awk '{ n += $1; k++ } END { if (k) print n; else print "none told" }')" - '<= 0' 1 -
}

sanitize_kernels() { # TOOL
    program=$(gpu_bench)
    compute-sanitizer --tool "$1" --error-exitcode 9 "$program" check all bf16 7
    findings "$1" "one case of the kernels in 7"
}

gpu_bench() {
    for program in "${GPU_BENCH:-}" "$here/gpu_bench" "$root/build/bench/gpu/gpu_bench"; do
        [ ! -x "$program" ] || { echo "$program"; return; }
    done
    echo "no gpu_bench: cmake --build build --target gpu_bench" >&2
    return 4
}

kernels() { # WORDS of gpu_bench
    program=$(gpu_bench)
    rc=0
    "$program" "$@" || rc=$?
    tail -n 12 "$out/steps/$step_name.txt" | cut -c1-150 | figure
    if [ "$1" = check ]; then
        read -r cases failed <<END
$(sed -n 's/^\([0-9]*\) cases, \([0-9]*\) failed$/\1 \2/p' "$out/steps/$step_name.txt" | tail -n 1)
END
        check "kernels' cases beyond their tolerance" "$failed" - '<= 0' "${cases:--}" -
    fi
    return $rc
}

# ---- the simulator against the GPU: see data/h200/README.md ----

profile() { # MODEL
    rm -rf "$out/profiles/data/profiling/compute/$hardware/$1" "$out/profiles/data/profiling/cpu_overhead/$hardware/$1"
    begin=$(date +%s)
    # shellcheck disable=SC2046  # several words
    "$tw" profile engine=cuda "hardware=$hardware" $(model_words "$1") model.weights=random:0 "profile.time_budget_s=$budget" \
        "profile.root=$out/profiles" $(small '' 'profile.max_tokens=128 profile.max_batch=8 profile.max_kv=200')
    seconds=$(($(date +%s) - begin))
    echo "profile $1: $seconds s" | figure
    check "profile of $1" "$seconds" s '<= 300' 1 -
}

# lengths MODEL usual|long: the settings of the workload's lengths. Prompts of `long` are longer than nearly all of the profile's
# calibration run, and its answers shorter.
lengths() {
    mean='400 250 128 80'
    [ "$1" = qwen3_0_6b ] || mean='256 160 64 40'
    [ "$2" = usual ] || mean='1800 500 12 4'
    [ -z "${REHEARSE:-}" ] || mean='24 16 8 4'
    kind=lognormal
    [ "$2" = usual ] || kind=normal
    # shellcheck disable=SC2086  # four words
    set -- $mean
    echo "workload=synthetic workload.lengths.kind=$kind workload.lengths.prefill_tokens=$1 workload.lengths.prefill_stddev=$2" \
        "workload.lengths.decode_tokens=$3 workload.lengths.decode_stddev=$4"
}

# model_words MODEL: its group. gpt-oss is computed in 16 bits, as engines here do not compute mxfp4.
model_words() {
    case $1 in
    gpt_oss*) echo "model=$1 ~model.config.quantization_config" ;;
    *) echo "model=$1" ;;
    esac
}

# serving MODEL: at most 4,096 tokens, or what the model's positions allow. The engine keeps every block of every layer. Weights of the
# larger models leave an H100 (80 GB) room for so many blocks.
serving() {
    len=$(small 4096 256) blocks=${BLOCKS:-12000} cap=128
    case $1 in
    bloom*) len=2048 ;;
    qwen3_30b_a3b) blocks=${BLOCKS:-3500} ;;
    gemma_3_27b) blocks=${BLOCKS:-1800} cap=64 ;;
    esac
    echo "scheduler=vllm_v1 scheduler.batch_cap=$cap scheduler.token_budget=2048 scheduler.max_model_len=$len" \
        "scheduler.num_blocks=$(small "$blocks" 600)"
}

# real MODEL NAME SETTINGS...: a run without token rows, in $out/NAME.
real() {
    of=$1 to=$out/$2
    shift 2
    rm -rf "$to"
    mkdir -p "$(dirname "$to")"
    # shellcheck disable=SC2046  # several words
    "$tw" bench engine=cuda "hardware=$hardware" $(model_words "$of") model.weights=random:0 $(serving "$of") output.tokens=none \
        workload.warmup_requests=10 "out=$to" "$@"
}

# What is there at once is served as fast as it can be: the rate between the first and the last quarter of completions.
saturation() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["status"] == "ok" { print $at["completion_time_ns"] }' \
        "$out/$1/request_metrics.csv" | sort -n |
        awk '{ t[NR] = $1 } END { a = int(NR / 4); b = int(NR * 3 / 4); printf "%.3f\n", (b - a) / (t[b] - t[a]) * 1e9 }'
}

capacity() { # MODEL usual|long
    n=$(small 900 40)
    [ "$2" = usual ] || n=$(small 150 20)
    # shellcheck disable=SC2046  # several words
    real "$1" "capacity/$1-$2" $(lengths "$1" "$2") "workload.num_requests=$n" workload.arrival.kind=static
    saturation "capacity/$1-$2" >"$out/capacity/$1-$2.rate"
    echo "capacity $1, $2 lengths: $(cat "$out/capacity/$1-$2.rate") requests/s" | figure
}

arrivals() { # MODEL NAME LENGTHS SHARE REQUESTS: the workload of three runs
    dir=fidelity/$1/$2
    [ -f "$out/capacity/$1-$3.rate" ] || { echo "capacity of $1 with $3 lengths is not known: run capacity first"; return 1; }
    rate=$(awk -v c="$(cat "$out/capacity/$1-$3.rate")" -v s="$4" 'BEGIN { printf "%.2f", c * s }')
    rm -rf "${out:?}/$dir"
    mkdir -p "$out/$dir"
    # shellcheck disable=SC2046  # several words
    "$tw" workload $(model_words "$1") $(lengths "$1" "$3") "workload.num_requests=$(($5 + 10))" "workload.arrival.rate=$rate" \
        "out=$out/$dir/workload"
    echo "$1, $2: $5 requests at $rate a second" | figure
}

repeated() { # MODEL NAME REPEAT
    real "$1" "fidelity/$1/$2/real-$3" "workload.dir=$out/fidelity/$1/$2/workload" "repeat=$3"
}

# simulated MODEL NAME: simulates the workload and compares it with its first real run, the others beside it.
simulated() {
    dir=$out/fidelity/$1/$2
    rm -rf "$dir/sim" "$dir/compare"
    # shellcheck disable=SC2046  # several words
    "$tw" simulate "hardware=$hardware" $(model_words "$1") "profile.root=$out/profiles" $(serving "$1") scheduler.hybrid_kv_cache=false \
        output.tokens=none \
        workload.warmup_requests=10 "workload.dir=$dir/workload" "out=$dir/sim"
    rc=0 # 1: not within the limits, which the figures say; 5: inconclusive
    "$tw" compare "real_run_dir=$dir/real-1" "spread=[$dir/real-2,$dir/real-3]" "sim_run_dir=$dir/sim" "out=$dir/compare" \
        >"$dir/compare.txt" || rc=$?
    cat "$dir/compare.txt"
    case $rc in
    0 | 1 | 5)
        check_comparison "$1, $2" "$dir/compare.txt"
        awk '$1 ~ /^(TTFT|TPOT|E2E)$/ && $2 ~ /^P(50|90|99)$/ { printf "%s %s %s %s%% of %s", s ? "," : "    ", $1, $2, $5, $3; s = 1 }
            END { print " ms" }
            /^verdict/ { v = substr($0, 1, 150) }
            END { if (v) print "    " v }' "$dir/compare.txt" | figure
        ;;
    *) return $rc ;;
    esac
}

steps_begin "$@"
[ $# -gt 0 ] || set -- roofs tokens logits qwen llama slo peers
qwen=$(small qwen3_0_6b micro) llama=$(small llama2_7b micro)
for piece in "$@"; do
    case $piece in
    roofs) step roofs 15 "$(small 90 300)" roofs ;;
    start) step start 10 90 start ;;
    tokens) step tokens 10 60 tokens ;;
    logits)
        step logits-cuda 60 240 logits --dtypes bfloat16,float32 --models "$(small tiny_qwen3,qwen3_0_6b,llama2_7b:num_hidden_layers=2,bloom_560m micro)"
        step logits-cpu 40 180 logits --engine cpu --models "$(small tiny_qwen3,qwen3_0_6b micro)" --prompts 2 --prompt-tokens 48
        ;;
    qwen)
        step qwen-b1 10 60 decode "$qwen" 1 1192099840 114688 0.50
        step qwen-b1-fused 10 60 decode "$qwen" 1 1192099840 114688 0.50 true
        step qwen-b64 12 60 decode "$qwen" "$(small 64 8)" 1192099840 114688 0.60
        ;;
    llama)
        step llama-b1 15 90 decode "$llama" "$(small 1 2)" 13476831232 524288 0.85
        step llama-b64 20 90 decode "$llama" "$(small 64 6)" 13476831232 524288 0.85
        step llama-prefill 15 90 prefill "$llama"
        ;;
    slo) step slo 25 120 slo "$qwen" ;;
    peers)
        step peers-qwen 90 240 peers "$qwen"
        step peers-llama 90 300 peers "$llama"
        ;;
    sanitize)
        step sanitize-memcheck 30 180 sanitize memcheck
        # batches of 16 tokens, so that all kernels are ours: of cuBLASLt's the tool tells hazards
        step sanitize-racecheck 35 240 sanitize racecheck scheduler.token_budget=16 scheduler.batch_cap=16
        step sanitize-kernels-memcheck 60 240 sanitize_kernels memcheck
        step sanitize-kernels-racecheck 90 300 sanitize_kernels racecheck
        ;;
    kernels)
        step kernels-check 75 200 kernels check
        for words in unequal fused steps rows; do step "kernels-$words" 20 120 kernels $words; done
        ;;
    profile) for model in $models; do step "profile-$model" $((budget + 20)) $((budget * 2 + 120)) profile "$model"; done ;;
    capacity)
        for model in $models; do
            for shape in usual long; do step "capacity-$model-$shape" 10 90 capacity "$model" $shape; done
        done
        ;;
    fidelity)
        for model in $models; do
            # name, lengths, share of capacity, requests
            for point in loaded:usual:0.85:1000 idle:usual:0.15:300 long:long:0.6:300; do
                IFS=: read -r name shape share n <<END
$point
END
                n=$(small "$n" 30)
                step "$model-$name" 1 30 arrivals "$model" "$name" "$shape" "$share" "$n"
                for repeat in 1 2 3; do step "$model-$name-$repeat" 15 240 repeated "$model" "$name" $repeat; done
                step "$model-$name-sim" 2 60 simulated "$model" "$name"
            done
        done
        ;;
    *) no_piece "$piece" ;;
    esac
done
steps_end
