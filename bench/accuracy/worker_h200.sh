#!/bin/sh
# An engine that we did not write, from its own measurements, on this machine's GPU: Hugging Face transformers with Qwen3-0.6B's
# shape (adapters/transformers_worker.py), measured by passes, run, simulated from those passes, and compared:
#
#     bench/accuracy/worker_h200.sh OUT [eager | compiled | trace | static]...
#
#   eager     a cache that grows, continuous batching: a profile, an idle and a loaded run, both simulated
#   compiled  the same with a static cache and torch.compile(mode="reduce-overhead")
#   trace     the loaded run of eager once more under `twinfer trace`, its steps marked: the bundle that `twinfer kernels` makes of
#             them, by which both runs of eager are simulated; after eager
#   static    a static cache without torch.compile
#
# Each mode's idle run is simulated from the batches of its first loaded run too (twinfer calibrate), once they are there.
#
# Without pieces: eager and compiled, some 230 s. Each start of the worker takes some 12 s, with torch.compile 20 s, the first 40 s.
# E2E and TTFT at P50 and P90 have limits (8 %), in the table at the end and in OUT/checks.md; a miss changes no exit code.
#
# PYTHON: with torch and transformers >= 5.10. HARDWARE: the GPU's group (h200). REPEATS: real runs of each workload (1); with 2 and
# more their spread stands beside the errors. BUDGET: seconds of passes and of the calibration run of a profile (40). Downloads nothing. A rehearsal is on the
# CPU; its trace needs a libcuda.so.1, that of tests/fakes (README of bench/deep), and a PyTorch whose own CUPTI bears that one: of
# PyTorch 2.15 for CUDA 13.2 it does not, and the worker ends with SIGSEGV while it loads.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
steps_open "$@"
shift
model=$(small qwen3_0_6b micro)
hardware=$(small "${HARDWARE:-h200}" cpu)
device=$(small cuda cpu)
repeats=${REPEATS:-1}
budget=${BUDGET:-$(small 40 6)}
rows=16 room=1024 # sequences at once, tokens of each in a static cache

# engine MODE: the options of the worker, the same for passes and runs.
engine() {
    echo "engine=transformers hardware=$hardware device=$device model=$model model.weights=random:0 +worker.options.max_batch=$rows"
    case $1 in
    compiled) echo "+worker.options.cache=static +worker.options.max_length=$room +worker.options.compile=reduce-overhead" ;;
    static) echo "+worker.options.cache=static +worker.options.max_length=$room" ;;
    esac
}

# The requests of MODE's runs: prompts of 51 to 256 tokens, answers of 13 to 64. Requests and rate, idle and loaded: what an
# eager decode step (20 to 33 ms, a prompt as much) and a compiled one (5 ms, a prompt 20 to 60 ms) leave room for. The worker has
# computed every number of rows before the first request.
arrivals() { # MODE idle|loaded
    case $1-$2 in
    compiled-idle) n=30 rate=2 ;;
    compiled-loaded) n=120 rate=8 ;;
    *-idle) n=16 rate=0.8 ;;
    *) n=90 rate=6 ;;
    esac
    [ -z "${REHEARSE:-}" ] || { n=20 rate=$(awk -v r="$rate" 'BEGIN { print r * 10 }'); }
    rm -rf "${out:?}/$1/$2"
    mkdir -p "$out/$1/$2"
    "$tw" workload "model=$model" workload=synthetic workload.lengths.min_tokens=64 workload.lengths.max_tokens=320 \
        "workload.num_requests=$n" "workload.arrival.rate=$rate" "out=$out/$1/$2/workload"
    echo "$1, $2: $n requests at $rate a second" | figure
}

profile() { # MODE
    rm -rf "${out:?}/profiles/$1"
    # shellcheck disable=SC2046 # several words
    "$tw" profile $(engine "$1") "profile.root=$out/profiles/$1" "profile.max_batch=$rows" profile.max_kv=512 profile.max_tokens=512 \
        profile.samples=15 "profile.time_budget_s=$budget"
    meta=$out/profiles/$1/data/profiling/compute/$hardware/$model/bundle_meta.json
    awk -v mode="$1" '/"(decode_s|prompt_s|loo_error|rows|iterations|measured_s|points|points_left_out)":/ {
            gsub(/[",:]/, ""); text = text (text ? ", " : "") $1 " " $2 }
        END { print mode " profile: " text }' "$meta" | figure
    sed -n "s/^\\(decode\\|prompt\\)_factor  */$1 calibration run, measured over passes: \\1 /p" "$out/steps/$step_name.txt" | figure
}

run() { # MODE idle|loaded REPEAT
    dir=$out/$1/$2
    rm -rf "$dir/real-$3"
    # shellcheck disable=SC2046 # several words
    "$tw" bench $(engine "$1") "workload.dir=$dir/workload" output.tokens=none "repeat=$3" "out=$dir/real-$3"
    took "$dir/real-$3" "$1, $2, run $3" | figure
}

took() { # FOLDER NAME: medians of its batches
    for kind in prompt decode; do
        awk -F, -v kind=$kind 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            ($at["num_prefill_tokens"] > 0) == (kind == "prompt") { print $at["duration_ns"] / 1e6 }' "$1/batches.csv" | sort -n |
            awk -v what="$2" -v kind=$kind '{ d[NR] = $1 }
                END { if (NR) printf "%s: %d %s batches, median %.2f ms (P90 %.2f)\n", what, NR, kind, d[int((NR + 1) / 2)], d[int(NR * 0.9 + 0.5)] }'
    done
}

# One prompt alone, then a decode step of all: lightllm with one decode between prompts, and one prompt a batch.
simulated() { # MODE idle|loaded BUNDLE NAME
    dir=$out/$1/$2
    rm -rf "$dir/sim-$4" "$dir/compare-$4"
    "$tw" simulate "hardware=$hardware" "model=$model" "profile.root=$3" scheduler=lightllm scheduler.max_waiting_iters=1 \
        scheduler.max_tokens_in_batch=1 scheduler.block_size=1 "scheduler.batch_cap=$rows" output.tokens=none \
        "workload.dir=$dir/workload" "out=$dir/sim-$4"
    took "$dir/sim-$4" "$1, $2, simulated from $4" | figure
    others='' i=2
    while [ "$i" -le "$repeats" ]; do
        [ ! -f "$dir/real-$i/request_metrics.csv" ] || others="$others${others:+,}$dir/real-$i"
        i=$((i + 1))
    done
    rc=0 # 1: not within the limits, which the figures say; 5: inconclusive
    "$tw" compare "real_run_dir=$dir/real-1" ${others:+"spread=[$others]"} "sim_run_dir=$dir/sim-$4" "out=$dir/compare-$4" \
        >"$dir/compare-$4.txt" || rc=$?
    cat "$dir/compare-$4.txt"
    case $rc in
    0 | 1 | 5) ;;
    *) return $rc ;;
    esac
    # columns: metric, percentile, real, simulated, error and its %, interval (low .. high), spread and its %
    n=$(sed -n 's/^requests compared: \([0-9]*\)$/\1/p' "$dir/compare-$4.txt")
    awk '$1 ~ /^(TTFT|E2E)$/ && $2 ~ /^P(50|90)$/ && $3 > 0 {
        spread = "-"
        for (i = 7; i < NF; i++) if ($i == ".." && $(i + 3) == "%") spread = $(i + 2)
        printf "%s %s|%+.1f|%s\n", $1, $2, ($4 / $3 - 1) * 100, spread }' "$dir/compare-$4.txt" |
        while IFS='|' read -r cell error spread; do
            check "$1, $2, from $4: $cell, simulated / real - 1" "$error" % '+- 8' "$n" "$spread"
        done
    awk '$1 ~ /^(TTFT|TPOT|E2E)$/ && $2 ~ /^P(50|90)$/ { printf "%s %s %s %s%% of %s", s ? "," : "    ", $1, $2, $5, $3; s = 1 }
        END { print " ms" }' "$dir/compare-$4.txt" | figure
}

# The loaded run under the recorder, and a bundle of the steps in it.
traced() {
    rm -rf "${out:?}/trace" "${out:?}/trace-run" "${out:?}/kernels"
    # shellcheck disable=SC2046 # several words
    "$tw" trace "out=$out/trace" -- "$tw" bench $(engine eager) +worker.options.mark_steps=yes "workload.dir=$out/eager/loaded/workload" \
        output.tokens=none "out=$out/trace-run"
    took "$out/trace-run" "eager, loaded, traced" | figure
}

steps_of_trace() {
    rm -rf "${out:?}/kernels"
    if [ -n "${REHEARSE:-}" ]; then # no work of a GPU in it: which steps reached the recorder
        "$tw" kernels "kernels.trace=$out/trace" "out=$out/kernels" >/dev/null
        awk -F, 'NR > 1 && $NF ~ /:step / { n += $3 } END { printf "trace: %d steps marked, of batches ", n }' "$out/kernels/trace_nvtx_sum.csv" | figure
        awk 'END { print NR - 1 }' "$out/trace-run/batches.csv" | figure
        return
    fi
    "$tw" kernels "kernels.trace=$out/trace" kernels.composition=auto "hardware.id=$hardware" "model.name=$model" "out=$out/kernels"
    # the traces are large; what was made of them is not
    awk '/"(iterations|rows|loo_error)":/ { gsub(/[",:]/, ""); text = text (text ? ", " : "") $1 " " $2 } END { print "trace: " text }' \
        "$out/kernels/profile/data/profiling/compute/$hardware/$model/bundle_meta.json" | figure
}

# The bundle that a run's batches make.
calibrated() { # MODE
    rm -rf "$out/profiles/$1-batches"
    rc=0 # 5: does not fit, which the notes say
    "$tw" calibrate "from=[$out/$1/loaded/real-1]" "hardware=$hardware" "model=$model" scheduler=lightllm scheduler.max_waiting_iters=1 \
        scheduler.max_tokens_in_batch=1 scheduler.block_size=1 "scheduler.batch_cap=$rows" "out=$out/profiles/$1-batches" || rc=$?
    grep -hE 'batches, residuals|does not fit' "$out/steps/$step_name.txt" | sed "s/^/$1, calibrated: /" | figure
    case $rc in
    0 | 5) ;;
    *) return $rc ;;
    esac
}

steps_begin "$@"
[ $# -gt 0 ] || set -- eager compiled
for piece in "$@"; do
    case $piece in
    eager | compiled | static)
        more=0
        [ "$piece" != compiled ] || more=10
        step "$piece-profile" $((budget + 18 + 2 * more)) $((budget + 200)) profile "$piece"
        for load in idle loaded; do
            step "$piece-$load" 1 30 arrivals "$piece" "$load"
            repeat=1
            while [ "$repeat" -le "$repeats" ]; do
                step "$piece-$load-$repeat" $((30 + more)) 180 run "$piece" "$load" "$repeat"
                repeat=$((repeat + 1))
            done
            step "$piece-$load-sim" 2 60 simulated "$piece" "$load" "$out/profiles/$piece" passes
        done
        step "$piece-calibrated" 5 120 calibrated "$piece"
        step "$piece-idle-calibrated" 2 60 simulated "$piece" idle "$out/profiles/$piece-batches" batches
        ;;
    trace)
        step trace 40 180 traced
        step trace-steps 10 120 steps_of_trace
        [ -n "${REHEARSE:-}" ] ||
            for load in idle loaded; do step "trace-$load-sim" 2 60 simulated eager "$load" "$out/kernels/profile" trace; done
        ;;
    *) no_piece "$piece" ;;
    esac
done
steps_end
