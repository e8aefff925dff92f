#!/bin/sh
# vidur.sh TWINFER SOURCE: a search over Vidur's published A100 profiles, killed again and again, ends
# in the bytes of one that was left alone. Exit 77: the data is not beside the repository.
set -u
tw=$1 src=$2
data=${TWINFER_TEST_DATA:-$src/../shared/data}/vidur
if ! [ -d "$data/data/profiling" ]; then
    echo "skipped: $data is not here"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

run() {
    "$tw" search model=codellama_34b hardware=a100 profile.root="$data" workload=synthetic \
        workload.num_requests=200 capacity.seeds=1 slo=ttft:2000,tpot:60 slo_fraction=0.9 \
        search.loads=0.5,0.85 '+search.space.parallel.tp=[1,2]' '+search.space.parallel.pp=[1,2]' \
        '+search.space.scheduler.group=[vllm_v1,sarathi,lightllm]' \
        '+search.space.scheduler.batch_cap=[32,128]' "$@"
}
fail() {
    echo "$*"
    exit 1
}

run out=whole >log 2>&1 || fail "$(cat log)"
kills=0
while ! [ -f killed/run_meta.json ]; do
    run out=killed >log 2>&1 &
    pid=$!
    if [ "$kills" -lt 6 ]; then
        sleep 0.15
        kill -9 "$pid" 2>/dev/null && kills=$((kills + 1))
    fi
    wait "$pid" 2>/dev/null
done
for f in search.csv search.json; do
    cmp "whole/$f" "killed/$f" || fail "$kills kills change $f"
done
# Refused, by name: no rows of TP 1, nor of lightllm's blocks of one token; the rest has a capacity.
grep -q 'num_tensor_parallel_workers 1; the nearest rows have num_tensor_parallel_workers 2' whole/search.json ||
    fail "TP 1 is not refused by its file"
grep -q 'predictor.block_size=16' whole/search.json || fail "lightllm is refused without a remedy"
ok=$(cut -d, -f7 whole/search.csv | grep -c '^ok$')
refused=$(cut -d, -f7 whole/search.csv | grep -c '^refused$')
[ "$ok $refused" = "16 16" ] || fail "$ok loads simulated, $refused refused: $(cat whole/search.csv)"
