#!/bin/sh
# Puts what bench/gpu/run.sh measured into data/GPU and the README files: the maintainer's step behind a session on a GPU.
#
#     bench/gpu/publish.sh FROM...             folders OUT of run.sh, or packages that its PACK left
#     bench/gpu/publish.sh                     the figures alone, again, from what is in data/GPU
#
# Of each FROM, as far as it has them:
#   profiles/        bundles: a model's takes the place of the one before (samples.txt stays behind)
#   fidelity/MODEL/  workloads and up to three real runs of each: all of the model's runs are replaced; batches.csv of the first run stays
#   roofs.json       roofs of the machine
#   steps/*.checks   figures with a limit: the newest of each figure counts, in data/GPU/checks.txt; those of the simulator are this
#                    program's, as below
#
# Then every recorded workload is simulated from the bundle in data/GPU by this tree's program and compared with its real runs, and the blocks
# between `<!-- NAME: bench/gpu/publish.sh -->` and `<!-- end -->` are written anew: `fidelity` in data/GPU/README.md, `checks GPU` in
# bench/gpu/README.md, and the rows on the CUDA engine on that GPU in README.md's table. Nothing is written before all comparisons have run. Look at
# `git diff` then: words around the figures are yours, and tests/cli/h200_bundle holds Qwen3's loaded run to its limits.
#
# GPU: the group of hardware that was measured (h200). TWINFER: the program (build/twinfer). DATA: in place of data/GPU, READMES: of the folder whose README files are written.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
tw=${TWINFER:-$root/build/twinfer}
gpu=${GPU:-h200}
named=$(echo "$gpu" | tr '[:lower:]' '[:upper:]') # in the README files
data=${DATA:-$root/data/$gpu}
readmes=${READMES:-$root}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$work step_name=publish # of bench/steps.sh
mkdir "$work/steps"
. "$root/bench/steps.sh"
. "$root/bench/recorded.sh"
"$tw" --version >/dev/null || { echo "publish.sh: no program: TWINFER, or ./do build" >&2; exit 4; }

# ---- into a copy of data/GPU ----

new=$work/data
cp -R "$data" "$new"
touch "$new/checks.txt"

# take FOLDER FILES...: those that are there, of $run, into FOLDER.
take() {
    to=$1
    shift
    mkdir -p "$to"
    for file in "$@"; do [ ! -f "$run/$file" ] || cp "$run/$file" "$to/"; done
}

# Host times lie in the folder of the GPU's network, where its group names one.
take_bundle() { # FROM MODEL
    host=$(cd "$1/profiles/data/profiling" && ls -d cpu_overhead/*/"$2") || { echo "publish.sh: $1: $2 has no cpu_overhead" >&2; exit 3; }
    for part in "compute/$gpu/$2" "$host"; do
        rm -rf "${new:?}/data/profiling/$part"
        mkdir -p "$new/data/profiling/$(dirname "$part")"
        cp -R "$1/profiles/data/profiling/$part" "$new/data/profiling/$part"
        rm -f "$new/data/profiling/$part/samples.txt"
    done
    echo "bundle of $2"
}

take_runs() { # FROM MODEL
    rm -rf "$new/runs/$2"
    for point in "$1/fidelity/$2"/*/; do
        name=$(basename "$point")
        for real in 1 2 3; do
            run=$point/real-$real
            [ $real = 1 ] || [ -d "$run" ] || continue
            [ -f "$run/request_metrics.csv" ] || { echo "publish.sh: $run is not whole" >&2; exit 3; }
            take "$new/runs/$2/$name/real-$real" config.yaml overrides.yaml request_metrics.csv run_meta.json
        done
        run=$point/real-1
        take "$new/runs/$2/$name/real-1" batches.csv
        cp -R "$point/workload" "$new/runs/$2/$name/workload"
        echo "runs of $2, $name"
    done
}

take_checks() { # FROM: a figure's last line counts
    cat "$new/checks.txt" "$1"/steps/*.checks 2>/dev/null | awk -F'|' '{ if (!($1 in line)) order[++n] = $1; line[$1] = $0 }
        END { for (i = 1; i <= n; i++) print line[order[i]] }' >"$work/checks"
    mv "$work/checks" "$new/checks.txt"
}

for from in "$@"; do
    case $from in
    *.tgz)
        mkdir -p "$work/from"
        rm -rf "$work/from"/*
        tar xzf "$from" -C "$work/from"
        from=$work/from
        ;;
    esac
    [ -d "$from" ] || { echo "publish.sh: $from is neither a folder nor a .tgz" >&2; exit 3; }
    for bundle in "$from"/profiles/data/profiling/compute/"$gpu"/*/; do
        [ ! -d "$bundle" ] || take_bundle "$from" "$(basename "$bundle")"
    done
    for runs in "$from"/fidelity/*/; do
        [ ! -d "$runs" ] || take_runs "$from" "$(basename "$runs")"
    done
    [ ! -f "$from/roofs.json" ] || cp "$from/roofs.json" "$new/"
    take_checks "$from"
done

# ---- the figures, by this program ----

# compared MODEL NAME: simulates the workload with the settings of its first real run, and compares.
compared() {
    dir=$new/runs/$1/$2 to=$work/figures/$1/$2
    mkdir -p "$to"
    others=
    for real in "$dir"/real-[2-9]; do [ ! -d "$real" ] || others=$others${others:+,}$real; done
    recorded_simulate "$gpu" "$1" "$dir" "$new" "$to/sim" >"$to/sim.txt" 2>&1 || { cat "$to/sim.txt" >&2; exit 1; }
    rc=0
    "$tw" compare "real_run_dir=$dir/real-1" ${others:+"spread=[$others]"} "sim_run_dir=$to/sim" "out=$to/compare" >"$to/compare.txt" 2>&1 || rc=$?
    case $rc in 0 | 1 | 5) ;; *) cat "$to/compare.txt" >&2; exit 1 ;; esac
}

# row MODEL NAME: of the table: each cell simulated / real - 1, with the spread of the real runs.
row() {
    awk -v model="$1" -v name="$2" '
        $1 ~ /^(TTFT|TPOT|E2E)$/ && $2 ~ /^P(50|90|99)$/ && $3 > 0 {
            spread = ""
            for (i = 7; i < NF; i++) if ($i == ".." && $(i + 3) == "%") spread = " (" $(i + 2) ")"
            e = ($4 / $3 - 1) * 100
            cell[$1 $2] = sprintf("%+.1f%s", e, spread)
        }
        /^requests compared:/ { n = $3 }
        END {
            if (n < 1000) delete cell["TTFTP99"]; if (n < 1000) delete cell["TPOTP99"]; if (n < 1000) delete cell["E2EP99"]
            printf "| %s, %s, %d requests", model, name, n
            split("TTFTP50 TTFTP90 TTFTP99 TPOTP50 TPOTP90 TPOTP99 E2EP50 E2EP90 E2EP99", of, " ")
            for (i = 1; i <= 9; i++) printf " | %s", cell[of[i]]
            print " |"
        }' "$work/figures/$1/$2/compare.txt"
}

recorded_points "$new" >"$work/points"
{
    echo "| simulated / real - 1, % (spread of the real runs) | TTFT P50 | P90 | P99 | TPOT P50 | P90 | P99 | E2E P50 | P90 | P99 |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    while read -r model name; do
        compared "$model" "$name"
        row "$model" "$name"
    done <"$work/points"
} >"$work/fidelity.md"
while read -r model name; do check_comparison "$model, $name" "$work/figures/$model/$name/compare.txt"; done <"$work/points"
grep -v 'simulated / real - 1' "$new/checks.txt" | cat - "$work/steps/$step_name.checks" >"$work/checks"
mv "$work/checks" "$new/checks.txt"
checks_table "$new/checks.txt" >"$work/checks.md"

# Rows of README.md: the largest error of each recorded workload; the shares of the floor.
short=$(awk -F'|' 'NR > 2 { most = 0; for (i = 3; i <= 11; i++) { v = $i; sub(/\(.*/, "", v); v += 0; e = v < 0 ? -v : v; if (e > most) most = e }
    sub(/^ */, "", $2); sub(/ *$/, "", $2); printf "%s%s: at most %.1f %%", n++ ? "; " : "", $2, most }' "$work/fidelity.md")
shares=$(awk -F'|' '/: share of the floor\|/ { sub(/: share of the floor/, "", $1); name[++n] = $1; share[n] = $2 }
    /: step against compiled transformers\|/ { sub(/: step.*/, "", $1); sub(/-b/, ", batch ", $1); times[$1] = $2 }
    END { for (i = 1; i <= n; i++) {
        printf "%s%s %.2f", (i > 1 ? "; " : ""), name[i], share[i]
        if (name[i] in times) { sub(/ .*/, "", times[name[i]]); printf " (%s times as fast as compiled transformers)", times[name[i]] } } }' "$new/checks.txt")

# block FILE NAME TEXT: writes what is between the marks, to $work/new/FILE.
block() {
    grep -q "<!-- $2: bench/gpu/publish.sh -->" "$readmes/$1" || { echo "publish.sh: $1 has no block $2" >&2; exit 3; }
    mkdir -p "$work/new/$(dirname "$1")"
    awk -v name="<!-- $2: bench/gpu/publish.sh -->" -v text="$3" '
        $0 == name { print; print ""; while ((getline line <text) > 0) print line; print ""; skip = 1; next }
        $0 == "<!-- end -->" { skip = 0 }
        !skip' "$readmes/$1" >"$work/new/$1"
}

block "data/$gpu/README.md" fidelity "$work/fidelity.md"
block bench/gpu/README.md "checks $gpu" "$work/checks.md"
awk -v short="$short" -v shares="$shares" -v gpu="$gpu" -v name="$named" '
    index($0, "| real against simulated, CUDA engine on an " name ":") == 1 {
        print "| real against simulated, CUDA engine on an " name ": TTFT, TPOT and E2E at P50 and P90, with 1,000 requests P99 | " short " | [data/" gpu "](data/" gpu "/README.md) |"; next }
    index($0, "| CUDA engine on an " name ", bfloat16, decode") == 1 && shares != "" {
        print "| CUDA engine on an " name ", bfloat16, decode at 1k context: share of the time in which weights and keys are read once | " shares " | [bench/gpu](bench/gpu) |"; next }
    { print }' "$readmes/README.md" >"$work/new/README.md"

# ---- in place ----

rm -rf "$data"
cp -R "$new" "$data"
for file in "data/$gpu/README.md" bench/gpu/README.md README.md; do cp "$work/new/$file" "$readmes/$file"; done
cat "$work/fidelity.md"
echo "written: $data, and README.md, bench/gpu/README.md, data/$gpu/README.md of $readmes: look at git diff"
