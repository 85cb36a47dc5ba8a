"""What every protocol reads alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
from request_bodies import PIXEL, PROTOCOLS, body, call, prompt, result, tools, user

import dsv4
from dsv4.api import ApiError, Settings
from rows import each_row

EVERY = pytest.mark.parametrize("protocol", PROTOCOLS)
THINK = "<think>"


def read(protocol: str, *turns: Any, settings: Settings | None = None, **fields: Any) -> Any:
    return PROTOCOLS[protocol].read(body(protocol, *turns, **fields), settings=settings)


def refused(protocol: str, *turns: Any, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(protocol, *turns, **fields)
    assert caught.value.status == 400
    return caught.value


# Fields.


@EVERY
def test_unknown_fields_are_ignored(protocol: str) -> None:
    message = {**user("Hi"), "wo_eos": True, "future": 1}
    assert prompt(protocol, body(protocol, message, future={"a": 1})) == prompt(
        protocol, body(protocol)
    )


@EVERY
def test_null_is_absent(protocol: str) -> None:
    module = PROTOCOLS[protocol]
    fields = (
        *("model", "tools", "tool_choice", "stream", "temperature", "top_p", "max_tokens", "stop"),
        *("thinking", "reasoning", "reasoning_effort", "text", "response_format", "system"),
        *("output_config", "stop_sequences", "metadata", "user", "n", "parallel_tool_calls"),
        *("max_output_tokens", "instructions", "previous_response_id", "include", "functions"),
    )
    assert module.read(body(protocol, **dict.fromkeys(fields))) == module.read(body(protocol))


WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    "chat": [
        ({"logit_bias": [[5, 1]]}, "logit_bias"),
        ({"logit_bias": {"word": 1}}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"messages": 5}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "messages[0].role"),
        ({"messages": [user("a"), {"role": "user", "content": 5}]}, "messages[1].content"),
        (
            {"messages": [user("a"), user("b"), {"role": "user", "content": [{"type": 5}]}]},
            "messages[2].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
            "messages[0].content[0].text",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"id": 5, "function": {"name": "f"}}]}
                ]
            },
            "messages[0].tool_calls[0].id",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": 5}}]}]},
            "messages[0].tool_calls[0].function.name",
        ),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
            "tools[0].function.parameters",
        ),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        (
            {"tool_choice": {"type": "function", "function": {"name": ""}}},
            "tool_choice.function.name",
        ),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5.0}, "max_tokens"),
        ({"max_completion_tokens": True}, "max_completion_tokens"),
        ({"stop": [5]}, "stop[0]"),
        ({"stop": ""}, "stop"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
        ({"n": 0}, "n"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"reasoning_effort": 50}, "reasoning_effort"),
        ({"thinking": "on"}, "thinking"),
        ({"thinking": {"type": "on"}}, "thinking.type"),
        ({"chat_template_kwargs": {"thinking": "yes"}}, "chat_template_kwargs.thinking"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format.json_schema.schema",
        ),
    ],
    "responses": [
        ({"input": None}, "input"),
        ({"input": [5]}, "input[0]"),
        ({"input": [{"type": 5}]}, "input[0].type"),
        ({"input": [{}]}, "input[0].type"),
        ({"input": [{"role": "narrator", "content": "x"}]}, "input[0].role"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": 5}]}]},
            "input[0].content[0].text",
        ),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"instructions": 5}, "instructions"),
        ({"tools": [{"name": "f"}]}, "tools[0].type"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": 5}]}, "tools[0].tools"),
        (
            {"tools": [{"type": "custom", "name": "f", "format": {"definition": 5}}]},
            "tools[0].format.definition",
        ),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"reasoning": {"effort": 2.5}}, "reasoning.effort"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"include": "all"}, "include"),
    ],
    "messages": [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": 5}]}
                ]
            },
            "messages[0].content[0].tool_use_id",
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "tool_result", "is_error": "no"}]}
                ]
            },
            "messages[0].content[0].is_error",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": 5}]}]},
            "messages[0].content[0].source",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "thinking", "thinking": 5}]},
                    user("x"),
                ]
            },
            "messages[0].content[0].thinking",
        ),
        ({"system": 5}, "system"),
        ({"system": [{"type": "text", "text": 5}]}, "system[0].text"),
        ({"tools": [{"name": "f", "input_schema": 5}]}, "tools[0].input_schema"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": {"type": "sometimes"}}, "tool_choice.type"),
        ({"output_config": {"effort": "extreme"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
        ({"stop_sequences": 5}, "stop_sequences"),
        ({"metadata": {"user_id": 5}}, "metadata.user_id"),
        ({"top_k": "few"}, "top_k"),
    ],
}


@each_row("protocol, fields, path", [(p, f, w) for p, rows in WRONG.items() for f, w in rows])
def test_a_known_field_with_a_wrong_value_is_named(protocol: str, fields: Any, path: str) -> None:
    module = PROTOCOLS[protocol]
    with pytest.raises(ApiError) as caught:
        module.read({**body(protocol), **fields})
    assert caught.value.path == path
    status, answer = module.error(caught.value)
    assert status == 400
    assert "expected" in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"


@EVERY
@each_row("data", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, 5, None])
def test_a_body_that_is_none(protocol: str, data: Any) -> None:
    with pytest.raises(ApiError) as caught:
        PROTOCOLS[protocol].read(data)
    assert caught.value.status == 400


@EVERY
def test_values_reach_the_prompt_as_they_were_written(protocol: str) -> None:
    schema = '{"z": 1.50, "a": {"b": 123456789012345678901234567890, "1": [true, null, 1e400]}}'
    data = json.dumps(body(protocol, tools=tools(protocol, "f")))
    data = data.replace('"properties": {"path"', f'"x": {schema}, "properties": {{"path"')
    shown = json.dumps(json.loads(schema), ensure_ascii=False)
    assert shown in prompt(protocol, data.encode())


@EVERY
def test_a_byte_order_mark_is_no_text(protocol: str) -> None:
    assert prompt(protocol, b"\xef\xbb\xbf" + json.dumps(body(protocol)).encode()) == prompt(
        protocol, body(protocol)
    )


@EVERY
def test_lone_surrogates_become_replacement_characters(protocol: str) -> None:
    half, whole = "\ud83d", "\U0001f600"
    turns = (
        user(f"a{half}b{whole}"),
        *call(protocol, "c", f"f{half}", {f"k{half}": f"v{half}", "n": [half]}),
        *result(protocol, "c", f"r{half}"),
    )
    fields = {"tools": tools(protocol, f"t{half}")}
    clean = json.loads(
        json.dumps([turns, fields])
        .replace("\\ud83d\\ude00", "E")
        .replace("\\ud83d", "\\ufffd")
        .replace("E", "\\ud83d\\ude00")
    )
    expected = prompt(protocol, body(protocol, *clean[0], **clean[1]))
    given = body(protocol, *turns, **fields)
    assert prompt(protocol, given) == expected
    assert prompt(protocol, json.dumps(given).encode()) == expected
    expected.encode()


# System texts.


@EVERY
def test_system_texts_before_the_first_turn_are_one_message(protocol: str) -> None:
    call = read(
        protocol, {"role": "system", "content": "A"}, {"role": "system", "content": "B"}, user("Hi")
    )
    assert call.request.messages[0] == {"role": "system", "content": "A\n\nB"}
    assert len(call.request.messages) == 2


@EVERY
def test_a_later_system_message_is_a_reminder_where_it_stands(protocol: str) -> None:
    turns = (
        user("Q"),
        {"role": "system", "content": "S"},
        {"role": "assistant", "content": "A"},
        user("R"),
    )
    text = prompt(protocol, body(protocol, *turns))
    assert "Q\n\n<system-reminder>\nS\n</system-reminder>" in text
    blocks = [{"type": "text", "text": "S"}]
    assert text == prompt(
        protocol, body(protocol, turns[0], {"role": "system", "content": blocks}, *turns[2:])
    )


@EVERY
def test_settings_put_later_system_messages_elsewhere(protocol: str) -> None:
    turns = (user("Q"), {"role": "system", "content": "S"}, user("R"))
    placed = [
        {"role": "user", "content": "Q"},
        {"role": "system", "content": "S"},
        {"role": "user", "content": "R"},
    ]
    in_place = read(protocol, *turns, settings=Settings(later_system="in_place"))
    assert [
        {"role": m["role"], "content": m["content"]} for m in in_place.request.messages
    ] == placed
    in_front = read(protocol, *turns, settings=Settings(later_system="in_front"))
    assert in_front.request.messages[0] == {"role": "system", "content": "S"}


@EVERY
def test_a_dialect_with_a_system_token_has_system_messages_in_place(protocol: str) -> None:
    turns = (user("Q"), {"role": "system", "content": "S"})
    call = PROTOCOLS[protocol].read(body(protocol, *turns), dialect="v4.1")
    assert call.request.messages[-1] == {"role": "system", "content": "S"}


@EVERY
@pytest.mark.parametrize("later", ["reminder", "in_place"])
def test_a_system_message_at_the_end_is_a_reminder(protocol: str, later: Any) -> None:
    turns = (user("Q"), {"role": "system", "content": "S"})
    settings = Settings(later_system=later)
    assert prompt(protocol, body(protocol, *turns), settings=settings).endswith(THINK)
    assert prompt(protocol, body(protocol, turns[1])).endswith(THINK)


@EVERY
@each_row(
    "text, kept",
    [
        ("x-anthropic-billing-header: cc_version=1.2; cch=0;", None),
        ("x-anthropic-billing-header: a\nKept.", "Kept."),
        ("x-anthropic-billing-header: a You are here.\nMore.", "You are here.\nMore."),
        ("x-anthropic-billing-header: a\nAnd You are.", "And You are."),
        ("An x-anthropic-billing-header: a", "An x-anthropic-billing-header: a"),
    ],
)
def test_a_billing_line_is_cut_off(protocol: str, text: str, kept: str | None) -> None:
    call = read(protocol, {"role": "system", "content": text}, user("Hi"))
    first = call.request.messages[0]
    assert first == ({"role": "system", "content": kept} if kept else first)
    assert (first["role"] == "system") == (kept is not None)


# The ends of prompts.


@EVERY
def test_a_prompt_needs_a_message(protocol: str) -> None:
    module = PROTOCOLS[protocol]
    field = "input" if protocol == "responses" else "messages"
    with pytest.raises(ApiError) as caught:
        module.read({field: []})
    assert caught.value.path == field


@EVERY
def test_a_last_assistant_turn_is_continued(protocol: str) -> None:
    last = {"role": "assistant", "content": "The answer is"}
    if protocol == "chat":
        assert refused(protocol, user("Q"), last).path == "messages[1]"
        last["prefix"] = True
    assert prompt(protocol, body(protocol, user("Q"), last)).endswith("</think>The answer is")


@EVERY
def test_calls_at_the_end_wait_for_results(protocol: str) -> None:
    turns = (user("Q"), *call(protocol, "c", "f", {}))
    if protocol == "chat":
        turns[-1]["prefix"] = True
    assert "results" in refused(protocol, *turns).message


@EVERY
def test_a_prefix_needs_someone_to_answer(protocol: str) -> None:
    last: dict[str, Any] = {"role": "assistant", "content": "A"}
    if protocol == "chat":
        last["prefix"] = True
    assert "user" in refused(protocol, last).message


# Thinking.

SWITCHES: dict[str, dict[str, Any]] = {
    "chat": {
        "on": [
            {"thinking": {"type": "enabled"}},
            {"thinking": {"type": "adaptive"}},
            {"reasoning_effort": "low"},
            {"chat_template_kwargs": {"enable_thinking": True}},
        ],
        "off": [
            {"thinking": {"type": "disabled"}},
            {"reasoning_effort": "none"},
            {"chat_template_kwargs": {"thinking": False}},
            {"thinking": {"type": "disabled"}, "reasoning_effort": "max"},
        ],
    },
    "responses": {
        "on": [{"reasoning": {"effort": "low"}}],
        "off": [{"reasoning": {"effort": "none"}}],
    },
    "messages": {
        "on": [
            {"thinking": {"type": "enabled", "budget_tokens": 5}},
            {"thinking": {"type": "adaptive", "display": "omitted"}},
        ],
        "off": [
            {"thinking": {"type": "disabled"}},
            {"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}},
        ],
    },
}


@EVERY
def test_thinking_is_on_unless_switched_off(protocol: str) -> None:
    assert read(protocol).request.thinking
    assert not read(protocol, settings=Settings(thinking=False)).request.thinking
    for fields in SWITCHES[protocol]["on"]:
        assert read(protocol, **fields).request.thinking, fields
    for fields in SWITCHES[protocol]["off"]:
        assert not read(protocol, **fields).request.thinking, fields


def effort_field(protocol: str, effort: Any) -> dict[str, Any]:
    if protocol == "chat":
        return {"reasoning_effort": effort}
    return {"reasoning" if protocol == "responses" else "output_config": {"effort": effort}}


@EVERY
@each_row(
    "said, v4, v4_0731, v4_1",
    [
        ("minimal", None, "low", "low"),
        ("low", None, "low", "low"),
        ("medium", "high", "high", "high"),
        ("high", "high", "high", "high"),
        ("xhigh", "high", "high", "high"),
        ("max", "max", "max", "max"),
        ("ultra", "max", "max", "max"),
        (None, "high", "high", "high"),
    ],
)
def test_names_of_efforts(protocol: str, said: Any, v4: Any, v4_0731: Any, v4_1: Any) -> None:
    for dialect, expected in (("v4", v4), ("v4-0731", v4_0731), ("v4.1", v4_1)):
        request = body(protocol, **effort_field(protocol, said))
        assert PROTOCOLS[protocol].read(request, dialect=dialect).request.effort == expected


@EVERY
def test_a_number_is_an_effort_where_the_dialect_has_numbers(protocol: str) -> None:
    request = body(protocol, **effort_field(protocol, 42))
    assert PROTOCOLS[protocol].read(request, dialect="v4.1").request.effort == 42
    with pytest.raises(ApiError) as caught:
        PROTOCOLS[protocol].read(request)
    assert caught.value.path is not None
    assert caught.value.path.endswith("effort")
    with pytest.raises(ApiError):
        PROTOCOLS[protocol].read(body(protocol, **effort_field(protocol, 101)), dialect="v4.1")


LENGTH = {
    "chat": "max_completion_tokens",
    "responses": "max_output_tokens",
    "messages": "max_tokens",
}


@EVERY
def test_the_most_tokens(protocol: str) -> None:
    off = SWITCHES[protocol]["off"][0]
    assert read(protocol, **{LENGTH[protocol]: 7}).max_tokens == 7
    assert read(protocol, **off).max_tokens == 8_192
    assert read(protocol).max_tokens == 65_536
    assert read(protocol, **effort_field(protocol, "max")).max_tokens == 131_072


# Tools.


@EVERY
def test_tools_are_shown_as_name_description_and_parameters(protocol: str) -> None:
    form = tools(protocol, "f")[0]
    function = form.get("function", form)
    more = {"strict": True, "cache_control": {"type": "ephemeral"}, "description": "D"}
    schema = function.get("parameters") or function.get("input_schema")
    shuffled = {**more, **dict(reversed(function.items()))}
    given = {"type": "function", "function": shuffled} if protocol == "chat" else shuffled
    shown = read(protocol, tools=[given]).request.tools
    assert [list(tool.items()) for tool in shown] == [
        [("name", "f"), ("description", "D"), ("parameters", schema)]
    ]


@EVERY
def test_one_name_for_two_tools_is_refused(protocol: str) -> None:
    assert refused(protocol, tools=tools(protocol, "f", "g", "f")).path in (
        "tools[2].name",
        "tools[2].function.name",
    )


@EVERY
def test_remembered_tools_do_not_follow_the_callers_changes(protocol: str) -> None:
    given = tools(protocol, "changing")
    first = prompt(protocol, body(protocol, tools=given))
    function = given[0].get("function", given[0])
    (function.get("parameters") or function["input_schema"])["changed"] = 1
    assert "changed" in prompt(protocol, body(protocol, tools=given))
    del (function.get("parameters") or function["input_schema"])["changed"]
    assert prompt(protocol, body(protocol, tools=given)) == first


def choice_field(protocol: str, choice: str, name: str = "f") -> dict[str, Any]:
    if protocol == "messages":
        kinds = {"required": "any", "tool": "tool"}
        chosen: Any = {"type": kinds.get(choice, choice)}
        return {"tool_choice": {**chosen, "name": name} if choice == "tool" else chosen}
    if choice != "tool":
        return {"tool_choice": choice}
    named = {"name": name} if protocol == "responses" else {"function": {"name": name}}
    return {"tool_choice": {"type": "function", **named}}


@EVERY
def test_none_shows_no_tools(protocol: str) -> None:
    request = body(protocol, tools=tools(protocol, "f"), **choice_field(protocol, "none"))
    assert prompt(protocol, request) == prompt(protocol, body(protocol))


@EVERY
@pytest.mark.parametrize("choice", ["required", "tool"])
def test_a_forced_call_switches_thinking_off(protocol: str, choice: str) -> None:
    request = body(protocol, tools=tools(protocol, "f"), **choice_field(protocol, choice))
    call = PROTOCOLS[protocol].read(request)
    assert not call.request.thinking
    opening = dsv4.DIALECTS["v4"].tags.block_open
    assert str(opening) in prompt(protocol, request)[-120:]
    assert prompt(protocol, request).endswith(
        'invoke name="f">\n' if choice == "tool" else str(opening)
    )


@EVERY
@pytest.mark.parametrize("choice", ["required", "tool"])
def test_a_forced_call_after_thinking_needs_a_grammar(protocol: str, choice: str) -> None:
    fields = {**SWITCHES[protocol]["on"][0], "tools": tools(protocol, "f")}
    fields.update(choice_field(protocol, choice))
    assert "grammar" in refused(protocol, **fields).message
    call = read(protocol, settings=Settings(grammars=True), **fields)
    assert call.request.thinking
    assert str(call.request.encode()).endswith(THINK)


@EVERY
def test_a_choice_must_be_declared(protocol: str) -> None:
    for given in (tools(protocol, "g"), []):
        refused(protocol, tools=given, **choice_field(protocol, "tool"))
    refused(protocol, **choice_field(protocol, "required"))


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_allowed_tools_are_the_only_ones_declared(protocol: str) -> None:
    given = tools(protocol, "f", "g", "h")
    names = [{"type": "function", "name": n} for n in "hf"]
    choice: dict[str, Any] = {"mode": "required", "tools": names}
    if protocol == "chat":
        choice["tools"] = [{"type": "function", "function": {"name": n}} for n in "hf"]
        choice = {"allowed_tools": choice}
    call = read(protocol, tools=given, tool_choice={"type": "allowed_tools", **choice})
    assert [tool["name"] for tool in call.request.tools] == ["f", "h"]
    assert call.request.tool_choice == "required"
    names.append({"type": "function", "name": "x"})
    choice.get("allowed_tools", choice)["tools"].append(
        {"type": "function", "name": "x", "function": {"name": "x"}}
    )
    refused(protocol, tools=given, tool_choice={"type": "allowed_tools", **choice})


@EVERY
def test_parallel_calls_can_be_forbidden(protocol: str) -> None:
    field = {"parallel_tool_calls": False}
    if protocol == "messages":
        field = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}  # type: ignore[dict-item]
    assert read(protocol).parallel
    assert not read(protocol, **field).parallel


# History.


@EVERY
def test_history_is_written_as_it_stands(protocol: str) -> None:
    turns = (
        *result(protocol, "lost", "no call"),
        user("Q"),
        *call(protocol, "a", "undeclared", {"x": 1}),
        user("no result"),
        *call(protocol, "a", "f", {}),
        *result(protocol, "a", "one"),
        *result(protocol, "a", "two"),
    )
    text = prompt(protocol, body(protocol, *turns))
    for part in ("no call", "undeclared", "no result", "one", "two"):
        assert part in text


@EVERY
def test_results_come_in_the_order_of_their_calls(protocol: str) -> None:
    first, second = call(protocol, "a", "f", {}), call(protocol, "b", "g", {})
    turns = (user("Q"), *first, *second, *result(protocol, "b", "B"), *result(protocol, "a", "A"))
    text = prompt(protocol, body(protocol, *turns))
    assert text.index("<tool_result>A") < text.index("<tool_result>B")


@EVERY
def test_assistant_messages_in_a_row_are_one_turn(protocol: str) -> None:
    turns = (
        user("Q"),
        {"role": "assistant", "content": "one"},
        *call(protocol, "a", "f", {}),
        {"role": "assistant", "content": "two"},
        *call(protocol, "b", "g", {}),
        *result(protocol, "a", "A"),
    )
    text = prompt(protocol, body(protocol, *turns))
    assert "one\n\ntwo\n\n<" in text
    assert text.count("<｜Assistant｜>") == 2
    assert text.count("tool_calls>") == 2


ARGUMENTS = [
    ("", []),
    (None, []),
    ("{}", []),
    (' {"a": 1}', [("a", "false", "1")]),
    ("[1]", [("arguments", "true", "[1]")]),
    ("3", [("arguments", "true", "3")]),
    ("null", [("arguments", "true", "null")]),
    ('"text"', [("arguments", "true", '"text"')]),
    ("not json", [("arguments", "true", "not json")]),
    ('{"a": ', [("arguments", "true", '{"a": ')]),
    ({"a": "b"}, [("a", "true", "b")]),
    ([1], [("arguments", "false", "[1]")]),
    (5, [("arguments", "false", "5")]),
]


@EVERY
@each_row("arguments, parameters", ARGUMENTS)
def test_arguments_in_history_never_fail(protocol: str, arguments: Any, parameters: Any) -> None:
    turns = call(protocol, "a", "f", {})
    message = turns[0]
    if protocol == "chat":
        message["tool_calls"][0]["function"]["arguments"] = arguments
    elif protocol == "responses":
        message["arguments"] = arguments
    else:
        message["content"][0]["input"] = arguments
    text = prompt(protocol, body(protocol, user("Q"), *turns, *result(protocol, "a", "R")))
    for key, is_text, value in parameters:
        assert f'name="{key}" string="{is_text}">{value}</' in text
    assert text.count("parameter name=") == len(parameters)


# Images.

PIXEL_URL = f"data:image/png;base64,{PIXEL}"
IMAGES: dict[str, dict[str, Any]] = {
    "chat": {"type": "image_url", "image_url": {"url": PIXEL_URL}},
    "responses": {"type": "input_image", "image_url": PIXEL_URL},
    "messages": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    },
}


def with_image(protocol: str) -> dict[str, Any]:
    text = {"type": "input_text" if protocol == "responses" else "text", "text": "See:"}
    return {"role": "user", "content": [text, IMAGES[protocol]]}


@EVERY
def test_an_image_is_named_where_none_are_read(protocol: str) -> None:
    assert "See:\n\n[Unsupported Image]" in prompt(protocol, body(protocol, with_image(protocol)))
    settings = Settings(read_images=False)
    text = prompt(protocol, body(protocol, with_image(protocol)), dialect="v4.1", settings=settings)
    assert "See:\n\n[Unsupported Image]" in text


@EVERY
def test_an_image_can_be_refused(protocol: str) -> None:
    settings = Settings(unsupported_images="refuse")
    with pytest.raises(ApiError) as caught:
        read(protocol, with_image(protocol), settings=settings)
    assert caught.value.path in ("messages[0].content[1]", "input[0].content[1]")


def test_an_image_is_the_same_in_every_protocol() -> None:
    prompts = [
        PROTOCOLS[protocol]
        .read(body(protocol, with_image(protocol)), dialect="v4.1")
        .request.encode()
        for protocol in PROTOCOLS
    ]
    assert len({str(p) for p in prompts}) == 1
    assert prompts[0].images
    assert prompts[0].images == prompts[1].images == prompts[2].images


@EVERY
def test_what_nobody_knows_is_named(protocol: str) -> None:
    message = {"role": "user", "content": [{"type": "hologram", "data": "x"}]}
    assert "[Unsupported hologram]" in prompt(protocol, body(protocol, message))


# The same conversation.


@pytest.mark.parametrize("dialect", ["v4", "v4-0731", "v4.1"])
def test_one_conversation_is_one_prompt(dialect: str) -> None:
    prompts = set()
    for protocol in PROTOCOLS:
        turns = (
            {"role": "system", "content": "Be brief."},
            user("Q"),
            {"role": "assistant", "content": "I look."},
            *call(protocol, "a", "f", {"path": "x", "n": 1.5}),
            *call(protocol, "b", "g", {"path": "y\n"}),
            *result(protocol, "b", "B"),
            *result(protocol, "a", "A"),
            user("And?"),
        )
        prompts.add(
            prompt(
                protocol, body(protocol, *turns, tools=tools(protocol, "f", "g")), dialect=dialect
            )
        )
    assert len(prompts) == 1


# The least and the most that a number may be. Where there is no most, any number will do.
NUMBERS: list[tuple[str, str, float, float | None]] = [
    ("chat", "max_tokens", 1, None),
    ("chat", "max_completion_tokens", 1, None),
    ("chat", "n", 1, 128),
    ("chat", "top_logprobs", 0, 20),
    ("chat", "seed", -(2**63), 2**63 - 1),
    ("chat", "temperature", 0, None),
    ("chat", "top_p", 0, 1),
    ("chat", "top_k", -1, None),
    ("chat", "presence_penalty", -2, 2),
    ("chat", "frequency_penalty", -2, 2),
    ("responses", "max_output_tokens", 1, None),
    ("responses", "top_logprobs", 0, 20),
    ("responses", "temperature", 0, None),
    ("responses", "top_p", 0, 1),
    ("messages", "max_tokens", 1, None),
    ("messages", "temperature", 0, None),
    ("messages", "top_p", 0, 1),
    ("messages", "top_k", -1, None),
]


@each_row("protocol, field, least, most", NUMBERS)
def test_numbers_end_where_the_protocol_says(
    protocol: str, field: str, least: float, most: float | None
) -> None:
    more = {"logprobs": True} if (protocol, field) == ("chat", "top_logprobs") else {}
    for value in (least, 10**9 if most is None else most):
        PROTOCOLS[protocol].read(body(protocol, **{field: value}, **more))
    for value in (least - 1, *(() if most is None else (most + 1,))):
        with pytest.raises(ApiError, match=f"{field}: found {value}, expected a "):
            PROTOCOLS[protocol].read(body(protocol, **{field: value}, **more))
