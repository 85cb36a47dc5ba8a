"""Which request is meant: what was encoded, and not only something that gives the same prompt."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from rows import each_row

TOOL = {"type": "function", "function": {"name": "get_weather", "description": "…"}}
FORMAT = {"type": "object", "title": "x"}


def message(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def system(content: Any, **fields: Any) -> dict[str, Any]:
    return message("system", content, **fields)


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return message("user", content, **fields)


def answer(content: Any, **fields: Any) -> dict[str, Any]:
    return message("assistant", content, **fields)


def developer(content: Any, **fields: Any) -> dict[str, Any]:
    return message("developer", content, **fields)


def reminder(content: str) -> dict[str, Any]:
    return message("latest_reminder", content)


def calls(count: int = 1) -> list[Any]:
    function = {"name": "f", "arguments": "{}"}
    return [{"id": f"call_{n}", "type": "function", "function": function} for n in range(count)]


def result(content: Any, call: int = 0) -> dict[str, Any]:
    return message("tool", content, tool_call_id=f"call_{call}")


def image() -> dict[str, Any]:
    """An image of which a text shows only that it is there."""
    return {"type": "image", "source": {"type": "unknown"}}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


URL = {"task": "read_url", "extracted_url": "http://x"}
# What is encoded, by what is particular about it: dialect, thinking, messages.
CONVERSATIONS: dict[str, tuple[str, bool, list[dict[str, Any]]]] = {
    "user then developer's tools": (
        "v4",
        False,
        [user("a"), developer("b", tools=[TOOL]), answer("c"), user("d")],
    ),
    "developer tools then user": ("v4", False, [developer("b", tools=[TOOL]), user("a")]),
    "user, developer": ("v4", False, [user("a"), developer("b")]),
    "tools before a bare answer": ("v4", False, [system("x", tools=[TOOL]), answer("y")]),
    "two answers with calls": (
        "v4",
        False,
        [user("a"), answer("b", tool_calls=calls()), answer("c")],
    ),
    "answer first": ("v4", False, [answer("x"), user("y")]),
    "action": ("v4", True, [user("a", task="action"), answer("b"), user("c")]),
    "action after system": ("v4", False, [system("x"), user("a", task="action")]),
    "title of an answer": (
        "v4",
        False,
        [user("a"), answer("b", task="title"), answer("t"), user("c")],
    ),
    "reminder then answer": (
        "v4",
        False,
        [reminder("x"), answer("", tool_calls=calls()), user("z")],
    ),
    "open in the middle": ("v4", False, [user("a"), answer("b", wo_eos=True), user("c")]),
    "later tools": ("v4", False, [user("a"), answer("b"), system("c", tools=[TOOL]), user("d")]),
    "later system": ("v4", False, [user("a"), answer("b"), system("c"), user("d")]),
    "tools and format": (
        "v4",
        True,
        [system("x", tools=[TOOL], response_format=FORMAT), user("a")],
    ),
    "format alone": ("v4", True, [system("x", response_format=FORMAT), user("a")]),
    "two sections": (
        "v4",
        True,
        [system("x", tools=[TOOL]), system("y", response_format=FORMAT), user("a")],
    ),
    "text after section": ("v4", True, [system("x", tools=[TOOL]), system("y"), user("a")]),
    "V4.1: later system": (
        "v4.1",
        False,
        [system("x"), user("a"), answer("b"), system("c"), answer("d"), user("e")],
    ),
    "V4.1: tools": (
        "v4.1",
        True,
        [
            system("x", tools=[TOOL]),
            user("a"),
            answer("b", reasoning_content="r", tool_calls=calls(2)),
            result("1"),
            result("2", 1),
        ],
    ),
    "V4.1: empty system": ("v4.1", False, [system(""), user("a")]),
    "V4.1: later tools": (
        "v4.1",
        True,
        [user("a"), answer("b", reasoning_content="r"), system("c", tools=[TOOL]), user("d")],
    ),
    "V4.1: no system": ("v4.1", True, [user("a")]),
    "V4.1: two systems": ("v4.1", True, [system("x"), system("y"), user("a")]),
    "V4.1: tools then answer": ("v4.1", False, [system("x", tools=[TOOL]), answer("y"), user("z")]),
    "images": (
        "v4-vision",
        True,
        [user([text("a"), image(), text("b"), image()]), answer("c", reasoning_content="r")],
    ),
    "images v41": ("v4.1", False, [user([image()]), answer("c"), user([text("x"), image()])]),
    "image in result": (
        "v4-vision",
        False,
        [user("a"), answer("", tool_calls=calls()), result([text("x"), image()]), user("b")],
    ),
    "results w/o answer": (
        "v4",
        False,
        [
            user("a"),
            answer("", tool_calls=calls(2)),
            result("1"),
            result("2", 1),
            user("x"),
            answer("y"),
        ],
    ),
    "user at end unasked": ("v4", False, [user("a"), system("")]),
    "user before reminder": ("v4", False, [user("a"), reminder("b"), user("c")]),
    "url": ("v4", False, [system("x"), user("Read.", **URL), answer("ok"), user("y")]),
    "V3.2: developer": (
        "v3.2",
        True,
        [developer("x", tools=[TOOL]), answer("b", reasoning_content="r")],
    ),
    "V3.2: results": (
        "v3.2",
        True,
        [
            system("s"),
            user("a"),
            answer("", reasoning_content="r", tool_calls=calls(2)),
            result("1"),
            result("2", 1),
            answer("z", reasoning_content="q"),
        ],
    ),
    "V3.2: user developer": (
        "v3.2",
        False,
        [user("a"), answer("b"), developer("c", response_format=FORMAT)],
    ),
    "V3.2: tools": (
        "v3.2",
        False,
        [system("x", tools=[TOOL], response_format=FORMAT), user("a"), answer("b"), user("c")],
    ),
    "V4.1: later system that asks": (
        *("v4.1", True),
        [system("x"), user("a"), answer("b"), system("c")],
    ),
}


@pytest.mark.parametrize("known", [True, False], ids=["tokens", "text"])
@each_row("name", [pytest.param(name, id=name) for name in CONVERSATIONS])
def test_what_was_encoded_is_read(name: str, known: bool) -> None:
    dialect, thinking, messages = CONVERSATIONS[name]
    prompt = dsv4.encode(messages, dialect=dialect, thinking=thinking)
    decoded = dsv4.decode(prompt if known else prompt.text, dialect=dialect)
    assert decoded.exact
    assert list(decoded.request.messages) == messages
    assert decoded.request.thinking == thinking


BOS, EOS, USER = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>"
ANSWER = "<｜Assistant｜></think>"


def test_an_answer_that_spells_a_user_token_is_one_answer() -> None:
    prompt = f"{BOS}{USER}a{ANSWER}b{USER}c{EOS}{USER}d{ANSWER}"
    decoded = dsv4.decode(prompt, dialect="v4")
    assert decoded.exact
    assert decoded.request.messages == [user("a"), answer(f"b{USER}c"), user("d")]


def test_a_token_where_none_has_a_place_is_noted() -> None:
    decoded = dsv4.decode(f"{BOS}{USER}a<｜action｜>b{ANSWER}", dialect="v4")
    assert decoded.request.messages == [user("a<｜action｜>b")]
    assert "token-as-text" in [note.kind for note in decoded.notes]


def test_results_without_a_call_are_what_the_user_wrote() -> None:
    quoted = "<tool_result>1</tool_result>"
    decoded = dsv4.decode(f"{BOS}{USER}{quoted}{ANSWER}", dialect="v4")
    assert decoded.request.messages == [user(quoted)]


@pytest.mark.parametrize(("thinking", "noted"), [(True, [1]), (False, [])])
def test_reasoning_that_was_dropped_is_noted_at_its_answer_only(
    thinking: bool, noted: list[int]
) -> None:
    thought = answer("Yes.", reasoning_content="Hm.")
    messages = [user("a"), thought, user("b"), thought]
    notes = dsv4.decode(str(dsv4.encode(messages, thinking=thinking))).notes
    assert [note.message for note in notes if note.kind == "reasoning-dropped"] == noted


def test_calls_behind_a_user_without_a_header_are_an_open_answer() -> None:
    """A system text between them, even an empty one, is why no header asks for the answer."""
    messages = [user("a"), system(""), answer("", tool_calls=calls(), wo_eos=True)]
    decoded = dsv4.decode(dsv4.encode(messages, dialect="v4", thinking=False), dialect="v4")
    assert decoded.exact
    assert [each["role"] for each in decoded.request.messages] == ["user", "system", "assistant"]
    assert decoded.request.messages[0] == user("a")
    assert decoded.request.messages[2]["tool_calls"][0]["function"]["name"] == "f"
