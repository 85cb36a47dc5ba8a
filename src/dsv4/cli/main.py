"""The command `dsv4`: finds the subcommand, runs it, and says in one line why it could not."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import NoReturn, Protocol, TextIO, cast

import dsv4
from dsv4.cli.failure import BROKEN_PIPE, FINDINGS, INTERRUPTED, MISUSE, Failure
from dsv4.cli.words import in_json
from dsv4.reading.failures import InputError, reason

# Only the module of the command that was asked for is loaded. What it needs of the toolkit it
# imports when it runs, so that help costs little.
COMMANDS = {
    "encode": "dsv4.cli.encode",
    "show": "dsv4.cli.show",
    "parse": "dsv4.cli.parse",
    "decode": "dsv4.cli.decode",
    "check": "dsv4.cli.check",
    "count": "dsv4.cli.count",
    "diff": "dsv4.cli.diff",
    "dataset": "dsv4.cli.dataset",
    "grammar": "dsv4.cli.grammar",
    "template": "dsv4.cli.template",
    "special": "dsv4.cli.special",
    "version": "dsv4.cli.version",
    "serve": "dsv4.cli.serve",
    "heal": "dsv4.cli.heal",
    "replay": "dsv4.cli.replay",
    "completion": "dsv4.cli.completion",
}
ABOUT = "The toolkit for the prompt format of DeepSeek-V4 models."
STATUSES = """\
exit status:
  0    success
  1    something was found, or the input cannot be encoded or parsed
  2    wrong options, files that cannot be read or written, parts that are not installed
  130  interrupted
"""


class Command(Protocol):
    """What the module of a command has."""

    HELP: str
    EXAMPLE: str

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None: ...

    @staticmethod
    def run(args: argparse.Namespace) -> int: ...


class SupportsWrite(Protocol):
    def write(self, text: str, /) -> object: ...


class OneLineParser(argparse.ArgumentParser):
    """Complains in one line, without the usage in front."""

    def error(self, message: str) -> NoReturn:
        self.exit(MISUSE, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _print_message(self, message: str, file: SupportsWrite | None = None) -> None:
        # The inherited one says nothing when the disk is full.
        stream = file or sys.stderr
        if message and stream is not None:
            stream.write(message)


class StableFormatter(argparse.RawDescriptionHelpFormatter):
    """Help of one width, the same in every Python, whatever the terminal: the documentation is
    made from it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=100)
        self._action_max_length = 20  # so that all commands have their column in common

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, action.dest.upper())
        return f"{', '.join(action.option_strings)} {value}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name. Returns its exit status."""
    _use_utf8(sys.stdout)
    try:
        return _run_and_flush(list(sys.argv[1:] if arguments is None else arguments))
    except Failure as failure:
        return _complain(str(failure), failure.status)
    except dsv4.Error as error:
        return _complain(str(error), MISUSE if isinstance(error, InputError) else FINDINGS)
    except KeyboardInterrupt:
        _forget_output()
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read the output has seen enough
        _forget_output()
        return BROKEN_PIPE
    except OSError as error:
        _forget_output()
        return _complain(f"cannot write stdout: {reason(error)}", MISUSE)


def _run_and_flush(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    finally:  # after help too, which ends by an exception
        if sys.stdout is not None:
            sys.stdout.flush()


def _run(arguments: list[str]) -> int:
    if not arguments:
        make_parser(COMMANDS).print_help(sys.stderr)
        return MISUSE
    if arguments[0] == "--version":
        arguments[0] = "version"
    named = arguments[:1] if arguments[0] in COMMANDS else list(COMMANDS)
    args = make_parser(named).parse_args(arguments)
    return load(args.command).run(args)


def load(name: str) -> Command:
    return cast(Command, import_module(COMMANDS[name]))


def make_parser(names: Iterable[str]) -> argparse.ArgumentParser:
    """The parser of some of the commands."""
    parser = OneLineParser(
        prog="dsv4",
        usage="dsv4 COMMAND [options]",
        description=ABOUT,
        epilog=STATUSES,
        formatter_class=StableFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="same as the command version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    commands.required = True
    for name in names:
        module = load(name)
        command = commands.add_parser(
            name,
            prog=f"dsv4 {name}",
            help=module.HELP,
            description=_sentence(module.HELP),
            epilog="example:\n" + _indented(module.EXAMPLE),
            formatter_class=StableFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(command)
        command.usage = _usage(command)
        command._positionals.title = "arguments"
    return parser


def _usage(command: argparse.ArgumentParser) -> str:
    """Short: each option is explained below it."""
    return " ".join([command.prog, "[options]", *map(_operand, positionals(command))])


def positionals(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in command._actions if not action.option_strings]


def _operand(action: argparse.Action) -> str:
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest
    name = str(action.metavar or choices)
    forms = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}
    return forms.get(str(action.nargs), name)


def _sentence(help: str) -> str:
    return help[:1].upper() + help[1:].removesuffix(".") + "."


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.strip("\n").splitlines())


def _use_utf8(stream: TextIO | None) -> None:
    """A prompt is written as it is, whatever the locale says and the system does to line ends."""
    if stream is not None and hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", errors="strict", newline="\n")


def _complain(problem: str, status: int) -> int:
    from dsv4.view.characters import harmless

    if sys.stderr is not None:
        line = harmless(in_json(" ".join(problem.splitlines())))
        print(f"dsv4: {line}", file=sys.stderr)
    return status


def _forget_output() -> None:
    """Python flushes stdout once more when it ends, and would complain once more."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
