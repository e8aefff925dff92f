#!/bin/sh
# completion.sh SHELL TWINFER SOURCE: runs completion.<shell> and compares with completion.<shell>.out.
# UPDATE=1 rewrites that.
set -eu
shell=$1 program=$2 source=$3
here=$source/tests/install
command -v "$shell" >/dev/null || { echo "skipped: no $shell here"; exit 77; }
case $shell in
zsh) set -- -f ;;
*) set -- --norc --noprofile ;;
esac
got=$(LC_ALL=C "$shell" "$@" "$here/completion.$shell" "$program" "$source")
if [ "${UPDATE:-}" = 1 ]; then
    echo "$got" >"$here/completion.$shell.out"
fi
echo "$got" | diff -u "$here/completion.$shell.out" -
