#!/bin/sh
# minimal.sh [ctest arguments]: `./do test` on a Debian 12 that holds nothing but a shell: debootstrap's
# minbase in a folder of its own, a copy of the files git knows (no repository), packages from the
# mirror that this machine uses. As newcomers have it: ./do installs what it needs.
#
# Skipped, saying why, without root, debootstrap, namespaces or a mirror that answers. What it mounts
# and starts lives in namespaces and ends with them; the folder (1.5 GB, under $TMPDIR) is removed.
set -eu
cd "$(dirname "$0")/../.."
suite=bookworm
start=$(date +%s)

say() { echo "minimal: $* ($(($(date +%s) - start)) s so far)"; }
skip() {
    echo "minimal: skipped: $*"
    exit 0
}

[ "$(id -u)" = 0 ] || skip "only root may make a chroot"
PATH=$PATH:/usr/sbin:/sbin
command -v debootstrap >/dev/null || skip "no debootstrap"
unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces here (unshare --mount --pid)"

dir=$(mktemp -d "${TMPDIR:-/tmp}/twinfer-minimal.XXXXXX")
child=
trap '[ -z "$child" ] || kill -9 "$child"; wait; rm -rf --one-file-system "$dir"' EXIT
trap 'exit 130' INT TERM

# The mirror and the proxies of this machine's apt.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's/^(URIs:|deb( \[[^]]*\])?) *(https?:[^ ]*debian\/?)( .*)?$/\3/p' | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian}
apt-config dump 2>/dev/null | grep -iE '^Acquire::https?::(Proxy|Verify|CAInfo)' >"$dir/apt.conf" || :
if [ -z "${http_proxy:-}" ]; then
    proxy=$(sed -nE 's/^Acquire::http::Proxy "(.*)";$/\1/ip' "$dir/apt.conf" | head -n 1)
    [ -z "$proxy" ] || export http_proxy="$proxy"
fi

root=$dir/root
say "debootstrap $suite from $mirror"
if ! debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$dir/debootstrap.log" 2>&1; then
    tail -n 3 "$dir/debootstrap.log"
    if grep -qE '^E: (Failed getting release file|Unable to connect|Invalid Release)' "$dir/debootstrap.log"; then
        skip "$mirror does not answer"
    fi
    exit 1
fi
cp "$dir/apt.conf" "$root/etc/apt/apt.conf.d/99host"
case $mirror in
https:*) # the certificates that this machine trusts, which minbase has none of
    mkdir -p "$root/etc/ssl/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    ;;
esac
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || :

mkdir -p "$root/twinfer" "$root/dev/shm" "$root/dev/pts"
git ls-files -z | tar --null --files-from=- -cf - | tar -C "$root/twinfer" -xf -

say "./do test"
# shellcheck disable=SC2016  # expanded inside
unshare --mount --pid --fork --kill-child sh -c '
    mount --make-rprivate /
    mount -t proc proc "$1/proc"
    mount -t devpts devpts "$1/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
    root=$1
    shift
    exec chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/root ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
        /twinfer/do test "$@"' sh "$root" "$@" &
child=$!
rc=0
wait "$child" || rc=$?
child=
say "./do test ended with $rc"
exit "$rc"
