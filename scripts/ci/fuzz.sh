#!/bin/sh
# fuzz.sh [seconds] [target...]: builds the fuzz targets with clang's libFuzzer and runs each for that
# many seconds (default 60), two at a time. Fails when there is a finding; the inputs that show it
# are left in build-fuzz/findings/. What a run learned stays in build-fuzz/corpus/ for the next one.
set -eu
cd "$(dirname "$0")/../.."

if [ "${1-}" = --one ]; then # seconds target: how the run below starts each of its targets
    log=build-fuzz/findings/$3.log
    mkdir -p "build-fuzz/corpus/$3"
    if "build-fuzz/tests/fuzz/fuzz.$3" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="build-fuzz/findings/$3-" -print_final_stats=1 \
        "build-fuzz/corpus/$3" "tests/fuzz/corpus/$3" >"$log" 2>&1; then
        inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "fuzz.$3: $inputs inputs, no finding"
        exit 0
    fi
    echo "fuzz.$3: FINDING"
    tail -n 40 "$log"
    exit 1
fi

seconds=${1:-60}
[ $# -eq 0 ] || shift
cmake --preset fuzz >/dev/null
ninja -C build-fuzz -j2 fuzz
if [ $# -eq 0 ]; then
    for file in tests/fuzz/*.c; do
        name=$(basename "$file" .c)
        [ "$name" = driver ] || set -- "$@" "$name"
    done
fi
mkdir -p build-fuzz/findings
printf '%s\n' "$@" | xargs -n 1 -P 2 scripts/ci/fuzz.sh --one "$seconds"
