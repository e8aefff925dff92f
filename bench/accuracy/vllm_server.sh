# shellcheck shell=sh disable=SC2154  # out, tw, root, step_name are the caller's
# Sourced by bench/accuracy/vllm.sh: one server at a time, started where it is not up and left up between steps and calls.
#
#     server_up NAME GROUP SEQUENCES REFERENCE [ARG]...   leaves url and log; the same words again find it up
#     server_down                                         ends one that was started here
#     server_pid                                          its process, whose descendants compute; nothing where that is not known
#     server_log_part FILE FROM                           its iterations since byte FROM of the log, as .gz
#
# With server_tool set, `trace` or `capture`, it runs below `twinfer $server_tool out=$server_out $server_settings`, which ends with
# it: server_down waits for that. With server_other set it is the engine of OTHER, which is told PORT and MODEL, the reference.
#
# OUT/server holds what stands of it: `words` (those of server_up), `url`, `log` (a path), `stop` (how it ends: folder, group, held or
# nothing), `pid`.

# server_named: what of URL, VLLM_DIR, VLLM is there, else the stand-in of a rehearsal.
server_kind() {
    if [ -n "${server_other:-}" ]; then [ -z "${OTHER:-}" ] && echo stand_in || echo other
    elif [ -n "${URL:-}" ]; then echo url
    elif [ -n "${VLLM_DIR:-}" ]; then echo folder
    elif [ -n "${VLLM:-}" ]; then echo command
    elif [ -n "${REHEARSE:-}" ]; then echo stand_in
    else
        echo "no server: VLLM_DIR=FOLDER with run_vllm.sh, VLLM='vllm serve', or URL=http://... of one that is up; --help tells" >&2
        return 4
    fi
}

fetch() { # URL: to standard output; fails as the server does
    if command -v curl >/dev/null 2>&1; then
        curl -sf --noproxy '*' --max-time 20 "$1"
    else
        "$python" -S -c 'import sys, urllib.request as u
sys.stdout.buffer.write(u.build_opener(u.ProxyHandler({})).open(sys.argv[1], timeout=20).read())' "$1" 2>/dev/null
    fi
}

post() { # URL
    if command -v curl >/dev/null 2>&1; then
        curl -sf --noproxy '*' --max-time 60 -X POST "$1"
    else
        "$python" -S -c 'import sys, urllib.request as u
u.build_opener(u.ProxyHandler({})).open(u.Request(sys.argv[1], data=b"", method="POST"), timeout=60).read()' "$1" 2>/dev/null
    fi
}

answers() { # URL: has models, so it is up
    fetch "$1/v1/models" >/dev/null 2>&1
}

server_up() { # NAME GROUP SEQUENCES REFERENCE [ARG]...
    at=$out/server
    mkdir -p "$at"
    kind=$(server_kind) || return
    words="$kind $*${server_tool:+ below $server_tool $server_settings}${server_other:+ ${OTHER:-}}"
    if [ "$(cat "$at/words" 2>/dev/null)" = "$words" ] && url=$(cat "$at/url") && answers "$url"; then
        log=$(cat "$at/log")
        return
    fi
    server_down
    rm -f "$at/words"
    touch "$at/fresh" # nobody asked it yet; who warms it up takes this away
    begin=$(date +%s)
    name=$1 group=$2 sequences=$3 reference=$4
    shift 4
    [ "$sequences" = 0 ] || set -- --max-num-seqs "$sequences" "$@"
    set -- --enable-logging-iteration-details --max-model-len "${MAXLEN:-8192}" "$@"
    log=$at/$name.log
    rm -f "$log" # of an earlier server, whose address it has
    url=http://127.0.0.1:${PORT:-8000}
    [ -z "${server_tool:-}" ] || kind=held-$kind
    case $kind in
    held-*)
        kind=${kind#held-}
        server_held "$@" || return
        await_server
        ;;
    other)
        in_the_background env "PORT=${PORT:-8000}" "MODEL=$reference" sh -c "exec $OTHER"
        await_server
        ;;
    url)
        url=${URL%/} log=${SERVER_LOG:-}
        echo nothing >"$at/stop"
        answers "$url" || { echo "nothing answers at $url/v1/models" >&2; return 4; }
        ;;
    folder)
        echo folder >"$at/stop"
        # shellcheck disable=SC2086  # several words
        LOG=$log PIDF=$at/pid the_folder start "$name" "$@" ${VLLM_ARGS:-}
        ;;
    command)
        # shellcheck disable=SC2086  # several words
        in_the_background sh -c "exec $VLLM \"\$@\"" sh "$reference" --served-model-name "$name" --host 127.0.0.1 \
            --port "${PORT:-8000}" "$@" ${VLLM_ARGS:-}
        await_server
        ;;
    stand_in) # twinfer's own, at the pace of that model on that GPU; any free port. Another engine's has another scheduler
        in_the_background "$tw" serve log.level=error engine=sim "model=$group" "hardware=$hardware" predictor=roofline \
            "scheduler=$([ -n "${server_other:-}" ] && echo orca || echo vllm_0_33)" scheduler.num_blocks=600 scheduler.batch_cap=32 \
            scheduler.max_model_len=1024 chat_template=none server.port=0 "out=$at/served-$begin"
        url=''
        await_server
        ;;
    esac
    echo "$url" >"$at/url"
    echo "$log" >"$at/log"
    echo "$words" >"$at/words"
    echo "$name: server up after $(($(date +%s) - begin)) s at $url"
}

# run_vllm.sh's folder of models is MODELS, too: ours are words.
the_folder() { # start NAME [ARG]... or stop, with LOG and PIDF
    env -u MODELS "PORT=${PORT:-8000}" "MAXLEN=${MAXLEN:-8192}" "WAIT=${WAIT:-400}" bash "$VLLM_DIR/run_vllm.sh" "$@"
}

# The server below a tool, in a group of its own, until the file `end` appears. A stand-in computes then, on a GPU or what stands for
# it, since there is nothing to trace of a simulator.
server_held() { # [ARG]...
    unset HOLD_STOP
    # shellcheck disable=SC2086  # several words
    case $kind in
    url | other) echo "twinfer $server_tool starts the server itself: VLLM_DIR or VLLM names it" >&2; return 2 ;;
    folder)
        set -- env -u MODELS "LOG=$log" "PIDF=$at/folder.pid" "PORT=${PORT:-8000}" "MAXLEN=${MAXLEN:-8192}" "WAIT=${WAIT:-400}" \
            bash "$VLLM_DIR/run_vllm.sh" start "$name" "$@" ${VLLM_ARGS:-}
        export HOLD_STOP="env -u MODELS PIDF='$at/folder.pid' LOG='$log' bash '$VLLM_DIR/run_vllm.sh' stop"
        ;;
    command)
        set -- sh -c "exec $VLLM \"\$@\"" sh "$reference" --served-model-name "$name" --host 127.0.0.1 --port "${PORT:-8000}" "$@" \
            ${VLLM_ARGS:-}
        ;;
    stand_in)
        set -- "$tw" serve log.level=error engine=cuda "model=$group" "hardware=$hardware" model.weights=random:1 \
            scheduler.num_blocks=64 scheduler.token_budget=16 scheduler.batch_cap=4 scheduler.max_model_len=64 chat_template=none \
            server.port=0 "out=$at/served-$begin"
        url=''
        ;;
    esac
    rm -rf "$at/end" "$server_out"
    echo held >"$at/stop"
    said=$log
    [ "$kind" != folder ] || said=$at/start.txt
    # shellcheck disable=SC2086  # several words
    setsid "$tw" "$server_tool" "out=$server_out" $server_settings -- sh "$root/bench/accuracy/vllm_hold.sh" "$at/end" "$said" "$@" \
        >"$at/$server_tool.txt" 2>&1 </dev/null &
    echo $! >"$at/pid"
}

server_pid() {
    case $(cat "$out/server/stop" 2>/dev/null) in
    group | folder) cat "$out/server/pid" ;;
    *) echo "${SERVER_PID:-}" ;;
    esac
}

# A process group of its own, which outlives the step.
in_the_background() {
    echo group >"$at/stop"
    setsid "$@" >"$log" 2>&1 </dev/null &
    echo $! >"$at/pid"
}

await_server() {
    until=$(($(date +%s) + ${WAIT:-400}))
    while :; do
        [ -n "$url" ] || [ ! -f "$log" ] || url=$(sed -n "s/^listening *//p" "$log")
        [ -z "$url" ] || ! answers "$url" || return 0
        kill -0 "$(cat "$at/pid")" 2>/dev/null || break
        [ "$(date +%s)" -lt "$until" ] || { echo "no answer in ${WAIT:-400} s"; break; }
        sleep 0.5
    done
    { echo "the server did not come up; the end of $log:"; tail -n 20 "$log" | cut -c1-300; } >&2
    server_down
    return 4
}

server_down() {
    at=$out/server
    [ -f "$at/stop" ] || return 0
    how=$(cat "$at/stop")
    rm -f "$at/words" "$at/stop"
    case $how in
    folder) PIDF=$at/pid LOG=$at/log.txt the_folder stop >/dev/null 2>&1 || : ;;
    held) # the tool writes its result behind the server's end: a capture packs gigabytes
        pid=$(cat "$at/pid")
        touch "$at/end"
        for _ in $(seq "${SEAL_WAIT:-900}"); do
            kill -0 "$pid" 2>/dev/null || return 0
            sleep 1
        done
        kill -KILL "-$pid" 2>/dev/null || :
        ;;
    group)
        pid=$(cat "$at/pid")
        kill -TERM "-$pid" 2>/dev/null || return 0
        for _ in $(seq 60); do
            kill -0 "-$pid" 2>/dev/null || return 0
            sleep 0.5
        done
        kill -KILL "-$pid" 2>/dev/null || :
        ;;
    esac
}

server_log_size() {
    if [ -n "$log" ] && [ -f "$log" ]; then wc -c <"$log"; else echo 0; fi
}

# The lines come a little behind the tokens they tell of.
server_log_part() { # FILE FROM
    [ -n "$log" ] && [ -f "$log" ] || return 0
    at_rest=''
    for _ in $(seq 40); do # the log of the last iterations comes behind their answers, by lines or not
        size=$(server_log_size)
        [ "$size" != "$at_rest" ] || [ "$(tail -c 1 "$log" | wc -l)" = 0 ] || break
        at_rest=$size
        sleep 0.5
    done
    tail -c "+$(($2 + 1))" "$log" | grep -a 'Iteration(' >"$1" || { rm -f "$1"; return 0; }
    gzip -nf "$1"
}

# What the server said of itself in its log: the program's reading of it, or why there is none.
server_facts() {
    echo "version $(fetch "$url/version" 2>/dev/null || :)"
    [ -z "${server_other:-}" ] || return 0
    [ -n "$log" ] && [ -f "$log" ] || return 0
    "$tw" settings "settings.log=$log" 2>&1 || :
}

# Of these, what a simulation takes, as words: scheduler.batch_cap=128 ...
server_settings() {
    [ -n "$log" ] && [ -f "$log" ] || return 0
    "$tw" settings log.level=error "settings.log=$log" | sed -n 's/^settings *//p' | tr ' ' '\n' |
        grep -E '^scheduler\.(batch_cap|max_model_len|num_blocks|token_budget|prefix_caching|async_scheduling|cuda_graphs|graph_tokens)=' || :
}
