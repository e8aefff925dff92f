# shellcheck shell=sh
# as_real RUN REAL: a real run of the same times as a simulated one, on the machine whose profile that
# one was made from, whatever machine the test runs on.
as_real() {
    cp -r "$1" "$2"
    awk '{ line[NR] = $0 }
        /^  "profile_host": \{/ { first = NR + 1 }
        first && !last && /^  \}/ { last = NR - 1 }
        END {
            for (i = 1; i <= NR; i++) {
                sub(/^  "run_type": "vidur"/, "  \"run_type\": \"real\"", line[i])
                if (inside && line[i] ~ /^  \}/) inside = 0
                if (!inside) print line[i]
                if (line[i] ~ /^  "host": \{/ && last) {
                    inside = 1
                    for (k = first; k <= last; k++) print line[k]
                }
            }
        }' "$1/run_meta.json" >"$2/run_meta.json"
}
