#!/bin/sh
# The whole pipeline on this machine's CPU: workload, profile, a real run, the same run simulated, the
# comparison, one report; at an idle and at a loaded arrival rate.
set -eu
cd "$(dirname "$0")/.."

tw=build/twinfer
out=runs/demo-$(date +%Y%m%d-%H%M%S)
start=$(date +%s)
requests=${DEMO_REQUESTS:-160}
model='model=tiny_qwen3 model.weights=random:1 workload=demo'

say() { printf '\n[%3d s] %s\n' $(($(date +%s) - start)) "$*"; }
run() {
    printf '  $ %s\n' "twinfer $*"
    # shellcheck disable=SC2086  # the model words are a list
    "$tw" "$@" $model >"$out/last.txt" || { code=$?; cat "$out/last.txt"; exit "$code"; }
}
field() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*\$/\1/p"; }

mkdir -p "$out"
say "1/5 profile: what each operator of the model costs on this CPU"
run profile device=cpu profile.root="$out/profile"

say "2/5 capacity: the simulator serves everything at once, to find the highest rate"
# shellcheck disable=SC2086
capacity=$("$tw" simulate $model --json profile.root="$out/profile" out="$out/capacity" \
    workload.arrival.kind=static workload.num_requests="$requests" | field requests_per_s)
printf '  capacity: %.1f requests/s\n' "$capacity"

code=0
for load in 0.05 0.70; do
    rate=$(awk "BEGIN { printf \"%.3f\", $capacity * $load }")
    case $load in 0.05) name=idle n=$((requests / 2)) ;; *) name=loaded n=$((requests * 2)) ;; esac
    say "3/5 $name: $n requests at $rate requests/s (${load} of capacity), for real"
    run workload out="$out/$name/workload" workload.num_requests=$n workload.arrival.rate="$rate"
    run bench engine=cpu out="$out/$name/real" workload.dir="$out/$name/workload"
    say "4/5 $name: the same requests, simulated"
    run simulate out="$out/$name/sim" workload.dir="$out/$name/workload" profile.root="$out/profile"
    say "5/5 $name: real against simulated"
    "$tw" compare out="$out/$name/comparison" real_run_dir="$out/$name/real" \
        sim_run_dir="$out/$name/sim" || code=$?
done

"$tw" report out="$out" report.inputs="[$out/idle/comparison,$out/loaded/comparison]" >/dev/null
say "done; open $out/report.html"
exit $code
