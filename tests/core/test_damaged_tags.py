"""Tags that lost a part or have one twice (recovery.md, rules 36, 37 and 45).

What `fuzz/slips.py` counts for all tokens of many blocks is told here one by one, on both sides of
each boundary.
"""

from __future__ import annotations

from typing import Any

import dsv4
from completions import *
from rows import each_row

EOS = "<｜end▁of▁sentence｜>"


def tool(name: str, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    of = {key: {"type": one} if isinstance(one, str) else one for key, one in properties.items()}
    schema = {"type": "object", "properties": of}
    more = {} if required is None else {"required": required}
    return {"name": name, "parameters": schema | more}


COLOR = {"type": "string", "enum": ["red", "blue"]}
STRICT = [
    tool("bash", ["command"], command="string", timeout="integer"),
    tool("rows", ["table", "where"], table="string", where="string", limit="integer"),
    tool("paint", ["color"], color=COLOR, width="number", shape="string"),
    tool("note", title="string", body="string"),
    tool("wait", [], seconds="integer"),
    tool("ping"),
]
LS = ("bash", {"command": "ls"})
ROWS = ("rows", {"table": "users", "where": "id = 7"})


def read(text: str, **options: Any) -> dsv4.Message:
    return read_everywhere(text, **{"tools": STRICT, **options})


def in_block(text: str) -> str:
    """The inside of a block, with the rest of a well-formed completion around it."""
    return f"\n\n{BLOCK}\n{text}{BLOCK_END}{EOS}"


def written(call: tuple[str, dict[str, Any]]) -> str:
    return calling(call[0], **call[1])


class TestAStrictReadingIsJson:
    """Rule 36: the strict grammar comes first only if its JSON is JSON."""

    NEXT = f"{BASH}\n{COMMAND}ls{PARAMETER_END}\n{INVOKE_END}\n"

    @each_row(
        "value, is_strict",
        [
            ("4", False),
            ('[1, "a"', False),
            ('"a', False),
        ],
    )
    def test_a_close_that_is_damaged_before_another_call(self, value: str, is_strict: bool) -> None:
        text = f"{invoke('wait')}\n{parameter('seconds', 'false')}{value}</{DSML}\n{INVOKE_END}\n"
        message = read(in_block(text + self.NEXT))
        swallowed = [one for one in calls_of(message) if DSML in str(one)]
        assert swallowed == []
        assert is_strict == (len(message.tool_calls) == 2)

    def test_json_that_quotes_markup_is_read_strictly(self) -> None:
        quoted = f"{INVOKE_END}\n{self.NEXT}"
        hunks = [{"text": quoted}]
        tools = [tool("patch", ["hunks"], hunks="array"), *STRICT]
        message = read(in_block(calling("patch", hunks=hunks)), tools=tools)
        assert calls_of(message) == [("patch", {"hunks": hunks})]


class TestACallThatBreaksItsSchemaAroundMarkup:
    """Rule 37. A call without markup in its values is never doubted, whatever it is."""

    QUOTED = f"see <{DSML}x>"

    @each_row(
        "name, arguments",
        [
            ("rows", {"table": QUOTED}),  # a required key is missing
            ("note", {"title": QUOTED, "colour": "red"}),  # a key that is not declared
            ("paint", {"color": QUOTED}),  # a text that is not listed
            ("paint", {"color": "red", "width": QUOTED}),  # no number, and no JSON
            ("paint", {"color": "green", "shape": QUOTED}),  # the value that breaks it is another
        ],
    )
    def test_is_incomplete(self, name: str, arguments: dict[str, Any]) -> None:
        message = read(in_block(calling(name, **arguments)))
        assert is_not_made(message, name)
        assert incomplete_of(message) == [(name, arguments)]
        without = {key: value.replace(DSML, "") for key, value in arguments.items()}
        assert calls_of(read(in_block(calling(name, **without)))) == [(name, without)]

    @each_row(
        "name, arguments",
        [
            ("rows", {"table": QUOTED, "where": "x"}),
            ("note", {"title": QUOTED}),  # nothing is said to be required
            ("paint", {"color": "red", "shape": QUOTED}),
            ("paint", {"color": "red", "width": [QUOTED]}),  # good JSON of another type
        ],
    )
    def test_one_that_keeps_to_it_is_made(self, name: str, arguments: dict[str, Any]) -> None:
        assert calls_of(read(in_block(calling(name, **arguments)))) == [(name, arguments)]

    @each_row(
        "more, is_made", [(True, True), ({"type": "string"}, True), (False, False), ({}, True)]
    )
    def test_keys_that_are_not_declared(self, more: Any, is_made: bool) -> None:
        one = tool("note", title="string")
        one["parameters"]["additionalProperties"] = more
        message = read(in_block(calling("note", title=self.QUOTED, other="x")), tools=[one])
        assert len(message.tool_calls) == is_made

    def test_a_tag_is_no_value(self) -> None:
        text = f'<{DSML}invoke name="paint" width="3" shape="x"/>'
        assert calls_of(read(in_block(text))) == [("paint", {"width": 3, "shape": "x"})]


class TestQuotesAroundAName:
    """Rule 45."""

    @each_row("name", ['bash"', '"bash', "'bash'", ">bash", 'bash">', "“bash”", ' "bash" '])
    def test_of_a_tool(self, name: str) -> None:
        text = f'<{DSML}invoke name="{name}">\n{COMMAND}ls{PARAMETER_END}\n{INVOKE_END}\n'
        message = read(in_block(text))
        assert calls_of(message) == [LS]
        assert message.diagnostics

    @each_row("key", ['command"', '"command', "'command'", ">command", "“command”"])
    def test_of_a_parameter(self, key: str) -> None:
        text = f"{BASH}\n{parameter(key)}ls{PARAMETER_END}\n{INVOKE_END}\n"
        assert calls_of(read(in_block(text))) == [LS]

    def test_a_name_that_is_declared_stays(self) -> None:
        tools = [tool("ping>"), tool("ping")]
        assert calls_of(read(in_block(calling("ping>")), tools=tools)) == [("ping>", {})]

    def test_a_name_that_is_not_declared_stays(self) -> None:
        message = read(in_block(calling("zsh>", command="ls")))
        assert calls_of(message) == [("zsh>", {"command": "ls"})]
