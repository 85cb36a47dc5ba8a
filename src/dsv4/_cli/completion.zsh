#compdef dsv4

_dsv4() {
    local -a commands
    commands=(
@COMMANDS@
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local name=$words[2]
    shift words
    (( CURRENT-- ))
    case $name in
@ARGUMENTS@
    esac
}

if [[ $funcstack[1] == _dsv4 ]]; then
    _dsv4 "$@"
else
    compdef _dsv4 dsv4
fi
