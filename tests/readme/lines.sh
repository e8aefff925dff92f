#!/bin/sh
# lines.sh TWINFER SOURCE FAKES PAGE MIN FILE...: every $tw line of the page's code blocks (at least MIN of
# them) as it is written, in order, in an empty folder, where every FILE must stand in the end. The
# machine stands in for what a reader has: FAKES for a GPU and a program that uses it, a trace of three
# lines for the one that is imported, and TWINFER_CONFIG_DIR for patience: the configurations in it are
# the shipped ones with less to do. What this machine lacks must answer with exit code 4 and a remedy.
set -u
tw_path=$1 src=$2 fakes=$3 page=$4 min=$5
shift 5
work=$(mktemp -d) server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
mkdir "$work/here" "$work/config" "$work/bin" "$work/here/build"
cd "$work/here" || exit 1
ln -s "$tw_path" build/twinfer
ln -s "$src/tests" tests

# ---- what a reader has

cat >trace.jsonl <<'END'
{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 1500.5, "input_length": 512, "output_length": 9, "hash_ids": [0]}
{"timestamp": 3000, "input_length": 3, "output_length": 1, "hash_ids": [7]}
END
: >generate.py
# What vllm bench serve saw of a Llama 3 8B on an H100: 80 requests, one a second, 8.1 ms a token.
awk 'BEGIN {
    for (i = 0; i < 80; i++) {
        c = i ? ", " : ""
        start = start c i; ttft = ttft c 0.024 + i % 9 / 1000; gaps = gaps c "[" 0.72 + i % 7 / 1000 "]"
        input = input c 300; output = output c 100
    }
    printf "{\"mean_ttft_ms\": 28, \"start_times\": [%s], \"ttfts\": [%s], \"itls\": [%s], ", start, ttft, gaps
    printf "\"input_lens\": [%s], \"output_lens\": [%s]}\n", input, output
}' >bench.json
# A model of 10 ms that drew 400 W for 8 s, and one kernel of it at 500 W; a sample a second.
awk 'BEGIN {
    print "timestamp,gpu,power_w"
    for (s = 0; s < 40; s++)
        printf "2026-11-21 10:00:%02d.000,0,%d\n", s, (s >= 5 && s < 15 ? 400 : s >= 20 && s < 30 ? 500 : 120)
}' >power.csv
echo '{"start_timestamp": "2026-11-21 10:00:06", "end_timestamp": "2026-11-21 10:00:14", "num_runs": 800,
       "full_model_inference_us": 10000}' >full_model_timing.json
echo '{"kernels": [{"name": "gemm", "tier": 2, "invocation_count": 1, "benchmark_runs": 1000, "single_time_us": 8000,
       "start_timestamp": "2026-11-21 10:00:21", "end_timestamp": "2026-11-21 10:00:29"}]}' >isolated_kernels_timing.json
python3=$(command -v python3 || echo python3-is-not-here)
cat >"$work/bin/python3" <<END
#!/bin/sh
[ "\$1" = generate.py ] && [ -n "\${FAKE_GPU:-}" ] && exec "$fakes/capture_app" range=decode
[ "\$1" = generate.py ] && exec "$fakes/fake_app" init decode=2
exec "$python3" "\$@"
END
chmod +x "$work/bin/python3"
export PATH="$work/bin:$PATH" LD_LIBRARY_PATH="$fakes/good${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# with_less COMMAND: the groups of the shipped configuration and, after them, the settings on stdin.
export TWINFER_CONFIG_DIR="$work/config"
with_less() {
    awk '/^[a-z]+:$/ && !/^defaults:$/ { exit } { print }' "$src/configs/$1.yaml" >"$work/config/$1.yaml"
    cat >>"$work/config/$1.yaml"
}
with_less profile <<'END'
profile:
  time_budget_s: 5
  max_tokens: 1024
  max_kv: 1024
  max_batch: 16
END
with_less workload <<'END'
workload:
  num_requests: 12
  lengths:
    decode_tokens: 16
END
with_less bench <<'END'
workload:
  num_requests: 12
  lengths:
    decode_tokens: 16
  arrival:
    rate: 16
END
with_less capacity <<'END'
workload:
  num_requests: 20
capacity:
  seeds: 1
  tolerance: 1
  start_rate: 16
  max_rate: 16
  probe_s: 0.5
  probe_timeout_s: 5
END
with_less search <<'END'
workload:
  num_requests: 60
capacity:
  seeds: 1
  tolerance: 0.2
END

# ---- the lines

bad=0 ran=0
fail() {
    bad=1
    printf '%s: %s\n  %s\n' "$page" "$line" "$1"
    sed 's/^/  /' "$work/out" "$work/err"
}

# codes LINE: the exit codes that it may have here.
codes() {
    case $1 in
    *' compare '*) echo '0 1 5' ;;               # the verdict of a run this short may be any
    *' doctor'*) echo '0 4' ;;                   # 4: the machine has no GPU
    *engine=transformers*) echo '0 4' ;;         # 4: no torch here, or no GPU for it
    *engine=cuda* | *"profile  device=cuda"*) echo "0 4" ;; # 4: the machine has no GPU
    *' replay '* | *' energy   probe'* | *' energy   run'*) echo '0 4' ;;
    *' capacity engine=openai'*) echo '0 1 5' ;; # a busy machine is slow, and its client late
    *' capacity '* | *' search '*) echo '0 1' ;; # or meets the objective at no rate
    *' bench '*engine=openai*) echo '0 5' ;;
    *) echo 0 ;;
    esac
}

# A line that ends in & goes on beside the others, once it listens.
wait_for_server() {
    server=$!
    until grep -q '^listening' "$work/out" || ! kill -0 "$server" 2>/dev/null; do
        sleep 0.1
    done
    kill -0 "$server" 2>/dev/null && return
    server=
    grep -q 'cannot listen on' "$work/err" || fail "the server does not come up"
    echo "left out: what asks port 8000, which somebody else has"
}

run() {
    line=$1
    case $line in *127.0.0.1:8000*) [ -n "$server" ] || return ;; esac
    ran=$((ran + 1))
    since=$(date +%s)
    case $line in
    *' capture '*) # on a GPU that computes
        (export LD_LIBRARY_PATH="$fakes/gpu:$LD_LIBRARY_PATH" FAKE_GPU=apart=1 && eval "$line") \
            >"$work/out" 2>"$work/err" ;;
    *) eval "$line" >"$work/out" 2>"$work/err" ;;
    esac
    code=$?
    printf '%3d s, exit %d: %s\n' $(($(date +%s) - since)) $code "${line%% #*}"
    case ${line%%#*} in *'& '*) wait_for_server && return ;; esac
    case " $(codes "$line") " in
    *" $code "*) ;;
    *) fail "exit code $code" ;;
    esac
    [ $code != 4 ] || grep -qE 'hint: |-> ' "$work/err" "$work/out" || fail "exit code 4 without a remedy"
}

# shellcheck disable=SC2016  # $tw is the reader's
sed -n '/^```sh$/,/^```$/p' "$src/$page" | grep -E '^(tw=|\$tw )' >"$work/lines"
while read -r line; do
    run "$line"
done <"$work/lines"

lines=$(grep -c . "$work/lines")
echo "$ran of $lines lines ran"
[ "$lines" -ge "$min" ] || { echo "$page has lost its lines"; bad=1; }
for there in "$@"; do
    [ -s "$there" ] || { echo "no $there"; bad=1; }
done
exit $bad
