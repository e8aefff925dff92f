#!/bin/sh
# The one script of twinfer: builds it, shows it, tests it, packs it. Needs a shell and, on Debian or
# Ubuntu, apt; whatever else is missing it installs (scripts/packages.txt is the list).
set -eu
from=$PWD # what a relative prefix means
cd "$(dirname "$0")"

usage() {
    cat <<'TEXT'
usage: ./do <what>
  build   build/twinfer
  demo    build, then the whole pipeline on this machine's CPU, with a report (under 4 minutes)
  test    build with tests and run them; says at the end what was skipped, and why
  install build, then install below a prefix: ./do install [prefix], /usr/local when it is left out;
          DESTDIR is heeded
  dist    dist/twinfer-<version>-<arch>.tar.gz: runs where nothing can be installed
  docs    rewrite docs/cli from the program's own help
  deps    install the packages that are missing
  clean   remove what was built; runs/ stays
TEXT
}

# need GROUP...: install the packages of these groups that dpkg does not know as installed.
need() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        command -v cmake >/dev/null && command -v ninja >/dev/null && return 0
        echo "./do: no dpkg on this system; install what corresponds to:" >&2
        grep -v '^#' scripts/packages.txt >&2
        exit 4
    fi
    missing=
    for group in "$@"; do
        while read -r g package; do
            [ "$g" = "$group" ] || continue
            status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || :)
            [ "$status" = "install ok installed" ] || missing="$missing $package"
        done <scripts/packages.txt
    done
    [ -n "$missing" ] || return 0
    sudo=
    if [ "$(id -u)" != 0 ]; then
        sudo=sudo
        if ! command -v sudo >/dev/null 2>&1; then
            echo "./do: run this as root: apt-get install$missing" >&2
            exit 4
        fi
    fi
    $sudo apt-get update -qq
    known=
    for package in $missing; do # some tools of CI are not packaged everywhere
        if apt-cache show "$package" >/dev/null 2>&1; then
            known="$known $package"
        else
            echo "./do: this system has no package $package" >&2
        fi
    done
    [ -n "$known" ] || return 0
    echo "./do: installing$known" >&2
    # shellcheck disable=SC2086  # a list of words
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $known >/dev/null
}

# configure PRESET: once; CMake reconfigures by itself when its files change.
configure() {
    dir=build
    [ "$1" = release ] || dir=build-$1
    said=${TMPDIR:-/tmp}/twinfer-cmake.$$
    [ -f "$dir/build.ninja" ] || cmake --preset "$1" >"$said" || { cat "$said" >&2; exit 3; }
    rm -f "$said"
}

build() {
    need build
    configure release
    cmake --build build
}

case "${1:-}" in
build) build ;;
demo)
    build
    shift
    exec sh scripts/demo.sh "$@"
    ;;
test)
    need build test
    configure test
    cmake --build build-test
    shift
    rc=0
    (cd build-test && ctest --output-on-failure -j "$(sh ../scripts/ci/jobs.sh)" "$@") || rc=$?
    sh scripts/ci/skipped.sh build-test
    exit "$rc"
    ;;
install)
    prefix=${2:-/usr/local}
    case $prefix in
    /*) ;;
    *) prefix=$from/$prefix ;;
    esac
    build
    umask 022 # folders for everybody, as the files are, whatever root's umask is
    exec cmake --install build --prefix "$prefix"
    ;;
dist)
    build
    exec sh scripts/dist.sh
    ;;
docs)
    build
    exec sh scripts/docs.sh
    ;;
deps) need build test ci ;;
clean) rm -rf build build-* dist ;;
*)
    usage
    [ "${1:-}" = help ] || [ "${1:-}" = --help ] || exit 2
    ;;
esac
