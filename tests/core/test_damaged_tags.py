"""Tags that lost a part or have one twice (recovery.md, rules 36 to 38, 42, 43 and 45).

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
    tool("erase", ["what"], what={"const": "all"}),
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
            ("erase", {"what": QUOTED}),  # nor the only one
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

    @each_row("limit, is_made", [("9", True), (9, False)])
    def test_a_value_of_another_tools_type(self, limit: object, is_made: bool) -> None:
        """`limit` is a text of `find`, and a number of `peek`, whose opening stands in the path."""
        tools = [tool("find", path="string", limit="string"), tool("peek", limit="integer")]
        path = f"a.py</\n{INVOKE_END}\n{invoke('peek')}"
        text = in_block(calling("find", path=path, limit=limit))
        assert len(read(text, tools=tools).tool_calls) == is_made
        of_nobody = text.replace('name="peek"', 'name="look"')
        assert len(read(of_nobody, tools=tools).tool_calls) == 1

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

    @each_row(
        "name",
        ['bash"', '"bash', "'bash'", ">bash", 'bash">', "“bash”", ' "bash" ', "`bash`", "bash\\"],
    )
    def test_of_a_tool(self, name: str) -> None:
        text = f'<{DSML}invoke name="{name}">\n{COMMAND}ls{PARAMETER_END}\n{INVOKE_END}\n'
        message = read(in_block(text))
        assert calls_of(message) == [LS]
        assert message.diagnostics

    @each_row("key", ['command"', '"command', "'command'", ">command", "“command”", "command\\"])
    def test_of_a_parameter(self, key: str) -> None:
        text = f"{BASH}\n{parameter(key)}ls{PARAMETER_END}\n{INVOKE_END}\n"
        assert calls_of(read(in_block(text))) == [LS]

    def test_a_name_that_is_declared_stays(self) -> None:
        tools = [tool("ping>"), tool("ping")]
        assert calls_of(read(in_block(calling("ping>")), tools=tools)) == [("ping>", {})]

    def test_a_name_that_is_not_declared_stays(self) -> None:
        message = read(in_block(calling("zsh>", command="ls")))
        assert calls_of(message) == [("zsh>", {"command": "ls"})]


class TestDamagedTagsBehindAClose:
    """Rule 38: a value ends at its own close, though what follows is damaged."""

    TABLE = f"{invoke('rows')}\n{parameter('table')}users{PARAMETER_END}\n"

    @each_row(
        "opening",
        [
            f'<{DSML}{DSML}parameter name="where" string="true">',
            f'<{DSML}{DSML} parameter name="where" string="true">',
            f'<{DSML} name="where" string="true">',
            f'{DSML}parameter name="where" string="true">',
            f'{DSML}<parameter name="where" string="true">',
            f'<\n{DSML}parameter name="where" string="true">',
        ],
    )
    def test_is_read(self, opening: str) -> None:
        text = f"{self.TABLE}{opening}id = 7{PARAMETER_END}\n{INVOKE_END}\n"
        assert calls_of(read(in_block(text))) == [ROWS]

    @each_row(
        "opening",
        [
            f'<parameter{DSML} name="where" string="true">',
            f'<{DSML} name=parameter"where" string="true">',
            f'<{DSML} name=parameterwhere" string="true">',
            f'<{DSML} name=where string="true">',
            f'<{DSML}parameter name="where string="true">',
            f'<<{DSML}parameter name="where" string="true"',
        ],
    )
    def test_makes_the_call_incomplete(self, opening: str) -> None:
        text = f"{self.TABLE}{opening}id = 7{PARAMETER_END}\n{INVOKE_END}\n"
        assert is_not_made(read(in_block(text)), "rows")

    def test_text_between_makes_the_close_a_part_of_the_value(self) -> None:
        value = f"a{PARAMETER_END}b{DSML}"
        assert calls_of(read(in_block(calling("note", title=value)))) in (
            [("note", {"title": value})],
            [],
        )

    @each_row("name", ["bash", "ping"])
    def test_an_opening_with_its_token_twice_or_without_its_word(self, name: str) -> None:
        call = LS if name == "bash" else (name, {})
        for head in (f"<{DSML}{DSML}invoke", f"<{DSML}"):
            text = written(call).replace(f"<{DSML}invoke", head, 1)
            assert calls_of(read(in_block(text))) == [call]

    @each_row("text", [f'<invoke{DSML} name="bash">\n', f"{DSML}\n", f"x {DSML} y\n"])
    def test_what_is_left_of_a_call_in_a_block_is_told(self, text: str) -> None:
        message = read(in_block(text + written(LS)))
        assert calls_of(message) in ([LS], [])
        assert message.dropped

    def test_an_opening_before_itself_is_a_stutter(self) -> None:
        text = written(LS).replace(COMMAND, COMMAND[:-1] + COMMAND)
        assert calls_of(read(in_block(text))) == [LS]
        text = written(LS).replace(BASH, BASH[:-1] + BASH)
        assert calls_of(read(in_block(text))) == [LS]


class TestADoubledBracket:
    """Rule 38: `>` once more behind a value's close, before a parameter that nothing declares."""

    OPEN = tool("remember", ["key"], key="string")
    CALL = ("remember", {"key": "k", "other": "v"})

    @each_row("between", [">\n", ">", "> \n"])
    def test_is_no_part_of_the_value(self, between: str) -> None:
        self.OPEN["parameters"]["additionalProperties"] = True
        text = written(self.CALL).replace(f"k{PARAMETER_END}\n", f"k{PARAMETER_END}{between}")
        assert calls_of(read(in_block(text), tools=[self.OPEN])) == [self.CALL]

    @each_row("between", [" or\n", ">>\n", " > and\n"])
    def test_other_text_is(self, between: str) -> None:
        text = written(self.CALL).replace(f"k{PARAMETER_END}\n", f"k{PARAMETER_END}{between}")
        message = read(in_block(text), tools=[self.OPEN])
        assert self.CALL not in calls_of(message)


class TestACallInProseWithADamagedParameter:
    """Its block has lost its opening: it was meant, and is not silently left as text (rule 28)."""

    @each_row(
        "opening",
        [
            f'<{DSML}parameter"command" string="true">',
            f'<{DSML}parameter name="command string="true">',
        ],
    )
    def test_is_reported(self, opening: str) -> None:
        message = read(f"{BASH}\n{opening}ls{PARAMETER_END}\n{INVOKE_END}\n{EOS}")
        assert message.tool_calls == ()
        assert message.dropped

    @each_row("text", [f"The tag {BASH}\n<{DSML}parameter is one.", f"{BASH}\nopens a call."])
    def test_talk_is_not(self, text: str) -> None:
        assert read(f"{text}{EOS}").dropped == ()


class TestDamagedCloses:
    """Rule 38: what is left of a close is no part of a value that runs."""

    @each_row(
        "close",
        [
            *("<", "</", DSML, f"</{DSML}", f"</parameter{DSML}>", f"{DSML}</parameter>"),
            *(f"</{DSML}>parameter", f"</{DSML}parameter{PARAMETER_END}"),
            *("</｜DSM｜parameter>", f"</{DSML}{DSML}", f"{DSML}</>"),
            *("</｜DSML>parameter>", "</｜DS\nML｜parameter>", f"</{DSML}p>rameter>"),
            *(f"<//{DSML}parameter>", f"<\\{DSML}parameter>", f"&lt;/{DSML}parameter>"),
        ],
    )
    def test_makes_the_call_incomplete(self, close: str) -> None:
        text = f"{BASH}\n{COMMAND}ls{close}\n{INVOKE_END}\n"
        assert is_not_made(read(in_block(text)), "bash")

    @each_row("close", [f"</parameter{DSML}>", f"</{DSML}", "</"])
    def test_before_an_odd_close_too(self, close: str) -> None:
        text = f"{BASH}\n{COMMAND}ls{close}\n</{DSML}>\n{INVOKE_END}\n"
        assert is_not_made(read(in_block(text)), "bash")

    @each_row("close", [f"</{DSML}{DSML}parameter>", "</parameter>", f"</{DSML}>"])
    def test_is_read(self, close: str) -> None:
        text = f"{BASH}\n{COMMAND}ls{close}\n{INVOKE_END}\n"
        assert calls_of(read(in_block(text))) == [LS]

    @each_row("end", ["a <b>", "x</p>", "1 ｜ 2", "</div>\n", f"</{DSML}param"])
    def test_a_value_with_its_own_close_is_never_doubted(self, end: str) -> None:
        call = ("note", {"title": f"ls{end}"})
        assert calls_of(read(in_block(written(call)))) == [call]

    @each_row("end", ["x</p>", "1 ｜ 2", "a > b"])
    def test_an_implied_end_behind_other_text(self, end: str) -> None:
        text = f"{BASH}\n{COMMAND}ls{end}\n{INVOKE_END}\n"
        assert calls_of(read(in_block(text))) == [("bash", {"command": f"ls{end}"})]

    def test_a_close_without_its_bracket_before_a_missing_parameter(self) -> None:
        text = written(ROWS).replace(f"users{PARAMETER_END}", f"users{DSML}parameter>")
        assert calls_of(read(in_block(text))) == [ROWS]
        text = written(ROWS).replace(f"7{PARAMETER_END}", f"7{DSML}parameter>")
        assert is_not_made(read(in_block(text)), "rows")

    @each_row("value, number", [(">5", 5), ("5</", 5), (">[5]</", [5]), (">>5", ">>5")])
    def test_json_with_a_bracket_too_many(self, value: str, number: Any) -> None:
        text = f"{invoke('wait')}\n{parameter('seconds', 'false')}{value}{PARAMETER_END}\n"
        message = read(in_block(f"{text}{INVOKE_END}\n"))
        made = [*calls_of(message), *incomplete_of(message)]
        assert made == [("wait", {"seconds": number})]
        assert len(message.tool_calls) == (not isinstance(number, str))

    @each_row(
        "tag",
        [
            *('string="true>a = "b">', 'string="true"/', 'string="true"name="x"'),
            *('string="true" value="x"', 'string="true"string="x"'),
        ],
    )
    def test_a_tag_with_a_part_of_the_value_in_it(self, tag: str) -> None:
        text = f'{BASH}\n<{DSML}parameter name="command" {tag}{PARAMETER_END}\n{INVOKE_END}\n'
        assert is_not_made(read(in_block(text)), "bash")


class TestTheBracketIsMissing:
    """Rule 43."""

    def test_of_all_openings(self) -> None:
        text = f"Let me look.\n\n{BLOCK}\n{written(LS)}{BLOCK_END}"
        message = read(text.replace(f"<{DSML}", DSML))
        assert calls_of(message) == [LS]
        assert message.content == "Let me look."

    @each_row("before, acts", [("\n", True), (">", True), ("so ", False), ("`", False)])
    def test_where_it_acts(self, before: str, acts: bool) -> None:
        message = read(f"I call{before}{written(LS)[1:].rstrip()}")
        assert len(message.tool_calls) == acts

    @each_row("text", [f"{DSML}tool_calls>", f"a\n{DSML}tool_calls>\nb", f"{DSML}invoke>"])
    def test_a_mention_is_text(self, text: str) -> None:
        assert read(text).content == text

    def test_unless_quoted(self) -> None:
        text = f"```\n{written(LS).replace(f'<{DSML}', DSML)}```\nSo."
        assert read(text).content == text

    def test_closes_behind_a_block_are_orphans(self) -> None:
        text = f"{BLOCK}\n{written(LS)}{BLOCK_END}\n{DSML}tool_calls>{EOS}"
        message = read(text)
        assert (calls_of(message), message.content) == ([LS], "")

    def test_ascii_bars_open_nothing(self) -> None:
        text = f"a\n{written(LS)[1:].rstrip()}".replace("｜", "|")
        assert read(text).tool_calls == ()


class TestTokensOfTheVocabulary:
    """Rules 38 and 45: the model's tokens are `="` and `">`, and slips are of those."""

    @each_row(
        "opening",
        [
            '<D invoke name="="bash">',
            '<D invoke=" namebash">',
            '<D invoke name="bash<">',
            '<D invoke name="bash</">',
        ],
    )
    def test_signs_around_a_tool(self, opening: str) -> None:
        opening = opening.replace("D ", DSML)
        text = in_block(f"{opening}\n{COMMAND}ls{PARAMETER_END}\n{INVOKE_END}\n")
        assert calls_of(read(text)) == [LS]

    @each_row(
        "value, is_whole",
        [
            ("<b>x</b", False),
            ('{"a": 1', False),
            ('a="b', False),
            ("a < b", True),
            ('a="b"', True),
        ],
    )
    def test_a_close_that_lost_its_bracket(self, value: str, is_whole: bool) -> None:
        """The bracket is one token with the last one of a value that ends in `>` or `}`."""
        behind = f'<{DSML}parameter name="timeout" string="false">4{PARAMETER_END}'
        inside = f"{BASH}\n{COMMAND}{value}{DSML}parameter>\n{behind}\n{INVOKE_END}\n"
        call = ("bash", {"command": value, "timeout": 4})
        assert calls_of(read(in_block(inside))) == [call] * is_whole

    @each_row(
        "inside, calls",
        [
            # The value and the end of its tag changed places.
            ('<D parameter name="command" string="truels"></D parameter>', []),
            ('<D parameter name="command" string="true">ls</D parameter>', [LS]),
            ('<D parameter name="="command" string="true">ls</D parameter>', [LS]),
            ('<D parameter=" namecommand" string="true">ls</D parameter>', [LS]),
            ('<D nameparameter="command" string="true">ls</D parameter>', [LS]),
            ('<D name parameter="command" string="true">ls</D parameter>', [LS]),
            # Two names: nobody knows which.
            ('<D parameter name=parameter name="command" string="true">ls</D parameter>', []),
            # The close of a value, whose word and end changed places.
            ('<D parameter name="command" string="true">ls</D >\nparameter', []),
            ('<D parameter name="command" string="true">ls</>', []),
            # The value stands between a close and its opening.
            ('</D parameter>ls<D parameter name="command" string="true">', []),
            # The last bracket of a value is one token with that of its close, and both changed
            # places with the DSML token.
            ('<D parameter name="command" string="true"><b>x</bD ></parameter>', []),
            ('<D parameter name="command" string="true">{"a": 1D }</parameter>', []),
        ],
    )
    def test_parameters(self, inside: str, calls: list[Any]) -> None:
        text = in_block(f"{BASH}\n{inside.replace('D ', DSML)}\n{INVOKE_END}\n")
        message = read(text)
        assert calls_of(message) == calls
        assert calls or message.incomplete

    @each_row(
        "timeout, value",
        [
            ('<D parameter name="timeout" string="false">">5</D parameter>', 5),
            ('</D parameter name="timeout" string="false">5</D parameter>', 5),
            ('<D nameparameter="timeout" string="false">5</D parameter>', 5),
        ],
    )
    def test_an_optional_parameter(self, timeout: str, value: object) -> None:
        more = timeout.replace("D ", DSML)
        text = f"{BASH}\n{COMMAND}ls{PARAMETER_END}\n{more}\n{INVOKE_END}\n"
        assert calls_of(read(in_block(text))) == [("bash", {"command": "ls", "timeout": value})]

    def test_closes_of_two_kinds_before_another_call(self) -> None:
        ping = calling("ping")
        twice = f"{BASH}\n{COMMAND}ls{PARAMETER_END}\n{PARAMETER_END}\n{ping}"
        assert calls_of(read(in_block(twice))) == [LS, ("ping", {})]
        exchanged = f"{BASH}\n{COMMAND}ls{INVOKE_END}\n{PARAMETER_END}\n{ping}"
        message = read(in_block(exchanged))
        assert calls_of(message) == [("ping", {})]
        assert [call.name for call in message.incomplete] == ["bash"]

    def test_a_line_end_lost_behind_a_fence(self) -> None:
        block = in_block(written(LS)).lstrip()
        assert calls_of(read(f"So:\n```\nx\n```{block}")) == [LS]
        behind = block.replace(EOS, f"\n\nSo it is.{EOS}")
        message = read(f"So:\n```\nx\n```{behind}")
        assert calls_of(message) == []
        assert message.dropped

    def test_the_close_of_a_call_that_names_one(self) -> None:
        text = f'</{DSML}invoke name="ping">\n\n{INVOKE_END}\n{written(LS)}'
        message = read(in_block(text))
        assert calls_of(message) == [LS]
        assert message.dropped


class TestAWrapperWithAValue:
    """Rule 30: its tag has the attributes of a parameter, so what stands in it is no call."""

    JSON = '{"name": "bash", "arguments": {"command": "rm"}}'

    @each_row(
        "word, first",
        [
            ("calls", ""),
            ("tool_calls", ""),
            ("tool_call", f"{parameter('title')}a{PARAMETER_END}\n"),
            ("function_calls", f"{parameter('title')}a{PARAMETER_END}\n"),
        ],
    )
    def test_makes_the_call_incomplete(self, word: str, first: str) -> None:
        lost = f'<{DSML}{word} name="body" string="false">{self.JSON}{PARAMETER_END}\n'
        message = read(in_block(f"{invoke('note')}\n{first}{lost}{INVOKE_END}\n{written(LS)}"))
        assert calls_of(message) == [LS]
        assert message.dropped

    def test_in_a_value_that_is_closed_it_is_text(self) -> None:
        call = ("note", {"title": f'<{DSML}tool_calls name="body" string="true">', "body": "b"})
        assert calls_of(read(in_block(written(call)))) == [call]


class TestABlockThatIsBegunAnew:
    """Rule 42: the model writes the block, and the opening of its call, once more."""

    BEGUN = f"{BASH}\n{parameter('timeout', 'false')}5{PARAMETER_END}\n"

    @each_row("between", ["", "\n", "\nAgain:\n\n"])
    def test_the_call_that_was_left_open_is_incomplete(self, between: str) -> None:
        message = read(in_block(f"{self.BEGUN}{between}{BLOCK}\n{written(LS)}"))
        assert calls_of(message) == [LS]
        assert [name for name, _ in incomplete_of(message)] == ["bash"]

    def test_another_call_completes_it(self) -> None:
        message = read(in_block(f"{self.BEGUN}{BLOCK}\n{written(ROWS)}"))
        assert calls_of(message) == [("bash", {"timeout": 5}), ROWS]


class TestAnOpeningAlone:
    """Rule 42."""

    @each_row(
        "name, end, is_made",
        [
            ("bash", f"{invoke('ping')}{INVOKE_END}", False),
            ("bash", "", False),
            ("bash", f"{BLOCK}{invoke('ping')}{INVOKE_END}", False),
            ("bash", f"{PARAMETER_END}\n{INVOKE_END}", False),
            ("bash", INVOKE_END, True),  # with its own close it is complete
            ("note", "", False),  # nothing is said to be required
            ("wait", "", True),  # nothing is
            ("ping", "", True),
            ("wait", f"{PARAMETER_END}\n{INVOKE_END}", True),
        ],
    )
    def test_is_incomplete(self, name: str, end: str, is_made: bool) -> None:
        message = read(in_block(f"{invoke(name)}\n{end}\n"))
        assert (name in [call for call, _ in calls_of(message)]) == is_made
        assert is_made or message.dropped

    def test_a_stutter_is_seen_through_a_wrapper(self) -> None:
        message = read(in_block(f"{BASH}\n{BLOCK}\n{written(LS)}"))
        assert calls_of(message) == [LS]
        assert message.incomplete == ()

    def test_a_required_key_that_is_missing_is_reported(self) -> None:
        message = read(in_block(calling("rows", table="users")))
        assert calls_of(message) == [("rows", {"table": "users"})]
        assert kinds_of(message) == ["missing_required"]
        body = f'{invoke("rows")}\n{{"table": "users"}}\n{INVOKE_END}\n'
        assert kinds_of(read(in_block(body))) == ["json_body", "missing_required"]
        assert kinds_of(read(in_block(written(ROWS)))) == []


@each_row(
    "inside, is_named",
    [
        ('{"name": "bash", "arguments": {"command": "ls",}}', True),
        ('{"name": "bash", "arguments": {}}\n{"name": "ping", "arguments": {}}', True),
        ('{"name": "another", "arguments": {"command": "ls",}}', False),
    ],
)
def test_a_plain_call_in_json_that_cannot_be_read(inside: str, is_named: bool) -> None:
    """Rule 28: it is text, and what names a declared tool is said to be dropped."""
    message = read(f"<tool_call>\n{inside}\n</tool_call>{EOS}")
    assert calls_of(message) == []
    assert bool(message.dropped) == is_named


class TestValuesThatLookLikeTheirTags:
    """Rules 18, 38 and 45: where a tag is damaged, a part of the value may be taken for its."""

    VALUE = 'name="command" string="true"> x'

    @each_row(
        "tag",
        [
            '<D parameter name="command string="true">',
            '<D parameter name="command""true">',
            '<D parameter name="command" string string="true">',
            '<D parameter name="command" string=true"">',
            '<D parameter name="command" string="true">',
            '<D parameter name="command" string="true"',
            '<D parameter name="command" string="true',
        ],
    )
    def test_attributes(self, tag: str) -> None:
        tag = tag.replace("D ", DSML)
        text = in_block(f"{BASH}\n{tag}{self.VALUE}{PARAMETER_END}\n{INVOKE_END}\n")
        calls = [("bash", {"command": self.VALUE})] if tag.endswith('"true">') else []
        assert calls_of(read(text)) in ([], calls)

    @each_row(
        "value, calls",
        [
            ("<b>", ["<b>"]),
            ("  <b>", ["  <b>"]),
            ("\t<b>\n</b>", ["\t<b>\n</b>"]),
            ("\n<b>", ["\n<b>"]),
            ("", [""]),
            ("/", []),
            ("|", []),
            ("｜", []),
            ('"', []),
            ('string="true"', []),
        ],
    )
    def test_behind_a_tag_without_its_bracket(self, value: str, calls: list[str]) -> None:
        inside = f"{COMMAND[:-1]}{value}{PARAMETER_END}\n{INVOKE_END}\n"
        message = read(in_block(f"{BASH}\n{inside}"))
        assert calls_of(message) == [("bash", {"command": value}) for value in calls]
        assert bool(message.incomplete) is not bool(calls)

    @each_row("value", ['{">{}', "{}</}"])
    def test_json_with_a_bracket_twice(self, value: str) -> None:
        inside = f'<{DSML}parameter name="timeout" string="false">{value}{PARAMETER_END}'
        text = in_block(f"{BASH}\n{COMMAND}ls{PARAMETER_END}\n{inside}\n{INVOKE_END}\n")
        message = read(text)
        assert (calls_of(message), len(message.incomplete)) == ([], 1)


WORDS = [
    tool("invoke", [], parameter="string", path="string"),
    tool("read", ["path"], path="string"),
]


class TestToolsNamedAsTheWordsOfTags:
    """Rules 1 and 38: a word of the format is no name of a tool or key by itself."""

    PATH = f'<{DSML}parameter name="path" string="true">a{PARAMETER_END}\n'

    @each_row(
        "opening, calls",
        [
            ('<D invoke name="invoke">', [("invoke", {"path": "a"})]),
            ('<D invoke name="read">', [("read", {"path": "a"})]),
            ('<D invoke nameread="">', []),
            ("<D invoke>", []),
        ],
    )
    def test_tools(self, opening: str, calls: list[Any]) -> None:
        text = in_block(f"{opening.replace('D ', DSML)}\n{self.PATH}{INVOKE_END}\n")
        message = read(text, tools=WORDS)
        assert calls_of(message) == calls
        assert bool(message.dropped) is not bool(calls)

    @each_row("key", ["namepath", "path"])
    def test_keys(self, key: str) -> None:
        inside = f'<{DSML}parameter {key}="" string="true">a{PARAMETER_END}\n'
        text = in_block(f'<{DSML}invoke name="invoke">\n{inside}{INVOKE_END}\n')
        message = read(text, tools=WORDS)
        assert (calls_of(message), len(message.dropped)) == ([], 1)


def test_a_close_without_its_word_behind_a_plain_close_is_the_values_own() -> None:
    """The value lost its last tag, where `</D>` was taken for the close of the invoke."""
    value = '<parameter name="x" string="true">v</parameter>'
    text = f"{BASH}\n{COMMAND}{value}</{DSML}>\n{INVOKE_END}\n"
    message = read(in_block(text))
    assert (calls_of(message), incomplete_of(message)) == ([], [("bash", {"command": value})])
