#!/bin/sh
# http_path.sh [TWINFER [OUT [key=value ...]]]: what HTTP costs. One workload by `bench engine=cpu` and by
# `bench engine=openai` against `serve engine=cpu`, the same engine and settings; the comparison shows the
# difference, which is the HTTP path: client, loopback, server. Further words go to the workload.
set -eu
tw=${1:-build/twinfer}
out=${2:-runs/http_path-$(date -u +%Y%m%d-%H%M%S)}
for _ in 1 2; do [ $# -eq 0 ] || shift; done
# One core for the engine leaves one for both ends of the connection.
settings="engine.threads=1 engine.idle=sleep scheduler.num_blocks=2048"
mkdir -p "$out"
"$tw" workload workload=demo workload.num_requests=100 workload.arrival.rate=4 workload.lengths.decode_tokens=32 \
    "$@" out="$out/workload" >/dev/null
for k in 1 2 3; do # the first is compared, the others tell the spread
    # shellcheck disable=SC2086  # words
    "$tw" bench engine=cpu $settings workload.dir="$out/workload" repeat=$k out="$out/cpu-$k" >/dev/null
done
# shellcheck disable=SC2086
"$tw" serve engine=cpu $settings server.port=0 out="$out/served" >"$out/said" &
server=$!
trap 'kill $server 2>/dev/null || :' EXIT
until [ -s "$out/said" ]; do
    kill -0 $server || exit
    sleep 0.1
done
"$tw" bench engine=openai url="$(sed -n 's/^listening *//p' "$out/said")" client.prompts=ids client.count=ids \
    client.warmup=4 workload.dir="$out/workload" out="$out/http"
kill -TERM $server
wait $server
trap - EXIT
"$tw" compare real_run_dir="$out/cpu-1" sim_run_dir="$out/http" spread="$out/cpu-2,$out/cpu-3" \
    compare.cells=all out="$out/compare"
echo "report          $out/compare/report.html"
