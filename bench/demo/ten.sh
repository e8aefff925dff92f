#!/bin/sh
# How often does the demo end well on this machine? Runs it N times (default 10), PAUSE seconds apart
# (default 30), and prints a row for each: the verdict of both settings with the judged cell of the
# largest error, how far the real runs are from each other (itself.sh), how long it took, and how long
# the real runs and the profile waited for cores at most.
# A demo counts as good where both verdicts are pass or warn and no cell is excused.
#
#     sh bench/demo/ten.sh [N [PAUSE]]        after ./do build
set -eu
export LC_ALL=C # where a locale has a comma, mawk reads "1.5" as 1
cd "$(dirname "$0")/../.."

n=${1:-10} pause=${2:-30}
out=${DEMO_OUT:-runs/demos-$(date +%Y%m%d-%H%M%S)}
mkdir -p "$out"

# The largest share of "waiting" in the meta files.
waited() {
    cat "$1"/runs/*-real-*/run_meta.json |
        sed -n 's/^ *"waiting": \([0-9.e-]*\).*/\1/p' | sort -g | tail -1 | awk '{ printf "%.0f %%", 100 * $1 }'
}

lscpu | sed -n 's/^\(Model name\|CPU(s)\|L2 cache\|L3 cache\): */\1: /p'
good=0 i=0
while [ $i -lt "$n" ]; do
    i=$((i + 1))
    [ $i = 1 ] || sleep "$pause"
    at=$(date +%H:%M) start=$(date +%s) code=0
    DEMO_OUT=$out/$i sh scripts/demo.sh >"$out/$i.log" 2>&1 || code=$?
    took=$(($(date +%s) - start))
    case $code in 0 | 1 | 5) ;; *) echo "$i: the demo ended with $code: $out/$i.log"; continue ;; esac
    idle=$(awk -v short=1 -f scripts/verdict.awk "$out/$i/idle.txt")
    loaded=$(awk -v short=1 -f scripts/verdict.awk "$out/$i/loaded.txt")
    case "$code $idle $loaded" in 0*excused*) ;; 0*) good=$((good + 1)) ;; esac
    printf '%2d  %s  %3d s  waited %s at most\n      idle    %s (real runs: %s)\n      loaded  %s (real runs: %s)\n' \
        $i "$at" $took "$(waited "$out/$i")" "$idle" "$(sh bench/demo/itself.sh "$out/$i" idle)" \
        "$loaded" "$(sh bench/demo/itself.sh "$out/$i" loaded)"
done
echo "$good of $n: pass or warn, nothing excused"
