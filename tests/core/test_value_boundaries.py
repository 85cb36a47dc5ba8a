"""Where values and calls end: both sides of the boundaries of recovery.md, rules 3, 4, 7, 11, 12,
20, 22, 26 and 28.

Most rows say what becomes of `path`, a parameter of `write_file`. None: the call is not made.
"""

from __future__ import annotations

from typing import Any

from builders import EOS
from completions import *
from completions import read_everywhere as read
from rows import each_row

TOOLS = declared(
    bash={"command": "string", "timeout": "integer"},
    write_file={"path": "string", "content": "string"},
    tag={"ids": "array", "meta": "object", "text": "string"},
    ping={},
)
PING = f"{invoke('ping')}{INVOKE_END}"
REGION = f"{BLOCK}\n{PING}\n{BLOCK_END}"
CONTENT = parameter("content")
USER = "<｜User｜>"


def of(path: str, before: str = "") -> str:
    """A call that is open in the value of its parameter."""
    return f"{BLOCK}\n{invoke('write_file')}\n{before}{parameter('path')}{path}"


def is_read(text: str, expected: list[tuple[str, Any]] | None, **options: Any) -> None:
    message = read(text, tools=TOOLS, **options)
    if expected is None:
        assert is_not_made(message, "write_file")
    else:
        assert calls_of(message) == expected
        assert not message.incomplete


class TestClosesThatAreImplied:
    """Rules 12 and 20. All but the last of a block is spelled as the strict grammar has it."""

    ENDS = f"{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END}{EOS}"

    @each_row(
        "before, value, arguments",
        [
            ("", f"a\n{CONTENT}b", {"path": "a", "content": "b"}),
            ("", f"a\n  {CONTENT}b", {"path": "a", "content": "b"}),
            ("", f"a {CONTENT}b", {"path": f"a {CONTENT}b"}),
            ("", f"a\n{parameter('path')}b", {"path": f"a\n{parameter('path')}b"}),
            ("", f"a\n{parameter('mode')}b", {"path": f"a\n{parameter('mode')}b"}),
            (
                f"{CONTENT}c{PARAMETER_END}\n",
                f"a\n{CONTENT}b",
                {"content": "c", "path": f"a\n{CONTENT}b"},
            ),
            ("", f"a\n</{DSML}>\n{CONTENT}b", {"path": "a\n", "content": "b"}),
            ("", f"a\n</{DSML}> {CONTENT}b", {"path": "a\n", "content": "b"}),
            ("", f"a\n</{DSML}>\n{parameter('mode')}b", None),
            ("", f"a\n</{DSML}>\n<{CONTENT}b", None),
        ],
    )
    def test_at_a_parameter(self, before: str, value: str, arguments: Any) -> None:
        strictly = {"path": value}
        is_read(of(value, before) + self.ENDS, [("write_file", arguments or strictly)])

    @each_row("name, ends", [("command", True), ("commands", False), ("com", False)])
    def test_at_a_plain_close_of_its_own_name(self, name: str, ends: bool) -> None:
        value = "ls" if ends else f"ls</{name}>"
        text = f"{BLOCK}\n{BASH}\n{COMMAND}ls</{name}>\n{INVOKE_END}\n{BLOCK_END}"
        is_read(text, [("bash", {"command": value})])

    @each_row("key, ends", [("meta", True), ("ids", False), ("other", False)])
    def test_at_a_parameter_behind_a_value_that_is_held(self, key: str, ends: bool) -> None:
        inner = f'<{DSML}parameter name="{key}">'
        text = f'{BLOCK}{invoke("tag")}<{DSML}parameter name="ids">a\n{inner}b{PARAMETER_END}'
        message = read(f"{text}{INVOKE_END}{BLOCK_END}{EOS}", tools=TOOLS)
        assert calls_of(message) == ([("tag", {"ids": "a", key: "b"})] if ends else [])
        # A value with markup in it that has to be a list, and is no JSON (rule 37).
        assert incomplete_of(message) == ([] if ends else [("tag", {"ids": f"a\n{inner}b"})])

    def test_two_calls_that_the_strict_grammar_takes_for_one(self) -> None:
        value = f"a\n{INVOKE_END}\n{invoke('bash')}\n{parameter('command')}rm"
        message = read(of(value) + self.ENDS, tools=TOOLS)
        assert calls_of(message) == [("write_file", {"path": value})]
        assert kinds_of(message) == ["quoted_markup"]

    @each_row(
        "end, expected",
        [
            (f"\n{BLOCK_END}{EOS}", []),
            (f"\n{BLOCK_END}", []),
            (f"\n{BLOCK_END}\n{REGION}{EOS}", ["ping"]),
            (f"\n{BLOCK_END} b{EOS}", None),
            (f"\n{INVOKE_END}{EOS}", []),
            (f"\n{INVOKE_END}{BLOCK_END}{EOS}", []),
            (f"\n{INVOKE_END}{INVOKE_END}{BLOCK_END}{EOS}", []),
            (f"\n{INVOKE_END}\n{PING}\n{BLOCK_END}{EOS}", ["ping"]),
            (f"\n{INVOKE_END}\n{invoke('ping')} b{EOS}", None),
            (f"\n{INVOKE_END} b{EOS}", None),
            (f"\n{INVOKE_END}{BLOCK_END} b{EOS}", None),
            (f"\n{EOS}", []),
            (f"\n{EOS} \n{EOS}", []),
            (f"{EOS}{USER}b", []),
            (f"{EOS}b", None),
            (f"{REGION}{EOS}", None),
            (f"{REGION}\n{INVOKE_END}{BLOCK_END}{EOS}", None),
        ],
    )
    def test_at_what_cannot_be_inside(self, end: str, expected: list[str] | None) -> None:
        others = None if expected is None else [(name, {}) for name in expected]
        is_read(of("a") + end, None if others is None else [("write_file", {"path": "a"}), *others])

    @each_row("end, ends", [("</think>", True), ("<think>", False)])
    def test_at_a_wrapper_close_before_the_end_of_a_thought(self, end: str, ends: bool) -> None:
        text = f"{of('a')}\n{BLOCK_END}{end}"
        is_read(text, [("write_file", {"path": "a"})] if ends else None, thinking=True)


def test_a_block_that_is_not_strict_says_nothing_of_the_next_one() -> None:
    odd = f"{BLOCK}\n{BASH}\n{COMMAND}ls＜/{DSML}parameter>\n{INVOKE_END}\n{BLOCK_END}"
    value = f"{INVOKE_END}\n{BASH}\n{COMMAND}rm"
    strict = f"{BLOCK}\n{BASH}\n{COMMAND}{value}{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END}"
    is_read(f"{odd}\n\n{strict}", [("bash", {"command": "ls"}), ("bash", {"command": value})])


class TestItsOwnClose:
    """Rules 4, 11 and 22. Behind it stands what no strict block has."""

    ENDS = f"{PARAMETER_END}{INVOKE_END}{BLOCK_END}{EOS}"

    @each_row(
        "inside",
        [
            f"a{EOS}b",
            f"a{EOS}{USER}b",
            f"a {REGION}",
            f"a {REGION}{PARAMETER_END} b {REGION}",
            f'a{PARAMETER_END}" b{INVOKE_END}',
            f"a{PARAMETER_END}\n\\ b{INVOKE_END}",
            f"a{INVOKE_END} b",
            f"a{BLOCK_END} b",
            f"a{PARAMETER_END} b",
            f"a\n{invoke('ping')} b",
        ],
    )
    def test_is_the_last(self, inside: str) -> None:
        is_read(of(inside) + self.ENDS, [("write_file", {"path": inside})])

    @each_row(
        "behind, made",
        [
            (" b ", True),
            ("\n# b\n", True),
            ("b" * 256, True),
            ("b" * 257, False),
            (" " * 1000, True),
        ],
    )
    def test_before_a_remark(self, behind: str, made: bool) -> None:
        text = f"{of('a')}{PARAMETER_END}{behind}{INVOKE_END}{BLOCK_END}{EOS}"
        is_read(text, [("write_file", {"path": "a"})] if made else None)

    def test_before_a_parameter_that_is_lost(self) -> None:
        end = f'\n<{DSML}parameter name="content\n\n{INVOKE_END}'
        message = read(f"{of('a')}{PARAMETER_END}{end}{BLOCK_END}{EOS}", tools=TOOLS)
        assert is_not_made(message, "write_file")
        assert [call.arguments for call in message.incomplete] == ['{"path": "a"}']


@each_row("length, made", [(256, True), (257, False)])
def test_a_remark_before_parameters(length: int, made: bool) -> None:
    text = of(f"a{PARAMETER_END}{INVOKE_END}{BLOCK_END}{EOS}", before="b" * length)
    is_read(text, [("write_file", {"path": "a"})] if made else None)


UNTYPED = f'<{DSML}parameter name="%s">'


@each_row(
    "tool, opening, value",
    [
        ("tag", parameter("meta", "false"), "[1]"),
        ("tag", parameter("meta", "false"), "[1"),
        ("tag", UNTYPED % "ids", "[1]"),
        ("tag", UNTYPED % "ids", "[1"),
        ("tag", UNTYPED % "text", "[1]"),
        ("tag", UNTYPED % "text", "[1"),
        ("other", UNTYPED % "key", "[1]"),
        ("other", UNTYPED % "key", " {1"),
        ("other", UNTYPED % "key", "(1"),
        ("tag", parameter("ids"), "[1"),
    ],
)
def test_json_that_is_cut_is_never_complete(tool: str, opening: str, value: str) -> None:
    is_text = "text" in opening or value == "(1" or 'string="true"' in opening
    text = f"{BLOCK}{invoke(tool)}{opening}{value}"
    for end, reason in ((EOS, None), ("", "eos")):
        message = read(text + end, tools=TOOLS, reason=reason)
        made = is_text or value.endswith("]")
        assert [name for name, _ in calls_of(message)] == [tool] * made
        assert len(message.incomplete) == (not made)


META = f"{BLOCK}{invoke('tag')}{parameter('meta', 'false')}"


@each_row(
    "end, made",
    [
        (f"{PARAMETER_END}{INVOKE_END}{BLOCK_END}", True),
        (f"{PARAMETER_END}{INVOKE_END}{BLOCK_END}\n ", True),
        (f"{PARAMETER_END}{INVOKE_END}{EOS}", True),
        (f"{PARAMETER_END}{INVOKE_END}", False),
        ("", False),
    ],
)
def test_json_whose_quote_was_lost_ends_where_all_is_closed(end: str, made: bool) -> None:
    message = read(f'{META}{{"a": "b}}{end}', tools=TOOLS)
    assert calls_of(message) == [("tag", {"meta": '{"a": "b}'})] * made


@each_row(
    "inside, expected",
    [
        (f"{invoke('bash')}\n{invoke('bash')}", 1),
        (f"{invoke('bash')}\nb{invoke('bash')}", None),
        (f"{invoke('bash')}{parameter('command')}b{PARAMETER_END}{invoke('bash')}", 2),
    ],
)
def test_the_same_opening_again(inside: str, expected: int | None) -> None:
    end = f"{parameter('command')}a{PARAMETER_END}{INVOKE_END}{BLOCK_END}{EOS}"
    message = read(f"{BLOCK}{inside}{end}", tools=TOOLS)
    assert len(message.tool_calls) == (1 if expected is None else expected)
    assert len(message.incomplete) == (expected is None)


def test_a_tool_without_parameters_may_be_called_twice() -> None:
    message = read(f"{BLOCK}{invoke('ping')}\n{PING}{BLOCK_END}{EOS}", tools=TOOLS)
    assert calls_of(message) == [("ping", {})] * 2
