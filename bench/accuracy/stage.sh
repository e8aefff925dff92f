#!/bin/sh
# stage.sh [calibrate=DIR[,DIR]] predict=DIR [stages=0,1] [key=value ...]
#
# Predicts the stages of an experiment of the layout of docs/formats.md (experiment.json beside inference-perf's
# stage_N_lifecycle_metrics.json), calibrated on others, or uncalibrated: by the roofline alone. Prints CSV:
#
#     experiment,stage,metric,observed,predicted,error_percent
#
# for e2e_mean, e2e_p50, e2e_p90, e2e_p99, ttft_mean, ttft_p50, ttft_p90, ttft_p99, in s. Model, GPU and limits of the server
# are read from experiment.json; what is missing there, or no group of configs/ stands for, is refused by name.
#
# stages: with another experiment to calibrate on, those of its stages that are used. With calibrate and predict the same:
# stages=0 calibrates on stage 0 and predicts the others, stages=0,1 calibrates on stage 0 and predicts stage 1. Without
# calibrate=: the stages that are predicted. Further words go to twinfer calibrate: scheduler=vllm_v1.
# TWINFER names the program (build/twinfer), FULL=1 prints its check.csv as it is: with intervals and the naive copy.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
tw=${TWINFER:-$here/build/twinfer}
calibrate='' predict='' stages='' more=''

die() {
    echo "stage.sh: $*" >&2
    exit 2
}

for word in "$@"; do
    case $word in
    calibrate=*) calibrate=${word#*=} ;;
    predict=*) predict=${word#*=} ;;
    stages=*) stages=${word#*=} ;;
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

# A text of experiment.json, whatever its layout.
member() {
    tr '\n' ' ' <"$predict/experiment.json" | sed 's|[,{}]|\n|g' |
        sed -n "s/^ *\"$1\" *: *\"\([^\"]*\)\" *\$/\1/p" | head -n 1
}
[ -f "$predict/experiment.json" ] || die "$predict has no experiment.json"
hub=$(member model)
gpu=$(member gpu)
[ -n "$hub" ] || die "$predict/experiment.json: model is missing"
[ -n "$gpu" ] || die "$predict/experiment.json: gpu is missing"

# The shape of a model does not depend on how it was tuned.
shape() {
    echo "${1##*/}" | tr '[:upper:]' '[:lower:]' |
        sed -e 's/^meta-//' -e 's/-instruct//' -e 's/-chat//' -e 's/-base//' -e 's/-hf$//' -e 's/-it$//' \
            -e 's/-[0-9][0-9][0-9][0-9]$//' -e 's/-v0\.[0-9]$//'
}
model=''
for file in "$here"/configs/model/*.yaml; do
    is=$(sed -n 's/^hub: *//p' "$file")
    if [ -n "$is" ] && [ "$(shape "$is")" = "$(shape "$hub")" ]; then
        model=$(basename "$file" .yaml)
    fi
done
[ -n "$model" ] || die "no group of configs/model is $hub: write one with the dimensions of its config.json"

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
*l40s*) hardware=l40s ;;
*l40*) hardware=l40 ;;
*l4*) hardware=l4 ;;
*a10g*) hardware=a10g ;;
*a10*) hardware=a10 ;;
*a40*) hardware=a40 ;;
*v100*) hardware=v100 ;;
*t4*) hardware=t4 ;;
*) die "$predict/experiment.json: gpu: no group of configs/hardware is known to be '$gpu'" ;;
esac
[ -f "$here/configs/hardware/$hardware.yaml" ] || die "there is no configs/hardware/$hardware.yaml for '$gpu'"

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
    [ "$stage" = not ] || [ -f "$predict/stage_${stage}_lifecycle_metrics.json" ] ||
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
set -- calibrate "check=[$(quoted "$predict")]" "model=$model" "model.hub=$hub" "hardware=$hardware" "out=$out/b" log.level=error $more
[ -z "$from" ] || set -- "$@" "from=[$list]"
[ -z "$fitted" ] || set -- "$@" "stages=[$fitted]"
code=0
(cd "$here" && "$tw" "$@") >"$out/text" || code=$?
if [ "$code" = 5 ] && [ -f "$out/b/check.csv" ]; then
    grep 'does not fit' "$out/text" >&2 || :
elif [ "$code" != 0 ]; then
    exit "$code"
fi
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
take && !full { print name, stage, $(3 + more), $(4 + more), $(5 + more), $(6 + more) }' "$out/b/check.csv"
