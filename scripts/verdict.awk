# What `twinfer compare` printed, in one line: verdict, the judged cell with the largest error, and why
# it is so where that is known: "warn: TTFT P50 +8.4 %". An excused cell is said to be one.

function size(x) { return x < 0 ? -x : x }

/^ *(TTFT|Per-token latency|TPOT|E2E) +P[0-9]+ / && !/not judged/ {
    error = ""
    for (i = 1; i < NF && error == ""; i++)
        if ($i ~ /^[-+][0-9.]+$/ && $(i + 1) == "%")
            error = $i
    if (error == "" && / 0 %/)
        error = 0
    at = match($0, /(pass|warn|inconclusive|fail)(:.*)?$/)
    cell = at ? substr($0, at) : ""
    name = $0
    sub(/^ */, "", name)
    sub(/ P[0-9].*/, "", name)
    sub(/ +$/, "", name)
    match($0, /P[0-9]+ /)
    name = name " " substr($0, RSTART, RLENGTH - 1)
    excused += cell ~ /excused/
    level = cell ~ /^fail/ ? 3 : cell ~ /^inconclusive/ ? 2 : cell ~ /^warn/ ? 1 : 0
    if (worst == "" || level > worst_level || (level == worst_level && size(error) > size(worst_error))) {
        worst = name
        worst_error = error
        worst_level = level
        why = cell
        sub(/^[a-z]*:? ?/, "", why)
    }
}

/^ *finding: / && finding == "" {
    finding = $0
    sub(/^ *finding: /, "", finding)
    sub(/\.$/, "", finding)
}

/^ *verdict: / {
    verdict = $0
    sub(/^ *verdict: /, "", verdict)
}

END {
    sub(/:.*/, "", verdict)
    printf "%s: %s %s %%", verdict, worst, worst_error
    if (excused)
        printf " (%d excused)", excused
    if (why != "")
        printf ", %s", why
    if (verdict != "pass" && finding != "" && !short)
        printf "; %s", finding
    printf "\n"
}
