"""What a request's options make of its grammar."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
from gbnf_reader import Gbnf

import dsv4
from builders import Model
from dsv4.grammar import for_request
from rows import each_row

V4 = "｜DSML｜"
USER = {"role": "user", "content": "Hi"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
                "required": ["q"],
            },
        },
    },
    {"name": "stop"},
]


def reader(
    tools: Any = TOOLS,
    options: dict[str, Any] | None = None,
    messages: Any = (USER,),
    **request: Any,
) -> Gbnf:
    asked = dsv4.Request(list(messages), tools=tools, **request)
    dsml = str(dsv4.DIALECTS[str(asked.dialect)].tags.dsml)
    return read_once(for_request(asked, "gbnf", **options or {}).text, dsml)


read_once = lru_cache(8)(Gbnf)


def parameter(name: str, value: str, string: str = "true") -> str:
    return f'<{V4}parameter name="{name}" string="{string}">{value}</{V4}parameter>\n'


def invoke(name: str, *parameters: str) -> str:
    return f'<{V4}invoke name="{name}">\n{"".join(parameters)}</{V4}invoke>\n'


def block(*invokes: str) -> str:
    return f"\n\n<{V4}tool_calls>\n{''.join(invokes)}</{V4}tool_calls>"


SEARCH = invoke("search", parameter("q", "cats"))
STOP = invoke("stop", "\n")


@each_row(
    "text, allowed",
    [
        ("Hm.</think>Hello.", True),
        ("</think>", True),
        ("Hm.</think>" + block(SEARCH), True),
        ("Hm.</think>I look." + block(SEARCH, STOP), True),
        ("Hm.", False),
        ("Hm.</think>" + block(), False),
        ("Hm.</think>" + block(SEARCH) + "Done.", False),
        ("Hm." + block(SEARCH) + "</think>", False),
        ("Hm.</think>" + block(SEARCH) + block(SEARCH), False),
        ("<think></think>", False),
        ("</think></think>", False),
        (f"</think>{V4}", False),
        ("</think>a <think b｜DSML c </thinking>", True),
    ],
)
def test_reasoning_content_and_calls(text: str, allowed: bool) -> None:
    assert reader().accepts(text) == allowed


@pytest.mark.parametrize(
    ("choice", "content", "search", "stop"),
    [
        ("auto", True, True, True),
        ("none", True, False, False),
        ("required", False, True, True),
        ("stop", False, False, True),
        ({"type": "function", "function": {"name": "search"}}, False, True, False),
    ],
)
def test_tool_choice(choice: Any, content: bool, search: bool, stop: bool) -> None:
    made = reader(tool_choice=choice)
    assert made.accepts("</think>Hello.") == content
    assert made.accepts("</think>" + block(SEARCH)) == search
    assert made.accepts("</think>" + block(STOP)) == stop


def test_no_tools_no_calls() -> None:
    for tools in (None, []):
        assert reader(tools=tools).accepts("</think>Hello.")
        assert not reader(tools=tools).accepts("</think>" + block(STOP))


def test_tools_of_messages_count_where_the_request_has_none() -> None:
    system = {"role": "system", "content": "", "tools": TOOLS}
    assert reader(tools=None, messages=[system, USER]).accepts("</think>" + block(SEARCH))


@pytest.mark.parametrize("system", [dict, Model])
@pytest.mark.parametrize("tools", [None, []])
def test_every_tool_that_the_prompt_shows_may_be_called(tools: Any, system: Any) -> None:
    message = system({"role": "system", "tools": TOOLS})
    assert reader(tools, messages=[message, USER], thinking=False).accepts(block(STOP))


def test_a_choice_may_name_a_tool_without_its_namespace() -> None:
    tools = [{"name": "stop", "namespace": "a"}, {"name": "go"}]
    options: dict[str, Any] = {"thinking": False, "dialect": "v4.1"}
    rest = f"</{V4} invoke>\n</{V4} calls>"
    for choice in ("stop", "a::stop"):
        assert reader(tools, tool_choice=choice, **options).accepts(rest)


def test_an_answer_by_a_schema_that_is_an_object() -> None:
    schema = {"type": "object", "properties": {"n": {"const": 1}}, "required": ["n"]}
    format = Model({"type": "json_schema", "json_schema": {"schema": schema}})
    made = reader(None, response_format=format, thinking=False)
    assert made.accepts('{"n": 1}')
    assert not made.accepts('{"n": 2}')


def test_one_call_or_several() -> None:
    made = reader(options={"parallel": False})
    assert made.accepts("</think>" + block(SEARCH))
    assert not made.accepts("</think>" + block(SEARCH, STOP))


def test_content_before_required_calls() -> None:
    for preamble in (True, False):
        made = reader(tool_choice="required", options={"preamble": preamble})
        assert made.accepts("</think>" + block(STOP))
        assert made.accepts("</think>Now:" + block(STOP)) == preamble


def test_a_server_that_handles_reasoning() -> None:
    made = reader(options={"reasoning": "server"})
    assert made.accepts("Hello." + block(STOP))
    assert not made.accepts("Hm.</think>Hello.")


def test_chat_mode_has_no_reasoning() -> None:
    made = reader(thinking=False)
    assert made.accepts("Hello." + block(STOP))
    assert not made.accepts("</think>Hello.")


# Where the prompt has begun the completion.


def test_a_forced_call_without_thinking_begins_inside_the_block() -> None:
    made = reader(thinking=False, tool_choice="required")
    assert made.accepts(STOP + SEARCH + f"</{V4}tool_calls>")
    assert not made.accepts(block(STOP))


def test_a_named_call_without_thinking_begins_inside_the_call() -> None:
    made = reader(thinking=False, tool_choice="search")
    rest = parameter("q", "cats") + f"</{V4}invoke>\n</{V4}tool_calls>"
    assert made.accepts(rest)
    assert not made.accepts(SEARCH + f"</{V4}tool_calls>")


def test_a_prefix_is_read_first() -> None:
    made = reader(thinking=False, prefix="Hello\n\n<")
    assert made.accepts("b>")
    assert made.accepts(block(STOP).removeprefix("\n\n<"))
    assert not made.accepts("think>")


def test_a_prefix_that_no_completion_has() -> None:
    with pytest.raises(dsv4.Error, match=r"prefix: found .* at character 8"):
        reader(thinking=False, prefix="a</think>")


# JSON in place of free content.


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    "response_format",
    [PERSON, {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}],
)
def test_an_answer_by_schema(response_format: Any) -> None:
    made = reader(tools=None, response_format=response_format)
    assert made.accepts('</think>{"age": 3, "name": "Ada"}')
    assert made.accepts('</think>{"name":"Ada"}')
    assert not made.accepts('</think>{"age": 3}')
    assert not made.accepts("</think>Ada is 3.")


def test_any_object() -> None:
    made = reader(tools=None, response_format={"type": "json_object"})
    assert made.accepts('</think>{"a": [1, {"b": null}], "": -1.5e-7}')
    assert not made.accepts("</think>[]")


def test_text_is_no_constraint() -> None:
    assert reader(tools=None, response_format={"type": "text"}).accepts("</think>Hello.")


def test_an_answer_or_calls() -> None:
    made = reader(response_format=PERSON)
    assert made.accepts('</think>{"name": "Ada"}')
    assert made.accepts("</think>" + block(STOP))
    assert not made.accepts("</think>")


def test_an_answer_holds_no_token_of_the_format() -> None:
    made = reader(tools=None, response_format={"type": "json_object"})
    assert not made.accepts('</think>{"a": "</think>"}')
    assert made.accepts('</think>{"a": "\\u003c/think>"}')


# Values.


def test_markup_in_values() -> None:
    text = "</think>" + block(invoke("search", parameter("q", f"<{V4}invoke> </{V4}param")))
    assert reader().accepts(text)
    assert not reader(options={"markup_in_values": False}).accepts(text)


def test_a_value_does_not_hold_its_own_close() -> None:
    for inside in (f"a</{V4}parameter>b", f"a/{V4}parameter"):
        assert not reader().accepts("</think>" + block(invoke("search", parameter("q", inside))))


@pytest.mark.parametrize("pattern", [r"\.py$", "^/.+$", "^[^ ]+/[^ ]+$"])
def test_a_pattern_lets_paths_pass_and_no_closing_tag(pattern: str) -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string", "pattern": pattern}}}
    made = reader(tools=[{"name": "search", "parameters": schema}], options={"exact": True})
    for inside, allowed in (("/src/日本/a.py", True), (f"/a</{V4}parameter>/b.py", False)):
        text = "</think>" + block(invoke("search", parameter("q", inside)))
        assert made.accepts(text) == allowed


def test_the_order_of_parameters() -> None:
    turned = invoke("search", parameter("n", "1", "false"), parameter("q", "cats"))
    assert reader().accepts("</think>" + block(turned))
    assert not reader(options={"order": "declared"}).accepts("</think>" + block(turned))


def test_beyond_six_parameters_the_declared_order_holds() -> None:
    for count in (6, 7):
        properties = {f"p{n}": {"type": "boolean"} for n in range(count)}
        tool = {"name": "f", "parameters": {"type": "object", "properties": properties}}
        given = [parameter(f"p{n}", "true", "false") for n in range(count)]
        made = reader(tools=[tool])
        assert made.accepts("</think>" + block(invoke("f", *given)))
        assert made.accepts("</think>" + block(invoke("f", given[0], given[3])))
        assert made.accepts("</think>" + block(invoke("f", *reversed(given)))) == (count == 6)


# Dialects.


@pytest.mark.parametrize("dialect", list(dsv4.DIALECTS))
def test_every_dialect_has_its_own_tags(dialect: str) -> None:
    message = {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "search", "arguments": '{"q": "cats"}'}}],
    }
    options: Any = {"tools": TOOLS, "dialect": dialect, "thinking": False}
    before = str(dsv4.encode([USER], **options))
    written = str(dsv4.encode([USER, message], **options))[len(before) :]
    made = reader(dialect=dialect, thinking=False)
    assert made.accepts(written.removesuffix("<｜end▁of▁sentence｜>"))
    # What spells the token in another way takes this one for text.
    others = [
        name
        for name, other in dsv4.DIALECTS.items()
        if other.tags.dsml in written and other.tags.calls not in written
    ]
    for other in others:
        asked = reader(dialect=other, thinking=False)
        assert not asked.accepts(written.removesuffix("<｜end▁of▁sentence｜>"))


# Special tokens.


FORMS: tuple[Any, ...] = ("xgrammar", "gbnf", "lark")
WRITTEN = {"xgrammar": "Token(%d)", "gbnf": "<[%d]>", "lark": "<[%d]>"}


@pytest.mark.parametrize("form", FORMS)
def test_special_tokens_are_tokens_and_not_their_text(form: Any) -> None:
    request = dsv4.Request([USER], tools=TOOLS, tool_choice="required")
    made = for_request(request, form, preamble=False)
    assert made.markers == "tokens"
    root = made.text.splitlines()[0]
    assert WRITTEN[form] % 128822 in root
    assert WRITTEN[form] % 128825 in root
    assert '"</｜' not in made.text


@pytest.mark.parametrize("form", FORMS)
def test_ids_of_another_vocabulary(form: Any) -> None:
    request = dsv4.Request([USER], tools=TOOLS, dialect="v3.2")
    ids = {"<think>": 7, "</think>": 8, "｜DSML｜": 9, "other": 10}
    made = for_request(request, form, markers=ids)
    assert made.markers == "tokens"
    assert all(WRITTEN[form] % id in made.text for id in (8, 9))


@pytest.mark.parametrize("form", FORMS)
@each_row("dialect, markers", [("v4", "text"), ("v3.2", "tokens"), ("v4", {"｜DSML｜": 9})])
def test_special_tokens_without_ids_are_text(form: Any, dialect: Any, markers: Any) -> None:
    request = dsv4.Request([USER], tools=TOOLS, dialect=dialect)
    made = for_request(request, form, markers=markers)
    assert made.markers == "text"
    assert WRITTEN[form].partition("%")[0] not in made.text
    assert "｜DSML｜" in made.text


def test_the_caller_s_data_is_left_alone() -> None:
    import copy

    tools = copy.deepcopy(TOOLS)
    request = dsv4.Request([USER], tools=tools, response_format=PERSON)
    for_request(request)
    assert tools == TOOLS
