#!/bin/sh
# One forward of a model with random weights, captured and replayed:
#
#     bench/replay/run_h200.sh OUT [bloom | qwen3 | decode | compile | llama | llama_compile]...
#
# forward.py says what they are; without words the first four. On a machine with a GPU, PyTorch and transformers; half a minute
# each, two for those of the 7B. A capsule (3 GB; 15 of the 7B) is removed when it was replayed, unless KEEP is set. PYTHON: with
# torch. APP: another command to capture.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
steps_open "$@"
shift

replayed() { # MODE
    rm -rf "${out:?}/capsule_$1" "$out/r_$1"
    # shellcheck disable=SC2086  # several words
    "$tw" capture region=step#3 out="$out/capsule_$1" -- ${APP:-"$python" "$here/forward.py" "$1"} >"$out/$1.capture" ||
        { code=$?; tail -n 5 "$out/$1.capture"; return $code; }
    echo "$1: $(du -sm "$out/capsule_$1" | cut -f1) MB" | figure
    rc=0
    # shellcheck disable=SC2046  # several words
    "$tw" replay capsule="$out/capsule_$1" $(small '' 'replay.samples=3 replay.sample_ms=0.05') out="$out/r_$1" >"$out/$1.replay" || rc=$?
    cut -c1-160 "$out/$1.replay"
    grep -E '^([a-z_]*_us|wrong_bytes|verif|NOT verif|nothing to verify|  [a-z0-9]|kinds|fault|note)' "$out/$1.replay" | cut -c1-150 | sed 's/^/    /' | figure
    grep -E '^(in a graph|as launched): ' "$out/$1.replay" | sed 's/^/    /' | figure || echo "    replayed / application: NOT THERE" | figure
    awk '$1 == "wrong_bytes" { is = $2 } END {
        printf "    wrong bytes: %s, asked 0: %s\n", is, (is == "0" ? "ok" : "MISS") }' "$out/$1.replay" | figure
    [ -n "${KEEP:-}" ] || rm -rf "${out:?}/capsule_$1"
    return $rc
}

steps_begin "$@"
[ $# -gt 0 ] || set -- bloom qwen3 decode compile
for mode in "$@"; do
    case $mode in
    llama | llama_compile) step "$mode" 120 300 replayed "$mode" ;;
    bloom | qwen3 | decode | compile) step "$mode" 30 150 replayed "$mode" ;;
    *) no_piece "$mode" ;;
    esac
done
steps_end
