#!/bin/sh
# fuzz_trim.sh TARGET [N]: cuts tests/fuzz/corpus/TARGET to N seeds (20). Seeds with a name of their own
# stay: they are examples and earlier findings. Of those that libFuzzer named (40 hex digits) it keeps,
# one after the other, the one that reaches the most edges which no kept seed reaches. Copy what is to
# be added, from build-fuzz/corpus/TARGET, into the corpus first.
set -eu
cd "$(dirname "$0")/.."
target=${1:?fuzz_trim.sh TARGET [N]} n=${2:-20}
corpus=tests/fuzz/corpus/$target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --preset fuzz >/dev/null
cmake --build build-fuzz --target "fuzz.$target" >/dev/null
mkdir "$work/merged"
"build-fuzz/tests/fuzz/fuzz.$target" -set_cover_merge=1 -use_counters=0 -merge_control_file="$work/control" \
    "$work/merged" "$corpus" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }

# The control file: two counts, the seeds, then "FT <seed> <edge>..." for each.
awk -v n="$n" '
function take(k,   j, m, x) {
    taken[k] = 1
    kept++
    m = split(edges[k], x, " ")
    for (j = 1; j <= m; j++) if (!(x[j] in have)) { have[x[j]] = 1; got++ }
}
/^tests\// { seed[seeds++] = $0; next }
/^FT / {
    for (j = 3; j <= NF; j++) { edges[$2] = edges[$2] " " $j; if (!($j in all)) { all[$j] = 1; total++ } }
}
END {
    for (k = 0; k < seeds; k++) {
        name = seed[k]
        sub(/.*\//, "", name)
        if (length(name) != 40 || name ~ /[^0-9a-f]/) take(k)
    }
    while (kept < n) {
        most = 0
        for (k = 0; k < seeds; k++) {
            if (k in taken) continue
            m = split(edges[k], x, " ")
            fresh = 0
            for (j = 1; j <= m; j++) fresh += !(x[j] in have)
            if (fresh > most) { most = fresh; best = k }
        }
        if (most == 0) break
        take(best)
    }
    for (k = 0; k < seeds; k++) if (!(k in taken)) print seed[k] >drop
    printf("%d of %d seeds reach %d of %d edges\n", kept, seeds, got, total)
}' drop="$work/drop" "$work/control"
[ ! -f "$work/drop" ] || xargs rm -f <"$work/drop"
