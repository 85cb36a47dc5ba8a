"""Parameters inside of a parameter: an object, a list, or a call that is not made.

recovery.md, rule 32.
"""

from __future__ import annotations

from typing import Any

from builders import EOS
from completions import *
from completions import read_everywhere as read
from parts import part
from rows import each_row

TOOLS = declared(edit={"path": "string", "edits": "array", "meta": "object", "any": "string"})
PATH = f"{parameter('path')}a{PARAMETER_END}\n"
OLD = f"{parameter('old')}x{PARAMETER_END}\n"
NEW = f"{parameter('new')}y{PARAMETER_END}\n"
COUNT = f"{parameter('count', 'false')}3{PARAMETER_END}\n"
UNTYPED = f'<{DSML}parameter name="n">4{PARAMETER_END}'
EDITS, META = f'<{DSML}parameter name="edits">', f'<{DSML}parameter name="meta">'
STRICT = parameter("edits", "false")
PAIR = {"old": "x", "new": "y"}


def calling(body: str) -> str:
    return f"{BLOCK}\n{invoke('edit')}\n{PATH}{body}{INVOKE_END}\n{BLOCK_END}{EOS}"


@each_row(
    "body, given",
    [
        (f"{EDITS}\n{OLD}{NEW}{PARAMETER_END}\n", {"edits": [PAIR]}),
        (f"{STRICT}\n{OLD}{NEW}{PARAMETER_END}\n", {"edits": [PAIR]}),
        (f"{META}\n{OLD}{NEW}{PARAMETER_END}\n", {"meta": PAIR}),
        (f"{parameter('meta', 'false')}{OLD}{NEW}{PARAMETER_END}\n", {"meta": PAIR}),
        (f"{META}{COUNT}{UNTYPED}{PARAMETER_END}\n", {"meta": {"count": 3, "n": 4}}),
        (f"{EDITS}\n{OLD}{NEW}", {"edits": [PAIR]}),
        (f"{STRICT}\n{OLD}", {"edits": [{"old": "x"}]}),
        (f"{META}{OLD}{PARAMETER_END}\n{EDITS}{NEW}{PARAMETER_END}\n",
         {"meta": {"old": "x"}, "edits": [{"new": "y"}]}),
    ],
)  # fmt: skip
def test_are_the_members_of_an_object(body: str, given: Any) -> None:
    message = read(calling(body), tools=TOOLS)
    assert calls_of(message) == [("edit", {"path": "a", **given})]
    assert "nested_parameters" in kinds_of(message)


@each_row(
    "body",
    [
        f"{EDITS}\n<{DSML}item>{OLD}</{DSML}item>{PARAMETER_END}\n",
        f"{EDITS}\n{OLD}{OLD}{PARAMETER_END}\n",
        f"{EDITS}\n{OLD}{parameter('path')}b{PARAMETER_END}{PARAMETER_END}\n",
        f"{EDITS}\n{OLD}and{NEW}{PARAMETER_END}\n",
        f"{META}<{DSML}parameter>x{PARAMETER_END}{PARAMETER_END}\n",
        f"{META}\n{parameter('old')}{parameter('inner')}x{PARAMETER_END}{PARAMETER_END}\n",
    ],
)
def test_anything_else_makes_the_call_incomplete(body: str) -> None:
    message = read(calling(body), tools=TOOLS)
    assert is_not_made(message, "edit")


@each_row(
    "body, given",
    [
        # A string may quote parameters.
        (f"{parameter('any')}{OLD[:-1]}\n", None),
        (f'{STRICT}["x"]{PARAMETER_END}\n', {"edits": ["x"]}),
        (f'{META}{{"a": 1}}{PARAMETER_END}\n', {"meta": {"a": 1}}),
        (f"{EDITS}{PARAMETER_END}\n", {"edits": ""}),
        (f"{EDITS}\n[1]\n{PARAMETER_END}\n", {"edits": [1]}),
    ],
)
def test_other_values_are_read_as_before(body: str, given: Any) -> None:
    message = read(calling(body), tools=TOOLS)
    assert "nested_parameters" not in kinds_of(message)
    assert given is None or calls_of(message) == [("edit", {"path": "a", **given})]


def test_a_cut_leaves_the_call_incomplete() -> None:
    text = calling(f"{EDITS}\n{OLD}{NEW}{PARAMETER_END}\n")
    start = text.index(EDITS)
    for end in part(range(start, text.index(INVOKE_END) - 1), 3):
        message = read(text[:end], tools=TOOLS, reason="length")
        assert calls_of(message) == []
        assert DSML not in message.content
