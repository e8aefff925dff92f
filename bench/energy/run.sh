#!/bin/sh
# Energy on this machine's GPU:
#
#     bench/energy/run.sh OUT [sensors | logs | bloom | qwen3 | decode | llama | llama_compile]...
#
#   sensors  what the board's sensors are worth, and idle power
#   logs     whether logs agree with the energy counter, beside 6 s of matrix products: ours, and nvidia-smi's two
#   others   modes of bench/replay/forward.py: a step captured, the application that repeats it under a power log, and what
#            `energy run` predicts from its kernels against both; REPEATS (1) times, for the spread
#
# Without words: sensors logs bloom qwen3 decode. On a machine with an NVIDIA GPU, PyTorch and transformers, and nobody else on it.
# Capsules are removed unless KEEP is set. TWINFER: the program, when it is neither this package's nor a build's. PYTHON: with
# torch. APP: another command to capture, APP_LOOP: one that writes the times of its loop to the file that is its last argument.
# bench/steps.sh says what AGAIN, TIME, PACK and REHEARSE do.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
script=$here/run.sh
: "${1:?bench/energy/run.sh OUT [piece]...}"
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
. "$root/bench/steps.sh"
tw=$(find_program "$root")
python=${PYTHON:-python3}
forward=$root/bench/replay/forward.py
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

# Logs end before the step does, however it ends.
pids=
logged() { # COMMAND...: beside this step
    "$@" &
    pids="$pids $!"
}
logs_end() {
    # shellcheck disable=SC2086  # several numbers
    for pid in $pids; do
        kill "$pid" 2>/dev/null || continue
        wait "$pid" || :
    done
    pids=
}
trap logs_end EXIT

probe() {
    "$tw" energy probe --json >"$out/probe.json" || { code=$?; cat "$out/probe.json"; return $code; }
    "$tw" energy probe | figure
}

idle() {
    # shellcheck disable=SC2046  # several words
    "$tw" energy idle $(small '' energy.duration_s=0.2) | figure
}

logs() {
    cd "$out"
    rm -rf log report_*
    logged "$tw" energy log out=log
    smi=
    if command -v nvidia-smi >/dev/null; then
        smi='smi.csv smi_instant.csv'
        for file in $smi; do
            field=power.draw
            [ "$file" = smi.csv ] || field=power.draw.instant
            nvidia-smi --query-gpu=timestamp,index,$field --format=csv -lms 100 >"$file" &
            pids="$pids $!"
        done
    else
        echo "no nvidia-smi: our log alone" | figure
    fi
    sleep "$(small 3 0.3)"
    "$python" "$here/load.py" "$(small 6 0.5)" full.json
    sleep "$(small 1 0.2)"
    logs_end
    for power in log $smi; do
        "$tw" energy report "power=$power" full=full.json "out=report_${power%.csv}" >"report_${power%.csv}.txt"
        grep -E 'total_energy_j|energy|power_samples' "report_${power%.csv}.txt" | head -n 3 | sed "s/^/$power: /" | figure
    done
}

taken() { # MODE
    rm -rf "${out:?}/$1-capsule"
    # shellcheck disable=SC2086  # several words
    "$tw" capture region=step#3 "out=$out/$1-capsule" -- ${APP:-$python "$forward" "$1"}
}

application() { # MODE REPEAT: the program itself, under a log
    cd "$out"
    rm -rf "$1-power-$2"
    logged "$tw" energy log "out=$1-power-$2"
    sleep "$(small 3 0.3)"
    # shellcheck disable=SC2086  # several words
    ${APP_LOOP:-$python "$forward" "$1"} "$1-app-$2.json"
    sleep "$(small 1 0.2)"
    logs_end
    cat "$1-app-$2.json"
}

predicted() { # MODE REPEAT
    cd "$out"
    [ -d "$1-capsule" ] || { echo "no capsule of $1: AGAIN=$1-capsule"; return 1; }
    rm -rf "$1-run-$2"
    rc=0
    # shellcheck disable=SC2046  # several words
    "$tw" energy run "capsule=$1-capsule" runs=2000 "application=$1-app-$2.json" "application_power=$1-power-$2" \
        $(small '' 'energy.window_s=0.00005 energy.duration_s=0.1 interval_s=0.001') "out=$1-run-$2" >"$1-run-$2.txt" || rc=$?
    cat "$1-run-$2.txt"
    sed '/^kernel  */,/^$/{/^note/!d}' "$1-run-$2.txt" | cut -c1-150 | sed "s/^/$1 $2: /" | figure
    return $rc
}

page() { # MODE
    cd "$out"
    rm -rf "$1-page"
    "$tw" report "report.inputs=[$1-run-1,$1-power-1]" "out=$1-page"
    [ -n "${KEEP:-}" ] || rm -rf "$1-capsule"
}

steps_begin "$@"
[ $# -gt 0 ] || set -- sensors logs bloom qwen3 decode
for piece in "$@"; do
    case $piece in
    sensors)
        step probe 30 120 probe
        step idle 15 90 idle
        ;;
    logs) step logs 20 90 logs ;;
    bloom | qwen3 | decode | llama | llama_compile)
        load=20
        [ "${piece#llama}" = "$piece" ] || load=80
        step "$piece-capsule" $load 240 taken "$piece"
        for i in $(seq "${REPEATS:-1}"); do
            step "$piece-application-$i" $((load + 15)) 180 application "$piece" "$i"
            step "$piece-energy-$i" 60 300 predicted "$piece" "$i"
        done
        step "$piece-page" 2 60 page "$piece"
        ;;
    *) echo "bench/energy/run.sh: no piece $piece" >&2; exit 2 ;;
    esac
done
steps_end
