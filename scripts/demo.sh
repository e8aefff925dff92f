#!/bin/sh
# The whole pipeline on this machine's CPU: workload, profile, a real run, the same run simulated, the
# comparison; at an idle and at a loaded arrival rate; one report at the end. DEMO_OUT names the folder.
set -eu
cd "$(dirname "$0")/.."

tw=build/twinfer
out=${DEMO_OUT:-runs/demo-$(date +%Y%m%d-%H%M%S)}
start=$(date +%s)
log=$out/demo.log

say() { printf '\n[%3d s] %s\n' $(($(date +%s) - start)) "$*"; }
run() { # a stage: its command line, then its result; stderr shows progress
    printf '  $ twinfer %s\n' "$*" | sed "s|$out|OUT|g"
    code=0
    "$tw" "$@" >"$log" || code=$?
    sed 's/^/    /' "$log"
    [ $code = 0 ] || [ $code = 1 ] || [ $code = 5 ] || exit $code
    return $code
}

mkdir -p "$out"
root=profile.root=$out/profile
blocks=scheduler.num_blocks=4096
printf 'OUT is %s\n' "$out"

say "profile: what each operator of the model costs on this CPU"
run profile device=cpu "$root" profile.time_budget_s=50 profile.max_tokens=2048 profile.max_kv=1024 \
    profile.max_batch=64

say "capacity: how fast the simulator serves 200 requests that are there at once"
capacity=$("$tw" simulate --json "$root" $blocks workload=demo workload.num_requests=200 \
    workload.arrival.kind=static out="$out/capacity" |
    sed -n 's/^ *"requests_per_s": \([0-9.e+-]*\),*$/\1/p')
printf '  %.1f requests/s\n' "$capacity"

fail=0 unsure=0
for point in "idle 0.12 64" "loaded 0.70 300"; do
    # shellcheck disable=SC2086  # three words
    set -- $point
    runs=$out/runs/$1
    rate=$(awk "BEGIN { printf \"%.3f\", $capacity * $2 }")
    say "$1: $3 requests at $rate requests/s, $2 of capacity"
    run workload workload=demo workload.num_requests="$3" workload.arrival.rate="$rate" \
        out="$runs-workload"
    for repeat in 1 2 3; do # the second and third tell how much the machine varies by itself
        run bench engine=cpu $blocks repeat=$repeat workload.dir="$runs-workload" \
            out="$runs-real-$repeat"
    done
    run simulate "$root" $blocks workload.dir="$runs-workload" out="$runs-sim"
    run compare real_run_dir="$runs-real-1" spread="[$runs-real-2,$runs-real-3]" \
        sim_run_dir="$runs-sim" out="$out/$1" || case $? in 1) fail=1 ;; *) unsure=1 ;; esac
done

"$tw" report out="$out" report.inputs="[$out/idle,$out/loaded]" >/dev/null
say "done: open $out/report.html"
[ $unsure = 0 ] || echo "(inconclusive: this machine's own run-to-run spread hides the difference)"
exit $fail
