#!/bin/sh
# first.sh TWINFER DATA [RUNS]: from the start of the process to the end of a run of one request, so
# more than the time to the first simulated request: with this repository's own bundle, and with
# Vidur's profile of CodeLlama-34B whose attention.csv was made to grow to 21 MB, the size of Vidur's
# largest. DATA: folder with data/profiling of Vidur's.
set -eu
export LC_ALL=C # where a locale has a comma, mawk reads "1.5" as 1
root=$(cd "$(dirname "$0")/../.." && pwd)
tw=$(realpath "$1") data=$(realpath "$2") runs=${3:-21}
model=codellama/CodeLlama-34b-Instruct-hf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Rows again at KV lengths that no other row has.
big="$work/big/data/profiling"
mkdir -p "$big/compute/a100/$model"
cp -r "$data/data/profiling/network" "$big/"
cp "$data/data/profiling/compute/a100/$model/mlp.csv" "$big/compute/a100/$model/"
awk -F, -v OFS=, -v want=21000000 '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == "kv_cache_size") kv = i; print; next }
    { row[++n] = $0; bytes += length($0) + 1; print }
    END {
        for (k = 1; bytes < want; k++)
            for (i = 1; i <= n && bytes < want; i++) {
                $0 = row[i]
                $kv += 7 * k
                print
                bytes += length($0) + 1
            }
    }' "$data/data/profiling/compute/a100/$model/attention.csv" >"$big/compute/a100/$model/attention.csv"

measure() { # NAME words...
    name=$1
    shift
    i=0
    : >"$work/figures"
    while [ $i -lt "$runs" ]; do
        rm -rf "$work/run"
        begin=$(date +%s%N)
        "$tw" simulate workload.num_requests=1 workload.arrival.rate=1 out="$work/run" "$@" \
            >/dev/null 2>&1
        end=$(date +%s%N)
        setup=$(tr -d ' ,"' <"$work/run/run_meta.json" | awk -F: '$1 == "setup_seconds" { print $2 }')
        echo "$(((end - begin) / 1000)) $setup" >>"$work/figures"
        i=$((i + 1))
    done
    sort -n "$work/figures" | awk -v name="$name" '
        { wall[NR] = $1 / 1e3; cpu[NR] = $2 * 1e3 }
        END {
            m = int((NR + 1) / 2)
            printf "%-16s whole process %.0f ms (%.0f to %.0f, %d runs), processor time before the loop %.0f ms\n",
                name, wall[m], wall[1], wall[NR], NR, cpu[m]
        }'
}

cd "$root"
measure "own bundle" profile.root=tests/golden/bundle workload=demo
measure "21 MB attention" model=codellama_34b model.name=$model hardware=a100 parallel.tp=2 \
    network_device=a100_pairwise_nvlink profile.root="$work/big" workload.lengths.kind=fixed \
    workload.lengths.prefill_tokens=100 workload.lengths.decode_tokens=10
