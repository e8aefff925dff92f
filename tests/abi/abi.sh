#!/bin/sh
# abi.sh WHAT COMPILER SOURCE_DIR: src/gpu/abi/WHAT.h against NVIDIA's header of it, by static
# assertions. Skipped where that header is not found: in $CUDA_HOME, $CUDA_PATH, a toolkit's usual
# folder, or those that the compiler knows.
set -eu
what=$1 compiler=$2 source=$3
case $what in
cupti) header=cupti.h ;;
nvtx) header=nvtx3/nvToolsExtPayload.h ;;
cuda) header=cuda.h ;;
nvrtc) header=nvrtc.h ;;
cublaslt) header=cublasLt.h ;;
esac

set --
for dir in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /opt/cuda; do
    for sub in include extras/CUPTI/include; do
        [ -d "$dir/$sub" ] && set -- "$@" -isystem "$dir/$sub"
    done
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# <cuda.h> alone may be another's; the folders above come first
printf '#include <%s>\n' "$header" >"$work/found.c"
if ! "$compiler" "$@" -fsyntax-only "$work/found.c" 2>"$work/err"; then
    echo "skipped: no $header of NVIDIA's (CUDA_HOME=)"
    exit 77
fi

if [ "$what" = cupti ]; then
    printf '#include <cupti.h>\n_Static_assert(CUPTI_API_VERSION >= 130000, "");\n' >"$work/found.c"
    if ! "$compiler" "$@" -fsyntax-only "$work/found.c" 2>"$work/err"; then
        echo "skipped: this cupti.h is older than CUDA 13.0's, which is compared with"
        exit 77
    fi
fi

cat "$source/tests/abi/$what.c" >"$work/$what.c"
awk -v header="gpu/abi/$what.h" -f "$source/tests/abi/compare.awk" "$source/src/gpu/abi/$what.h" >>"$work/$what.c"
"$compiler" -std=c17 "$@" -I "$source/src" -I "$source/tests" -fsyntax-only "$work/$what.c"
sed -n 's/^enum { COMPARED = \(.*\) };$/\1 facts of '"$what.h"' agree/p' "$work/$what.c"
