"""dsv4 completion"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Literal, NamedTuple

from dsv4._cli.command_output import DONE, write_text
from dsv4._cli.command_texts import COMMANDS
from dsv4._cli.option_fields import argument


class CompletionOption(NamedTuple):
    names: list[str]
    help: str
    takes_value: bool
    choices: list[str]


class CompletionCommand(NamedTuple):
    name: str
    help: str
    options: list[CompletionOption]
    operands: list[str]  # what may stand there; files, where there is no list


@dataclass(kw_only=True)
class CompletionOptions:
    shell: Literal["bash", "zsh", "fish", "powershell"] = argument()


def run(args: CompletionOptions) -> int:
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish, "powershell": _powershell}[args.shell]
    write_text(None, "".join(script(list(completion_commands()))))
    return DONE


def completion_commands() -> Iterator[CompletionCommand]:
    """All commands, as their parsers have them."""
    from dsv4._cli.main import make_parser, positionals

    subparsers = next(a for a in make_parser(COMMANDS)._actions if isinstance(a.choices, dict))
    for name, parser in dict(subparsers.choices or {}).items():
        options = [
            _completion_option(action) for action in parser._actions if action.option_strings
        ]
        operands = [str(c) for action in positionals(parser) for c in action.choices or ()]
        yield CompletionCommand(name, COMMANDS[name], options, operands)


def _completion_option(action: argparse.Action) -> CompletionOption:
    choices = list(map(str, action.choices or ()))
    names = list(action.option_strings)
    return CompletionOption(names, (action.help or "") % vars(action), action.nargs != 0, choices)


# Bash.


def _bash(commands: list[CompletionCommand]) -> Iterator[str]:
    names = " ".join(command.name for command in commands)
    yield "# The completion of dsv4 for bash: source <(dsv4 completion bash)\n_dsv4() {\n"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"\n'
    yield '    local words=""\n'
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then\n'
    yield f'        COMPREPLY=($(compgen -W "{names} --help --version" -- "$word"))\n'
    yield '        return\n    fi\n    case "${COMP_WORDS[1]} $before" in\n'
    for command in commands:
        yield from _bash_values(command)
    yield '    esac\n    if [ -z "$words" ]; then\n        case "${COMP_WORDS[1]}" in\n'
    for command in commands:
        options = " ".join(name for option in command.options for name in option.names)
        yield f'            {command.name}) words="{options}" ;;\n'
    yield "        esac\n"
    yield '        [[ "$word" == -* ]] || words=""\n    fi\n'
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))\n}\n'
    yield "complete -o default -F _dsv4 dsv4\n"


def _bash_values(command: CompletionCommand) -> Iterator[str]:
    for option in command.options:
        if option.choices:
            patterns = "|".join(f'"{command.name} {name}"' for name in option.names)
            yield f'        {patterns}) words="{" ".join(option.choices)}" ;;\n'
    if command.operands:
        words = " ".join(command.operands)
        yield f'        "{command.name} {command.name}") words="{words}" ;;\n'


# Zsh.


def _zsh(commands: list[CompletionCommand]) -> Iterator[str]:
    yield "#compdef dsv4\n\n_dsv4() {\n    local -a commands\n    commands=(\n"
    for command in commands:
        yield f"        {quote(f'{command.name}:{_without_punctuation(command.help)}')}\n"
    yield "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
    yield "        return\n    fi\n    local name=$words[2]\n"
    yield "    shift words\n    (( CURRENT-- ))\n    case $name in\n"
    for command in commands:
        yield f"        {command.name})\n            _arguments -s \\\n"
        for option in command.options:
            for name in option.names:
                yield f"                {quote(_zsh_option(name, option))} \\\n"
        values = f"({' '.join(command.operands)})" if command.operands else "_files"
        yield f"                {quote(f'*:operand:{values}')}\n            ;;\n"
    yield "    esac\n}\n\n"
    # Loaded from a folder of functions it is the function; sourced, it makes itself known.
    yield 'if [[ $funcstack[1] == _dsv4 ]]; then\n    _dsv4 "$@"\nelse\n'
    yield "    compdef _dsv4 dsv4\nfi\n"


def _zsh_option(name: str, option: CompletionOption) -> str:
    text = f"{name}[{_without_punctuation(option.help)}]"
    if not option.takes_value:
        return text
    values = f"({' '.join(option.choices)})" if option.choices else "_files"
    return f"{text}:value:{values}"


def _without_punctuation(text: str) -> str:
    """Without what the shell's own descriptions are punctuated with."""
    return "".join(" " if char in "[]:\\" else char for char in text)


# Fish.


def _fish(commands: list[CompletionCommand]) -> Iterator[str]:
    yield "# The completion of dsv4 for fish\n"
    for command in commands:
        words = _fish_quoted(command.help)
        yield f"complete -c dsv4 -n __fish_use_subcommand -f -a {command.name} -d {words}\n"
    for command in commands:
        here = f"complete -c dsv4 -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            yield f"{here} {_fish_option(option)}\n"
        if command.operands:
            yield f"{here} -f -a {_fish_quoted(' '.join(command.operands))}\n"


def _fish_option(option: CompletionOption) -> str:
    names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
    values = f" -x -a {_fish_quoted(' '.join(option.choices))}" if option.choices else " -r"
    return f"{names}{values if option.takes_value else ''} -d {_fish_quoted(option.help)}"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# PowerShell.


def _powershell(commands: list[CompletionCommand]) -> Iterator[str]:
    yield "# The completion of dsv4 for PowerShell\n"
    yield "Register-ArgumentCompleter -Native -CommandName dsv4 -ScriptBlock {\n"
    yield "    param($word, $ast, $cursor)\n    $words = @{\n"
    yield f"        '' = {_powershell_list(command.name for command in commands)}\n"
    for command in commands:
        names = [name for option in command.options for name in option.names]
        yield f"        '{command.name}' = {_powershell_list([*names, *command.operands])}\n"
        for option in command.options:
            for name in option.names if option.choices else ():
                yield f"        '{command.name} {name}' = {_powershell_list(option.choices)}\n"
    yield '    }\n    $said = @($ast.CommandElements | ForEach-Object { "$_" })\n'
    yield "    if ($word) { $said = @($said | Select-Object -SkipLast 1) }\n"
    yield "    $command = if ($said.Count -gt 1) { $said[1] } else { '' }\n"
    yield '    $known = $words["$command $($said[-1])"]\n'
    yield "    if (-not $known) { $known = $words[$command] }\n"
    yield '    $known | Where-Object { $_ -like "$word*" } | ForEach-Object {\n'
    yield "        [System.Management.Automation.CompletionResult]::new($_)\n    }\n}\n"


def _powershell_list(words: Iterable[str]) -> str:
    return "@(" + ", ".join("'" + word.replace("'", "''") + "'" for word in words) + ")"
