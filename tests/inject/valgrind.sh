#!/bin/sh
# valgrind.sh LIBRARY FAKES [SANITIZERS]: the guest under memcheck inside a program that is not instrumented.
set -eu
[ -z "${3:-}" ] || { echo "skipped: valgrind does not run what sanitizers ($3) built"; exit 77; }
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'dir=%s\napi=runtime\nring_events=1024\nbuffers=4\nbuffer_kb=256\n' "$work" >"$work/settings"
LD_LIBRARY_PATH=$2/good CUDA_INJECTION64_PATH=$1 NVTX_INJECTION64_PATH=$1 \
    TWINFER_TRACE=$work/settings valgrind -q --error-exitcode=9 --leak-check=no --track-fds=no \
    "$2/fake_app" init decode=20 domain=3 ops=5 threads=10 pause kernels=3 resume kernels=50 fork=1 \
    flush kernels=2 >"$work/out"
[ "$(find "$work" -name '*.spool' | wc -l)" = 2 ] || { echo "expected 2 spools"; exit 1; }

# A region captured on the fake GPU. Pages that the program never wrote are copied as they are.
printf 'dir=%s\nrange=step\ncapture=2\n' "$work" >"$work/settings"
LD_LIBRARY_PATH=$2/gpu:$2/good CUDA_INJECTION64_PATH=$1 NVTX_INJECTION64_PATH=$1 \
    TWINFER_TRACE=$work/settings valgrind -q --error-exitcode=9 --leak-check=no --track-fds=no \
    "$2/capture_app" graph streams allocates >"$work/out"
[ "$(find "$work" -name 'launches.bin' | wc -l)" = 1 ] || { echo "expected a capsule"; exit 1; }
