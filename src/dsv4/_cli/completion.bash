# The completion of dsv4 for bash: source <(dsv4 completion bash)
_dsv4() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
    local words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "@NAMES@ --help --version" -- "$word"))
        return
    fi
    case "${COMP_WORDS[1]} $before" in
@VALUES@
    esac
    if [ -z "$words" ]; then
        case "${COMP_WORDS[1]}" in
@OPTIONS@
        esac
        [[ "$word" == -* ]] || words=""
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _dsv4 dsv4
