# shellcheck shell=sh disable=SC2154  # python is what steps_open left
# Sourced by the scripts beside it: where things lie on this machine. Each prints one path, or nothing. $python is the Python whose
# wheels count.

# The folders that pip's nvidia wheels bring, one a line.
cuda_wheels() {
    "$python" -c 'import glob, sysconfig; print(*glob.glob(sysconfig.get_path("purelib") + "/nvidia/*"), sep="\n")' \
        2>/dev/null
}

# Headers of CUPTI and NVTX: $TW_CUDA_INCLUDE, a toolkit's, or the wheels'.
find_cuda_include() {
    { printf '%s\n' "${TW_CUDA_INCLUDE:-}" /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include
      cuda_wheels | sed 's|$|/include|'; } |
        while IFS= read -r d; do
            [ -f "$d/cupti.h" ] && [ -f "$d/nvtx3/nvToolsExt.h" ] && { echo "$d"; break; }
        done
}

# The library: $CUPTI, a toolkit's, or the wheels'. Nothing: the loader may find it by itself.
find_cupti() {
    [ -n "${CUPTI:-}" ] && { echo "$CUPTI"; return; }
    { printf '%s\n' /usr/local/cuda/extras/CUPTI/lib64 /usr/local/cuda/lib64 /usr/local/cuda/targets/*/lib
      cuda_wheels | sed 's|$|/lib|'; } |
        while IFS= read -r d; do
            for f in "$d"/libcupti.so.1?; do
                [ -f "$f" ] && { echo "$f"; break 2; }
            done
        done
}

find_cc() {
    command -v cc || command -v gcc || command -v clang || :
}
