#!/bin/sh
# Regions of programs that no one here wrote, captured and replayed:
#
#     bench/replay/run_others.sh OUT [moe | sort | jax | constants | gpt2 | resnet]...
#
# others.py says what they are. On a machine with a GPU, PyTorch, CuPy, JAX; a minute each, `sort` longer by KERNEL_TIMEOUT (20 s) for
# each kernel that does not end alone. A capsule is removed when it was replayed, unless KEEP is set. PYTHON: with those.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
steps_open "$@"
shift

replayed() { # PROGRAM
    rm -rf "${out:?}/capsule_$1" "$out/r_$1"
    # shellcheck disable=SC2086  # several words
    "$tw" capture region=step#2 out="$out/capsule_$1" -- ${APP:-"$python" "$here/others.py" "$1"} >"$out/$1.capture" ||
        { code=$?; tail -n 5 "$out/$1.capture"; return $code; }
    {
        echo "$1: $(du -sm "$out/capsule_$1" | cut -f1) MB on disk"
        grep -E '^(operations|kernels|timed|memory_bytes|stopped_ms)' "$out/$1.capture" | sed 's/^/    /'
    } | figure
    began=$(date +%s)
    rc=0
    # shellcheck disable=SC2046  # several words
    "$tw" replay capsule="$out/capsule_$1" replay.kernel_timeout_s="${KERNEL_TIMEOUT:-20}" \
        $(small '' 'replay.samples=3 replay.sample_ms=0.05') out="$out/r_$1" >"$out/$1.replay" || rc=$?
    cut -c1-160 "$out/$1.replay"
    {
        echo "    replayed in $(($(date +%s) - began)) s"
        "$python" -c 'import json, sys
names = [k["mangled"] for k in json.load(open(sys.argv[1]))["kernels"] if k.get("mangled")]
print("    longest name of a kernel:", max(map(len, names), default=0), "bytes")' "$out/r_$1/isolated_kernels_timing.json" || :
        grep -E '^([a-z_]*_us|wrong_bytes|verif|NOT verif|nothing to verify|not measured|in a graph|as launched)' "$out/$1.replay" |
            cut -c1-200 | sed 's/^/    /'
    } | figure
    [ -n "${KEEP:-}" ] || rm -rf "${out:?}/capsule_$1"
    return $rc
}

steps_begin "$@"
[ $# -gt 0 ] || set -- moe sort jax constants gpt2 resnet
for program in "$@"; do
    case $program in
    moe | gpt2 | resnet) step "$program" 40 120 replayed "$program" ;;
    sort | jax | constants) step "$program" 90 240 replayed "$program" ;;
    *) no_piece "$program" ;;
    esac
done
steps_end
