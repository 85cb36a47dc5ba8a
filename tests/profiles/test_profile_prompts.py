"""The prompts of servers: as recorded, and as a running deepseek-recipe writes them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests_of import DYNAMO_ROWS, LLAMA_ROWS, REQUESTS, ROWS, VLLM_0_33_ROWS, mutated

import dsv4
from dsv4 import profiles
from loading import ROOT
from rows import each_row

DIALECTS = ("v4", "v4.1")
MODELS = {"v4": "DeepSeek-V4-Pro", "v4.1": "DeepSeek-V4.1-Flash"}
LLAMA, LLAMA_AUGUST = "llama.cpp-2026.10", "llama.cpp"
ASKED = {"messages": [{"role": "user", "content": "Hi"}]}

seeds = st.integers(0, 2**32)
dialects = st.sampled_from(DIALECTS)


def rendered(body: Any, name: str, dialect: str = "v4") -> str | None:
    """The prompt, or None where the server refuses the request."""
    before = copy.deepcopy(body)
    try:
        return profiles.render(body, name, dialect=dialect)
    except dsv4.Error:
        return None
    finally:
        assert repr(body) == repr(before), "it changed the caller's request"


@pytest.mark.parametrize("name", sorted(ROWS[0]["profiles"]))
@each_row("row", ROWS)
def test_recorded_prompts(row: dict[str, Any], name: str) -> None:
    recorded = row["profiles"][name]
    if recorded is None:  # no template for this dialect
        assert row["dialect"] not in profiles.PROFILES[name].dialects
        recorded = {}
    assert rendered(row["request"], name, row["dialect"]) == recorded.get("prompt")


@each_row("row", VLLM_0_33_ROWS)
def test_recorded_prompts_of_vllm_0_33(row: dict[str, Any]) -> None:
    """As the classes of its wheel wrote them: `tests/engines/vllm_requests.py`."""
    assert rendered(row["request"], "vllm-0.33", row["dialect"]) == row["prompt"]
    if row["dialect"] == "v4":  # in which it differs from 0.32 in nothing
        assert rendered(row["request"], VLLM) == row["prompt"]


def test_what_vllm_0_33_changed() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    calling = {"role": "assistant", "content": "", "reasoning": "r", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "a", "content": "ok"}
    messages = [*ASKED["messages"], calling, result]
    for name, kept in ((VLLM, False), ("vllm-0.33", True)):
        # What results alone follow is no old reasoning any more.
        assert ("<think>r</think>" in profiles.render(messages, name, dialect="v4.1")) == kept
        later = [*messages, *ASKED["messages"]]
        assert "<think>r</think>" not in profiles.render(later, name, dialect="v4.1")
        # The placeholder of an image is no text any more.
        spelled = [{"role": "user", "content": "<｜deepseek_image｜>"}]
        assert (rendered(spelled, name, "v4.1") is None) == kept
    (reason,) = profiles.compare(messages, VLLM, "vllm-0.33", dialect="v4.1").reasons
    assert reason.kind == "reasoning-old"
    assert "vLLM 0.33: " in reason.message


@each_row("row", LLAMA_ROWS)
def test_recorded_prompts_of_llama_cpp(row: dict[str, Any]) -> None:
    """As a server of October 2026 wrote them, with its own template."""
    assert rendered(row["request"], LLAMA) == row["prompt"]


@each_row("row", DYNAMO_ROWS)
def test_recorded_prompts_of_dynamo(row: dict[str, Any]) -> None:
    """As its frontend wrote them, in front of a stand-in: `tests/engines/dynamo_requests.py`."""
    assert rendered(row["request"], "dynamo-1.6", row["dialect"]) == row["prompt"]


def live(body: Any, dialect: str) -> str | None:
    """What the installed deepseek-recipe writes for a request that comes as JSON."""
    recipe = pytest.importorskip("deepseek_recipe")
    if recipe.__version__ != "0.2.0":
        pytest.skip(f"this is deepseek-recipe {recipe.__version__}")
    encoding = recipe.DeepseekV4Encoding() if dialect == "v4" else recipe.DeepseekV41Encoding()
    text = json.dumps({**body, "model": MODELS[dialect]}, ensure_ascii=False)
    try:
        request = recipe.ChatCompletionRequest(text).convert(recipe.ConversionOptions())
    except (ValueError, recipe.ConversionError):
        return None
    prompt: str = encoding.render_conversation(request.conversation).prompt
    return prompt


@given(seeds, dialects)
def test_prompts_of_the_installed_recipe(seed: int, dialect: str) -> None:
    body = mutated(seed)
    assert rendered(body, "recipe-0.2.0", dialect) == live(body, dialect)


SCHEMAS: tuple[Any, ...] = (
    {"type": "object", "properties": 5},
    {"type": "object", "properties": {"a": True}},
    {"type": "object", "properties": {"a": {"type": "foo"}}},
    {"type": "object", "required": ["a", "a"]},
    {"type": ["object"]},
    {"type": "object", "minProperties": 1.0},
    {"type": "object", "minProperties": -1},
    {"type": "object", "properties": {"a": {"pattern": "("}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}},
    {"type": "object", "properties": {"a": {"$ref": "#x"}}},
    {"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}},
    {"type": "object", "properties": {"a": {"pattern": "\\p{L}"}}},
    {"type": "object", "items": [{"type": "string"}]},
    {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "items": [{}]},
    {"$schema": "https://example.com/schema", "type": "object"},
    {"type": "object", "anyOf": []},
    {"type": "object", "properties": {"a": {"multipleOf": 0}}},
    {"type": "object", "$anchor": "5"},
    {"type": "object", "dependencies": {"a": ["b"]}},
    {"type": "object", "dependencies": {"a": 5}},
    {"type": "object", "default": [1e-5, 1e-7, -1.5e-05, 1e16, 2**63, 2**64]},
    {"type": "object", "properties": {"b": {"type": "string", "minLength": 1}, "a": {}}},
    {"type": "object", "properties": {"b": {"type": "string", "title": "t", "enum": ["x"]}}},
    {"type": "object", "properties": {"a": {"type": "integer", "default": None, "minimum": 1}}},
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1.5}}},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": ["null"]}}}},
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}], "description": "d"}}},
    {"type": "object", "properties": {"a": {"type": "object"}}},
    {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": True},
    {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": None},
    {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}},
    {"type": "array", "items": {"type": "string"}},
    *(None, True, 5, [], {}),
)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("strict", [True, False, None])
@each_row("schema", [pytest.param(schema, id=str(schema)) for schema in SCHEMAS])
def test_schemas_as_the_installed_recipe_takes_them(
    schema: Any, strict: bool | None, dialect: str
) -> None:
    function = {"name": "f", "parameters": schema, "strict": strict}
    body = {**ASKED, "tools": [{"type": "function", "function": function}]}
    assert rendered(body, "recipe-0.2.0", dialect) == live(body, dialect)


def test_schemas_without_the_validator(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = {"type": "object", "required": None}
    body = {
        **ASKED,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}],
    }
    with pytest.raises(dsv4.EncodeError, match=r'required: .*null is not of type "array"'):
        profiles.render(body, "recipe-0.2.0")
    monkeypatch.setattr("dsv4.profiles.recipe_schemas.has_validator", lambda: False)
    assert '"required": null' in profiles.render(body, "recipe-0.2.0")


ARGUMENTS = (
    *('{"a": 1e-5}', '{"a": 1.5e-05}', '{"a": 1e-10}', '{"a": -0}', '{"a": 1e400}', "[1]"),
    *('{"a": 18446744073709551616}', '{"a": -9223372036854775809}', '{"a": "\\ud800"}', ""),
    *('{"a": 1, "b": 2, "a": 3}', '{"a": NaN}', ' {"a": 1} ', "\ufeff{}", '{"a": "x\ty"}'),
    '{"a": ' + "[" * 126 + "]" * 126 + "}",
    '{"a": ' + "[" * 127 + "]" * 127 + "}",
    '{"a": ' + "9" * 5000 + "}",
)


@pytest.mark.parametrize("dialect", DIALECTS)
@each_row("arguments", ARGUMENTS)
def test_arguments_as_the_installed_recipe_reads_them(arguments: str, dialect: str) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    result = {"role": "tool", "tool_call_id": "a", "content": "r"}
    messages = [*ASKED["messages"], {"role": "assistant", "tool_calls": [call]}, result]
    body = {"messages": messages, "thinking": {"type": "disabled"}}
    assert rendered(body, "recipe-0.2.0", dialect) == live(body, dialect)


@given(seeds, dialects)
def test_nothing_but_our_own_errors(seed: int, dialect: str) -> None:
    body = mutated(seed)
    for name in profiles.PROFILES:
        rendered(body, name, dialect)


@pytest.mark.parametrize("name", profiles.PROFILES)
@each_row(
    "body",
    [None, 5, "text", {}, {"messages": None}, {"messages": [5]}, {"messages": [{}]}, [[]]],
)
def test_what_is_no_request(name: str, body: Any) -> None:
    with pytest.raises(dsv4.EncodeError):
        profiles.render(body, name)


@pytest.mark.parametrize("name", profiles.PROFILES)
def test_values_nested_too_deep(name: str) -> None:
    nested: Any = {}
    for _ in range(20_000):
        nested = {"default": nested}
    tool = {"type": "function", "function": {"name": "f", "description": "", "parameters": nested}}
    with pytest.raises(dsv4.EncodeError):
        profiles.render({**ASKED, "tools": [tool]}, name)


def test_an_alias() -> None:
    assert profiles.render(ASKED, "deepseek-api") == profiles.render(ASKED, "recipe-0.2.0")


def test_a_list_of_messages_is_a_request() -> None:
    assert profiles.render(ASKED["messages"], "vllm-0.32") == profiles.render(ASKED, "vllm-0.32")


def test_an_unknown_name_says_which_are_known() -> None:
    with pytest.raises(dsv4.EncodeError, match=r"'tgi', expected one of vllm-0\.32, vllm-0\.33"):
        profiles.render(ASKED, "tgi")


def test_a_name_without_a_version_is_the_newest() -> None:
    spelled = [{"role": "user", "content": "<｜deepseek_image｜>"}]
    assert rendered(spelled, "vllm", "v4.1") == rendered(spelled, "vllm-0.33", "v4.1") is None
    assert rendered(spelled, "vllm-0.32", "v4.1")


@pytest.mark.parametrize("dialect", ["v3.2", "V4", 4.1])
def test_an_unknown_dialect(dialect: Any) -> None:
    with pytest.raises(dsv4.EncodeError, match=r"^dialect: found .*, expected one of v4, v4\.1$"):
        profiles.render(ASKED, "vllm-0.32", dialect=dialect)


def test_a_dialect_that_a_server_does_not_write() -> None:
    with pytest.raises(dsv4.EncodeError, match=r"expected v4 on llama\.cpp"):
        profiles.render(ASKED, "llama.cpp", dialect="v4.1")


class TestLlamaCpp:
    @pytest.mark.parametrize(
        ("body", "place"),
        [
            ({"tools": [{"type": "function", "function": {"name": "f", "parameters": 10**400}}]},
             "tools[0].function.parameters"),
            ({"tools": [{"type": "function", "function": {"name": b"x"}}]}, "request"),
            ({"messages": [{"role": "user", "content": "\ud800"}]}, "request"),
            ({"messages": [{"role": "user"}]}, "messages[0]"),
            ({"messages": [{"role": "user", "content": "x", "name": 5}]}, "messages[0].name"),
            ({"tool_choice": "any"}, "tool_choice"),
            ({"chat_template_kwargs": {"enable_thinking": "no"}},
             "chat_template_kwargs.enable_thinking"),
            ({"continue_final_message": True}, "continue_final_message"),
        ],
    )  # fmt: skip
    def test_a_refusal_names_its_place(self, body: dict[str, Any], place: str) -> None:
        with pytest.raises(dsv4.EncodeError) as caught:
            profiles.render({**ASKED, **body}, LLAMA)
        assert str(caught.value).startswith(f"{place}: found ")

    def test_a_schema_that_refers_to_itself(self) -> None:
        node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
        schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}
        given = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        assert '"$ref"' in profiles.render({**ASKED, "response_format": given}, LLAMA)

    def test_what_october_changed(self) -> None:
        def written(name: str, arguments: str) -> str | None:
            call = {"id": "a", "type": "function"}
            call["function"] = {"name": "f", "arguments": arguments}
            answer = {"role": "assistant", "content": "", "tool_calls": [call]}
            prompt = rendered([*ASKED["messages"], answer, *ASKED["messages"]], name)
            return None if prompt is None else prompt.partition('string="false">')[2][:6]

        body = {**ASKED, "response_format": {"type": "json_object"}}
        assert "{}<" in profiles.render(body, LLAMA_AUGUST)
        assert '{"type": "object"}<' in profiles.render(body, LLAMA)
        for arguments, august, october in (
            ('{"a": NaN}', "nan</｜", None),
            ('{"a": 18446744073709551615}', "1.8446", "-1</｜D"),
            ("null", None, ""),
        ):
            assert written(LLAMA_AUGUST, arguments) == august
            assert written(LLAMA, arguments) == october


def test_every_profile_was_compared_with_its_server() -> None:
    page = (ROOT / "docs/servers.md").read_text("utf-8")
    for name, profile in profiles.PROFILES.items():
        assert profile.verified
        assert f"| `{name}`" in page


class TestSglangOptions:
    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"reasoning": {"effort": "low"}}, "Reasoning Effort: 50 "),
            ({"reasoning": {"effort": "0.3"}}, "Reasoning Effort: 30 "),
            ({"reasoning": {"effort": "max"}, "reasoning_effort": "low"}, "Reasoning Effort: 100 "),
            ({"reasoning_effort": "0.3"}, "Reasoning Effort: 30 "),
            ({"reasoning": {"enabled": True}}, "Reasoning Effort: 75 "),
            ({"reasoning": {"enabled": "yes"}}, "Reasoning Effort: 75 "),
            ({"reasoning": {"enabled": False}}, None),
            ({"reasoning": {"enabled": True, "effort": "none"}}, None),
            ({"reasoning": {"enabled": True}, "chat_template_kwargs": {"thinking": False}}, None),
        ],
    )
    def test_reasoning_as_an_object(self, fields: dict[str, Any], text: str | None) -> None:
        prompt = profiles.render({**ASKED, **fields}, "sglang-0.5.23", dialect="v4.1")
        assert prompt.endswith("</think>" if text is None else "<think>")
        assert text is None or text in prompt

    def test_an_effort_that_is_no_number(self) -> None:
        with pytest.raises(dsv4.EncodeError, match="reasoning_effort: found 'much'"):
            profiles.render({**ASKED, "reasoning": {"effort": "much"}}, "sglang-0.5.23")

    """What the recorded requests do not use."""

    def test_a_number_for_the_effort(self) -> None:
        body = {**ASKED, "reasoning_effort": 0.42}
        assert "Reasoning Effort: 42 " in profiles.render(body, "sglang-0.5.23", dialect="v4.1")
        with pytest.raises(dsv4.EncodeError, match=r"^reasoning_effort: found 0\.42"):
            profiles.render(body, "sglang-0.5.23")

    def test_a_continued_answer(self) -> None:
        messages = [*ASKED["messages"], {"role": "assistant", "content": "Hel"}]
        body = {"messages": messages, "continue_final_message": True}
        assert profiles.render(body, "sglang-0.5.23").endswith("</think>Hel")

    def test_a_continued_answer_in_parts(self) -> None:
        last = {"role": "assistant", "content": [{"type": "text", "text": "Hel"}]}
        body = {"messages": [*ASKED["messages"], last], "continue_final_message": True}
        assert profiles.render(body, "sglang-0.5.23").endswith("</think>Hel")

    @pytest.mark.parametrize("prefix", [True, "yes", 1, "x"])
    def test_a_prefix_that_is_not_last_is_refused(self, prefix: Any) -> None:
        first = {"role": "assistant", "content": "x"}
        messages = [first, *ASKED["messages"]]
        assert rendered(messages, "sglang-0.5.23")
        messages[0] = {**first, "prefix": prefix}
        assert rendered(messages, "sglang-0.5.23") is None

    @pytest.mark.parametrize(
        ("arguments", "taken"),
        [({}, False), ({"arguments": None}, True), ({"arguments": {}}, True),
         ({"arguments": 5}, False), ({"arguments": []}, False)],
    )  # fmt: skip
    def test_arguments(self, arguments: dict[str, Any], taken: bool) -> None:
        call = {"id": "a", "type": "function", "function": {"name": "f", **arguments}}
        answer = {"role": "assistant", "content": "", "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "a", "content": "r"}
        messages = [*ASKED["messages"], answer, result]
        assert (rendered(messages, "sglang-0.5.23") is not None) == taken

    def test_options_of_the_template_that_are_no_object(self) -> None:
        body = {**ASKED, "chat_template_kwargs": 5}
        assert rendered(body, "sglang-0.5.23") is None
        taken = {**body, "reasoning_effort": "none"}
        assert rendered(taken, "sglang-0.5.23") == rendered(ASKED, "sglang-0.5.23")
        assert profiles.traps(taken, "sglang-0.5.23") == []

    def test_a_schema_needs_a_name(self) -> None:
        for name, taken in (({}, False), ({"name": None}, False), ({"name": ""}, True)):
            schema = {"schema": {"type": "object"}, **name}
            body = {**ASKED, "response_format": {"type": "json_schema", "json_schema": schema}}
            assert (rendered(body, "sglang-0.5.23") is not None) == taken

    @pytest.mark.parametrize(
        ("task", "end"),
        [("action", "<｜Assistant｜></think><｜action｜>"), ("query", "Hi<｜query｜>")],
    )
    def test_a_task(self, task: str, end: str) -> None:
        assert profiles.render({**ASKED, "task": task}, "sglang-0.5.23").endswith(end)


def test_a_system_turn_asks_on_vllm() -> None:
    messages = [{"role": "system", "content": "S"}]
    assert profiles.render(messages, "vllm-0.32").endswith("S<｜Assistant｜><think>")


def vllm_takes(body: dict[str, Any]) -> bool:
    return rendered({"messages": [{"role": "user", "content": "Hi"}], **body}, VLLM) is not None


VLLM = "vllm-0.32"


class TestWhatVllmTakes:
    """As a server of 0.32.0 answered."""

    @each_row(
        "function, taken",
        [
            ({"name": ""}, True),
            ({"name": None}, False),
            ({"parameters": {}}, True),
            ({"parameters": [1]}, False),
            ({"parameters": "x"}, False),
            ({"parameters": True}, False),
            ({"description": 5}, False),
            ({"strict": "yes"}, True),
            ({"strict": 1}, True),
            ({"strict": "maybe"}, False),
        ],
    )
    def test_tools(self, function: dict[str, Any], taken: bool) -> None:
        tool = {"type": "function", "function": {"name": "f", **function}}
        assert vllm_takes({"tools": [tool]}) == taken

    @each_row(
        "given, taken",
        [
            (None, True),
            ({}, False),
            ("text", False),
            ({"type": "text"}, True),
            ({"type": "bogus"}, False),
            ({"type": "json_object", "x": 1}, True),
            ({"type": "json_schema"}, False),
            ({"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}, True),
            ({"type": "json_schema", "json_schema": {"schema": {}}}, False),
            ({"type": "structural_tag", "format": {"type": "any_text"}}, True),
        ],
    )
    def test_formats_of_the_answer(self, given: object, taken: bool) -> None:
        assert vllm_takes({"response_format": given}) == taken

    def test_a_tool_of_another_type(self) -> None:
        assert not vllm_takes({"tools": [{"type": "custom", "function": {"name": "f"}}]})
        assert vllm_takes({"tools": [{"function": {"name": "f"}}]})

    def test_a_flag_is_written_as_one(self) -> None:
        tool = {"function": {"name": "f", "strict": "yes"}}
        body = {"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}
        assert '"parameters": null, "strict": true}' in profiles.render(body, VLLM)

    @pytest.mark.parametrize(
        ("call", "taken"),
        [
            ({}, True),
            ({"arguments": None}, False),
            ({"id": 5}, False),
            ({"id": None}, False),
            ({"type": None}, False),
            ({"type": "custom"}, False),
        ],
    )
    def test_calls(self, call: dict[str, Any], taken: bool) -> None:
        given = {"id": "a", "type": "function", "name": "f", "arguments": "{}", **call}
        function = {"name": given.pop("name"), "arguments": given.pop("arguments")}
        message = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{**given, "function": function}],
        }
        result = {"role": "tool", "tool_call_id": "a", "content": "1"}
        assert vllm_takes({"messages": [message, result]}) == taken

    @pytest.mark.parametrize(
        ("message", "taken"),
        [
            ({"role": "user"}, True),
            ({"role": "user", "content": None}, False),
            ({"role": "user", "content": ["a"]}, False),
            ({"role": "user", "content": [{"type": "text", "text": None}]}, False),
            ({"role": "user", "content": "x", "name": 5}, False),
            ({"role": "tool", "content": "x", "tool_call_id": 5}, False),
            ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, True),
            # With openai 3.51, whose types vLLM's are made of; with older ones it is refused.
            ({"role": "user", "content": [{"type": "refusal", "refusal": "no"}]}, True),
        ],
    )
    def test_messages(self, message: dict[str, Any], taken: bool) -> None:
        assert vllm_takes({"messages": [message]}) == taken

    @pytest.mark.parametrize(
        ("body", "taken"),
        [
            ({}, True),
            ({"tools": [{"function": {"name": "f"}}]}, False),
            ({"chat_template_kwargs": {"thinking": False}}, False),
            ({"chat_template_kwargs": {"drop_thinking": False}}, False),
        ],
    )
    def test_an_unknown_role_goes_where_a_developer_does(
        self, body: dict[str, Any], taken: bool
    ) -> None:
        narrator = {"role": "narrator", "content": "Once"}
        user = {"role": "user", "content": "Hi"}
        assert vllm_takes({"messages": [narrator, user], **body}) == taken
        assert not vllm_takes({"messages": [user, narrator], **body})
        if taken:
            prompt = profiles.render([user, narrator, user], VLLM)
            assert prompt.endswith("<｜User｜>Hi<｜User｜>Hi<｜Assistant｜><think>")


@pytest.mark.parametrize("choice", ["none", "auto"])
def test_recipe_refuses_a_prefix_wherever_tools_are_given(choice: str) -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    last = {"role": "assistant", "content": "He", "prefix": True}
    body = {"messages": [{"role": "user", "content": "Hi"}, last]}
    assert rendered(body, "recipe-0.2.0")
    assert rendered({**body, "tools": [tool], "tool_choice": choice}, "recipe-0.2.0") is None


def test_requests_are_many() -> None:
    assert len(REQUESTS) > 150


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    "more",
    [
        {"tool_choice": "required"},
        {"tool_choice": "none", "tools": [TOOL, "developer"]},
        {"tool_choice": "none", "tools": [{"type": "function", "function": {"parameters": ""}}]},
        {
            "tool_choice": "none",
            "tools": [{"type": "function", "function": {"parameters": {"type": "user"}}}],
        },
        {
            "messages": [
                *ASKED["messages"],
                {"role": "assistant", "content": "", "reasoning_content": 5},
            ]
        },
    ],
)
def test_sglang_looks_at_what_it_does_not_show(more: dict[str, Any]) -> None:
    """As its classes did: `make follow PACKAGE=sglang==0.5.23`."""
    assert rendered({**ASKED, **more}, "sglang-0.5.23") is None
    assert rendered({**ASKED, "tools": [TOOL], "tool_choice": "none"}, "sglang-0.5.23") is not None
