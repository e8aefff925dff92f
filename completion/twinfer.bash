# Completion of twinfer for bash. The program says what can stand at the cursor (src/cmd/complete.h);
# here is only what bash wants to hear.

_twinfer() {
    local program=$1 line=${COMP_LINE:0:COMP_POINT} words cur candidate kind='' head typed
    read -ra words <<<"$line"
    # behind a blank an empty word begins
    [[ $line == *[[:blank:]] ]] && words+=('')
    cur=${words[-1]}

    # bash splits words at = and : and wants only what comes behind the last of them
    head=${cur%"${cur##*["$(_twinfer_breaks)"]}"}
    COMPREPLY=()
    while IFS= read -r candidate; do
        case $candidate in
        :*) kind=$candidate ;;
        *)
            candidate=${candidate%%$'\t'*}
            COMPREPLY+=("${candidate#"$head"}")
            ;;
        esac
    done < <("${program/#\~/$HOME}" --complete "${words[@]:1}" 2>/dev/null)

    # what ends in = or . goes on
    [[ ${#COMPREPLY[@]} -ge 1 && ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace 2>/dev/null
    case $kind in
    :files)
        typed=${cur%"${cur#*=}"}
        _twinfer_names -f "${cur#*=}" "${typed#"$head"}"
        ;;
    :folders) _twinfer_names -d "$cur" '' ;;
    :command) compopt -o default 2>/dev/null ;;
    esac
    return 0
}

# Characters among = and : at which this shell breaks words, for use in [...].
_twinfer_breaks() {
    local breaks=
    [[ $COMP_WORDBREAKS == *=* ]] && breaks+='='
    [[ $COMP_WORDBREAKS == *:* ]] && breaks+=':'
    printf '%s' "${breaks:-$'\x01'}"
}

# _twinfer_names -f|-d START BEFORE: names of files or folders that begin with START, each behind
# what is BEFORE them in the same word.
_twinfer_names() {
    local name
    while IFS= read -r name; do
        COMPREPLY+=("$3$name")
    done < <(compgen "$1" -- "$2")
    compopt -o filenames 2>/dev/null
}

complete -F _twinfer twinfer
