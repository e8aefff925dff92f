#!/bin/sh
# Deep sessions on this machine's GPU, a minute or two each:
#
#     bench/deep/run.sh OUT [qwen3 | vlm | again | tp]...
#
#   qwen3  Qwen3-0.6B generates: prefill and decode, MFU by the operator list, ncu on the ten kernels that took most
#   vlm    a vision-language model: SAM, CLIP and a projector inside the prefill, a small Llama
#   again  the timelines of both once more; prints by how much kernel totals differ from the first (10 % is the aim)
#   tp     two GPUs: Vicuna-7B's shape split by transformers' tensor parallelism (needs accelerate), tables by rank and merged;
#          15 GB of random weights are written to TMPDIR first, so that no run of the session writes them
#   roofs  roofs of this GPU, OUT/roofs.json; sessions behind it use them
#
# TWINFER: the program, when it is neither this package's nor a build's. PYTHON: with torch and transformers. ROOFS: measured roofs
# of this GPU (`twinfer doctor doctor.measure=true doctor.roofs=FILE`). HARDWARE: its group. LIMIT: seconds that each run of a
# program may take (120); a session is four or five runs. Downloads nothing. Folders are 10 to 40 MB, most of it timeline/ and
# ncu/; OUT/examples gets the rest, for docs/examples. bench/steps.sh says what AGAIN, TIME, PACK and REHEARSE do; APP: in a rehearsal,
# the program of all sessions, without Nsight Compute.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
script=$here/run.sh
: "${1:?bench/deep/run.sh OUT [piece]...}"
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
. "$root/bench/steps.sh"
tw=$(find_program "$root")
python=${PYTHON:-python3}
limit=${LIMIT:-120}
measured=$out/roofs.json
roofs() { # those of ROOFS, of this GPU, of the one in data/
    for file in "${ROOFS:-}" "$measured" "$root/data/h200/roofs.json"; do
        [ ! -s "$file" ] || break
    done
    echo "$file"
}
hardware=${HARDWARE:-h200}
programs=$root/adapters/workloads
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

# session NAME SETTINGS... -- COMMAND: a deep session in $out/NAME, its small files in $out/examples/NAME.
session() {
    name=$1
    shift
    rm -rf "${out:?}/$name"
    if [ -n "${REHEARSE:-}" ]; then # APP in place of the command
        # shellcheck disable=SC2086  # several words
        "$tw" deep "out=$out/$name" deep.timeout_s="$limit" deep.mode=light ncu=none -- $APP
        return
    fi
    "$tw" deep "out=$out/$name" hardware="$hardware" deep.roofs="$(roofs)" deep.timeout_s="$limit" "$@"
    mkdir -p "$out/examples/$name"
    for file in stakeholder_summary.md report.html roofline.svg gantt.svg regions.md operators.md deep.json; do
        [ ! -e "$out/$name/$file" ] || [ "$(wc -c <"$out/$name/$file")" -gt 2000000 ] || cp "$out/$name/$file" "$out/examples/$name/"
    done
}

llama='{model_type: llama, vocab_size: 32000, hidden_size: 1024, intermediate_size: 2816, num_hidden_layers: 24,
  num_attention_heads: 16, num_key_value_heads: 16, max_position_embeddings: 2048, rms_norm_eps: 1e-6, hidden_act: silu}'

qwen3() { # NAME SETTINGS...: 512 tokens of prompt, 32 generated: 528 keys a step in the mean
    name=$1
    shift
    session "$name" model=qwen3_0_6b +deep.stages.prefill.load.prompt_tokens=512 \
        +deep.stages.decode.load.context_tokens=528 "$@" -- \
        "$python" "$programs/qwen3_generate.py" --prompt 512 --tokens 32 --runs 3
}

# Operations of the encoders, which no operator list describes: SAM's ViT-B on 64 x 64 patches, 12 layers of width 768
# (12 x 4096 x 24 x 768^2, attention 4 x 4096^2 x 4 x 768 in its four global layers, windows of 14 x 14 in the others), and
# CLIP's ViT-L on 257 (24 x 257 x 24 x 1024^2 and attention).
vlm() { # NAME SETTINGS...: 256 tokens of image, 64 of text, 16 generated
    name=$1
    shift
    session "$name" deep=vlm model.name=llama_0_4b "+model.config=$llama" +deep.stages.prefill.load.prompt_tokens=320 \
        +deep.stages.prefill.sam.load.flop=9.3e11 +deep.stages.prefill.clip.load.flop=1.62e11 \
        +deep.stages.decode.load.context_tokens=328 "$@" -- \
        "$python" "$programs/vlm_generate.py" --prompt 64 --tokens 16 --runs 2
}

# differ A B: kernel totals of two sessions, name by name where it is 1 % or more.
differ() {
    rm -rf "${out:?}/$1_$2"
    "$tw" kernels kernels.trace="$out/$2/timeline" kernels.against="$out/$1/timeline" out="$out/$1_$2" >/dev/null
    awk -F, 'NR == 2 { printf "all kernels: %s to %s ms\n", $3, $4 }' "$out/$1_$2/kernels_diff.csv" | figure
    head -12 "$out/$1_$2/kernels_diff.md"
}

# 128 tokens of prompt, 16 generated: 136 keys a step in the mean.
tensor_parallel() {
    weights=${TMPDIR:-/tmp}/twinfer-tp
    if [ -z "${REHEARSE:-}" ]; then
        "$python" -c 'import accelerate' # without it transformers splits nothing
        "$python" "$programs/tp_generate.py" --prepare --folder "$weights"
    fi
    session tp deep.mode=light ncu=none model=vicuna_7b +deep.stages.prefill.load.prompt_tokens=128 \
        +deep.stages.decode.load.context_tokens=136 -- \
        "$python" -m torch.distributed.run --standalone --nproc_per_node=2 "$programs/tp_generate.py" --prompt 128 --tokens 16 \
        --runs 2 --folder "$weights"
}

steps_begin "$@"
[ $# -gt 0 ] || set -- qwen3 vlm again
for piece in "$@"; do
    case $piece in
    qwen3) step qwen3 100 420 qwen3 qwen3 deep.top=10 ncu=metrics ncu.launch_count=1 ;;
    vlm) step vlm 120 420 vlm vlm deep.top=10 ncu=metrics ncu.launch_count=1 deep.mode=light ;;
    again)
        for program in qwen3 vlm; do
            step ${program}_again 30 180 $program ${program}_again ncu=none deep.mode=light deep.baseline=false
            step ${program}_differ 5 60 differ $program ${program}_again
        done
        ;;
    tp) step tp 150 420 tensor_parallel ;;
    roofs) step roofs 20 120 "$tw" doctor doctor.measure=true doctor.roofs="$measured" ;;
    *)
        echo "bench/deep/run.sh: no piece $piece" >&2
        exit 2
        ;;
    esac
done
steps_end
