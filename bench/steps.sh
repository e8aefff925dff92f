# shellcheck shell=sh disable=SC2034,SC2154  # root is the caller's, and what steps_open leaves
# Sourced by the scripts of bench/ that need a GPU: opens their OUT, and runs their steps one after the other. One of them begins
#
#     #!/bin/sh
#     # What it measures, and how it is called: this comment is what --help prints.
#     set -eu
#     root=$(cd "$(dirname "$0")/../.." && pwd)    a sourced file cannot find itself,
#     . "$root/bench/steps.sh"
#     steps_open "$@"
#     shift                                        nor take OUT from the caller's words: the pieces are left
#
# and ends, behind its functions,
#
#     steps_begin "$@"
#     step NAME EXPECTED_S LIMIT_S FUNCTION [ARG]...
#     no_piece WORD                                for one that is none
#     steps_end                                    the table, the figures, the package; exit code 1 if a step failed
#
# A step is a function or a program, in a process of its own that ends, with all it started, after LIMIT_S. A function tells figures
# with `figure`, and with `check` those that have a limit. For each step the script runs again, up to steps_begin: it does nothing
# before but define. What --help adds to the script's comment:
#
# Steps: what one prints is OUT/steps/NAME.txt. One that fails does not keep the next from running. One that was done is not done
# again by the next call with the same OUT, so a call that was cut short is simply repeated.
#     AGAIN=1      all steps again; AGAIN='NAME NAME' these
#     TIME=580     seconds of this call: a step that is expected to take more than what is left waits for the next call, and so do
#                  all behind it
#     PACK=FILE    all small files of OUT in FILE (.tgz), the largest left out until it is at most PACK_MB (15)
#     REHEARSE=1   a tiny model (OUT/configs/model/micro.yaml) and few requests: a try of the steps themselves, in an OUT of its own,
#                  also where the GPU is tests/support/fake_gpu
#     TWINFER=FILE the program, when it is neither build/twinfer nor that of the package that the script is in
#     PYTHON=FILE  for what needs Python (python3)

# Numbers have a point here: some awks (mawk) read "1.5" as 1 and write "1,5" where the locale has a comma.
export LC_ALL=C

# steps_open OUT [PIECE]...: leaves script and here, the script itself and its folder; out, which exists; tw and python, the
# programs; all absolute, but a python of PATH. What is started takes the same two, downloads nothing, and knows the model `micro`
# in a rehearsal.
steps_open() {
    here=$(cd "$(dirname "$0")" && pwd)
    script=$here/$(basename "$0")
    case ${1:-} in
    -h | --help)
        steps_help
        exit
        ;;
    '' | -*)
        steps_help >&2
        exit 2
        ;;
    esac
    out=$(mkdir -p "$1" && cd "$1" && pwd) || exit 3
    held=measurement # what a rehearsal did is not done, and the other way round
    [ ! -f "$out/configs/model/micro.yaml" ] || held=rehearsal
    if [ -d "$out/steps" ] && [ $held != "$(small measurement rehearsal)" ]; then
        echo "$out has steps of a $held: name another folder, or remove it" >&2
        exit 2
    fi
    tw=$(find_program) || exit 4
    python=${PYTHON:-${TWINFER_PYTHON:-python3}}
    case $python in
    /*) ;;
    */*) python=$PWD/$python ;;
    esac
    export TWINFER="$tw" TWINFER_PYTHON="$python" HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
    [ -z "${REHEARSE:-}" ] || rehearsal
}

steps_help() {
    sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$script"
    grep -q '^steps_begin' "$script" || return 0
    echo
    sed -n '/^# Steps: /,/^$/ s/^# \{0,1\}//p' "$root/bench/steps.sh"
}

# small A B: A, or B in a rehearsal.
small() {
    if [ -n "${REHEARSE:-}" ]; then echo "$2"; else echo "$1"; fi
}

# The model `micro`, for whatever is started.
rehearsal() {
    mkdir -p "$out/configs/model"
    cat >"$out/configs/model/micro.yaml" <<'END'
name: micro
config: {model_type: qwen3, vocab_size: 128, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4,
  num_key_value_heads: 2, head_dim: 16, max_position_embeddings: 4096, rms_norm_eps: 1e-6, rope_theta: 1e6, hidden_act: silu,
  attention_bias: false, tie_word_embeddings: true}
END
    export TWINFER_CONFIG_DIR="$out/configs"
}

# figure: standard input to the figures of this step.
figure() {
    tee -a "$out/steps/$step_name.figures"
}

# check FIGURE VALUE UNIT LIMIT N SPREAD: a figure that has a limit, for the table at the end; LIMIT is `>= 0.5`, `<= 5` or `+- 3`,
# SPREAD and N are `-` where there is none. A miss of the simulator (`+-`) that the spread of the real runs covers is excused where
# that is at most twice the limit.
check() {
    awk -v figure="$1" -v value="$2" -v unit="$3" -v limit="$4" -v n="$5" -v spread="$6" 'BEGIN {
        split(limit, l, " ")
        e = value < 0 ? -value : value + 0
        holds = value !~ /[0-9]/ ? "unknown" : l[1] == ">=" ? (value + 0 >= l[2] + 0 ? "yes" : "no") : e <= l[2] + 0 ? "yes" : "no"
        if (holds == "no" && l[1] == "+-" && spread + 0 >= e && spread + 0 <= 2 * l[2]) holds = "in spread"
        print figure "|" value (unit == "-" ? "" : " " unit) "|" limit (unit == "-" ? "" : " " unit) "|" n "|" spread "|" holds }' \
        >>"$out/steps/$step_name.checks"
}

# check_comparison WHAT FILE: the cells with a limit of what `twinfer compare` printed, P99 where 1,000 requests are compared.
check_comparison() {
    # columns: metric, percentile, real, simulated, error and its %, interval (low .. high), spread and its %
    n=$(sed -n 's/^requests compared: \([0-9]*\)$/\1/p' "$2")
    awk -v n="$n" '$1 ~ /^(TTFT|TPOT|E2E)$/ && $2 ~ /^P(50|90|99)$/ && $3 > 0 && ($2 != "P99" || n >= 1000) {
        spread = "-"
        for (i = 7; i < NF; i++) if ($i == ".." && $(i + 3) == "%") spread = $(i + 2)
        printf "%s %s|%+.1f|%s|%s\n", $1, $2, ($4 / $3 - 1) * 100, $1 == "TTFT" ? 5 : 3, spread }' "$2" |
        while IFS='|' read -r cell error most spread; do
            check "$1: $cell, simulated / real - 1" "$error" % "+- $most" "$n" "$spread"
        done
}

# checks_table FILE...: what check wrote, as a table of Markdown.
checks_table() {
    printf '| figure | value | limit | n | spread | holds |\n|---|---|---|---|---|---|\n'
    sed 's/|/ | /g; s/^/| /; s/$/ |/' "$@"
}

# find_program: $TWINFER; else the program of a build in root, that of the installed tree or unpacked package that root is in, or
# that of dist/'s package, unpacked into OUT.
find_program() {
    if [ -n "${TWINFER:-}" ]; then
        f=$(command -v "$TWINFER") || f=$TWINFER
        runs "$f" || { echo "TWINFER=$TWINFER does not run here" >&2; return 4; }
        absolute "$f"
        return
    fi
    for f in "$root/build/twinfer" "$root/../../bin/twinfer" "$root"/dist/twinfer-*/bin/twinfer; do
        ! runs "$f" || { absolute "$f"; return; }
    done
    for f in "$root"/dist/twinfer-*.tar.gz; do
        [ -f "$f" ] || continue
        mkdir -p "$out/dist"
        tar xzf "$f" -C "$out/dist"
        f=$out/dist/$(basename "$f" .tar.gz)/bin/twinfer
        ! runs "$f" || { echo "$f"; return; }
    done
    echo "no twinfer that runs here: set TWINFER, or unpack ./do dist" >&2
    return 4
}

runs() {
    [ -f "$1" ] && [ -x "$1" ] && "$1" --version >/dev/null 2>&1
}

absolute() {
    (cd "$(dirname "$1")" && echo "$PWD/$(basename "$1")")
}

steps_begin() {
    if [ -n "${STEPS_INSIDE:-}" ]; then # a step: its function alone
        step_name=$STEPS_INSIDE
        unset STEPS_INSIDE
        "$@"
        exit
    fi
    mkdir -p "$out/steps"
    steps_all='' steps_late='' steps_from=$(date +%s) steps_pid=''
    trap '[ -z "$steps_pid" ] || kill "$steps_pid"; exit 130' INT TERM
}

step_state() { # NAME STATE SECONDS EXPECTED
    echo "$2 $3 $4" >"$out/steps/$1.state"
    printf '%-24s %-10s %5s s\n' "$1" "$2" "$3"
}

step() {
    of_name=$1 of_expected=$2 of_limit=$3
    shift 3
    steps_all="$steps_all $of_name"
    if [ "$(cut -d' ' -f1 "$out/steps/$of_name.state" 2>/dev/null)" = ok ] && [ "${AGAIN:-}" != 1 ]; then
        case " ${AGAIN:-} " in
        *" $of_name "*) ;;
        *) return 0 ;;
        esac
    fi
    of_begin=$(date +%s)
    if [ -n "${TIME:-}" ]; then
        of_left=$((TIME - of_begin + steps_from))
        if [ -n "$steps_late" ] || [ "$of_left" -lt "$of_expected" ] || [ "$of_left" -lt 1 ]; then
            steps_late=1 # later steps may need this one
            step_state "$of_name" left 0 "$of_expected"
            return 0
        fi
        [ "$of_left" -ge "$of_limit" ] || of_limit=$of_left
    fi
    rm -f "$out/steps/$of_name.figures" "$out/steps/$of_name.checks"
    of_rc=0
    STEPS_INSIDE=$of_name timeout -k 5 "$of_limit" sh "$script" "$out" "$@" >"$out/steps/$of_name.txt" 2>&1 &
    steps_pid=$!
    wait "$steps_pid" || of_rc=$?
    steps_pid=''
    case $of_rc in
    0) of_state=ok ;;
    124 | 137) of_state="over_$of_limit" ;;
    *) of_state="exit_$of_rc" ;;
    esac
    step_state "$of_name" "$of_state" $(($(date +%s) - of_begin)) "$of_expected"
    [ $of_rc = 0 ] || tail -n 6 "$out/steps/$of_name.txt" | cut -c1-300 | sed 's/^/    /'
}

# no_piece NAME: for a word that is none, behind others that were done.
no_piece() {
    echo "${script#"$root/"}: no piece $1; --help tells" >&2
    [ -z "$steps_all" ] || steps_end || :
    exit 2
}

# The largest files are left out first: bounds on a file's size, in KiB, until the package is small enough.
steps_pack() {
    case $PACK in
    /*) ;;
    *) PACK=$PWD/$PACK ;;
    esac
    mkdir -p "$(dirname "$PACK")"
    for kb in 8192 2048 512 128 32; do
        rm -f "$PACK" # it may lie in OUT
        packed=$(cd "$out" && find . -type f -size "-${kb}k" ! -name '*.safetensors' ! -path './dist/*' | sort)
        printf '%s\n' "$packed" | tar czf "$PACK" -C "$out" -T -
        [ $(($(wc -c <"$PACK") / 1048576)) -ge "${PACK_MB:-15}" ] || break
    done
    echo "$PACK: $(tar tzf "$PACK" | wc -l) files of $(find "$out" -type f | wc -l), those under $kb KiB, $(($(wc -c <"$PACK") / 1024)) KiB"
}

steps_end() {
    bad=0 waiting=0
    echo
    for name in $steps_all; do
        [ ! -f "$out/steps/$name.figures" ] || cat "$out/steps/$name.figures"
    done | tee "$out/figures.txt"
    printf '\n%-24s %-10s %7s %9s\n' step state seconds expected | tee "$out/table.txt"
    for name in $steps_all; do
        read -r state seconds expected <"$out/steps/$name.state"
        printf '%-24s %-10s %7s %9s\n' "$name" "$state" "$seconds" "$expected" | tee -a "$out/table.txt"
        case $state in
        ok) ;;
        left) waiting=$((waiting + 1)) ;;
        *) bad=$((bad + 1)) ;;
        esac
    done
    # of all calls with this OUT
    if cat "$out"/steps/*.checks >/dev/null 2>&1; then
        echo
        checks_table "$out"/steps/*.checks | tee "$out/checks.md"
    fi
    [ -z "${PACK:-}" ] || steps_pack
    [ $waiting = 0 ] || echo "$waiting wait for time: call again with the same OUT"
    [ $bad = 0 ] || echo "$bad failed: $out/steps/NAME.txt"
    [ $((bad + waiting)) = 0 ]
}
