# completion.zsh TWINFER SOURCE: what zsh's completion hands to zsh, line by line; expected beside it.
emulate zsh
program=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd $work
# zsh's own work in a completion only
compadd() { # the array that -a names
    local -a offered=("${(@P)@[-1]}")
    print -r -- "  ${${(M)@:#-S}:+goes on:} ${(j: :)offered}"
}
compset() { print -r -- "  compset $*" }
_files() { print -r -- "  _files $*" }
_normal() { print -r -- "  _normal" }

try() {
    words=("$program" "$@") CURRENT=$(( $# + 1 ))
    print -r -- "[$*]"
    . $source/completion/_twinfer
}
try s
try model ''
try simulate mod
try bench engine=t
try simulate workload.arrival.kind=p
try simulate workload.dir=x
try simulate --config-dir ''
try trace -- py
