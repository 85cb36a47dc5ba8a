"""The command `dsv4`: finds the subcommand, runs it, and reports a failure in one line."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn, Protocol, TextIO, cast

import dsv4
from dsv4._cli.command_output import BROKEN_PIPE, FINDINGS, INTERRUPTED, MISUSE, Failure, complain
from dsv4._cli.command_texts import ABOUT, COMMANDS, EXAMPLES, STATUSES
from dsv4._cli.option_fields import add_options, options_of
from dsv4._inputs.input_files import InputError, os_error_reason


class CommandModule(Protocol):
    """The interface of the module of a command."""

    __name__: str

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Adds its flags. Most have a dataclass for them, whose name ends in `Options`."""

    @staticmethod
    def run(args: Any) -> int: ...


class SupportsWrite(Protocol):
    def write(self, text: str, /) -> object: ...


class OneLineParser(argparse.ArgumentParser):
    """Complains in one line, without the usage in front."""

    def error(self, message: str) -> NoReturn:
        from dsv4._view.characters import terminal_safe

        hint = _closest_choice(message) or f"(see {self.prog} --help)"
        self.exit(MISUSE, terminal_safe(f"{self.prog}: {message} {hint}") + "\n")

    def _print_message(self, message: str, file: SupportsWrite | None = None) -> None:
        # The inherited method does not report a full disk.
        stream = file or sys.stderr
        if message and stream is not None:
            stream.write(message)


class LazyCommandParser:
    """Creates the parser of a command only when it is needed: creating all of them takes longer
    than printing the help."""

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments

    @cached_property
    def parser(self) -> OneLineParser:
        return OneLineParser(**self._arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parser, name)


WIDEST = 100
NARROWEST = 60


class StableFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats help in the same way on every Python: the documentation is written from it. On a
    narrow terminal it is as wide as the terminal.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=_help_width())
        self._action_max_length = 20  # so that all commands have the same column

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wraps sentences. The lines of examples, which are indented, stay unchanged."""
        import textwrap

        lines = (
            [line] if line.startswith(" ") or not line else textwrap.wrap(line, width)
            for line in text.splitlines()
        )
        return "\n".join(f"{indent}{line}" for wrapped in lines for line in wrapped)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, action.dest.upper())
        return f"{', '.join(action.option_strings)} {value}"


def _help_width() -> int:
    if sys.stdout is None or not sys.stdout.isatty():
        return WIDEST
    from shutil import get_terminal_size

    return max(NARROWEST, min(WIDEST, get_terminal_size().columns))


# The message of argparse about a word that is not one of the choices.
_WRONG_CHOICE = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)", re.DOTALL)


def _closest_choice(message: str) -> str:
    """A hint at the choice that may be meant, if `message` is about a wrong choice; else empty."""
    wrong = _WRONG_CHOICE.search(message)
    return _did_you_mean(wrong[1], re.findall(r"[\w.-]+", wrong[2])) if wrong else ""


def _hint_for(argument: str, options: list[str]) -> str:
    if argument.startswith(("http://", "https://")) and "--upstream" in options:
        return f"(did you mean --upstream {argument}?)"
    name = argument.partition("=")[0]
    if "--mode" in options and _did_you_mean(name, ["--thinking", "--no-thinking"]):
        return "(did you mean --mode thinking, or --mode chat?)"
    return _did_you_mean(name, options)


def _did_you_mean(word: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, list(names), n=1, cutoff=0.7)
    return f"(did you mean {close[0]}?)" if close else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name. Returns its exit status."""
    _use_utf8(sys.stdout)
    try:
        return _run_and_flush(list(sys.argv[1:] if arguments is None else arguments))
    except Failure as failure:
        return _complain_and_exit(str(failure), failure.status)
    except dsv4.Error as error:
        return _complain_and_exit(str(error), FINDINGS if _is_finding(error) else MISUSE)
    except KeyboardInterrupt:
        _discard_output()
        return _complain_and_exit("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of the output has closed it
        _discard_output()
        return BROKEN_PIPE
    except OSError as error:
        _discard_output()
        return _complain_and_exit(f"cannot write stdout: {os_error_reason(error)}", MISUSE)


def _is_finding(error: dsv4.Error) -> bool:
    """Whether an error is about the content of the input: missing files and packages are misuse."""
    if "dsv4.tokens" not in sys.modules:
        return not isinstance(error, InputError)
    from dsv4.tokens.vocabulary import TokensNotInstalled

    return not isinstance(error, (InputError, TokensNotInstalled))


def _run_and_flush(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    finally:  # also after help, which ends with an exception
        if sys.stdout is not None:
            sys.stdout.flush()


def _run(arguments: list[str]) -> int:
    if not arguments:
        make_parser().print_help(sys.stderr)
        return MISUSE
    if arguments[0] == "--version":
        arguments[0] = "version"
    parser = make_parser(arguments[:1])
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        hint = _hint_for(unknown[0], _options_of(parser, args.command))
        hint = hint or f"(see dsv4 {args.command} --help)"
        raise Failure(f"unrecognized arguments: {' '.join(unknown)} {hint}")
    command = load_command(args.command)
    options = _command_options(command)
    return command.run(args if options is None else options_of(options, args))


def _options_of(parser: argparse.ArgumentParser, command: str) -> list[str]:
    """The options of a command, as they are written."""
    commands = next(action for action in parser._actions if isinstance(action.choices, dict))
    own_parser = dict(commands.choices or {})[command]
    return [name for action in own_parser._actions for name in action.option_strings]


def load_command(name: str) -> CommandModule:
    """The module of a command, loaded only for that command, so that help is fast."""
    return cast(CommandModule, import_module(f"dsv4._cli.{name}"))


def _command_options(module: CommandModule) -> type | None:
    """The dataclass whose fields are the flags of a command, if it has one."""
    name = module.__name__.rpartition(".")[2]
    return getattr(module, f"{name.capitalize()}Options", None)


def make_parser(whole: Iterable[str] = ()) -> argparse.ArgumentParser:
    """The parser with the names of all commands, and with the options of those in `whole`."""
    parser = OneLineParser(
        prog="dsv4",
        usage="dsv4 COMMAND [options]",
        description=ABOUT,
        epilog=STATUSES,
        formatter_class=StableFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="same as the command version")
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        dest="command",
        parser_class=cast(type[OneLineParser], LazyCommandParser),
    )
    commands.required = True
    for name, about in COMMANDS.items():
        command = commands.add_parser(
            name,
            prog=f"dsv4 {name}",
            help=about,
            description=_sentence(about),
            formatter_class=StableFormatter,
            allow_abbrev=False,
        )
        if name in whole:
            _add_command_options(cast(LazyCommandParser, command).parser, name)
    return parser


def _add_command_options(command: argparse.ArgumentParser, name: str) -> None:
    command.epilog = "example:\n" + "".join(f"  {line}\n" for line in EXAMPLES[name])
    module = load_command(name)
    options = _command_options(module)
    if options is None:
        module.add_arguments(command)
    else:
        add_options(command, options)
    command.usage = _usage(command)
    command._positionals.title = "arguments"


def _usage(command: argparse.ArgumentParser) -> str:
    """A short usage line: each option is explained below it."""
    return " ".join([command.prog, "[options]", *map(_operand_usage, positionals(command))])


def positionals(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in command._actions if not action.option_strings]


def _operand_usage(action: argparse.Action) -> str:
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest
    name = str(action.metavar or choices)
    forms = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}
    return forms.get(str(action.nargs), name)


def _sentence(help: str) -> str:
    return help[:1].upper() + help[1:].removesuffix(".") + "."


def _use_utf8(stream: TextIO | None) -> None:
    """Makes a stream write prompts exactly, whatever the locale and the system's line ends."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors="strict", newline="\n")


def _complain_and_exit(problem: str, status: int) -> int:
    complain(problem)
    return status


def _discard_output() -> None:
    """Redirects stdout to nowhere: Python flushes it when it ends, and would fail once more."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
