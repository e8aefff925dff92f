#!/bin/sh
# Energy on this machine's GPU:
#
#     bench/energy/run.sh OUT [sensors | logs | bloom | qwen3 | decode | llama | llama_compile | serving]...
#
#   sensors  what the board's sensors are worth, and idle power
#   logs     whether logs agree with the energy counter, beside 6 s of matrix products: ours, and nvidia-smi's two
#   others   modes of bench/replay/forward.py: a step captured, the application that repeats it under a power log, and what
#            `energy run` predicts from its kernels against both; REPEATS (1) times, for the spread. A table has every figure
#            with its limit, and what a miss would come from (figures.py)
#   serving  J per token of the CUDA engine at two loads against the simulator's (serving.sh)
#
# Without words: sensors logs bloom qwen3 decode. On a machine with an NVIDIA GPU, PyTorch and transformers, and nobody else on it.
# Capsules are removed unless KEEP is set. HARDWARE: the GPU's group, for serving (h200). PYTHON: with torch. APP: another command to capture, APP_LOOP: one that writes the times
# of its loop to the file that is its last argument.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
steps_open "$@"
shift
forward=$root/bench/replay/forward.py

# Logs end before the step does, however it ends. What they print then is not the step's: the end of its text is shown where it fails.
pids=
logged() { # COMMAND...: beside this step
    "$@" >>"$out/logged.txt" &
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
    rc=0 # another process on the GPU is told by the exit code
    # shellcheck disable=SC2046  # several words
    "$tw" energy idle $(small '' energy.duration_s=0.2) >"$out/idle.txt" || rc=$?
    figure <"$out/idle.txt"
    return $rc
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
    rm -rf "${out:?}/$1-capsule" "$out/$1-verified"
    # shellcheck disable=SC2086  # several words
    "$tw" capture region=step#3 "out=$out/$1-capsule" -- ${APP:-"$python" "$forward" "$1"} || return
    rc=0
    "$tw" replay verify "capsule=$out/$1-capsule" "out=$out/$1-verified" >"$out/$1-verified.txt" || rc=$?
    cat "$out/$1-verified.txt"
    grep -E '^(verified|NOT verified|nothing to verify|wrong_bytes|  )' "$out/$1-verified.txt" | cut -c1-200 | sed "s/^/$1: /" | figure
    return $rc
}

# The program itself, under a log: loaded once, its loop as often as is wanted, at rest before and after each.
application() { # MODE
    rm -rf "${out:?}/$1-power" "$out/$1"-app-*.json
    logged "$tw" energy log "out=$out/$1-power"
    sleep "$(small 3 0.3)"
    if [ -n "${APP_LOOP:-}" ]; then
        for i in $(seq "${REPEATS:-1}"); do
            # shellcheck disable=SC2086  # several words
            $APP_LOOP "$out/$1-app-$i.json"
        done
    else
        "$python" "$forward" "$1" "$out/$1-app-%.json" "$(small 5 0.5)" "${REPEATS:-1}"
    fi
    sleep "$(small 1 0.2)"
    logs_end
    cat "$out/$1"-app-*.json
}

# The probe's window of the first run does for the others.
window_of() { # RUN
    [ -z "${REHEARSE:-}" ] && [ -f "$1/run_meta.json" ] || return 0
    awk '/^ *"window": {/ { in_it = 1 } in_it && /"seconds":/ { gsub(/[^0-9.]/, ""); print "energy.window_s=" $0; exit }' "$1/run_meta.json"
}

predicted() { # MODE REPEAT
    cd "$out"
    [ -d "$1-capsule" ] || { echo "no capsule of $1: AGAIN=$1-capsule"; return 1; }
    rm -rf "$1-run-$2"
    rc=0
    # shellcheck disable=SC2046  # several words
    "$tw" energy run "capsule=$1-capsule" runs=2000 "application=$1-app-$2.json" "application_power=$1-power" \
        $(small "$(window_of "$1-run-1")" 'energy.window_s=0.1 energy.duration_s=0.1 interval_s=0.001') \
        "out=$1-run-$2" >"$1-run-$2.txt" 2>"$1-run-$2.err" || rc=$?
    cat "$1-run-$2.err" "$1-run-$2.txt"
    return $rc
}

# All figures against what is asked for. A miss is told; it is no failure of a rehearsal's.
figures() { # MODE
    rc=0
    seconds=$(cat "$out/steps/$1-capsule.state" "$out/steps/$1-application.state" "$out/steps/$1"-energy-*.state |
        awk '{ s += $2 } END { print s }')
    "$python" "$here/figures.py" "$out" "$1" "$seconds" >"$out/$1-figures.txt" || rc=$?
    figure <"$out/$1-figures.txt"
    return "$(small "$rc" 0)"
}

serving() {
    rm -rf "$out/serving"
    rc=0
    if [ -n "${REHEARSE:-}" ]; then
        LOADS='5 10' SECONDS_EACH=1 PROFILE_S=1 ENERGY_S=1 INTERVAL_S=0.005 LENGTHS='workload.lengths.kind=fixed
            workload.lengths.prefill_tokens=8 workload.lengths.decode_tokens=10' PROFILE_SET='profile.max_tokens=20 profile.max_batch=5
            profile.max_kv=40' RUN_SET=scheduler.num_blocks=64 sh "$here/serving.sh" "$tw" "$out/serving" model=micro model.weights=random:1 \
            hardware=h200 >"$out/serving.txt" 2>&1 || rc=$?
    else
        sh "$here/serving.sh" "$tw" "$out/serving" model=qwen3_0_6b model.weights=random:1 \
            "hardware=${HARDWARE:-h200}" >"$out/serving.txt" 2>&1 || rc=$?
    fi
    cat "$out/serving.txt"
    sed -n '/^requests\/s/,$p' "$out/serving.txt" | figure
    return "$(small "$rc" 0)"
}

page() { # MODE
    cd "$out"
    rm -rf "$1-page"
    "$tw" report "report.inputs=[$1-run-1,$1-power]" "out=$1-page"
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
    serving) step serving 240 400 serving ;;
    bloom | qwen3 | decode | llama | llama_compile)
        load=20
        most=240
        [ "${piece#llama}" = "$piece" ] || { load=80; most=400; } # where results vary, up to 8 replays and 9 to find from where
        step "$piece-capsule" $load $most taken "$piece"
        step "$piece-application" $((load + 12 * ${REPEATS:-1})) 240 application "$piece"
        for i in $(seq "${REPEATS:-1}"); do
            step "$piece-energy-$i" 60 300 predicted "$piece" "$i"
        done
        step "$piece-figures" 1 30 figures "$piece"
        step "$piece-page" 2 60 page "$piece"
        ;;
    *) no_piece "$piece" ;;
    esac
done
steps_end
