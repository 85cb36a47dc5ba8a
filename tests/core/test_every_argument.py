"""Every argument that a model gives is read, or its call is not made (recovery.md, rule 30).

Each row is the body of a call of `delete_rows`, which declares `table` and `where`.
"""

from __future__ import annotations

from typing import Any

from builders import EOS
from completions import *
from completions import read_everywhere as read
from rows import each_row

TOOLS = declared(
    delete_rows={"table": "string", "where": "string"},
    tag={"ids": "array", "meta": "object", "n": "integer"},
    ping={},
)
TABLE = f"{parameter('table')}users{PARAMETER_END}"
WHERE = f"{parameter('where')}id = 7{PARAMETER_END}"
BOTH = {"table": "users", "where": "id = 7"}


def calling(body: str, name: str = "delete_rows") -> str:
    return f"{BLOCK}\n{invoke(name)}\n{body}\n{INVOKE_END}\n{BLOCK_END}{EOS}"


@each_row(
    "body",
    [
        f'{TABLE}\n<{DSML}arg name="where">id = 7</{DSML}arg>',
        f'{TABLE}\n<{DSML}argument name="where" string="true">id = 7</{DSML}argument>',
        f'{TABLE}\n<{DSML}arg name="where">id = 7{PARAMETER_END}',
        f'{TABLE}\n<{DSML}invoke name="where" string="true">id = 7{PARAMETER_END}',
        f'{TABLE}\n<{DSML}invoke name="where">id = 7{INVOKE_END}',
        f'{TABLE}\n<{DSML}function_arg name="where">id = 7</{DSML}function_arg>',
        f'{TABLE}\n<{DSML}tool_arg name="where" string="true">id = 7</{DSML}tool_arg>',
        f'{TABLE}\n<{DSML}call_parameter name="where">id = 7</{DSML}call_parameter>',
        (f'<{DSML}field name="table">users</{DSML}field>\n<{DSML}field name="where">id = 7'
        f"</{DSML}field>"),
        f'<{DSML}property name="table">users</{DSML}property>{WHERE}',
        f'<{DSML}参数 name="table">users</{DSML}参数>{WHERE}',
        f'<{DSML}function_args>{{"table": "users", "where": "id = 7"}}</{DSML}function_args>',
        f'<{DSML}tool_input>{{"table": "users", "where": "id = 7"}}</{DSML}tool_input>',
        f'<{DSML}arguments>\n{{"table": "users", "where": "id = 7"}}\n</{DSML}arguments>',
        f"<{DSML}call_params>{TABLE}{WHERE}</{DSML}call_params>",
        f"<{DSML}args>\n{TABLE}\n{WHERE}\n</{DSML}args>",
        f'{TABLE}\n{{"where": "id = 7"}}',
        f'{TABLE}\nAnd:\n{{"where": "id = 7"}}',
        f'{TABLE}\n{{"where": "id = 7"}} That is all.',
        f'{{"where": "id = 7"}}\n{TABLE}',
        '{"table": "users"}\n{"where": "id = 7"}',
        f'{TABLE}\n<{DSML}parameter name="where" value="id = 7">{PARAMETER_END}',
        f'{TABLE}\n<{DSML}parameter name="where" string="true" value="id = 7">{PARAMETER_END}',
        f'{TABLE}\n<{DSML}arg name="where" value="id = 7"></{DSML}arg>',
        f"{TABLE}, {WHERE}",
        f"{TABLE}；{WHERE}",
        f"{TABLE}\n- {WHERE}",
        f"{TABLE}\n<!-- then -->{WHERE}",
        f"{TABLE}\n<{WHERE}",
        f"<{TABLE}<{WHERE}",
        f"{parameter('table')[:-1]}/>users{PARAMETER_END}\n{WHERE}",
        f"{TABLE}\nwhere: see below\n{WHERE}",
        f"{TABLE}\n**where** = id = 7:\n{WHERE}",
        f"{TABLE}\nNow the condition.\n{WHERE}",
        f"{TABLE}\n// somewhere: here\n{WHERE}",
        f"{TABLE}\n<!-- name=\"limit\" -->\n{WHERE}",
    ],
)  # fmt: skip
def test_is_read(body: str) -> None:
    message = read(calling(body), tools=TOOLS)
    assert calls_of(message) == [("delete_rows", BOTH)]
    assert message.content == ""


@each_row(
    "body",
    [
        f"{TABLE}\nwhere: id = 7",
        f"{TABLE}\nwhere = id = 7\n",
        f'{TABLE}\n"where": "id = 7"',
        f"{TABLE}\n**where**: id = 7",
        f"{TABLE}\n`where`：id = 7",
        f"{TABLE}\n- where: id = 7",
        f"users{PARAMETER_END}\n{WHERE}",
        f"{TABLE}\n{parameter('where')[:-1]}id = 7{PARAMETER_END}",
        f"{TABLE}\n{parameter('where')[:-1]} id = 7{PARAMETER_END}",
        f"{TABLE}\n_where_: id = 7",
        f"{TABLE}\n--where=id",
        f"{TABLE}\n<where=id>",
        f"{TABLE}\n条件where：id",
        f'{TABLE}\n<arg name="where">id = 7</arg>',
        f"{TABLE}\n<arg name='where'>id = 7</arg>",
        f"{TABLE}\n<arg_key>where</arg_key>\n<arg_value>id = 7</arg_value>",
        f"{TABLE}\n<key>\nwhere\n</key><value>id = 7</value>",
        f'{TABLE}\n{{"where": "id = 7", "limit": 1}}',
        f'{TABLE}\n{{"table": "users", "where": "id = 7"}}',
        f'{TABLE}\n{{"table": "users"}} That is all.',
        '{"table": "users", "where": "id = 7"}\n{"table": "teams"}',
        '{{"table": "users"}}{"second": 7}',
        f'{TABLE}\n{{"where": "id = 7}}',
        f"{TABLE}\n{{where: 'id = 7'}}",
        f'{{"where": "id = 7}}\n{TABLE}',
        f"where: id = 7\n{TABLE}",
        f"{parameter('table')}users{INVOKE_END}\n{parameter('where')}id = 7{INVOKE_END}",
    ],
)
def test_is_not_lost_from_a_call_that_is_made(body: str) -> None:
    message = read(calling(body), tools=TOOLS)
    assert is_not_made(message, "delete_rows")
    assert message.dropped
    quoted = "".join(found.raw for found in message.diagnostics)
    assert "7" not in body or "7" in quoted + message.incomplete[0].arguments


OPENING, SLASHED = invoke("delete_rows"), invoke("delete_rows").replace(">", "/>")


@each_row(
    "text, arguments",
    [
        # A slash too many: the call's arguments follow.
        (f"{SLASHED}\n{TABLE}\n{WHERE}\n{INVOKE_END}\n", BOTH),
        (f"{SLASHED}{TABLE}{WHERE}", BOTH),
        (SLASHED, {}),
        # A parameter's close in place of the invoke's.
        (f"{OPENING}{TABLE}{WHERE}{PARAMETER_END}", BOTH),
        (f"{OPENING}\n{TABLE}\n{WHERE}\n{PARAMETER_END}\n", BOTH),
        # A parameter without its bracket (rule 43).
        (f"{OPENING}{TABLE}\n{WHERE[1:]}\n{INVOKE_END}\n", BOTH),
        # Nothing but the opening has come (rule 42), and the model ended there.
        (OPENING, None),
        (f"{OPENING}{EOS}", None),
        (f"{OPENING}</think>{EOS}", None),
    ],
)
def test_odd_tags_of_a_call(text: str, arguments: Any) -> None:
    message = read(f"{BLOCK}\n{text}{BLOCK_END}{EOS}", tools=TOOLS)
    if arguments is None:
        message = read(f"{BLOCK}\n{text}", tools=TOOLS)
    assert calls_of(message) == [("delete_rows", arguments)] * (arguments is not None)
    assert message.tool_calls or is_not_made(message, "delete_rows")


def test_a_call_in_one_tag_is_no_argument_of_the_one_before() -> None:
    message = read(f"{BLOCK}\n{OPENING}\n{TABLE}\n{WHERE}\n{SLASHED}\n{BLOCK_END}", tools=TOOLS)
    assert calls_of(message) == [("delete_rows", BOTH), ("delete_rows", {})]


@each_row("remark", ["somewhere: here", "any_where: here", "else-where: x", "the where clause"])
def test_what_only_sounds_like_a_key_gives_nothing(remark: str) -> None:
    message = read(calling(f"{TABLE}\n// {remark}"), tools=TOOLS)
    assert calls_of(message) == [("delete_rows", {"table": "users"})]


@each_row(
    "tools, body, calls",
    [
        (None, f'<{DSML}arg name="q">x</{DSML}arg>', {"q": "x"}),
        (None, '<arg name="q">x</arg>', None),
        (None, f"{TABLE}\nwhere: id = 7", {"table": "users"}),
        (None, f'{TABLE}\n<arg name="where">x</arg>', None),
        (None, f'{TABLE}\n{{"where": 1}}', {"table": "users", "where": 1}),
        (declared(delete_rows={}), f'<{DSML}a name="b">1</{DSML}a>', {"b": 1}),
    ],
)  # fmt: skip
def test_where_nothing_is_declared(tools: Any, body: str, calls: Any) -> None:
    message = read(calling(body), tools=tools)
    assert calls_of(message) == ([] if calls is None else [("delete_rows", calls)])


@each_row(
    "value, behind, arguments",
    [
        ('{"table": "users"}', '{"where": "x"}', {"input": {"table": "users"}, "where": "x"}),
        ("users", '{"where": "x"}', {"input": "users", "where": "x"}),
        ('{"table": "users"}', "table: as above", {"table": "users"}),
        ('{"table": "users"}', "where: id = 7", None),
    ],
)
def test_behind_a_parameter_that_may_hold_all(value: str, behind: str, arguments: Any) -> None:
    body = f"{parameter('input', 'false')}{value}{PARAMETER_END}\n{behind}"
    message = read(calling(body), tools=TOOLS)
    assert calls_of(message) == ([] if arguments is None else [("delete_rows", arguments)])


def test_a_value_that_ends_by_implication_holds_no_close() -> None:
    value = f"a{PARAMETER_END}{'b' * 300}"
    text = f"{BLOCK}{invoke('delete_rows')}{parameter('table')}{value}"
    for end in (EOS, f"{INVOKE_END}{BLOCK_END}"):
        message = read(text + end, tools=TOOLS)
        assert calls_of(message) == []
        assert incomplete_of(message) == [("delete_rows", {"table": value})]


@each_row(
    "tag", [f'<{DSML}arg name="where">', f'<{DSML}invoke name="where">', f"{parameter('where')}"]
)
def test_a_tag_with_a_key_on_a_line_of_its_own_ends_a_value_that_lacks_its_close(tag: str) -> None:
    body = f"{parameter('table')}users\n{tag}id = 7{PARAMETER_END}"
    text = calling(body).replace(f"{INVOKE_END}\n", INVOKE_END)  # the strict grammar refuses it
    assert calls_of(read(text, tools=TOOLS)) == [("delete_rows", BOTH)]


def test_a_tag_with_a_key_inside_of_a_value_is_a_part_of_it() -> None:
    value = f'a <{DSML}arg name="where">b</{DSML}arg> c'
    body = f"{parameter('table')}{value}{PARAMETER_END}\n"
    message = read(calling(body), tools=TOOLS)
    assert calls_of(message) == [("delete_rows", {"table": value})]


@each_row(
    "body, calls",
    [
        ('{"table": "users"}<where>id = 7</where>', BOTH),
        ('<table>users</table>{"where": "id = 7"}', BOTH),
        ('<table>users</table><parameter name="where">id = 7</parameter>', BOTH),
        ("<table>users</table>where: id = 7", None),
        ('{"table": "users"}\nwhere: id = 7', None),
    ],
)
def test_a_call_without_the_token(body: str, calls: Any) -> None:
    message = read(f'<invoke name="delete_rows">{body}</invoke>', tools=TOOLS)
    assert calls_of(message) == ([] if calls is None else [("delete_rows", calls)])
    assert [found.kind for found in message.dropped] == (["dropped_call"] if calls is None else [])


def test_a_second_body_behind_one_that_is_no_json_is_quoted() -> None:
    """The call was given up by then, and the second body went nowhere."""
    message = read_everywhere(f'{BLOCK}\n{BASH}\n{{a]{{"command": "ls"}}{INVOKE_END}\n{BLOCK_END}')
    assert (calls_of(message), incomplete_of(message)) == ([], [("bash", {"arguments": "{a]"})])
    assert '{"command": "ls"}' in [one.raw for one in message.diagnostics]
