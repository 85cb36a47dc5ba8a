"""The output of commands: results, errors, and exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from dsv4._inputs.input_files import os_error_reason
from dsv4._view.characters import terminal_safe

# Exit statuses, and the one line on stderr with the reason why a command failed.


# Exit statuses.
DONE = 0
FINDINGS = 1  # the input was read, and something is wrong with its content
MISUSE = 2  # options, files or installation do not allow the command to run
INTERRUPTED = 130
BROKEN_PIPE = 141  # as if ended by the signal, which is what other programs do

# A text in single quotes, one in double quotes, or a word that JSON has another name for. An
# apostrophe inside a word does not open a quotation.
_PYTHON_LITERAL = re.compile(
    r"""(?<![\w'"])(?:'(?:[^'\\]|\\.)*'(?!\w)|"(?:[^"\\]|\\.)*"|(?:None|True|False|a dict)\b)"""
)
_JSON_WORDS = {"None": "null", "True": "true", "False": "false", "a dict": "an object"}


def in_json_words(problem: str) -> str:
    """The text of a problem, with the values that it quotes written as in JSON."""
    return _PYTHON_LITERAL.sub(lambda match: _json_spelling(match[0]), problem)


def _json_spelling(quoted: str) -> str:
    if quoted in _JSON_WORDS:
        return _JSON_WORDS[quoted]
    if quoted.startswith('"'):
        return quoted
    import ast  # slow to import, and needed only here

    try:
        return json.dumps(ast.literal_eval(quoted), ensure_ascii=False)
    except (ValueError, SyntaxError):
        return quoted


def complain(problem: str) -> None:
    """Prints a problem to stderr: one line, without control characters, with values as in JSON."""

    if sys.stderr is not None:
        line = terminal_safe(in_json_words(" ".join(problem.splitlines())))
        print(f"dsv4: {line}", file=sys.stderr)


class Failure(Exception):
    """Ends the command: its text goes to stderr after the program's name, without a traceback."""

    def __init__(self, problem: str, status: int = MISUSE) -> None:
        super().__init__(problem)
        self.status = status


def missing_package(purpose: str, error: ImportError, extra: str) -> Failure:
    """The failure for a missing package: its name, its purpose, and the command to install it."""
    from dsv4.version import how_to_install

    return Failure(f"{purpose} needs the package {error.name}: {how_to_install(extra)}")


def surrogate_problem(error: UnicodeEncodeError) -> str:
    """The problem of half a surrogate pair, which JSON can hold and UTF-8 cannot."""
    code = f"U+{ord(error.object[error.start]):04X}"
    return f"the text holds {code}, half a character, which has no UTF-8 form"


# The output of commands: to stdout (None or "-"), to a file that appears complete or not at all,
# and in colour where a terminal shows it.


_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
PIPED_WIDTH = 100


@contextmanager
def silenced_libraries() -> Iterator[None]:
    """Discards everything that C++ libraries and their processes write to stderr (Ray writes
    pages). Only dsv4's own output is printed."""
    if sys.stderr is None:
        yield
        return
    sys.stderr.flush()
    before, terminal = sys.stderr, os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = open(terminal, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        sys.stderr.close()
        sys.stderr = before


def uses_color(choice: str, stream: TextIO | None) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()


class Paint:
    """Colours text, if colour is wanted."""

    def __init__(self, choice: str = "auto", stream: TextIO | None = None) -> None:
        self.on = uses_color(choice, stream or sys.stdout)

    def __call__(self, text: str, *styles: str) -> str:
        return self.coded(text, ";".join(_STYLES[style] for style in styles))

    def coded(self, text: str, code: str) -> str:
        """Text in the colours of an SGR code, such as "1;31"."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and code and text else text


def terminal_width() -> int:
    """The number of columns; `COLUMNS` overrides the terminal's."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns


@contextmanager
def output(path: str | None = None, inputs: Iterable[str | None] = ()) -> Iterator[TextIO]:
    """A file for text: UTF-8, line ends as written. An error inside leaves an old file unchanged.

    None of the inputs may be the same file.
    """
    refuse_own_input(path, inputs)
    with _write_errors(path):
        if _is_stdout(path):
            yield _open_stdout()
            sys.stdout.flush()
        else:
            with (
                _temporary_name(str(path)) as temporary,
                open(temporary, "w", encoding="utf-8", newline="") as file,
            ):
                yield file


def write_text(path: str | None, text: str, inputs: Iterable[str | None] = ()) -> None:
    with output(path, inputs) as file:
        file.write(text)


def refuse_own_input(path: str | None, inputs: Iterable[str | None]) -> None:
    """Raises if an output would replace one of its own inputs."""
    if path is None or path == "-" or not os.path.isfile(path):
        return
    there = [name for name in inputs if name is not None and name != "-" and os.path.exists(name)]
    if any(os.path.samefile(name, path) for name in there):
        raise Failure(f"{path} is both input and output: choose another output")


# Characters that change a terminal, or are invisible: C0 and C1 controls, marks that turn the
# direction of text, line separators, and halves of surrogate pairs.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def json_text(value: object, indent: int | None = None) -> str:
    """A value as JSON that any terminal can show and UTF-8 can encode."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def plural(count: int, noun: str) -> str:
    """A count with its noun: "1 token", "2,000 tokens", "3 trajectories"."""
    if count == 1:
        return f"1 {noun}"
    many = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {many}"


def _is_stdout(path: str | None) -> bool:
    return path is None or path == "-"


def _open_stdout() -> TextIO:
    if sys.stdout is None:
        raise Failure("stdout is closed")
    return sys.stdout


@contextmanager
def _write_errors(path: str | None) -> Iterator[None]:
    name = "stdout" if _is_stdout(path) else path
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f"cannot write {name}: {os_error_reason(error)}") from None
    except UnicodeEncodeError as error:
        raise Failure(f"cannot write {name}: {surrogate_problem(error)}", FINDINGS) from None


@contextmanager
def _temporary_name(path: str) -> Iterator[str]:
    """A temporary name to write to. If no error occurs, the file gets its final name at the end."""
    path = os.path.realpath(path)  # so that a link stays a link
    mode = _file_mode(path)
    if mode is not None and not stat.S_ISREG(mode):  # a device or a pipe, which cannot be replaced
        yield path
        return
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:200]}.{os.getpid()}.part")
    try:
        yield temporary
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _file_mode(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None
