#!/bin/sh
# nvtx_app.sh COMPILER SOURCE_DIR FAKES TEST LIBRARY [SANITIZERS]: the tests of the guest library again, on a
# program built with NVIDIA's NVTX in place of tests/fakes/fake_nvtx.c. Skipped where its headers are
# not found.
set -eu
compiler=$1 source=$2 fakes=$3 test=$4 library=$5 sanitizers=${6:-}
if [ "$sanitizers" ]; then
    echo "skipped: the program is built without the sanitizers ($sanitizers) of its libraries"
    exit 77
fi

set --
for dir in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /opt/cuda; do
    [ -d "$dir/include" ] && set -- "$@" -isystem "$dir/include"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include <nvtx3/nvToolsExtPayload.h>\n' >"$work/found.c"
if ! "$compiler" "$@" -fsyntax-only "$work/found.c" 2>"$work/err"; then
    echo "skipped: no nvtx3/nvToolsExtPayload.h (CUDA_HOME=)"
    exit 77
fi
for folder in good old broken; do ln -s "$fakes/$folder" "$work/$folder"; done
"$compiler" -std=c17 -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -DFAKES_REAL_NVTX -DUNDER_ASAN=0 "$@" \
    -I "$source/src" -I "$source/tests" "$source/tests/fakes/app.c" -o "$work/fake_app" \
    -L "$fakes/good" -l:libcuda.so.1 -l:libcupti.so.13 -lpthread -ldl
"$test" "$library" "$work"
