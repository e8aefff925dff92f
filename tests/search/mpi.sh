#!/bin/sh
# mpi.sh TWINFER SOURCE: a search gives the same bytes over any number of ranks as over processes,
# errors end all ranks, and a build without MPI refuses by name. Exit 77: nothing to run it with.
set -u
tw=$1 src=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp -r "$src/tests/golden/bundle" bundle

# OpenMPI refuses root and more ranks than cores unless told; others ignore these.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl=self,vader,tcp ASAN_OPTIONS=detect_leaks=0 # libmpi keeps memory to the end

run() { # run PREFIX... -- words
    prefix=
    while [ "$1" != -- ]; do
        prefix="$prefix $1"
        shift
    done
    shift
    # shellcheck disable=SC2086  # words
    $prefix "$tw" search profile.root=bundle workload.num_requests=120 capacity.seeds=2 \
        slo=ttft:100,tpot:20 slo_fraction=0.9 '+search.space.scheduler.batch_cap=[8,16,32,64]' \
        '+search.space.parallel.tp=[1,3]' "$@"
}
fail() {
    echo "$*"
    exit 1
}

if ! run -- launcher=mpi out=alone >log 2>&1; then
    if grep -q 'launcher=mpi: this build has no MPI' log; then
        grep -q 'hint: install libopenmpi-dev and openmpi-bin and build with cmake -DTW_MPI=ON' log ||
            fail "the refusal names no remedy: $(cat log)"
        echo "skipped: this build has no MPI (it was refused by name)"
        exit 77
    fi
    command -v mpirun >/dev/null || { echo "skipped: there is no mpirun"; exit 77; }
fi
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun"; exit 77; }

run -- launcher=fork out=fork >/dev/null 2>&1 || fail "launcher=fork"
for n in 1 2 4; do
    run timeout 600 mpirun -n $n -- launcher=mpi out=mpi$n >log 2>&1 || fail "mpirun -n $n: $(cat log)"
    for file in search.json search.csv; do
        cmp fork/$file mpi$n/$file || fail "$n ranks give other bytes"
    done
    [ "$(grep -c '^result: ' log)" = 1 ] || fail "$n ranks print $(grep -c '^result: ' log) results"
done
run timeout 600 mpirun -n 3 -- launcher=mpi out=mpi1 >log 2>&1 && fail "an existing out passes"
[ "$(grep -c 'out: mpi1 already exists' log)" = 1 ] || fail "not one error: $(cat log)"
echo "equal bytes from 1, 2 and 4 ranks"
