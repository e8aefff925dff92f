# shellcheck shell=sh disable=SC2154,SC2034  # what the caller and model_of leave; server_* are server_up's
# Sourced by bench/accuracy/vllm.sh: what else is measured of a server: its kernels, a step of it run again, and its energy.

# ---- trace ----

steps_trace() {
    for model in $models; do
        step "${model%%:*}-trace" "$(small 200 10)" "$(small 580 120)" traced "$model"
    done
}

traced() { # MODEL
    model_of "$1"
    server_tool=trace server_out=$out/trace/$name server_settings=log.level=error
    mkdir -p "$out/trace"
    rm -rf "$out/trace/$name-run" "$out/kernels/$name"
    server_up "$name" "$group" "$sequences" "$reference"
    load_into "$out/trace/$name-run" "$(small t12 prompts)"
    server_down
    [ -f "$server_out/run_meta.json" ] || { tail -n 5 "$out/server/trace.txt" >&2; return 3; }
    set -- "kernels.trace=$server_out" "+model=$group" "+hardware=$hardware"
    if [ "$kind" = stand_in ]; then # marks its steps, and hands tokens on without a copy
        "$tw" kernels "$@" "out=$out/kernels/$name" >"$out/server/kernels.txt"
        awk -F, -v what="$name" '$NF ~ /:step/ { n += $3 } END { print what ": " n + 0 " steps" }' "$out/kernels/$name/trace_nvtx_sum.csv" | figure
        return
    fi
    set -- "$@" kernels.iterations=true
    if grep -aq 'Iteration(' "$log" 2>/dev/null; then # of vLLM
        set -- "$@" "kernels.iteration_log=$log" "kernels.runs=[$(quoted "$out/trace/$name-run")]"
    fi
    "$tw" kernels "$@" "out=$out/kernels/$name" >"$out/server/kernels.txt" || { code=$?; tail -n 5 "$out/server/kernels.txt"; return $code; }
    iterations_by_kind "$out/kernels/$name/iterations.csv" | sed "s/^/$name: /" | figure
}

# Medians: launches of a step are those of its graphs and of single kernels.
iterations_by_kind() { # FILE
    awk -F, 'function median(k, field,   i, j, x, n, v) {
            n = many[k]
            for (i = 1; i <= n; i++) v[i] = value[k, field, i]
            for (i = 2; i <= n; i++) { x = v[i]; for (j = i - 1; j >= 1 && v[j] > x; j--) v[j + 1] = v[j]; v[j + 1] = x }
            return v[int((n + 1) / 2)]
        }
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        {
            k = $at["graphs"]; n = ++many[k]
            value[k, "busy", n] = $at["busy_ns"] / 1e6; value[k, "launch", n] = $at["launch_ns"] / 1e6
            value[k, "launches", n] = $at["launches"]; value[k, "graphs", n] = $at["graph_launches"]
        }
        END {
            for (k in many) printf "%s: %d iterations, medians: %.2f ms on the GPU, launched in %.2f ms by %d calls, %d of them of graphs\n",
                k, many[k], median(k, "busy"), median(k, "launch"), median(k, "launches"), median(k, "graphs")
            if (NR < 2) print "no iterations"
        }' "$1" | sort
}

# ---- capture ----

steps_capture() {
    for model in $models; do
        for kind in decode mixed; do
            step "${model%%:*}-capture-$kind" "$(small 300 20)" "$(small 590 180)" captured "$model" $kind
        done
    done
}

# One step is so many launches where the server launches pieces alone: what trace counted.
pieces_of() { # NAME
    [ -z "${PIECES:-}" ] || { echo "$PIECES"; return; }
    counted=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["graphs"] == "piecewise" { n[$at["graph_launches"]]++ }
        END { for (k in n) if (n[k] > n[best]) best = k; print best }' "$out/kernels/$1/iterations.csv" 2>/dev/null) || :
    [ -n "$counted" ] || { echo "how many graphs a mixed step of $1 launches is not known: run the piece trace, or set PIECES" >&2; return 2; }
    echo "$counted"
}

# The profiler's start comes between two steps, so that launches are counted from the begin of one.
region_of() { # NAME decode | mixed
    if [ -n "${REHEARSE:-}" ]; then # the stand-in has no /start_profile
        small '' "$([ "$2" = decode ] && echo graph:3 || echo graph:2-4)"
        return
    fi
    if [ "$2" = decode ]; then
        echo "${DECODE_REGION:-profiler/graph:20}"
    elif [ -n "${MIXED_REGION:-}" ]; then
        echo "$MIXED_REGION"
    else
        pieces=$(pieces_of "$1") || return
        echo "profiler/graph:$((10 * pieces + 1))-$((11 * pieces))"
    fi
}

# under_way PID: until the server computes requests of the load that this process sends, or that ended
under_way() {
    for _ in $(seq 240); do
        running=$(fetch "$url/metrics" | awk '/^vllm:num_requests_running/ { n += $NF } END { print (n > 0 ? 1 : 0) }') || running=0
        [ "$running" = 0 ] || return 0
        kill -0 "$1" 2>/dev/null || break
        sleep 0.5
    done
    echo "the server computes no request (vllm:num_requests_running of $url/metrics)" >&2
    return 4
}

captured() { # MODEL decode | mixed
    model_of "$1"
    kind_of=$2
    region=$(region_of "$name" "$kind_of") || return
    server_tool=capture server_out=$out/capture/$name-$kind_of server_settings="region=$region capture.stop_timeout_s=600 log.level=error"
    mkdir -p "$out/capture"
    set -- --profiler-config '{"profiler":"cuda"}'
    [ "$kind_of" = decode ] || set -- "$@" --compilation-config '{"cudagraph_mode":"PIECEWISE"}'
    # shellcheck disable=SC2086  # several words
    server_up "$name" "$group" "$sequences" "$reference" "$@" ${CAPTURE_ARGS:---gpu-memory-utilization 0.35}
    rm -rf "$server_out-run"
    load_into "$server_out-run" "$([ "$kind_of" = decode ] && echo steady || echo prompts)" &
    loading=$!
    case $region in
    profiler/*)
        if ! { under_way $loading && post "$url/start_profile"; }; then
            echo "no /start_profile was taken, which needs --profiler-config of vLLM 0.13 and later" >&2
            kill $loading 2>/dev/null || :
            wait $loading 2>/dev/null || :
            return 4
        fi
        ;;
    esac
    wait $loading || return
    server_down
    # the exit code is the server's
    [ -f "$server_out/manifest.json" ] || { tail -n 5 "$out/server/capture.txt" >&2; return 3; }
    replayed "$server_out" "$name, $kind_of step, $region"
}

# replayed CAPSULE WHAT: verified, timed, its energy; the capsule goes unless KEEP is set
replayed() {
    rm -rf "$1-verify" "$1-replay" "$1-energy"
    quick=$(small '' 'replay.samples=3 replay.sample_ms=0.05')
    rc=0
    "$tw" replay verify "capsule=$1" "out=$1-verify" >"$1-verify.txt" 2>&1 || rc=$?
    # shellcheck disable=SC2086  # several words
    "$tw" replay time "capsule=$1" "out=$1-replay" $quick >"$1-replay.txt" 2>&1 || rc=$?
    energy=0
    # shellcheck disable=SC2046  # several words
    "$tw" energy run "capsule=$1" "out=$1-energy" $(small '' 'energy.window_s=0.02 energy.duration_s=0.2 runs=[20]') >"$1-energy.txt" 2>&1 ||
        energy=$?
    {
        echo "$2: $(du -sm "$1" | cut -f1) MB"
        grep -hE '^(operations|kernels|timed|region_ms|stopped_ms)' "$out/server/capture.txt" | sed 's/^/    /'
        sed -n 's/^\(verified\|NOT verified\)/    \1/p' "$1-verify.txt" | cut -c1-150
        sed -n 's/^ *"\(full_model_inference_us\|application_wall_us\|in_context_sum_us\)"/    "\1"/p' "$1-replay/full_model_timing.json" 2>/dev/null
        grep -hE '^The whole: |^  energy of a run|^[0-9]+ kernels alone|^  their windows|^the application|^  predicted' "$1-energy.txt" | sed 's/^/    /'
        [ $energy = 0 ] || sed -n 's/^ *because: /    energy: /p' "$1-energy.txt" | tail -n 1
    } | figure
    cat "$1-verify.txt" "$1-replay.txt" "$1-energy.txt"
    [ -n "${KEEP:-}" ] || rm -rf "$1"
    [ $rc != 0 ] || rc=$energy
    return $rc
}

# ---- energy ----

energy_loads='a3 a12 a20'

steps_energy() {
    for model in $models; do
        for load in $energy_loads; do
            step "${model%%:*}-energy-$load" "$(small 60 5)" "$(small 560 120)" energy_measured "$model" "$load"
        done
    done
    for model in $models; do
        step "${model%%:*}-energy-bundle" "$(small 200 20)" "$(small 580 180)" energy_bundle "$model"
        step "${model%%:*}-energy-table" 10 "$(small 300 120)" energy_table "$model"
    done
}

energy_measured() { # MODEL LOAD
    model_of "$1"
    server_up "$name" "$group" "$sequences" "$reference"
    rm -rf "$out/energy/${name}_$2"
    mkdir -p "$out/energy"
    pid=$(server_pid)
    [ -n "$pid" ] || { echo "the server's pid is not known: SERVER_PID names it" >&2; return 2; }
    load_into "$out/energy/${name}_$2" "$2" energy.record=true "client.server_pid=$pid"
    server_facts >"$out/energy/$name.facts"
    mkdir -p "$runs"
    [ -f "$runs/$name.facts" ] || cp "$out/energy/$name.facts" "$runs/$name.facts"
    settings_of_server >"$out/energy/$name.settings"
}

# Operators of our own engine with their power: it needs the GPU that the server had.
energy_bundle() { # MODEL
    model_of "$1"
    [ -z "${PROFILES:-}" ] || { echo "$name: bundle of $PROFILES"; return 0; }
    server_down
    # shellcheck disable=SC2046  # several words
    "$tw" profile device=cuda "model=$group" "hardware=$hardware" model.weights=random:1 profile.energy=true \
        "profile.root=$out/energy/profiles" $(small 'profile.time_budget_s=60 profile.energy_budget_s=60' \
            'profile.max_tokens=20 profile.max_batch=5 profile.max_kv=40 profile.time_budget_s=0.3 profile.energy_budget_s=0.3')
}

# energy_of META KEY: a figure of `energy` in run_meta.json, which stands behind the settings of that name
energy_of() {
    sed -n '/^    "energy": {/,/^    }/p; /^  "energy": {/,/^  }/p' "$1" | sed -n "s/^ *\"$2\": \([-0-9.e+]*\),*$/\1/p" | tail -n 1
}

energy_table() { # MODEL
    model_of "$1"
    for load in $energy_loads; do
        run=$out/energy/${name}_$load
        [ -f "$run/run_meta.json" ] || { echo "no energy of $load" >&2; return 2; }
        rm -rf "$run-sim" "$run-compare"
        # shellcheck disable=SC2046  # several words
        "$tw" simulate "model=$group" "hardware=$hardware" scheduler=vllm_0_33 $(cat "$out/energy/$name.settings") $(settings_of "$load") \
            "profile.root=${PROFILES:-$out/energy/profiles}" "out=$run-sim" log.level=error >/dev/null
        "$tw" compare "real_run_dir=$run" "sim_run_dir=$run-sim" "out=$run-compare" log.level=error >"$run-compare.txt" ||
            case $? in 1 | 5) ;; *) return 1 ;; esac # its exit code judges latencies
        real=$(energy_of "$run/run_meta.json" j_per_token) simulated=$(energy_of "$run-sim/run_meta.json" j_per_token)
        if [ -z "$real" ] || [ -z "$simulated" ]; then
            grep -h unknown_because "$run/run_meta.json" "$run-sim/run_meta.json" >&2
            return 5
        fi
        echo "$name, $load: $real J per output token measured, $simulated simulated" | figure
        check "$name, $load: J per output token, simulated / measured - 1" \
            "$(awk -v r="$real" -v s="$simulated" 'BEGIN { printf "%+.1f", 100 * (s / r - 1) }')" % '+- 10' 1 -
    done
}
