#!/bin/sh
# Every switch of recording over CUDA graphs that exist already:
#
#     bench/trace/late_switches.sh [OUT]
#
# OUT is $OUT or ./late-switches when it is left out. Needs a GPU and python3 (PYTHON) with torch; jax and cupy where they are. Prints a
# table; exit 1 when a program died. Before that, what a bare CUPTI program bears (late_graphs.c), where it can be built. TWINFER:
# the program, when it is neither build/twinfer nor that of the package that this script is in.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/bench/steps.sh"
[ $# -gt 0 ] || set -- "${OUT:-late-switches}"
steps_open "$@"
# shellcheck source=bench/trace/find.sh
. "$here/find.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cc=$(find_cc) include=$(find_cuda_include) cupti=$(find_cupti)
if [ -n "$cc" ] && [ -n "$include" ] && [ -n "$cupti" ] &&
    "$cc" -O1 -I"$include" -o "$work/late_graphs" "$here/late_graphs.c" "$cupti" \
        -Wl,-rpath,"$(dirname "$cupti")" -l:libcuda.so.1 2>"$work/err"; then
    "$work/late_graphs" | tee "$out/late_graphs.txt"
else
    echo "no bare CUPTI program: $(head -n 1 "$work/err" 2>/dev/null)"
fi

one() { # one PROGRAM LEVEL NAME settings...: a row of the table
    program=$1 level=$2 name=$3
    shift 3
    dir=$work/$program-$level-$name
    timeout 280 "$tw" trace trace.graphs="$level" "$@" out="$dir" -- \
        "$python" "$here/late_switches.py" "$program" >"$dir.out" 2>"$dir.err"
    code=$?
    counts=$("$python" - "$dir" <<'PY'
import json, sys
try:
    m = json.load(open(sys.argv[1] + "/run_meta.json"))
    r = [p["records"] for p in m["processes"]]
    print(*(sum(x.get(k, 0) for x in r) for k in ("kernels", "graphs")), sum(p["dropped"] for p in m["processes"]))
except (OSError, KeyError, ValueError) as e:
    print("?", "?", e)
PY
)
    # shellcheck disable=SC2086  # three words
    set -- $counts
    printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' "$program" "$level" "$name" "$code" "$1" "$2" "$3" \
        "$(grep -h lived "$dir.out" || tail -n 1 "$dir.err")" >"$dir.row"
}

programs=
for p in torch compile jax cupy; do
    module=$p
    [ "$p" = compile ] && module=torch
    "$python" -c "import $module" 2>/dev/null && programs="$programs $p"
done
[ -n "$programs" ] || { echo "late_switches: $python has none of torch, jax and cupy (PYTHON=)" >&2; exit 4; }
for program in $programs; do
    for level in graph node; do
        one "$program" $level plain &
        one "$program" $level profiler trace.profiler=true &
        one "$program" $level range 'trace.range=[late]' &
        one "$program" $level delay trace.delay_s=12 trace.duration_s=2 &
        wait
    done
done
{
    echo '| program | graphs | switch | exit code | kernels | graphs | dropped | |'
    echo '|---|---|---|---|---|---|---|---|'
    cat "$work"/*.row
} | tee "$out/late_switches.md"
for f in "$work"/*.err; do printf '== %s\n' "${f##*/}"; tail -n 5 "$f"; done >"$out/late_switches.err"
! grep -E '^\|[^|]*\|[^|]*\|[^|]*\| [1-9]' "$out/late_switches.md" >/dev/null
