"""dsv4.check: what it takes, what it gives, and that it never raises."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import *
from dsv4._check.fixes import fix_body

WRONG = [user(5), assistant(reasoning="Hm."), user()]


def kinds(body: Any) -> list[tuple[str, str]]:
    return [(finding.path, finding.kind) for finding in dsv4.check(body)]


def test_messages_a_body_and_a_request_are_taken_alike() -> None:
    found = dsv4.check(WRONG)
    assert [finding.level for finding in found] == ["error", "note"]
    assert found[0].location == ("messages", 0, "content")
    assert found[0].kind == "not_encodable"
    assert found[0].message == "found 5, expected text, null or a list of text blocks"
    assert dsv4.check({"messages": WRONG}) == found
    assert dsv4.check(dsv4.Request(WRONG)) == found


REFERRING = {
    "properties": {"unit": {"$ref": "#/$defs/Unit"}, "where": {"allOf": [{"type": "object"}]}},
    "required": ["unit"],
    "additionalProperties": False,
    "$defs": {"Unit": {"type": "string", "enum": ["C", "F"]}},
}


def has_invalid_arguments(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
    asked = calling(call("f", json.dumps(arguments), id="a"))
    tools = [function("f", parameters=schema)]
    found = kinds({"messages": [user(), asked, result("r", "a")], "tools": tools})
    return "invalid_arguments" in [kind for _, kind in found]


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize(
    ("arguments", "is_valid"),
    [
        ({"unit": "C"}, True),
        ({"unit": "K"}, False),
        ({"unit": 1}, False),
        ({"unit": "C", "where": {}}, True),
        ({"unit": "C", "where": 5}, False),
        ({"unit": "C", "more": 5}, False),
        ({}, False),
    ],
)
def test_arguments_are_held_against_the_schema_and_its_references(
    arguments: dict[str, Any], is_valid: bool, library: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the validator, and without it as far as types, names and choices go."""
    if library:
        pytest.importorskip("jsonschema_rs")
    monkeypatch.setattr("dsv4._check.call_checks.has_validator", lambda: library)
    assert has_invalid_arguments(arguments, REFERRING) is not is_valid


def test_true_is_not_one_of_the_numbers_that_a_schema_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dsv4._check.call_checks.has_validator", lambda: False)
    assert has_invalid_arguments({"n": True}, {"properties": {"n": {"enum": [1]}}})
    assert not has_invalid_arguments({"n": 1.0}, {"properties": {"n": {"enum": [1]}}})


def test_arguments_that_cannot_be_written_are_found_in_objects_too() -> None:
    wrong = calling(call("f", object(), id="a"))
    assert kinds([user(), Model(wrong), user()]) == kinds([user(), wrong, user()])
    assert kinds([user(), calling(Model(wrong["tool_calls"][0])), user()]) == kinds(
        [user(), wrong, user()]
    )


def test_objects_are_taken_for_what_they_turn_into() -> None:
    asked = call("f", "{}", id="a")
    plain = [user(), calling(asked), result("r", "a")]
    objects = [
        Model(user()),
        dsv4.Sampled(calling(Model(asked)), text="</think>"),
        Model(result("r", "a")),
    ]
    tools = [function("f")]
    assert dsv4.check(dsv4.Request(plain, tools=tools)) == []
    assert dsv4.check(dsv4.Request(objects, tools=list(map(Model, tools)))) == []


def test_what_cannot_be_a_list_of_required_names() -> None:
    schema = {"required": [["a"]], "additionalProperties": False}
    body = {"messages": [user()], "tools": [function("f", parameters=schema)]}
    assert [finding.message for finding in dsv4.check(body)] == [
        'parameters: required: found [["a"]], expected a list of names'
    ]


@pytest.mark.parametrize("messages", [None, 5])
def test_a_request_without_messages_on_its_way_to_a_server(messages: Any) -> None:
    found = dsv4.check(dsv4.Request(messages), profile="vllm-0.32")
    assert [(finding.path, finding.level) for finding in found] == [("messages", "error")]


@pytest.mark.parametrize("purpose", ["fun", [], 5])
def test_an_unknown_purpose(purpose: Any) -> None:
    with pytest.raises(dsv4.OptionError, match=r"purpose: found .* expected None or one of infer"):
        dsv4.check([user()], purpose=purpose)


def test_a_token_that_is_spelled_again_and_again_is_told_once() -> None:
    found = dsv4.check([user("<think> and <think> and </think>")])
    assert [finding.message.rpartition(" ")[2] for finding in found] == ["<think>", "</think>"]


def test_no_more_errors_than_anybody_reads() -> None:
    found = dsv4.check([user(5)] * 2_000)
    assert len(found) == 101
    assert found[-1].message == "found 100 errors: what comes after them was not looked at"


def test_a_conversation_may_be_long() -> None:
    assert kinds([user(), assistant()] * 2_000) == [("messages[3999]", "nothing_to_generate")]


def test_nothing_is_changed() -> None:
    body = {"messages": [user(5)], "reasoning_effort": "no"}
    before = repr(body)
    assert len(dsv4.check(body)) == 2
    assert repr(body) == before


@pytest.mark.parametrize("body", [None, 5, "text", {}, {"role": "user"}, [], [5], {"messages": 5}])
def test_what_is_no_conversation(body: Any) -> None:
    found = dsv4.check(body)
    assert [finding.level for finding in found] == ["error"]


def test_options_that_are_wrong() -> None:
    body = {"messages": [user()], "tools": 5, "response_format": 5, "reasoning_effort": []}
    assert sorted(kinds(body)) == [
        ("reasoning_effort", "not_encodable"),
        ("response_format", "not_encodable"),
        ("tools", "not_encodable"),
    ]
    assert kinds({"messages": [user()], "thinking": "much"}) == [("thinking", "not_encodable")]


TOOLS = [openai_tool("f")]


def said(*messages: Any, **options: Any) -> list[tuple[str, str]]:
    """Where something was found, and what."""
    found = dsv4.check({"messages": messages, **options})
    return [(finding.path, finding.message) for finding in found]


@pytest.mark.parametrize(
    "choice", ["f", "auto", "none", "required", {"type": "function", "function": {"name": "f"}}]
)
def test_a_choice_among_the_tools_is_fine(choice: Any) -> None:
    assert said(user(), tools=TOOLS, tool_choice=choice) == []


@pytest.mark.parametrize(
    ("ids", "problems"),
    [
        (("a", "b"), []),
        (("b", "a"), []),
        (
            ("a", "a"),
            [
                ("messages[1].tool_calls[1]", 'the call of "f" has no result'),
                ("messages[3]", 'the call "a" has a result already, or is of an earlier turn'),
            ],
        ),
        (
            (None, "b"),
            [
                (
                    "messages[2]",
                    "the result has no tool_call_id, so nothing says which call it answers",
                )
            ],
        ),
        (
            ("x", "b"),
            [
                ("messages[1].tool_calls[0]", 'the call of "f" has no result'),
                ("messages[2]", 'no call has the id "x"'),
            ],
        ),
    ],
)
def test_which_call_a_result_answers(ids: tuple[Any, Any], problems: list[Any]) -> None:
    calls = calling(call("f", id="a"), call("f", id="b"))
    assert said(user(), calls, *(result(of=id) for id in ids), tools=TOOLS) == problems


def test_a_result_where_nothing_was_called() -> None:
    problem = "the result answers no call: there was none before it"
    assert said(user(), result(of="a"), tools=TOOLS) == [("messages[1]", problem)]


def test_a_developer_message_is_dropped_unless_there_are_tools() -> None:
    ((path, problem),) = said(developer(), user())
    assert path == "messages[0].role"
    assert ", and is dropped before the last user turn: give it" in problem
    ((path, problem),) = said(developer(), user(), tools=TOOLS)
    assert path == "messages[0].role"
    assert "dropped" not in problem


@pytest.mark.parametrize(
    ("turns", "listed"),
    [
        (2, "messages[1], messages[3]"),
        (3, "messages[1], messages[3], messages[5]"),
        (4, "messages[1], messages[3], messages[5] and 1 more"),
        (6, "messages[1], messages[3], messages[5] and 3 more"),
    ],
)
def test_reasoning_that_tools_keep_is_listed_in_short(turns: int, listed: str) -> None:
    talk = [user(), assistant(reasoning_content="Hm.")] * turns
    problem = f"tools keep all reasoning in the prompt: that of {listed} as well"
    assert said(*talk, user(), tools=TOOLS) == [("tools", problem)]


@pytest.mark.parametrize(
    ("field", "meant"),
    [("TOOLCALLS", "tool_calls"), ("tool_call", "tool_calls"), ("toolCallId", "tool_call_id")],
)
def test_a_name_that_was_probably_meant(field: str, meant: str) -> None:
    problem = f"{field} is not read: did you mean {meant}?"
    assert said(user(**{field: "x"})) == [(f"messages[0].{field}", problem)]


def test_values_are_quoted_as_they_were_written() -> None:
    tools = [openai_tool("f", parameters="é")]
    problem = 'parameters: found "é", expected a JSON schema'
    assert said(user(), tools=tools) == [("tools[0]", problem)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("role", "content", "messages", "tools", "tool_calls", "function", "name"),
                    *("task", "arguments", "id", "tool_call_id", "reasoning", "type", "thinking"),
                )
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
roles = st.sampled_from(["system", "user", "assistant", "tool", "developer", "latest_reminder"])
messages = st.lists(
    st.builds(
        lambda fields, role: {**fields, "role": role},
        st.dictionaries(
            st.sampled_from(
                ["content", "tools", "tool_calls", "task", "reasoning", "tool_call_id"]
            ),
            json_values,
        ),
        roles,
    )
    | json_values,
    max_size=5,
)


@given(json_values | messages | messages.map(lambda listed: {"messages": listed}))
def test_it_never_raises(body: Any) -> None:
    for finding in dsv4.check(body):
        assert finding.kind in dsv4.FINDING_KINDS
        assert finding.level in ("error", "warning", "note")
        assert finding.message


# Markup in an assistant's text.

BLOCK = (
    '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
)
REASONING, CALLS = "reasoning_in_content", "calls_in_content"


def leaks(content: Any, **body: Any) -> list[tuple[str, str]]:
    messages = [user(), assistant(content)]
    found = dsv4.check({"messages": messages, **body}, purpose="training")
    leaked = [finding for finding in found if finding.kind in (REASONING, CALLS)]
    assert all(finding.path == "messages[1].content" for finding in leaked)
    return [(finding.level, finding.kind) for finding in leaked]


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        ("<think>greet</think>Hello!", [REASONING]),
        ("\n<think>\ngreet\n</think>\n\nHello!", [REASONING]),
        ("greet</think>Hello!", [REASONING]),
        ("<think>never closed", [REASONING]),
        ("\n<thinking>greet</thinking>Hello!", [REASONING]),
        ("<|begin_of_thought|>greet<|end_of_thought|>Hello!", [REASONING]),
        ('<functioncall> {"name": "f", "arguments": {}}', [CALLS]),
        ('[TOOL_CALLS] [{"name": "f", "arguments": {}}]', [CALLS]),
        ('[Get Weather(city="Paris"), f()]', [CALLS]),
        ("Hello <think>a thought</think> there.", [REASONING]),
        (BLOCK, [CALLS]),
        (f"I look.\n\n{BLOCK}", [CALLS]),
        (BLOCK.replace("tool_calls", "function_calls"), [CALLS]),
        (BLOCK[:60], [CALLS]),
        (f"<think>greet</think>{BLOCK}", [REASONING, CALLS]),
        ([{"type": "text", "text": "<think>greet</think>Hello!"}], [REASONING]),
    ],
)
def test_markup_in_an_answer_is_an_error_for_training(content: Any, kinds: list[str]) -> None:
    assert leaks(content) == [("error", kind) for kind in kinds]
    talk = [user(), assistant(content), user()]
    for purpose in (None, "inference"):
        found = dsv4.check(talk, purpose=purpose)
        assert {f.kind: f.level for f in found if f.kind in kinds} == dict.fromkeys(
            kinds, "warning"
        )


@pytest.mark.parametrize(
    "content",
    [
        "Use `<think>` to think, and `</think>` to stop.",
        "```\n<think>x</think>\n```\nok",
        f"```\n{BLOCK}\n```",
        "The token ｜DSML｜ opens <tags>.",
        "Some write <thinking> or <tool_call>.",
        "Mistral writes [TOOL_CALLS] before calls.",
        "[1, f(2), (a=3)] is a list.",
        "[the page](https://example.com/?a=1)",
        "if a < b: return",
        "a <",
        "",
        None,
    ],
)
def test_talk_about_markup_is_none(content: Any) -> None:
    assert leaks(content) == []


def test_calls_without_the_token_are_calls_of_tools_that_are_declared() -> None:
    plain = '<invoke name="f"><parameter name="a">1</parameter></invoke>'
    assert leaks(plain) == []
    assert leaks(plain, tools=[function("f")]) == [("error", CALLS)]


def test_users_may_write_markup() -> None:
    answer = assistant("No.", reasoning_content="Hm.")
    found = dsv4.check([user(f"<think>x</think>{BLOCK}"), answer], purpose="training")
    assert {finding.kind for finding in found} == {"special_token_in_text"}


def fix(*messages: Any) -> list[Any]:
    body = list(messages)
    before = json.dumps(body)
    better = fix_body(body).body
    assert json.dumps(body) == before
    return list(better)


@pytest.mark.parametrize(
    "content",
    [
        "<think>greet</think>Hello!",
        "<think>\ngreet\n</think>\n\nHello!",
        "greet</think>Hello!",
        [{"type": "text", "text": "<think>greet</think>"}, {"type": "text", "text": "Hello!"}],
    ],
)
def test_reasoning_is_moved_out_of_the_text(content: Any) -> None:
    meant = [user(), assistant("Hello!", reasoning_content="greet")]
    assert fix(user(), assistant(content)) == meant


def test_calls_are_moved_out_of_the_text() -> None:
    asked = {"name": "f", "arguments": '{"a": 1}'}
    meant = [{"id": "call_1_0", "type": "function", "function": asked}]
    turn = assistant(f"<think>look</think>I look.\n\n{BLOCK}")
    moved = assistant("I look.", reasoning_content="look", tool_calls=meant)
    assert fix(user(), turn) == [user(), moved]
    without_id = {"role": "tool", "content": "2"}
    assert fix(user(), turn, without_id) == [user(), moved, result("2", "call_1_0")]


def test_moved_calls_take_the_ids_of_their_results() -> None:
    turn = assistant(BLOCK.replace("</｜DSML｜tool_calls>", BLOCK.partition("\n")[2]))
    _, calls, *results = fix(user(), turn, result("2", "a"), result("3", "b"))
    assert [call["id"] for call in calls["tool_calls"]] == ["a", "b"]
    assert results == [result("2", "a"), result("3", "b")]


@pytest.mark.parametrize(
    "turn",
    [
        assistant("<think>greet</think>Hello!", reasoning_content="Hm."),
        assistant(BLOCK, tool_calls=[call("f", id="a")]),
        assistant("<think>never closed"),
        assistant("Hello <think>a thought</think> there."),
        assistant("The tag <think> opens and </think> closes."),
        assistant(BLOCK[:60]),
        assistant(f"{BLOCK}\nDone."),
    ],
)
def test_what_is_not_certain_is_left_as_it_is(turn: Any) -> None:
    assert fix(user(), turn) == [user(), turn]


def test_sharegpt_becomes_messages_where_something_is_fixed() -> None:
    turns = [
        {"from": "human", "value": "Hi"},
        {"from": "gpt", "value": "<think>greet</think>Hello!"},
    ]
    body = {"conversations": turns, "system": "Be brief.", "id": 7}
    assert fix_body(body).body == {
        "id": 7,
        "messages": [
            {"role": "system", "content": "Be brief."},
            user(),
            assistant("Hello!", reasoning_content="greet"),
        ],
    }
    clean = {"conversations": turns[:1]}
    assert fix_body(clean).body is clean


def test_places_beside_a_system_prompt_are_those_of_the_body() -> None:
    body = {"system": "Be <｜User｜> brief.", "messages": [user(), user("<｜User｜>")]}
    assert [finding.path for finding in dsv4.check(body)] == ["system", "messages[1].content"]


# The page that lists the kinds, and an example of each.

PAGE = (Path(__file__).parent.parent / "docs" / "checking.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", PAGE, re.MULTILINE)
FINDINGS = Path(__file__).with_name("findings.jsonl")
EXAMPLES = [json.loads(line) for line in FINDINGS.read_text("utf-8").splitlines()]


def test_every_kind_is_documented() -> None:
    assert [kind for kind, _, _ in ROWS] == list(dsv4.FINDING_KINDS)
    for kind, level, text in ROWS:
        assert level == dsv4.FINDING_KINDS[kind][0]
        assert text.startswith(dsv4.FINDING_KINDS[kind][1])


def test_every_kind_has_an_example() -> None:
    assert [each["kind"] for each in EXAMPLES] == [k for k in dsv4.FINDING_KINDS if k != "not_json"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["kind"])
def test_the_example_of_a_kind_has_it(example: dict[str, Any]) -> None:
    only_for_training = ("nothing_to_learn", "no_reasoning", "open_turn", "other_markup")
    purpose: Any = "training" if example["kind"] in only_for_training else None
    found = dsv4.check(example["conversation"], purpose=purpose)
    assert example["kind"] in {finding.kind for finding in found}


CALL_OF_ANTHROPIC = {"type": "tool_use", "id": "a", "name": "add", "input": {"x": 1}}
RESULT_OF_ANTHROPIC = {"type": "tool_result", "tool_use_id": "a", "content": "5"}


def test_a_request_with_blocks_of_anthropic() -> None:
    body = {
        "messages": [
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": [CALL_OF_ANTHROPIC]},
            {"role": "user", "content": [RESULT_OF_ANTHROPIC]},
        ],
        "tools": [{"name": "add", "input_schema": {"properties": {"x": {"type": "integer"}}}}],
        "max_tokens": 10,
    }
    assert [finding.kind for finding in dsv4.check(body)] == ["not_in_prompt"]


@pytest.mark.parametrize(
    ("completion", "kinds"),
    [("Hello!", ["nothing_to_generate"]), (5, ["not_a_conversation"])],
)
def test_a_prompt_with_its_completion(completion: object, kinds: list[str]) -> None:
    found = dsv4.check({"prompt": "Hi", "completion": completion})
    assert [each.kind for each in found] == kinds


ALPACA = {"instruction": "Hi", "output": "<think>Hm</think>Hello"}
PAIR = {"prompt": "Hi", "chosen": "Hello", "rejected": "<think>Hm</think>No"}


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (ALPACA, "output"),
        (PAIR, "rejected"),
        ({"prompt": "Hi", "completion": ALPACA["output"], "label": True}, "completion"),
        ({"conversations": [{"from": "gpt", "value": ALPACA["output"]}]}, "conversations[0].value"),
    ],
)
def test_lines_of_data_sets_are_read_as_the_dataset_reads_them(line: Any, place: str) -> None:
    found = dsv4.check(line, purpose="training")
    assert (REASONING, place) in {(each.kind, each.path) for each in found}
