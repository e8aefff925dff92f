# completion.bash TWINFER SOURCE: what bash's completion offers, line by line; expected beside it.
# shellcheck disable=SC2034  # COMP_... are bash's
set -eu
program=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/a dir" "$work/configs/model" "$work/runs"
echo 'name: mine' >"$work/configs/model/mine.yaml"
touch "$work/runs/one two.csv"
cd "$work"
. "$source/completion/twinfer.bash"
compopt() { options+=" ${*: -1}"; } # bash's own works in a completion only

try() {
    options=''
    COMP_LINE=$1
    COMP_POINT=${#1}
    COMPREPLY=()
    _twinfer "$program"
    printf '[%s]%s\n' "$1" "${options:+ ($options )}"
    [ "${#COMPREPLY[@]}" = 0 ] || printf '  <%s>\n' "${COMPREPLY[@]}"
}

try 'twinfer s'
try 'twinfer help m'
try 'twinfer model '
try 'twinfer model in'
try 'twinfer simulate mod'
try 'twinfer simulate model=m'
try 'twinfer simulate -m model=tiny_qwen3,mi'
mkdir -p usual/model && touch usual/model/mellow.yaml
TWINFER_CONFIG_DIR=usual try 'twinfer simulate model=m'
try 'twinfer bench engine=t'
try 'twinfer simulate workload.arrival.k'
try 'twinfer simulate workload.arrival.kind='
try 'twinfer simulate +scheduler=sa'
try 'twinfer trace trace.copies='
try 'twinfer simulate workload.dir=a'
try 'twinfer simulate workload.trace=runs/'
try 'twinfer simulate seed='
try 'twinfer simulate --con'
try 'twinfer simulate --config-dir a'
try 'twinfer compare --explain re'
try 'twinfer trace -- py'
try 'twinfer simulate unknown.'
try 'twinfer nosuch x'
COMP_WORDBREAKS=' ' # users set this
try 'twinfer simulate model=m'
try 'twinfer simulate workload.dir=a'
