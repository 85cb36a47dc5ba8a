"""A request's prompt in rows: the same as `dsv4 show`, with the source of every part."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsv4
from dsv4 import profiles
from dsv4._format.tokens import USER
from dsv4._playground.page_examples import EXAMPLE_REQUESTS, example_sources
from dsv4._playground.page_functions import PAGE_FUNCTIONS
from dsv4._playground.page_problem import PageProblem
from dsv4._playground.page_request import PlaygroundContext
from dsv4._view.characters import visible_character
from dsv4._view.view_rows import view_of
from dsv4.profiles import PROFILES
from dsv4.profiles.saved_profile import saved
from dsv4.profiles.server_faults import fault_named
from dsv4.tokens import Tokenizer
from dsv4.version import how_to_install
from loading import ROOT
from rows import each_row
from strategies import conversations

BENCH = PlaygroundContext(tokenizer=Tokenizer.load())
SOURCES = {example["title"]: example["source"] for example in example_sources()}
EVERYTHING = (
    "Every\n thing \t <script>alert(1)</script> \x00\x1b \u202eright to left\u202c 😀 \u2028 &amp;"
)


def asked(source: Any, bench: PlaygroundContext = BENCH, **body: Any) -> Any:
    text = source if isinstance(source, str) else json.dumps(source, ensure_ascii=False)
    return PAGE_FUNCTIONS["prompt"]({"source": text, **body}, bench)


def segments(row: dict[str, Any]) -> list[list[Any]]:
    return [*row["head"], *row["rest"]]


def parts(side: dict[str, Any], source: str) -> Iterator[tuple[dict[str, Any], str, str | None]]:
    """Each part of the prompt: its row, its text, and the text of its source."""
    units = source.encode("utf-16-le", "surrogatepass")
    for row, places in zip(side["rows"], side["places"], strict=True):
        for text, _, number, *_ in segments(row):
            place = places[number] if number >= 0 else None
            if place is None:
                yield row, text, None
            else:
                cut = units[2 * place[0] : 2 * place[1]]
                yield row, text, cut.decode("utf-16-le", "surrogatepass")


def shown_text(side: dict[str, Any]) -> str:
    rows = [row for row in side["rows"] if not row["ghost"]]
    return "".join(segment[0] for row in rows for segment in segments(row))


def as_seen(text: str) -> str:
    """A text as a page shows it: white space stays, what has no form gets one."""
    return "".join(char if char in " \t\n" else visible_character(char) for char in text)


# What is shown.


@pytest.mark.parametrize("dialect", dsv4.DIALECTS)
@each_row("title", [pytest.param(title, id=title) for title in EXAMPLE_REQUESTS])
def test_the_rows_add_up_to_the_prompt(title: str, dialect: str) -> None:
    body = {"source": SOURCES[title], "dialect": dialect}
    [side] = asked(**body)["sides"]
    assert shown_text(side) == as_seen(PAGE_FUNCTIONS["text"](body, BENCH)["prompt"])


def test_rows_and_counts_are_those_of_dsv4_show() -> None:
    messages = EXAMPLE_REQUESTS["Old reasoning, a list of messages"]
    [side] = asked(messages)["sides"]
    view = view_of(dsv4.encode(messages), messages, BENCH.tokenizer)
    named = ("message", "role", "field", "tokens")
    assert [[row[name] for name in named] for row in side["rows"]] == [
        [getattr(row, name) for name in named] for row in view.rows
    ]
    assert side["total"] == view.total
    assert side["ending"]["words"] == view.ending.words
    assert sum(share["amount"] for share in side["shares"]) == side["tokens"]


def test_dropped_reasoning_is_a_ghost_with_its_rule_and_its_source() -> None:
    source = SOURCES["Old reasoning, a list of messages"]
    [side] = asked(source)["sides"]
    [(row, text, origin)] = [part for part in parts(side, source) if part[0]["ghost"]]
    assert row["note"] == "dropped: reasoning before the last user turn is left out"
    assert json.loads(str(origin)) == text == "Rayleigh scattering: short waves scatter most."


def test_kept_reasoning_is_no_ghost() -> None:
    [side] = asked(SOURCES["Old reasoning, a list of messages"], drop_thinking=False)["sides"]
    assert not any(row["ghost"] for row in side["rows"])
    assert "reasoning" in [row["field"] for row in side["rows"]]


def test_text_that_spells_a_token_is_marked_and_stays_text() -> None:
    [side] = asked([{"role": "user", "content": f"a {USER} b"}])["sides"]
    flags = [s for row in side["rows"] for s in segments(row) if s[1] == "flag"]
    assert [flag[0] for flag in flags] == [USER]
    assert side["spelled"] == 1


def test_fields_that_the_format_does_not_read_are_named() -> None:
    [side] = asked([{"role": "user", "content": "Hi", "name": "Ada"}])["sides"]
    assert side["unread"] == ["messages[0].name"]


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        ({"thinking": False}, "the model answers from here on"),
        ({"thinking": True}, "the model thinks from here on"),
    ],
)
def test_thinking_is_a_switch(switch: dict[str, Any], words: str) -> None:
    [side] = asked(SOURCES["An agent, Chat Completions"], **switch)["sides"]
    assert side["ending"]["words"] == words


@pytest.mark.parametrize("protocol", ["chat", "file"])
def test_effort_and_tool_choice_are_switches(protocol: str) -> None:
    source, options = SOURCES["An agent, Chat Completions"], {"protocol": protocol}
    [plain], [hard], [bare] = (
        asked(source, **options, **switch)["sides"]
        for switch in ({}, {"effort": "max"}, {"tool_choice": "none"})
    )
    assert "effort" in [row["field"] for row in hard["rows"]]
    assert "effort" not in [row["field"] for row in plain["rows"]]
    assert "tools" in [row["field"] for row in plain["rows"]]
    assert "tools" not in [row["field"] for row in bare["rows"] if not row["ghost"]]


# Where it came from.


@pytest.mark.parametrize("title", EXAMPLE_REQUESTS)
@each_row("dialect", ["v4", "v4.1"])
def test_every_text_of_the_request_lights_its_source(title: str, dialect: str) -> None:
    source = SOURCES[title]
    [side] = asked(source, dialect=dialect)["sides"]
    seen = 0
    for row, text, origin in parts(side, source):
        if row["field"] not in ("content", "reasoning") or text.startswith("<") or text.isspace():
            continue
        assert origin is not None, (row["message"], text)
        value = json.loads(origin)
        if isinstance(value, str):
            assert text.strip() in value
            seen += 1
    assert seen >= 3


def test_calls_light_their_names_and_arguments() -> None:
    source = SOURCES["The same agent, Anthropic Messages"]
    [side] = asked(source)["sides"]
    calls = [
        (text, origin) for row, text, origin in parts(side, source) if row["field"] == "tool_calls"
    ]
    assert ("get_forecast", '"get_forecast"') in calls
    assert ("Bergen", '"Bergen"') in calls
    [arguments] = [origin for text, origin in calls if "hours" in text]
    assert json.loads(str(arguments)) == {"city": "Bergen", "hours": 6}


def test_each_schema_lights_its_tool() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("aa", "bb", "cc")]
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": tools}
    source = json.dumps(body)
    [side] = asked(source)["sides"]
    for name in ("aa", "bb", "cc"):
        lit = {o for _, text, o in parts(side, source) if f'"{name}"' in text}
        assert lit == {json.dumps({"type": "function", "function": {"name": name}})}


def test_lists_of_words_that_are_no_text_stay_as_they_are() -> None:
    body = {
        **EXAMPLE_REQUESTS["An agent, Chat Completions"],
        "stop": ["END"],
        "modalities": ["text"],
    }
    source = json.dumps(body)
    [side] = asked(source)["sides"]
    texts = {text: origin for _, text, origin in parts(side, source)}
    assert texts["Let me look at the weather."] == '"Let me look at the weather."'


@pytest.mark.parametrize("dialect", ["v4", "v4.1"])
def test_blocks_of_text_light_each_its_own(dialect: str) -> None:
    blocks = [{"type": "text", "text": word} for word in ("one", "two", "two")]
    source = json.dumps({"messages": [{"role": "user", "content": blocks}]})
    [side] = asked(source, dialect=dialect)["sides"]
    lit = [
        places[segment[2]]
        for row, places in zip(side["rows"], side["places"], strict=True)
        for segment in segments(row)
        if segment[0] in ("one", "two")
    ]
    starts = [match.start() for match in re.finditer('"(one|two)"', source)]
    assert [place[0] for place in lit] == starts


def test_headers_light_roles() -> None:
    source = '[{"role": "user", "content": "Hi"}]'
    [side] = asked(source)["sides"]
    assert ('"user"', USER) in {(origin, text) for _, text, origin in parts(side, source)}


def test_the_same_text_twice_lights_each_its_own_source() -> None:
    source = json.dumps([{"role": "user", "content": "same"}, {"role": "user", "content": "same"}])
    [side] = asked(source)["sides"]
    lit = [
        places[segment[2]]
        for row, places in zip(side["rows"], side["places"], strict=True)
        for segment in segments(row)
        if segment[0] == "same"
    ]
    first = source.index('"same"')
    second = source.index('"same"', first + 1)
    assert lit == [[first, first + 6], [second, second + 6]]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sources_are_right_for_any_conversation(data: st.DataObject) -> None:
    """What lights up is the value that the text is of, or something around it."""
    messages = data.draw(conversations)
    source = json.dumps(messages, ensure_ascii=data.draw(st.booleans()))
    try:
        prompt = dsv4.encode(messages)
    except dsv4.Error:
        with pytest.raises(PageProblem):
            asked(source)
        return
    [side] = asked(source, PlaygroundContext())["sides"]
    assert shown_text(side) == as_seen(prompt.text)
    for row, text, origin in parts(side, source):
        if row["message"] is None or origin is None:
            continue
        value = json.loads(origin)
        if isinstance(value, str) and row["field"] in ("content", "reasoning") and not row["ghost"]:
            assert text in as_seen(value) or text.startswith("<") or text.isspace()


def test_places_are_counted_as_browsers_count() -> None:
    source = json.dumps([{"role": "user", "content": "😀😀 Hi"}], ensure_ascii=False)
    [side] = asked(source)["sides"]
    assert "😀😀 Hi" in [json.loads(o) for _, text, o in parts(side, source) if o and "Hi" in text]


# Tokens.


def test_borders_of_tokens_and_their_ids() -> None:
    messages = [{"role": "user", "content": "Straße 日本語 😀 naïve  two\n\nlines"}]
    [side] = asked(messages, ids=True)["sides"]
    tokenizer = BENCH.tokenizer
    assert tokenizer is not None
    ids = [id for row in side["rows"] for token in row["ids"] for id in token]
    assert ids == tokenizer.encode(dsv4.encode(messages))
    for row in side["rows"]:
        texts = [""] * len(row["ids"])
        for text, _, _, _, token in segments(row):
            texts[token] += text
        assert [tokenizer.decode(token) for token in row["ids"]] == texts


def test_without_a_tokenizer_it_says_so_and_counts_characters() -> None:
    [side] = asked([{"role": "user", "content": "Hi"}], PlaygroundContext(), ids=True)["sides"]
    assert how_to_install("tokens") in side["no_tokens"]
    assert side["tokens"] is None
    assert sum(share["amount"] for share in side["shares"]) == side["characters"]
    assert all(segment[4] == -1 for row in side["rows"] for segment in segments(row))


def test_half_a_character_has_no_tokens_and_says_so() -> None:
    [side] = asked('[{"role": "user", "content": "\\ud800"}]')["sides"]
    assert "There are no token counts" in side["no_tokens"]


# Side by side.


def marked(side: dict[str, Any]) -> str:
    return "".join(s[0] for row in side["rows"] for s in segments(row) if s[3])


def test_two_dialects_side_by_side() -> None:
    answer = asked(SOURCES["An agent, Chat Completions"], sides=["dsv4", "dialect:v4.1"])
    left, right = answer["sides"]
    assert answer["same"] is False
    assert "Reasoning Effort" in marked(right)
    assert "Reasoning Effort" not in marked(left)
    assert "Be brief" not in marked(left) + marked(right)


def test_the_same_prompt_twice_has_no_marks() -> None:
    answer = asked(SOURCES["An agent, Chat Completions"], sides=["dsv4", "dialect:v4"])
    assert answer["same"] is True
    assert [marked(side) for side in answer["sides"]] == ["", ""]


@pytest.mark.parametrize("name", PROFILES)
@each_row("title", [pytest.param(title, id=title) for title in EXAMPLE_REQUESTS])
def test_servers_side_by_side(title: str, name: str) -> None:
    source = SOURCES[title]
    answer = asked(source, sides=["profile:vllm-0.32", f"profile:{name}"])
    for side in answer["sides"]:
        if "problem" in side:
            assert side["problem"]["message"]
            continue
        texts = [t for _, t, origin in parts(side, source) if origin]
        assert any("Bergen" in t or "sky" in t or "token" in t or "mean" in t for t in texts)
    assert bool(answer["reasons"]) == (answer["same"] is not True)
    assert all(reason["message"].endswith(".") for reason in answer["reasons"])


def test_a_saved_server_is_a_side_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    path.write_text(saved("vllm-0.32", "v4", (fault_named("effort-max-as-high"),)), "utf-8")
    server = profiles.load(path)
    bench = replace(BENCH, saved={server.name: server})
    body = {"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "max"}
    answer = asked(body, bench, protocol="chat", sides=["profile:server.json", "profile:vllm-0.32"])
    assert shown_text(answer["sides"][0]) == profiles.render(body, server)
    assert not answer["same"]
    assert [reason["kind"] for reason in answer["reasons"]][:1] == ["fault"]
    listed = PAGE_FUNCTIONS["settings"]({}, bench)["profiles"]
    assert {"name": "server.json", "server": server.server, "dialects": ["v4"]} in listed
    with pytest.raises(PageProblem, match=r"found .profile:server\.json., expected one of"):
        asked(body, protocol="chat", sides=["profile:server.json"])


def test_what_a_server_refuses_stands_beside_what_another_writes() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "unheard of"}
    answer = asked(body, protocol="file", sides=["dsv4", "profile:vllm-0.32"])
    assert [("problem" in side) for side in answer["sides"]].count(True) >= 1


# What is wrong is said at its place.


@pytest.mark.parametrize(
    ("source", "protocol", "line", "path"),
    [
        ('[\n{"role": "user"},\n{"role": 5, "content": ""}]', "file", 3, "[1].role"),
        ('{"messages": [\n{"role": "sytem", "content": "x"}]}', "chat", 2, "messages[0].role"),
        ('{"input": [\n{"type": 5}]}', "responses", 2, "input[0].type"),
        ('{"messages": [{"role": "user",\n"content": [{"type": 5}]}]}', "messages", 2, None),
        ('{"messages": 5}', "file", 1, "messages"),
        ("5", "chat", 1, ""),
        ('{"messages": [], "tools": 7}', "file", 1, "tools"),
    ],
)
def test_an_error_stands_at_its_line(
    source: str, protocol: str, line: int, path: str | None
) -> None:
    with pytest.raises(PageProblem) as caught:
        asked(source, protocol=protocol)
    assert caught.value.line == line
    if path is not None:
        assert caught.value.to_dict()["path"] == path


@each_row(
    "body",
    [
        {"source": 5},
        {},
        {"source": "[]", "dialect": "v9"},
        {"source": "[]", "thinking": 1},
        {"source": "[]", "effort": ["max"]},
        {"source": "[]", "sides": []},
        {"source": "[]", "sides": ["dsv4", "dsv4", "dsv4"]},
        {"source": "[]", "sides": [{}]},
        {"source": "[]", "ids": "yes"},
        {"source": "[]", "tool_choice": {}},
        {"source": "[]", "protocol": "smtp"},
    ],
)
def test_a_body_that_makes_no_sense_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(dsv4.Error, match="expected"):
        PAGE_FUNCTIONS["prompt"](body, BENCH)


@pytest.mark.parametrize("protocol", ["auto", "file", "chat", "responses", "messages"])
@each_row(
    "source",
    [
        *("null", "{}", "[]", "[null]", '"x"', '{"messages": null}', '{"messages": {}}', "[[[]]]"),
        *('{"input": 5}', '{"input": [[]]}', '{"messages": [{}]}', '{"conversations": [1]}'),
        '{"messages": [{"role": "assistant", "tool_calls": [5]}]}',
        '{"messages": [{"role": "user", "content": [{"type": "text", "text": {}}]}]}',
        '{"conversations": [{"from": "human", "value": 5}]}',
    ],
)
def test_values_of_the_wrong_kind_are_refused_or_shown(source: str, protocol: str) -> None:
    with suppress(dsv4.Error):
        assert asked(source, protocol=protocol)["sides"][0]["rows"]


def test_hostile_text_is_shown_as_it_is() -> None:
    [side] = asked([{"role": "user", "content": EVERYTHING}])["sides"]
    assert as_seen(EVERYTHING) in shown_text(side)
    assert "\x00" not in json.dumps(side["rows"], ensure_ascii=False)


# Work.


def test_a_long_text_is_folded() -> None:
    [side] = asked([{"role": "user", "content": "A line of text.\n" * 4_096}], PlaygroundContext())[
        "sides"
    ]
    [row] = [row for row in side["rows"] if row["field"] == "content"]
    assert sum(len(segment[0]) for segment in row["head"]) < 2_000
    assert row["fold"] == "4,088 more lines, 65,408 characters"


def test_more_messages_than_anybody_looks_at_are_refused() -> None:
    with pytest.raises(PageProblem, match="found 20,001 messages, expected at most 20,000"):
        asked([{"role": "user", "content": ""}] * 20_001)


def test_work_grows_with_what_is_shown() -> None:
    """Twice the conversation has twice the segments: none is cut more often."""

    def size(turns: int) -> int:
        messages = [{"role": "user", "content": f"Question {n}?"} for n in range(turns)]
        [side] = asked(messages, PlaygroundContext())["sides"]
        return sum(len(segments(row)) for row in side["rows"])

    assert size(400) <= 2 * size(200)


LINKED: dict[str, Any] = json.loads((ROOT / "docs" / "playground_links.json").read_text("utf-8"))


@each_row("name", LINKED)
def test_what_the_documents_open_is_two_prompts_that_differ(name: str) -> None:
    linked = LINKED[name]
    answer = asked(linked["request"], sides=[linked["shown"], linked["beside"]])
    assert [side["problem"] for side in answer["sides"] if "problem" in side] == []
    assert answer["same"] is False
