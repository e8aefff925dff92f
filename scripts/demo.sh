#!/bin/sh
# The whole pipeline on this machine's CPU: workload, profile, real runs, the same run simulated, the
# comparison; at an idle and at a loaded arrival rate; one report at the end. DEMO_OUT names the folder.
# And real runs that were recorded on a GPU, simulated from that GPU's bundle.
#
# A machine is fast and slow by turns of seconds to minutes (neighbours on its host, where the host puts
# its cores, clocks). So the real runs are cut into ROUNDS short repeats of one workload each, with a
# profile session after each pair: what drifts, drifts in both, and both take means over the rounds.
# One thread computes: on a 2-core VM two took 7.2 or 9.3 ms for the same prompt, by turns, one always 14.0.
set -eu
export LC_ALL=C # where a locale has a comma, mawk reads "1.5" as 1
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
calc() { awk "BEGIN { x = $1; printf \"$2\", x }"; }

mkdir -p "$out"
root=profile.root=$out/profile
engine="model=small_qwen3 device=cpu engine.threads=1"
serve="scheduler.num_blocks=2048 scheduler.batch_cap=32 scheduler.token_budget=512"
requests="model=small_qwen3 workload=demo workload.lengths.decode_tokens=48"
ROUNDS=5
printf 'OUT is %s\n' "$out"

profile() { # all|calibration SECONDS
    # shellcheck disable=SC2086  # several words
    run profile $engine "$root" profile.measure="$1" profile.time_budget_s="$2" \
        profile.max_tokens=512 profile.max_kv=1024 profile.max_batch=32 profile.extend=true
}

say "profile: what each operator of the model costs on this CPU"
profile all 22

say "capacity: how fast the simulator serves 200 requests that are there at once"
# shellcheck disable=SC2086  # several words
capacity=$("$tw" simulate --json "$root" $serve $requests workload.num_requests=200 \
    workload.arrival.kind=static out="$out/capacity" |
    sed -n 's/^ *"requests_per_s": \([0-9.e+-]*\),*$/\1/p')
printf '  %.1f requests/s\n' "$capacity"

# idle and loaded: share of the capacity, as many requests as arrive in so many seconds, and how: at
# fixed intervals a request is alone, and more of an idle machine's time is measured
points="idle:0.25:10:fixed_interval loaded:0.70:7:poisson"
for point in $points; do
    IFS=: read -r name load seconds arrivals <<END
$point
END
    rate=$(calc "$capacity * $load" %.3f)
    n=$(calc "$rate * $seconds" %.0f)
    [ "$n" -ge 16 ] || n=16
    [ "$n" -le 400 ] || n=400
    say "$name: $n requests at $rate requests/s, $load of capacity"
    # shellcheck disable=SC2086
    run workload $requests workload.num_requests="$n" workload.arrival.kind="$arrivals" \
        workload.arrival.rate="$rate" \
        out="$out/runs/$name-workload"
done

rounds=$(seq $ROUNDS)
for repeat in $rounds; do
    for name in idle loaded; do
        say "$name: real run $repeat"
        # shellcheck disable=SC2086
        run bench engine=cpu $engine $serve repeat=$repeat workload.dir="$out/runs/$name-workload" \
            out="$out/runs/$name-real-$repeat"
        cp "$log" "$out/runs/$name-real-$repeat.log"
    done
    say "profile: the calibration run once more, for the machine may have changed"
    profile calibration 7
done

# undisturbed idle|loaded: the numbers of the real runs that waited for cores at most 5 % of the time, as
# did the machine's tasks; of all where there is none
undisturbed() {
    for repeat in $rounds; do
        awk -v n="$repeat" '/^ *"(waiting|pressure)":/ && $2 + 0 > 0.05 { busy = 1 }
            END { if (!busy) print n }' "$out/runs/$1-real-$repeat/run_meta.json"
    done >"$log"
    [ -s "$log" ] || echo "$rounds" >"$log"
    cat "$log"
}

# middle idle|loaded NUMBER...: of these runs the one in the middle by its median E2E, whatever the
# simulation says
middle() {
    name=$1
    shift
    for repeat in "$@"; do
        sed -n "s/^ *e2e_p50_ms  */$repeat /p" "$out/runs/$name-real-$repeat.log"
    done | sort -k2,2g | sed -n "$((($# + 1) / 2))s/ .*//p"
}

fail=0 unsure=0 found=
for name in idle loaded; do
    runs=$out/runs/$name
    say "$name: simulated, and compared"
    # shellcheck disable=SC2086
    run simulate model=small_qwen3 "$root" $serve workload.dir="$runs-workload" sim.replicas_mc=40 out="$runs-sim"
    # shellcheck disable=SC2046  # a list of numbers
    set -- $(undisturbed $name)
    judged=$(middle $name "$@") others=
    for repeat in "$@"; do
        [ "$repeat" = "$judged" ] || others="$others${others:+,}$runs-real-$repeat"
    done
    [ $# = $ROUNDS ] || echo "  (only $# of $ROUNDS real runs had the cores they needed: the others do not count)"
    set --
    [ -z "$others" ] || set -- spread="[$others]"
    run compare real_run_dir="$runs-real-$judged" "$@" \
        sim_run_dir="$runs-sim" out="$out/$name" || case $? in 1) fail=1 ;; *) unsure=1 ;; esac
    cp "$log" "$out/$name.txt"
    found="$found${found:+; }$name $(awk -f scripts/verdict.awk "$log")"
done

# No GPU is needed: the bundles and the real runs were recorded on some (data/h200/README.md). They say nothing of this
# machine, so they count in no exit code.
say "GPUs: workloads simulated from their bundles, against the real runs recorded there"
recorded_gpus=
for recorded in data/*/runs/*/*/workload; do
    recorded=${recorded%/workload}
    name=$(basename "$recorded") of=$(dirname "$recorded") others=
    model=$(basename "$of") gpu=${of#data/}
    gpu=${gpu%%/*}
    for real in "$recorded"/real-[2-9]; do [ ! -d "$real" ] || others="$others${others:+,}$real"; done
    set --
    [ -z "$others" ] || set -- spread="[$others]"
    # settings of the run: those of its scheduler, and keys of the model that it left out
    words=$(sed -n "s/^- '\{0,1\}\(\(~model\|scheduler\)[^']*\)'\{0,1\}$/\1/p" "$recorded/real-1/overrides.yaml")
    # shellcheck disable=SC2086  # several words
    run simulate hardware="$gpu" model="$model" $words output.tokens=none \
        workload.warmup_requests=10 workload.dir="$recorded/workload" out="$out/$gpu/$model-$name-sim"
    run compare real_run_dir="$recorded/real-1" "$@" sim_run_dir="$out/$gpu/$model-$name-sim" out="$out/$gpu/$model-$name" || :
    recorded_gpus="$recorded_gpus
  $gpu $model $name $(awk -f scripts/verdict.awk "$log")"
done

"$tw" report out="$out" report.inputs="[$out/idle,$out/loaded]" >/dev/null
say "done: open $out/report.html"
printf 'simulated against real, %s\n' "$found"
printf 'and on GPUs:%s\n' "$recorded_gpus"
[ $fail = 0 ] || exit 1
[ $unsure = 0 ] || exit 5
