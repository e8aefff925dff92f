#!/bin/sh
# serving.sh TWINFER OUT [SETTING=VALUE...]: J per token of the CUDA engine at two loads, measured, against the simulator's from a
# bundle whose energy was measured just before. On an H200 under 4 minutes with Qwen3-0.6B; settings are those of profile,
# bench and simulate alike (model=, hardware=, model.ref=).
#
# LOADS (30 150): requests per second; SECONDS_EACH (25): how long each is served; PROFILE_S (45), ENERGY_S (60): seconds of
# passes, and of loops for power; INTERVAL_S (0.02); LENGTHS: settings of the workload's lengths; PROFILE_SET: settings of
# profile alone, RUN_SET: of bench and simulate.
# The last lines are a table: load, J per token measured and simulated, error. Exit 1 where an error is above 10 %.
# shellcheck disable=SC2086 # settings are words without blanks
set -eu
export LC_ALL=C # where a locale has a comma, mawk reads "1.5" as 1
tw=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- model=qwen3_0_6b hardware=h200
loads=${LOADS:-30 150}
each=${SECONDS_EACH:-25}
lengths=${LENGTHS:-workload.lengths.kind=uniform workload.lengths.min_tokens=128 workload.lengths.max_tokens=1024}
mkdir -p "$out"
named="" predicted="" # what a workload, and a simulation, needs of the settings
for s; do
    case $s in model=* | model.ref=*) named="$named $s" ;; esac
    case $s in model.weights=*) ;; *) predicted="$predicted $s" ;; esac
done

"$tw" profile device=cuda "$@" profile.energy=true profile.root="$out/profiles" profile.time_budget_s="${PROFILE_S:-45}" \
    profile.energy_budget_s="${ENERGY_S:-60}" ${PROFILE_SET:-}

for load in $loads; do
    run=$out/load_$load
    "$tw" workload workload=synthetic $named workload.arrival.kind=poisson workload.arrival.rate="$load" \
        workload.num_requests="$(awk -v r="$load" -v s="$each" 'BEGIN { printf "%d", r * s }')" $lengths out="$run/workload"
    "$tw" bench engine=cuda device=cuda "$@" workload.dir="$run/workload" energy.record=true interval_s="${INTERVAL_S:-0.02}" \
        ${RUN_SET:-} out="$run/real"
    "$tw" simulate $predicted workload.dir="$run/workload" profile.root="$out/profiles" ${RUN_SET:-} out="$run/sim"
    # its exit code judges latencies, which are not what is asked here
    "$tw" compare real_run_dir="$run/real" sim_run_dir="$run/sim" out="$run/compare" || case $? in 1 | 5) ;; *) exit 1 ;; esac
done

# figure FILE KEY: the number of "KEY" in the part "energy" of a meta file, empty when it is null.
figure() {
    awk -v key="\"$2\":" '/^ *"energy": {/ { inside = 1 } inside && $1 == key { sub(/,$/, "", $2); if ($2 != "null") print $2; exit }' "$1"
}

# The meta file has the settings under "energy" too, behind "config"; figures of a run stand in `energy` with "measured".
bad=0
printf '%-10s %-12s %-12s %-10s %s\n' "requests/s" "J/token" "simulated" "error" "asked +-10 %"
for load in $loads; do
    run=$out/load_$load
    real=$(figure "$run/real/run_meta.json" j_per_token)
    sim=$(figure "$run/sim/run_meta.json" j_per_token)
    if [ -z "$real" ] || [ -z "$sim" ]; then
        echo "$load: energy is unknown: measured '$real', simulated '$sim'"
        bad=1
        continue
    fi
    awk -v l="$load" -v r="$real" -v s="$sim" 'BEGIN {
        e = 100 * (s / r - 1)
        miss = e > 10 || e < -10
        printf "%-10s %-12.5g %-12.5g %+-8.1f %% %s\n", l, r, s, e, (miss ? "MISS" : "ok")
        exit miss }' || bad=1
done
exit $bad
