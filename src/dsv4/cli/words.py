"""Problems in the words of a person who has JSON before them, and not Python."""

from __future__ import annotations

import json
import re

# A text in single quotes, one in double quotes, or what Python calls or spells otherwise. An
# apostrophe inside a word opens nothing.
_PYTHON = re.compile(
    r"""(?<![\w'"])(?:'(?:[^'\\]|\\.)*'(?!\w)|"(?:[^"\\]|\\.)*"|(?:None|True|False|a dict)\b)"""
)
_WORDS = {"None": "null", "True": "true", "False": "false", "a dict": "an object"}


def in_json(problem: str) -> str:
    """A problem with the values that it quotes written as in JSON."""
    return _PYTHON.sub(lambda found: _spelled(found[0]), problem)


def _spelled(quoted: str) -> str:
    if quoted in _WORDS:
        return _WORDS[quoted]
    if quoted.startswith('"'):
        return quoted
    import ast  # heavy, and only a complaint needs it

    try:
        return json.dumps(ast.literal_eval(quoted), ensure_ascii=False)
    except (ValueError, SyntaxError):
        return quoted
