#!/bin/sh
# Figures of the CUDA engine on this machine's GPU, in pieces of a few minutes each:
#
#     bench/gpu/run.sh OUT [tokens | qwen | llama | peers]...
#
#   tokens  float32 tokens of the GPU against the CPU engine's, tiny_qwen3
#   qwen    Qwen3-0.6B, bfloat16: decode of 1 and of 64 sequences at 1k context
#   llama   Llama-2-7B likewise, and prefill of 2k tokens
#   peers   transformers' static cache under torch.compile, the same steps (adapters/compiled_decode.py)
#
# TWINFER: the program (build/twinfer, or that of an unpacked ./do dist). BANDWIDTH: bytes/s of a
# read-only stream of 4 GB or more, for the floor (weights + keys and values) / bandwidth.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:?bench/gpu/run.sh OUT [piece]...}
shift
[ $# -gt 0 ] || set -- tokens qwen llama peers
tw=${TWINFER:-$here/build/twinfer}
bandwidth=${BANDWIDTH:-4.42e12}
mkdir -p "$out"

# bench NAME SETTINGS...: a run; its folder is $out/NAME.
bench() {
    name=$1
    shift
    rm -rf "${out:?}/$name"
    "$tw" bench workload=synthetic workload.lengths.kind=fixed workload.arrival.kind=static \
        log.level=debug "out=$out/$name" "$@" >"$out/$name.txt" 2>&1 || { cat "$out/$name.txt"; return 1; }
    grep -h "open in" "$out/$name.txt" || :
}

# steps NAME SEQUENCES BYTES: median of the decode steps in which that many sequences take part.
steps() {
    awk -F, -v n="$2" 'NR > 1 && $8 == 0 && $9 == n { print $7, $5 }' "$out/$1/batches.csv" | sort -n |
        awk -v name="$1" -v bytes="$3" -v bw="$bandwidth" '{ d[NR] = $1; s += $2 } END {
            if (NR == 0) { print name ": no such steps"; exit 1 }
            m = d[int((NR + 1) / 2)] / 1e6; floor = bytes / bw * 1e3
            printf "%-14s %4d steps  device %8.3f ms (%.3f to %.3f)  with host %8.3f ms  floor %.3f ms  share %.2f\n",
                name, NR, m, d[1] / 1e6, d[NR] / 1e6, s / NR / 1e6, floor, floor / m }' | tee -a "$out/figures.txt"
}

# decode MODEL SEQUENCES WEIGHT_BYTES KV_BYTES_PER_TOKEN
decode() {
    bench "$1-b$2" engine=cuda "model=$1" model.weights=random:0 "workload.num_requests=$2" \
        workload.lengths.prefill_tokens=960 workload.lengths.decode_tokens=129 "scheduler.batch_cap=$2" \
        scheduler.token_budget=4096 scheduler.max_model_len=1152 "scheduler.num_blocks=$(($2 * 72 + 8))"
    steps "$1-b$2" "$2" "$(awk -v w="$3" -v k="$4" -v n="$2" 'BEGIN { print w + n * 1024 * k }')"
}

tokens() {
    for engine in cpu cuda; do
        type=
        [ $engine = cpu ] || type=engine.dtype=float32
        rm -rf "${out:?}/tokens-$engine"
        "$tw" bench engine=$engine $type model=tiny_qwen3 workload=synthetic workload.num_requests=100 \
            workload.arrival.rate=200 workload.lengths.kind=uniform workload.lengths.min_tokens=4 \
            workload.lengths.max_tokens=200 scheduler.num_blocks=160 "out=$out/tokens-$engine" \
            >"$out/tokens-$engine.txt" 2>&1 || { cat "$out/tokens-$engine.txt"; return 1; }
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            { print $at["request_id"], $at["token_index"], $at["token_id"] }' \
            "$out/tokens-$engine/token_metrics.csv" | sort >"$out/tokens-$engine.ids"
    done
    differ=$(comm -3 "$out/tokens-cpu.ids" "$out/tokens-cuda.ids" | wc -l)
    echo "tokens: $(wc -l <"$out/tokens-cpu.ids") of the CPU engine, $differ lines differ in float32" | tee -a "$out/figures.txt"
}

qwen() {
    decode qwen3_0_6b 1 1192099840 114688
    decode qwen3_0_6b 64 1192099840 114688
}

llama() {
    decode llama2_7b 1 13476831232 524288
    decode llama2_7b 64 13476831232 524288
    bench llama2_7b-prefill engine=cuda model=llama2_7b model.weights=random:0 workload.num_requests=8 \
        workload.lengths.prefill_tokens=2048 workload.lengths.decode_tokens=2 scheduler.batch_cap=1 \
        scheduler.token_budget=2048 scheduler.max_model_len=2112 scheduler.num_blocks=160
    awk -F, 'NR > 1 && $8 == 2048 { print $7 }' "$out/llama2_7b-prefill/batches.csv" | sort -n |
        awk '{ d[NR] = $1 } END { m = d[int((NR + 1) / 2)]
            printf "llama2_7b prefill of 2048 tokens: %.2f ms, %.0f TFLOP/s of matrix products\n",
                m / 1e6, 2 * 6.607e9 * 2048 / m / 1e3 }' | tee -a "$out/figures.txt"
}

peers() {
    python3 "$here/adapters/compiled_decode.py" --context 1024 --batches 1 64 \
        --models qwen3_0_6b llama2_7b | tee -a "$out/figures.txt"
}

for piece in "$@"; do
    case $piece in
    tokens | qwen | llama | peers) $piece ;;
    *) echo "bench/gpu/run.sh: no piece $piece" >&2; exit 2 ;;
    esac
done
