#!/bin/sh
# Deep sessions on this machine's GPU, a minute or two each; bench/deep/README.md says what they take and leave:
#
#     bench/deep/run.sh OUT [roofs | qwen3 | vlm | again | full | tp | tp_again]...
#
#   roofs  roofs of this GPU, OUT/roofs.json; sessions behind it use them
#   qwen3  Qwen3-0.6B generates: prefill and decode, MFU by the operator list, ncu on the ten kernels that took most
#   vlm    a vision-language model: SAM, CLIP and a projector inside the prefill, a small Llama
#   again  the timelines of both once more: by how much kernel totals differ from the first (10 % is the aim)
#   full   Qwen3's timeline with API calls: what that costs, and whether it is repeated in light mode
#   tp     two GPUs: Vicuna-7B's shape split over them, tables by rank and merged
#   tp_again  its timeline once more: by how much kernel totals differ
#
# Without pieces: qwen3 vlm again. PYTHON: with torch and transformers. ROOFS: measured roofs of this GPU (`twinfer doctor
# doctor.measure=true doctor.roofs=FILE`). HARDWARE: its group (h200). LIMIT: seconds that each run of a program may take (120); a
# session is five or six runs. SESSIONS: a folder of sessions by these names, which are analysed anew with this tree's program and
# settings; nothing is run. Downloads nothing. A rehearsal traces the programs tiny and on the CPU, or has whole sessions of APP in
# place of all of them.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
steps_open "$@"
shift
limit=${LIMIT:-120}
measured=$out/roofs.json
hardware=${HARDWARE:-h200}
programs=$root/adapters/workloads

roofs() {
    if [ -n "${REHEARSE:-}" ]; then
        cp "$root/data/h200/roofs.json" "$measured"
        return
    fi
    "$tw" doctor doctor.measure=true doctor.roofs="$measured"
}

best_roofs() { # the setting: those of ROOFS, of this GPU, of one of its kind in data/; nothing
    for file in "${ROOFS:-}" "$measured" "$root/data/$hardware/roofs.json"; do
        [ ! -s "$file" ] || { echo "deep.roofs=$file" && return; }
    done
}

# session NAME SETTINGS... -- COMMAND: a deep session in $out/NAME, its small files in $out/examples/NAME.
session() {
    name=$1 rc=0
    shift
    rm -rf "${out:?}/$name"
    best=$(best_roofs)
    "$tw" deep "out=$out/$name" hardware="$hardware" ${best:+"$best"} deep.timeout_s="$limit" "$@" \
        >"$out/steps/$name.said" || rc=$?
    cat "$out/steps/$name.said"
    sed -n "s/^against [^:]*: /$name: /p;s/^\(timeline\|ncu\).*/$name: &/p" "$out/steps/$name.said" | figure
    [ "$rc" = 0 ] || return "$rc"
    mkdir -p "$out/examples/$name"
    for file in stakeholder_summary.md report.html roofline.svg gantt.svg regions.md operators.md kernels.md deep.json run_meta.json; do
        [ ! -e "$out/$name/$file" ] || [ "$(wc -c <"$out/$name/$file")" -gt 400000 ] || cp "$out/$name/$file" "$out/examples/$name/"
    done
}

# ranges NAME SETTINGS... -- COMMAND: the command itself, tiny and on the CPU; which NVTX ranges reach the recorder.
ranges() {
    name=$1
    while [ "$1" != -- ]; do shift; done
    shift
    rm -rf "${out:?}/$name"
    mkdir -p "$out/$name"
    "$tw" trace "out=$out/$name/trace" -- "$@" --tiny --device cpu
    "$tw" kernels kernels.trace="$out/$name/trace" out="$out/$name/kernels" >/dev/null
    awk -F, -v name="$name" 'NR > 1 { seen = seen " " $NF " x" $3 } END { print name ":" seen }' \
        "$out/$name/kernels/trace_nvtx_sum.csv" | figure
}

# anew NAME SETTINGS... -- COMMAND: the session SESSIONS/NAME with these settings, but those of Nsight Compute's run.
anew() {
    n=$# name=$1 before=1
    while [ "$n" -gt 0 ]; do
        n=$((n - 1)) word=$1
        shift
        case $word in
        --) before= ;;
        ncu=* | ncu.*) ;;
        *) [ -z "$before" ] || set -- "$@" "$word" ;;
        esac
    done
    session "$@" deep.session="$SESSIONS/$name"
}

# run NAME SETTINGS... -- PROGRAM [WORD]...: a session of a program of adapters/workloads; in a rehearsal of APP, or its ranges.
run() {
    if [ -n "${SESSIONS:-}" ]; then
        anew "$@"
        return
    elif [ -z "${REHEARSE:-}" ]; then
        session "$@"
        return
    elif [ -z "${APP:-}" ]; then
        ranges "$@"
        return
    fi
    n=$# # the words before --, then APP
    while [ "$n" -gt 0 ]; do
        n=$((n - 1)) word=$1
        shift
        [ "$word" != -- ] || break
        set -- "$@" "$word"
    done
    shift "$n"
    # shellcheck disable=SC2086  # several words
    session "$@" -- $APP
}

llama='{model_type: llama, vocab_size: 32000, hidden_size: 1024, intermediate_size: 2816, num_hidden_layers: 24,
  num_attention_heads: 16, num_key_value_heads: 16, max_position_embeddings: 2048, rms_norm_eps: 1e-6, hidden_act: silu}'

qwen3() { # NAME SETTINGS...: 512 tokens of prompt, 32 generated: 528 keys a step in the mean
    name=$1
    shift
    run "$name" model=qwen3_0_6b +deep.stages.prefill.load.prompt_tokens=512 \
        +deep.stages.decode.load.context_tokens=528 "$@" -- \
        "$python" "$programs/qwen3_generate.py" --prompt 512 --tokens 32 --runs 2
}

# Operations of the encoders, which no operator list describes: SAM's ViT-B on 64 x 64 patches, 12 layers of width 768
# (12 x 4096 x 24 x 768^2, attention 4 x 4096^2 x 4 x 768 in its four global layers, windows of 14 x 14 in the others), and
# CLIP's ViT-L on 257 (24 x 257 x 24 x 1024^2 and attention). The projector: 256 x 1280 x 1024.
vlm() { # NAME SETTINGS...: 256 tokens of image, 64 of text, 16 generated
    name=$1
    shift
    run "$name" deep=vlm model.name=llama_0_4b "+model.config=$llama" +deep.stages.prefill.load.prompt_tokens=320 \
        +deep.stages.prefill.sam.load.flop=9.3e11 +deep.stages.prefill.clip.load.flop=1.62e11 \
        +deep.stages.prefill.projector.load.flop=6.7e8 \
        +deep.stages.decode.load.context_tokens=328 "$@" -- \
        "$python" "$programs/vlm_generate.py" --prompt 64 --tokens 16 --runs 2
}

# Weights of 15 GB go where they are fastest and there is room; those that are there are taken.
weights_folder() {
    for place in /dev/shm "${TMPDIR:-/tmp}"; do
        [ ! -d "$place/twinfer-tp-vicuna_7b" ] || { echo "$place/twinfer-tp" && return; }
    done
    room=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    if [ "${room:-0}" -gt 20000000 ]; then echo /dev/shm/twinfer-tp; else echo "${TMPDIR:-/tmp}/twinfer-tp"; fi
}

remove_weights() {
    for place in /dev/shm "${TMPDIR:-/tmp}"; do rm -rf "$place/twinfer-tp-vicuna_7b" "$place/twinfer-tp-vicuna_7b-tiny"; done
}

# 128 tokens of prompt, 16 generated: 136 keys a step in the mean. Weights are written once, so that no run of a session does, and
# stay until the end of the script.
tensor_parallel() { # NAME SETTINGS...
    name=$1
    shift
    weights=$(weights_folder)
    [ -n "${REHEARSE:-}${SESSIONS:-}" ] || "$python" "$programs/tp_generate.py" --prepare --folder "$weights"
    run "$name" deep.mode=light ncu=none model=vicuna_7b +deep.stages.prefill.load.prompt_tokens=128 \
        +deep.stages.decode.load.context_tokens=136 "$@" -- \
        "$python" -m torch.distributed.run --standalone --nproc_per_node=2 "$programs/tp_generate.py" --prompt 128 --tokens 16 \
        --runs 2 --folder "$weights"
}

steps_begin "$@"
[ $# -gt 0 ] || set -- qwen3 vlm again
split=
for piece in "$@"; do
    case $piece in
    roofs) step roofs 20 120 roofs ;;
    qwen3) step qwen3 110 420 qwen3 qwen3 deep.mode=light deep.top=10 ncu=metrics ncu.launch_count=1 ;;
    vlm) step vlm 80 420 vlm vlm deep.mode=light deep.top=10 ncu=metrics ncu.launch_count=1 ;;
    again)
        for program in qwen3 vlm; do
            step ${program}_again 16 180 $program ${program}_again deep.mode=light ncu=none deep.baseline=false \
                deep.against="$out/$program"
        done
        ;;
    full) step qwen3_full 45 240 qwen3 qwen3_full deep.mode=full ncu=none ;;
    tp) split=1 && step tp 140 420 tensor_parallel tp ;;
    tp_again) split=1 && step tp_again 60 240 tensor_parallel tp_again deep.baseline=false deep.against="$out/tp" ;;
    *) no_piece "$piece" ;;
    esac
done
[ -z "$split" ] || [ -n "${SESSIONS:-}" ] || remove_weights
rc=0
steps_end || rc=$?
# What each session measured, to analyse it anew elsewhere (deep.session=): PACK with its name, where it is small enough.
for name in qwen3 vlm tp; do
    if [ -z "${PACK:-}" ] || [ ! -d "$out/$name/timeline" ]; then continue; fi
    raw=${PACK%.tgz}.$name.tgz
    (cd "$out" && tar czf "$raw" --exclude=report.html "$name")
    echo "$raw: $(($(wc -c <"$raw") / 1024)) KiB"
    [ $(($(wc -c <"$raw") / 1048576)) -lt 15 ] || rm -f "$raw"
done
[ "$rc" = 0 ]
