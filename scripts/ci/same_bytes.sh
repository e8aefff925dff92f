#!/bin/sh
# same_bytes.sh A B: two builds of twinfer (gcc's and clang's, or one twice) make the same workload and
# the same simulated run; fails when a file of one differs from the other's, run_meta.json aside.
set -eu
a=$(realpath "$1") b=$(realpath "$2")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# make PROGRAM NAME: workload and runs of that program, under the same path for both.
make() {
    for seed in 0 7; do
        "$1" workload log.level=error workload=demo workload.arrival.rate=30 seed=$seed out="$work/now/workload-$seed"
        for policy in vllm_v1 sarathi; do
            "$1" simulate log.level=error profile.root=tests/golden/bundle scheduler=$policy seed=$seed \
                workload.dir="$work/now/workload-$seed" out="$work/now/$policy-$seed"
        done
    done >/dev/null
    "$1" simulate log.level=error profile.root=tests/golden/bundle workload=synthetic workload.num_requests=2000 \
        workload.arrival.kind=gamma workload.arrival.burstiness=0.5 scheduler.num_blocks=4096 \
        out="$work/now/synthetic" >/dev/null
    mv "$work/now" "$work/$2"
}
make "$a" a
make "$b" b
if diff -rq --exclude='*_meta.json' "$work/a" "$work/b"; then
    echo "$(find "$work/a" -type f ! -name '*_meta.json' | wc -l) files, the same bytes from both"
    exit 0
fi
echo "same_bytes: $1 and $2 differ" >&2
exit 1
