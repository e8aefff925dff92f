#!/bin/sh
# stage.sh [calibrate=DIR[,DIR]] predict=DIR [stages=0,1] [model=GROUP] [hardware=GROUP] [key=value ...]
#
# Predicts the stages of an experiment of the layout of docs/formats.md (experiment.json beside inference-perf's
# stage_N_lifecycle_metrics.json) or a run directory of twinfer bench, calibrated on others, or uncalibrated: by the roofline alone.
# Prints CSV:
#
#     experiment,stage,metric,observed,predicted,error_percent
#
# for e2e_mean, e2e_p50, e2e_p90, e2e_p99, ttft_mean, ttft_p50, ttft_p90, ttft_p99, in s. Model, GPU and limits of the server
# are read from experiment.json, of a run from its run_meta.json; what is missing there, or no group of configs/ stands for, is
# refused by name (model=, hardware= name a group). What they state and is not simulated, or was assumed, is said on stderr.
#
# stages: with another experiment to calibrate on, those of its stages that are used. With calibrate and predict the same:
# stages=0 calibrates on stage 0 and predicts the others, stages=0,1 calibrates on stage 0 and predicts stage 1. Without
# calibrate=: the stages that are predicted. Further words go to twinfer calibrate: scheduler=vllm_v1.
# TWINFER names the program (build/twinfer), FULL=1 prints its check.csv as it is: with intervals and the naive copy.
set -eu
export LC_ALL=C # where a locale has a comma, mawk reads "1.5" as 1
here=$(cd "$(dirname "$0")/../.." && pwd)
tw=${TWINFER:-$here/build/twinfer}
calibrate='' predict='' stages='' model='' hardware='' scheduler='' more=''

die() {
    echo "stage.sh: $*" >&2
    exit 2
}

for word in "$@"; do
    case $word in
    calibrate=*) calibrate=${word#*=} ;;
    predict=*) predict=${word#*=} ;;
    stages=*) stages=${word#*=} ;;
    model=*) model=${word#*=} ;;
    hardware=*) hardware=${word#*=} ;;
    scheduler=*) scheduler=$word ;;
    *=*) more="$more $word" ;;
    *) die "$word: expected key=value" ;;
    esac
done
[ -n "$predict" ] || die "predict=DIR is needed"
[ -x "$tw" ] || die "$tw is not there; ./do build makes it, TWINFER names another"

# The folders as absolute paths: twinfer runs where configs/ is.
absolute() {
    (cd "$1" 2>/dev/null && pwd) || die "$1 is no folder"
}
# A name as the command line's grammar takes it, whatever is in it.
quoted() {
    printf "'%s'" "$(printf %s "$1" | sed -e 's/\\/\\\\/g' -e "s/'/\\\\'/g")"
}
predict=$(absolute "$predict") || exit 2
from='' list='' rest=$calibrate
if [ -d "$calibrate" ]; then # one folder, commas or not
    from=$(absolute "$calibrate") || exit 2
    list=$(quoted "$from")
    rest=''
fi
while [ -n "$rest" ]; do
    dir=${rest%%,*}
    rest=${rest#"$dir"}
    rest=${rest#,}
    dir=$(absolute "$dir") || exit 2
    list="$list${list:+,}$(quoted "$dir")"
    from="$from${from:+,}$dir"
done

# The first text or number of a JSON file under one of these names, whatever its layout.
member() { # FILE NAME...
    file=$1
    shift
    for name in "$@"; do
        text=$(tr '\n' ' ' <"$file" | sed 's|[,{}]|\n|g' | sed -n -e "s/^ *\"$name\" *: *\"\([^\"]*\)\" *\$/\1/p" -e "s/^ *\"$name\" *: *\([0-9]*\) *\$/\1/p" | head -n 1)
        [ -z "$text" ] || break
    done
    printf %s "$text"
}
if [ -f "$predict/experiment.json" ]; then
    says=$predict/experiment.json
    hub=$(member "$says" model model_name)
    gpu=$(member "$says" gpu hardware)
elif [ -f "$predict/run_meta.json" ]; then
    says=$predict/run_meta.json
    hub='' gpu=''
    case $(member "$says" kind) in
    worker)
        hub=$(member "$says" hub)
        gpu=$(member "$says" gpu)
        ;;
    cpu | cuda) # our engines
        hub=$(member "$says" hub)
        [ -n "$hardware" ] || hardware=$(member "$says" hardware_id)
        [ -n "$scheduler" ] || scheduler=scheduler=$(member "$says" policy)
        ;;
    esac # of another server run_meta.json has our defaults, which say nothing of it
    # The transformers worker computes one prompt alone, then decodes once: lightllm with one decode between prompts, one prompt a
    # batch.
    if [ -z "$scheduler" ] && [ "$(member "$says" backend)" = transformers ]; then
        [ "$(member "$says" batching),$(member "$says" prefills_per_step)" = continuous,1 ] ||
            die "$says: no scheduler here stands for a transformers worker without batching=continuous and prefills_per_step=1;" \
                "scheduler= names one"
        cap=$(member "$says" max_batch)
        scheduler="scheduler=lightllm scheduler.max_waiting_iters=1 scheduler.max_tokens_in_batch=1 scheduler.block_size=1"
        scheduler="$scheduler${cap:+ scheduler.batch_cap=$cap}"
    fi
    [ -n "$from" ] || [ "$(member "$says" backend)" != transformers ] ||
        echo "stage.sh: uncalibrated, an iteration has the host time of servers such as vLLM: transformers takes ten times that and more" >&2
else
    die "$predict has no experiment.json, and no run_meta.json of a run"
fi
[ -n "$hub$model" ] || die "$says: model is missing; model=GROUP names one of configs/model"
[ -n "$gpu$hardware" ] || die "$says: gpu is missing; hardware=GROUP names one of configs/hardware"

# The shape of a model does not depend on how it was tuned or quantised (src/calibrate/names.c has the same words).
shape() {
    echo "-${1##*/}" | tr '[:upper:]_' '[:lower:]-' |
        sed -E -e ':a' -e 's/-(meta|instruct|chat|base|hf|it|dynamic|quantized|fp8|awq|gptq|int4|int8|nvfp4|w8a8|w4a16|kv)(\.[^-]*)?(-|$)/\3/' \
            -e 's/-[0-9]{4}(-|$)/\1/' -e 's/-v0\.[0-9](-|$)/\1/' -e 'ta'
}
# Groups say which they are by hub:, and by `# Same sizes:` which others have their sizes.
if [ -z "$model" ]; then
    want=$(shape "$hub")
    for file in "$here"/configs/model/*.yaml; do
        # shellcheck disable=SC2013 # names are words
        for is in $(sed -n -e 's/^hub: *//p' -e '/^# Same sizes:/{s/^# Same sizes: *//;s/[,.]$//;s/, */ /g;p;}' "$file"); do
            [ "$(shape "$is")" != "$want" ] || model=$(basename "$file" .yaml)
        done
    done
    [ -n "$model" ] ||
        die "no group of configs/model is $hub: write one with the dimensions of its config.json, or name one of its sizes by model="
fi

if [ -z "$hardware" ]; then
    case $(echo "$gpu" | tr '[:upper:]' '[:lower:]') in
    *gb200*) hardware=gb200 ;;
    *b200*) hardware=b200 ;;
    *gh200*) hardware=gh200 ;;
    *h200*nvl*) hardware=h200_nvl ;;
    *h200*) hardware=h200 ;;
    *h100*nvl*) hardware=h100_nvl ;;
    *h100*pcie*) hardware=h100_pcie ;;
    *h100*) hardware=h100 ;;
    *a100*40*pcie* | *a100*pcie*40*) hardware=a100_40_pcie ;;
    *a100*40*) hardware=a100_40_sxm ;;
    *a100*pcie*) hardware=a100_80_pcie ;;
    *a100*) hardware=a100 ;;
    *6000*ada*) hardware=rtx_6000_ada ;;
    *pro*6000*) hardware=rtx_pro_6000 ;;
    *a6000*) hardware=rtx_a6000 ;;
    *3090*) hardware=rtx_3090 ;;
    *4090*) hardware=rtx_4090 ;;
    *5090*) hardware=rtx_5090 ;;
    *l40s*) hardware=l40s ;;
    *l40*) hardware=l40 ;;
    *l4*) hardware=l4 ;;
    *a10g*) hardware=a10g ;;
    *a10*) hardware=a10 ;;
    *a40*) hardware=a40 ;;
    *v100*) hardware=v100 ;;
    *t4*) hardware=t4 ;;
    *) die "$says: gpu: no group of configs/hardware is known to be '$gpu'; hardware=GROUP names one" ;;
    esac
    [ -f "$here/configs/hardware/$hardware.yaml" ] || die "there is no configs/hardware/$hardware.yaml for '$gpu'"
fi

fitted='' shown=''
if [ -z "$from" ]; then
    shown=$stages
elif [ "$from" = "$predict" ] && [ -n "$stages" ]; then
    fitted=${stages%%,*}
    case $stages in
    *,*) shown=${stages#*,} ;;
    *) shown=not,$stages ;;
    esac
else
    fitted=$stages
fi

for stage in $(echo "$shown" | tr , ' '); do
    [ "$stage" = not ] || [ "$says" = "$predict/run_meta.json" ] || [ -f "$predict/stage_${stage}_lifecycle_metrics.json" ] ||
        die "stages: $predict has no stage_${stage}_lifecycle_metrics.json"
done

if [ "${shown%%,*}" = not ]; then
    left=''
    for file in "$predict"/stage_*_lifecycle_metrics.json; do
        [ "$file" = "$predict/stage_${fitted}_lifecycle_metrics.json" ] || left=1
    done
    [ -n "$left" ] || die "stages: $predict has no other stage than $fitted: nothing is left to predict"
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# shellcheck disable=SC2086 # words of the command line
set -- calibrate "check=[$(quoted "$predict")]" "model=$model" "hardware=$hardware" "out=$out/b" log.level=warn $scheduler $more
[ -z "$hub" ] || set -- "$@" "model.hub=$hub"
[ -z "$from" ] || set -- "$@" "from=[$list]"
[ -z "$fitted" ] || set -- "$@" "stages=[$fitted]"
code=0
(cd "$here" && "$tw" "$@") >"$out/text" 2>"$out/said" || code=$?
grep -v -e 'nothing was fitted' -e 'does not fit these runs' -e 'not among stages=' "$out/said" >&2 || :
if [ "$code" = 5 ] && [ -f "$out/b/check.csv" ]; then
    grep -e 'does not fit' "$out/text" >&2 || :
elif [ "$code" != 0 ]; then
    exit "$code"
fi
grep -e '^far from the prior' "$out/text" >&2 || :
awk -F, -v shown="$shown" -v full="${FULL:-}" '
BEGIN { n = split(shown, want, ","); OFS = "," }
FNR == 1 { columns = NF }
{
    more = NF - columns # commas in the name of the experiment
    name = $1
    for (i = 2; i <= 1 + more; i++)
        name = name "," $i
    stage = $(2 + more)
    take = n == 0 || FNR == 1
    for (i = 1; i <= n; i++)
        take = take || (want[1] == "not" ? i > 1 && stage != want[i] : stage == want[i])
}
take && full { print }
take && !full { print name, stage, $(3 + more), $(4 + more), $(5 + more), $(6 + more) }' "$out/b/check.csv" >"$out/rows"
[ "$(wc -l <"$out/rows")" -gt 1 ] || die "stages: $predict has no stage $shown"
cat "$out/rows"
