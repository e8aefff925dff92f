#!/bin/sh
# vllm_hold.sh END LOG COMMAND...: runs a server until the file END appears or SIGTERM comes, ends it, and waits for it: what
# `twinfer trace` and `twinfer capture` run, which end when their command does. What the server prints goes to LOG.
# HOLD_STOP: a shell's command that ends it, where COMMAND starts it and returns; without, COMMAND is the server, and SIGTERM ends it.
set -u
end=$1 log=$2
shift 2
trap 'touch "$end"' TERM INT
"$@" >"$log" 2>&1 &
pid=$!
if [ -n "${HOLD_STOP:-}" ]; then
    wait $pid || exit
fi
until [ -e "$end" ]; do
    [ -n "${HOLD_STOP:-}" ] || kill -0 $pid 2>/dev/null || break
    sleep 0.2
done
if [ -n "${HOLD_STOP:-}" ]; then
    sh -c "$HOLD_STOP"
else
    kill -TERM $pid 2>/dev/null
    wait $pid
fi
