#!/bin/sh
# elsewhere.sh SECONDS COMMAND...: runs the command as on another machine: one that was booted that long
# ago and has a processor of another name. Its monotonic clock, which is what runs and timeouts go by,
# starts there (a time namespace, Linux 5.6; wants root), /proc/cpuinfo is another file, and the folder for
# temporary files has a space in its name. What is not permitted is left as it is, saying so.
set -eu
seconds=$1
shift
now=$(cut -d. -f1 /proc/uptime)
shift_s=$((seconds - now))
if unshare --mount mount --bind /proc/version /proc/cpuinfo 2>/dev/null; then
    file=$(mktemp)
    sed 's/^model name.*/model name\t: a processor of another name/' /proc/cpuinfo >"$file"
    echo "elsewhere: with a processor of another name"
    set -- unshare --mount sh -c "mount --bind $file /proc/cpuinfo && rm -f $file && exec \"\$@\"" sh "$@"
else
    echo "elsewhere: no mount namespace here (unshare --mount), so on the processor there is"
fi
TMPDIR="${TMPDIR:-/tmp}/twinfer elsewhere"
mkdir -p "$TMPDIR"
export TMPDIR
if unshare --time --monotonic "$shift_s" --boottime "$shift_s" true 2>/dev/null; then
    echo "elsewhere: as if booted $seconds s ago"
    exec unshare --time --monotonic "$shift_s" --boottime "$shift_s" "$@"
fi
echo "elsewhere: no time namespace here (unshare --time), so as booted $now s ago"
exec "$@"
