"""Exit statuses, and the one line on stderr that says why a command failed."""

from __future__ import annotations

import json
import re
import sys

# Exit statuses.
DONE = 0
FINDINGS = 1  # the input was read, and something is wrong with what it says
MISUSE = 2  # options, files or installation do not allow the command to run
INTERRUPTED = 130
BROKEN_PIPE = 141  # as if ended by the signal, which is what other programs do

# A text in single quotes, one in double quotes, or what Python calls or spells otherwise. An
# apostrophe inside a word opens nothing.
_PYTHON_LITERAL = re.compile(
    r"""(?<![\w'"])(?:'(?:[^'\\]|\\.)*'(?!\w)|"(?:[^"\\]|\\.)*"|(?:None|True|False|a dict)\b)"""
)
_JSON_WORDS = {"None": "null", "True": "true", "False": "false", "a dict": "an object"}


def in_json_words(problem: str) -> str:
    """A problem with the values that it quotes written as in JSON."""
    return _PYTHON_LITERAL.sub(lambda found: _json_spelling(found[0]), problem)


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
    """Prints a problem to stderr: one line, without control characters, in JSON's words."""
    from dsv4._view.characters import terminal_safe

    if sys.stderr is not None:
        line = terminal_safe(in_json_words(" ".join(problem.splitlines())))
        print(f"dsv4: {line}", file=sys.stderr)


class Failure(Exception):
    """Ends the command: its text goes to stderr after the program's name, without a traceback."""

    def __init__(self, problem: str, status: int = MISUSE) -> None:
        super().__init__(problem)
        self.status = status


def missing_package(purpose: str, error: ImportError, extra: str) -> Failure:
    """A package that is not installed: which, for what, and the command that installs it."""
    from dsv4.version import how_to_install

    return Failure(f"{purpose} needs the package {error.name}: {how_to_install(extra)}")


def surrogate_problem(error: UnicodeEncodeError) -> str:
    """Half a surrogate pair: JSON can hold it, UTF-8 cannot."""
    found = f"U+{ord(error.object[error.start]):04X}"
    return f"the text holds {found}, half a character, which has no UTF-8 form"
