"""Requests that a server refuses, or misreads, and what it is sent in their place."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from requests_of import mutated

from dsv4 import DIALECTS, EncodeError, profiles
from dsv4.api import ApiError, chat
from dsv4.profiles.saved_profile import saved
from dsv4.serve import Model
from dsv4.serve.heal.adaptations import (
    ADAPTATION_IDS,
    ADAPTATIONS,
    SERVER_PROFILES,
    AdaptedServer,
    adapted,
    adapted_server,
    check_ids,
    explanation,
    server_kind,
)
from dsv4.serve.settings import SettingError, Settings
from rows import each_row

USER = {"role": "user", "content": "Hi"}
every_server = pytest.mark.parametrize("name", SERVER_PROFILES)


def server(name: str, dialect: str = "v4-0731", **settings: Any) -> AdaptedServer:
    given = Settings(backend="chat", upstream="http://x", **settings)
    found = adapted_server(name, DIALECTS[dialect], given)
    assert found is not None
    return found


def tool(name: str = "f", **function: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, "parameters": parameters, **function}}


def call(id: str, arguments: Any = "{}") -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"id": id, "type": "function", "function": function}


def calling(*calls: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": list(calls), **more}


def result(id: str, content: str = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


DISABLED, ENABLED = {"type": "disabled"}, {"type": "enabled"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:x"}}
STRICT = tool(strict=True)
REMINDED = {"role": "user", "content": "<system-reminder>\nNow\n</system-reminder>"}

# Of each: the server, what a client sends, the ids, and what differs in what is sent.
CASES: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    (
        "deepseek-api",
        {"messages": [{"role": "developer", "content": "Be brief."}, USER]},
        "developer",
        {"messages": [{"role": "system", "content": "Be brief."}, USER]},
    ),
    (
        "sglang",
        {"messages": [USER, {"role": "system", "content": "Now"}]},
        "later-system,thinking",
        {
            "messages": [USER, REMINDED],
            "chat_template_kwargs": {"thinking": True, "enable_thinking": True},
        },
    ),
    (
        "deepseek-api",
        {"chat_template_kwargs": {"enable_thinking": False}},
        "thinking",
        {"thinking": DISABLED},
    ),
    (
        "vllm",
        {"thinking": DISABLED},
        "thinking",
        {"chat_template_kwargs": {"thinking": False, "enable_thinking": False}},
    ),
    ("vllm", {"reasoning_effort": "medium"}, "effort", {"reasoning_effort": "high"}),
    ("vllm", {"reasoning_effort": "ultra"}, "effort", {"reasoning_effort": "max"}),
    ("deepseek-api", {"reasoning_effort": 80}, "effort", {"reasoning_effort": "high"}),
    (
        "deepseek-api",
        {"tools": [tool()], "tool_choice": "required", "reasoning_effort": "max"},
        "forced-call",
        {"thinking": DISABLED, "reasoning_effort": None},
    ),
    (
        "deepseek-api",
        {"max_completion_tokens": 5},
        "max-tokens",
        {"max_tokens": 5, "max_completion_tokens": None},
    ),
    (
        "vllm",
        {"messages": [{"role": "user", "content": [IMAGE]}]},
        "parts",
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "[Unsupported Image]"}]}
            ]
        },
    ),
    (
        "deepseek-api",
        {"response_format": {"type": "json_object"}},
        "response-format",
        {"messages": [{"role": "system", "content": "Answer with a JSON object."}, USER]},
    ),
    (
        "deepseek-api",
        {"tools": [STRICT, tool("g")]},
        "strict-tools",
        {"tools": [tool(), tool("g")]},
    ),
    (
        "deepseek-api",
        {
            "tools": [tool("a.b"), tool("a_b")],
            "tool_choice": {"type": "function", "function": {"name": "a.b"}},
            "thinking": DISABLED,
        },
        "tool-names",
        {
            "tools": [tool("a_b_2e7336dc8e"), tool("a_b")],
            "tool_choice": {"type": "function", "function": {"name": "a_b_2e7336dc8e"}},
        },
    ),
    (
        "deepseek-api",
        {"tools": [tool(parameters={})]},
        "tool-schemas",
        {"tools": [tool(parameters={"type": "object", "properties": {}})]},
    ),
    (
        "vllm",
        {"tools": [], "tool_choice": "auto"},
        "idle-tools",
        {"tools": None, "tool_choice": None},
    ),
    (
        "vllm",
        {"tools": [tool()], "tool_choice": "none"},
        "idle-tools",
        {"tools": None, "tool_choice": None},
    ),
    (
        "deepseek-api",
        {
            "tools": [tool("f"), tool("g")],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "g"}}],
                },
            },
        },
        "allowed-tools",
        {"tools": [tool("g")], "tool_choice": "auto"},
    ),
    (
        "deepseek-api",
        {
            "messages": [
                USER,
                calling(call("z"), call("a"), reasoning_content="r"),
                result("z"),
                result("a"),
            ]
        },
        "call-ids",
        {
            "messages": [
                USER,
                calling(call("0_z"), call("1_a"), reasoning_content="r"),
                result("0_z"),
                result("1_a"),
            ]
        },
    ),
    (
        "deepseek-api",
        {
            "messages": [
                USER,
                calling(call("a"), call("b"), reasoning="r"),
                result("b"),
                USER,
                result("x"),
            ]
        },
        "reasoning-field,results",
        {
            "messages": [
                USER,
                calling(call("a"), call("b"), reasoning_content="r"),
                {"role": "tool", "tool_call_id": "a", "content": ""},
                result("b"),
                USER,
                {"role": "user", "content": "r"},
            ]
        },
    ),
    (
        "deepseek-api",
        {
            "messages": [
                USER,
                calling(call("a"), call("a"), reasoning_content=""),
                result("a"),
                result("a", "second"),
            ]
        },
        "distinct-ids",
        {
            "messages": [
                USER,
                calling(call("a"), call("a_2"), reasoning_content=""),
                result("a"),
                result("a_2", "second"),
            ]
        },
    ),
    (
        "deepseek-api",
        {
            "messages": [
                USER,
                {"role": "assistant", "content": "x", "reasoning_content": "r"},
                {"role": "assistant", "content": None, "tool_calls": [call("a")]},
                result("a"),
            ]
        },
        "turn-parts",
        {
            "messages": [
                USER,
                {**calling(call("a"), reasoning_content="r"), "content": "x"},
                result("a"),
            ]
        },
    ),
    (
        "deepseek-api",
        {"model": "claude-opus-5", "messages": [USER], "user": "u", "max_tokens": 500_000},
        "model-name,limits,user-id",
        {"model": "deepseek-v4-pro", "user": None, "user_id": "u", "max_tokens": 393_216},
    ),
    (
        "deepseek-api",
        {"messages": [USER], "tools": [tool(), tool()]},
        "tool-choice",
        {"tools": [tool()]},
    ),
    (
        "deepseek-api",
        {"messages": [USER, calling(call("a", {"x": 1})), result("a")]},
        "message-forms,missing-reasoning",
        {"messages": [USER, calling(call("a", '{"x": 1}'), reasoning_content=" "), result("a")]},
    ),
    (
        "vllm",
        {"messages": [USER, calling(call("a", "ls")), result("a")]},
        "arguments",
        {"messages": [USER, calling(call("a", '{"arguments": "ls"}')), result("a")]},
    ),
    (
        "sglang",
        {
            "messages": [USER, {"role": "assistant", "content": "He", "prefix": True}],
            "reasoning_effort": "high",
        },
        "continuation",
        {"continue_final_message": True},
    ),
]


@each_row("name, body, ids, changes", CASES)
def test_each(name: str, body: dict[str, Any], ids: str, changes: dict[str, Any]) -> None:
    body = {"messages": [USER], **body}
    before = copy.deepcopy(body)
    sent, made = adapted(body, server(name))
    assert ",".join(made) == ids
    expected = {name: value for name, value in {**body, **changes}.items() if value is not None}
    assert sent == expected
    assert body == before
    profiles.render(sent, SERVER_PROFILES[name])
    off = server(name, skip_adaptations=ADAPTATION_IDS)
    assert adapted(body, off) == (body, ())


def test_every_adaptation_has_a_case() -> None:
    shown = {id for _, _, ids, _ in CASES for id in ids.split(",")}
    assert {a.id for a in ADAPTATIONS if a.change is not None} == shown


@every_server
@pytest.mark.parametrize("dialect", ["v4-0731", "v4.1"])
def test_what_the_gateway_takes_the_server_takes(name: str, dialect: str) -> None:
    """Whatever a client sends: what is still refused has no meaning that could be kept."""
    target, model = server(name, dialect), "v4.1" if dialect == "v4.1" else "v4"
    hopeless = (".prefix", "function.parameters", "function.name", "an integer outside", "tools[")
    taken, refused = 0, {}
    for seed in range(250):
        body = mutated(seed)
        try:
            chat.read(body, dialect=dialect)
            sent, _ = adapted(body, target)
            profiles.render(sent, SERVER_PROFILES[name], dialect=model)
            taken += 1
        except ApiError:
            pass
        except EncodeError as error:
            refused[seed] = str(error)
    assert taken > 100
    kept = {n: why for n, why in refused.items() if not any(each in why for each in hopeless)}
    assert kept == {}


def test_vllm_is_shown_the_form_of_an_answer() -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {"messages": [{"role": "system", "content": "Be brief."}, USER]}
    sent, _ = adapted({**body, "response_format": form}, server("vllm"))
    text = sent["messages"][0]["content"]
    assert text.startswith("Be brief.\n\n## Response Format:")
    assert text.endswith('{"type": "object", "properties": {"a": {}}}')


def test_vllm_cannot_continue_an_answer() -> None:
    messages = [USER, {"role": "assistant", "content": "He", "prefix": True}]
    with pytest.raises(ApiError, match=r"messages\[1\].prefix: found an answer to continue"):
        adapted({"messages": messages}, server("vllm"))


class TestWhichServer:
    @pytest.mark.parametrize(
        ("upstream", "owner", "expected"),
        [
            ("https://api.deepseek.com", "", "deepseek-api"),
            ("https://api.deepseek.com/beta", "", "deepseek-api"),
            ("https://notdeepseek.com", "", "none"),
            ("http://gpu:8000", "deepseek", "deepseek-api"),
            ("http://gpu:8000", "vllm", "none"),
        ],
    )
    def test_found_out(self, upstream: str, owner: str, expected: str) -> None:
        settings = Settings(backend="chat", upstream=upstream)
        assert server_kind(settings, [Model("m", owner=owner)]) == expected

    def test_named(self) -> None:
        settings = Settings(backend="chat", upstream="https://api.deepseek.com", adapt_for="none")
        assert server_kind(settings) == "none"
        assert adapted_server("none", DIALECTS["v4"], settings) is None

    @pytest.mark.parametrize(("base", "name"), [(p, n) for n, p in SERVER_PROFILES.items()])
    def test_saved_by_verify(self, base: str, name: str, tmp_path: Path) -> None:
        path = tmp_path / "server.json"
        path.write_text(saved(base, "v4.1", ()))
        found = server(str(path))
        assert (found.name, found.model) == (name, "v4.1")
        assert found.thinks({"messages": [USER]}) == server(name, "v4.1").thinks(
            {"messages": [USER]}
        )

    @pytest.mark.parametrize("text", ["{}", "no JSON", saved("llama.cpp", "v4", ())])
    def test_a_file_that_is_no_such_server(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "server.json"
        path.write_text(text)
        with pytest.raises(
            SettingError, match=f"for: {path}: .*(expected|found a server like llama)"
        ):
            server(str(path))

    def test_unknown(self) -> None:
        with pytest.raises(SettingError, match="for: "):
            server("no-such-server")
        with pytest.raises(SettingError, match="skip_adaptations: found 'x', expected one of reas"):
            check_ids(["x"])


def test_the_table_of_a_server_names_what_is_off() -> None:
    text = explanation(server("deepseek-api", skip_adaptations=("developer",)))
    assert "Requests are adapted to the official API." in text
    assert "\ndeveloper (switched off)\n" in text
    assert "\nidle-tools" not in text
    assert "passed on as they are" in explanation(None)
