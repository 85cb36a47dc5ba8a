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
from dsv4._format.texts import read_text


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

    @property
    def option_names(self) -> list[str]:
        return [name for option in self.options for name in option.names]


@dataclass(kw_only=True)
class CompletionOptions:
    shell: Literal["bash", "zsh", "fish", "powershell"] = argument()


def run(args: CompletionOptions) -> int:
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish, "powershell": _powershell}[args.shell]
    write_text(None, script(list(completion_commands())))
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


def _filled(script: str, **parts: Iterable[str]) -> str:
    """A script beside this module, with lines in place of the names that stand there."""
    text = read_text(script, __file__)
    for name, lines in parts.items():
        text = text.replace(f"@{name}@", "\n".join(lines))
    return text


# Bash.


def _bash(commands: list[CompletionCommand]) -> str:
    names = " ".join(command.name for command in commands)
    values = (line for command in commands for line in _bash_values(command))
    options = (
        f'            {each.name}) words="{" ".join(each.option_names)}" ;;' for each in commands
    )
    return _filled("completion.bash", NAMES=[names], VALUES=values, OPTIONS=options)


def _bash_values(command: CompletionCommand) -> Iterator[str]:
    for option in command.options:
        if option.choices:
            patterns = "|".join(f'"{command.name} {name}"' for name in option.names)
            yield f'        {patterns}) words="{" ".join(option.choices)}" ;;'
    if command.operands:
        words = " ".join(command.operands)
        yield f'        "{command.name} {command.name}") words="{words}" ;;'


# Zsh.


def _zsh(commands: list[CompletionCommand]) -> str:
    listed = (f"{command.name}:{_without_punctuation(command.help)}" for command in commands)
    names = (f"        {quote(each)}" for each in listed)
    arguments = (line for command in commands for line in _zsh_arguments(command))
    # Loaded from a folder of functions it is the function; sourced, it makes itself known.
    return _filled("completion.zsh", COMMANDS=names, ARGUMENTS=arguments)


def _zsh_arguments(command: CompletionCommand) -> Iterator[str]:
    yield f"        {command.name})\n            _arguments -s \\"
    for option in command.options:
        for name in option.names:
            yield f"                {quote(_zsh_option(name, option))} \\"
    values = f"({' '.join(command.operands)})" if command.operands else "_files"
    yield f"                {quote(f'*:operand:{values}')}\n            ;;"


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


def _fish(commands: list[CompletionCommand]) -> str:
    return "".join(_fish_lines(commands))


def _fish_lines(commands: list[CompletionCommand]) -> Iterator[str]:
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


def _powershell(commands: list[CompletionCommand]) -> str:
    rows = [("", [command.name for command in commands])]
    for command in commands:
        rows.append((command.name, [*command.option_names, *command.operands]))
        for option in command.options:
            names = option.names if option.choices else ()
            rows += ((f"{command.name} {name}", option.choices) for name in names)
    words = (f"        '{before}' = {_powershell_list(listed)}" for before, listed in rows)
    return _filled("completion.ps1", WORDS=words)


def _powershell_list(words: Iterable[str]) -> str:
    return "@(" + ", ".join("'" + word.replace("'", "''") + "'" for word in words) + ")"
