"""The law of fields: a field of a body changes the result, or is refused, or is named, at every
door.

Every name that any reader here knows is tried at the top, in a message, in a part and in a tool,
with values that switch something on and off. A door must not answer as if a field were not there
for all of its values, and must not name it for some values only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, get_args

import pytest

import dsv4
from dsv4._check.message_checks import _MEANT, _MEANT_OF_REQUEST
from dsv4._cli.main import main
from dsv4._format.dialects import ROLES
from dsv4._format.texts import read_table
from dsv4._inputs.line_shapes import LINE_FIELDS
from dsv4._playground.page_request import PlaygroundContext
from dsv4._playground.prompt_view import view_prompt
from dsv4.api import own_bodies, protocols
from dsv4.api.api_request import BodyRules
from dsv4.api.ignored_fields import (
    _USUAL_FIELDS,
    FIELDS_READ,
    HARMLESS_FIELDS,
    ignored_fields,
    message_fields,
    unwritten_tasks,
)
from dsv4.api.neutral_request import TRAINING_FIELDS
from dsv4.dataset.dataset_options import DatasetOptions
from dsv4.dataset.dataset_reader import INPUT_START, InputChunk
from dsv4.dataset.example_encoder import ChunkEncoder, EncodingJob
from dsv4.errors import path_of
from dsv4.serve import backends
from dsv4.serve.heal.request_adapter import sent_as_given
from parts import each_share, part, share_of

VALUES: tuple[Any, ...] = (
    *(0, 1, 2.5, False, True, "", "high", "query", "none"),
    *([None], {"type": None}),
    *(["x"], {"type": "disabled"}, {"type": "json_object"}, {"effort": "max"}),
    [{"type": "function", "function": {"name": "g"}}],
    [{"type": "text", "text": "blocks"}],
    {"type": "json_schema", "schema": {"type": "object"}, "name": "n"},
    {"include_usage": True},
    {"1": 5},
    {"user_id": "u"},
    "https://a.example",
)
ENGINES = {
    name
    for rows in read_table("engine_fields", backends.__file__).values()
    for names in rows.values()
    for name in names
}
# What engines, other APIs and their clients call what they have: a stranger tries these.
_TRIED = """
allowed_callers allowed_tools annotations bad_words best_of cache_control citations custom_params
enable_thinking examples extra_body format ftl_schema grammar guided_choice
guided_decoding_backend guided_grammar guided_json guided_regex ignore_eos include_reasoning
include_stop_str_in_output input_examples instructions json_schema kwargs language length_penalty
logits_processors lora_path mask max_thinking_tokens max_turns metadata min_p min_tokens mirostat
mode modalities n_predict name no_repeat_ngram_size num_ctx num_predict options
parallel_tool_calls phase plugins prediction prefix prefill preamble priority prompt provider
reasoning reasoning_budget reasoning_details reasoning_format reasoning_mode reasoning_tokens
regex repeat_penalty repetition_penalty result results route sampling_params separate_reasoning
server service_tier session_id show_thinking skip_special_tokens spaces_between_special_tokens
speed status stop_token_ids strict stream_reasoning structured_outputs summary system_prompt tfs_z
thinking_budget thinking_config thinking_mode thought thoughts tool_call_parser tool_config
tool_resources top_a top_k transforms truncate truncate_prompt_tokens typical_p usage
use_beam_search user_id verbosity web_search weight
"""
STRANGERS = set(_TRIED.split())
FIELDS = sorted(
    {
        *own_bodies.FIELDS_READ,
        "conversations",
        *own_bodies.ONLY_OWN,
        *TRAINING_FIELDS,
        *ENGINES,
        *LINE_FIELDS,
        *STRANGERS,
    }
    | {name for names in (*FIELDS_READ.values(), *HARMLESS_FIELDS.values()) for name in names}
    | {*_MEANT, *_MEANT_OF_REQUEST, *_MEANT.values(), "task", "extracted_url", "content_blocks"}
    | {"url", "detail", "signature", "title", "namespace", "strict", "defer_loading", "zzz"}
    | {"name", "description", "parameters", "input_schema", "function", "type", "content"}
)


def chat(**fields: Any) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": [{"type": "text", "text": "Q"}]},
            {"role": "assistant", "content": "A", "reasoning_content": "R", "tool_calls": [call]},
            {"role": "tool", "content": "T", "tool_call_id": "a"},
            {"role": "user", "content": "U"},
        ],
        "tools": [tool],
        **fields,
    }


def messages() -> dict[str, Any]:
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "T"}
    return {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Q"}]},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ],
        "max_tokens": 9,
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    }


def responses() -> dict[str, Any]:
    return {
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Q"}]},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "T"},
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    }


BODIES: dict[str, Callable[[], dict[str, Any]]] = {
    "own": chat,
    "chat": lambda: chat(model="deepseek-v4.1", max_tokens=9),
    "chat of V4": lambda: chat(model="deepseek-v4", temperature=1),
    "messages": messages,
    "responses": responses,
    # What holds options may hold one that nothing reads.
    "chat with options": lambda: chat(
        model="deepseek-v4.1",
        stream=True,
        stream_options={"include_usage": True},
        thinking={"type": "enabled"},
        chat_template_kwargs={"thinking": True},
    ),
    "messages with options": lambda: {
        **messages(),
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "metadata": {"user_id": "u"},
    },
    "responses with options": lambda: {
        **responses(),
        "reasoning": {"effort": "high"},
        "text": {"format": {"type": "text"}},
    },
}


def inside(value: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


class Place(NamedTuple):
    """An object of a body, where fields are tried."""

    body: str
    path: tuple[str | int, ...]

    def bodies(self, field: str) -> Iterator[dict[str, Any]]:
        """The body with each value of a field that it does not have yet."""
        return self._bodies(field, VALUES)

    def body_with_null(self, field: str) -> Iterator[dict[str, Any]]:
        return self._bodies(field, (None,))

    def _bodies(self, field: str, values: Iterable[Any]) -> Iterator[dict[str, Any]]:
        for value in values:
            body = json.loads(json.dumps(BODIES[self.body]()))
            target = inside(body, self.path)
            if field in target or (field == "role" and value not in ROLES):
                continue
            target[field] = value
            yield body


def places() -> list[Place]:
    found = []
    for name, make in BODIES.items():
        body = make()
        if "options" in name:
            found += [Place(name, (field,)) for field in body if isinstance(body[field], dict)]
            continue
        turns = "input" if name == "responses" else "messages"
        found += [Place(name, ()), Place(name, ("tools", 0))]
        found += [Place(name, (turns, n)) for n in range(len(body[turns]))]
        parts = [n for n, turn in enumerate(body[turns]) if isinstance(turn.get("content"), list)]
        found += [Place(name, (turns, n, "content", 0)) for n in parts]
        if "function" in body["tools"][0]:
            found.append(Place(name, ("tools", 0, "function")))
    return found


# Doors: what each answers, and what it says beside that.

ENCODER = ChunkEncoder(EncodingJob(DatasetOptions(), "jsonl"))


class Answer(NamedTuple):
    result: Any
    words: str


def by_reading(body: Any) -> Answer:
    call = dsv4.api.read(body, settings=dsv4.api.Settings(last_answer="keep"))
    facts = (call.sampling, call.max_tokens, call.stream, call.n, call.logprobs, call.echo)
    more = (call.top_logprobs, call.parallel, call.user, call.cache_key, call.include_usage)
    asked = (call.request.encode().text, call.request.stop, call.request.response_format)
    return Answer((*asked, *facts, *more), " ".join(call.ignored))


def protocol_of(body: Any) -> protocols.Protocol:
    return protocols.PROTOCOLS[dsv4.api.body_reader.recognise(body).protocol]


def by_serving(body: Any) -> Answer:
    """What a route of the gateway does: tests/serve/test_ignored_fields.py has the header."""
    call = protocol_of(body).read(body, dialect="v4.1")
    facts = (call.sampling, call.max_tokens, call.stream, call.n, call.logprobs, call.echo)
    more = (call.top_logprobs, call.parallel, call.user, call.cache_key, call.include_usage)
    asked = (call.request.encode().text, call.request.stop, call.request.response_format)
    unread = ignored_fields(body, call.protocol, "body", dsv4.DIALECTS["v4.1"], own=False)
    unread += unwritten_tasks(body, call.request)
    is_stored = body.get("store") is not False  # stored_responses.py asks it
    return Answer((*asked, *facts, *more, call.model, is_stored), " ".join(map(path_of, unread)))


def by_healing(body: Any) -> Answer:
    """What `dsv4 heal` sends on, and what it names: a server of Chat gets a chat body as it is."""
    call = protocol_of(body).read(body, dialect="v4.1")
    if call.protocol == "chat":
        return Answer(sent_as_given(call, body).body, "")
    served = by_serving(body)  # what a stored answer is, is the same there
    sent = sent_as_given(call, body).body
    # The answer is written here, with what it says of the request.
    return Answer((sent, call.stream, call.n, call.echo, served.result[-1]), served.words)


def by_teaching(body: Any) -> Answer:
    """What `dsv4 dataset` makes of a body with an answer, as a line."""
    line = json.dumps({**body, **answered(body)}).encode()
    chunk = ENCODER(InputChunk("in.jsonl", 1, [line], INPUT_START))
    if chunk.bad:
        raise dsv4.Error(chunk.bad[0])
    return Answer(chunk.data, " ".join(chunk.counted.notes))


def answered(body: Any) -> dict[str, Any]:
    """The turns of a body, with the answer that is to be trained."""
    turns = next(name for name in ("messages", "input") if isinstance(body.get(name), list))
    answer: dict[str, Any] = {"role": "assistant", "content": "Right."}
    if turns == "input":
        part = {"type": "output_text", "text": "Right."}
        answer = {"type": "message", "role": "assistant", "content": [part]}
    return {turns: [*body[turns], answer]}


def by_checking(body: Any) -> Answer:
    findings = dsv4.check(body)
    wrong = [finding for finding in findings if finding.level == "error"]
    if wrong:
        raise dsv4.Error(wrong[0].message)
    prompt = dsv4.api.read(body, settings=dsv4.api.Settings(last_answer="keep")).request.encode()
    return Answer(prompt.text, " ".join(f"{each.path} {each.message}" for each in findings))


def on_the_page(body: Any) -> Answer:
    side = view_prompt({"source": json.dumps(body)}, PlaygroundContext())["sides"][0]
    return Answer(side["rows"], " ".join(side["unread"]))


@pytest.fixture
def by_command(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Callable[[Any], Answer]]:
    def door(command: str) -> Callable[[Any], Answer]:
        def answer(body: Any) -> Answer:
            file = tmp_path / "body.json"
            file.write_text(json.dumps(body))
            status = main([command, str(file)])
            printed = capsys.readouterr()
            if status:
                raise dsv4.Error(printed.err)
            return Answer(printed.out, printed.err)

        return answer

    return door


def broken(place: Place, field: str, door: Callable[[Any], Answer]) -> str | None:
    """How a door breaks the law for a field, None if it does not."""
    usual = door(BODIES[place.body]())
    silent, seen = [], set()
    for body in place.bodies(field):
        try:
            answer = door(body)
        except dsv4.Error:
            seen.add("refused")
            continue
        if answer.result != usual.result:
            seen.add("changed")
        elif field in answer.words and answer.words != usual.words:
            seen.add("named")
        # Most of Alpaca's rows have an empty `input`. Beside messages it has nothing to say either.
        elif door is not by_teaching or inside(body, place.path)[field] != "" or field != "input":
            silent.append(body)
    # A value may well be the usual one, where others change something or are refused.
    if silent and ("changed" not in seen and "refused" not in seen):
        return f"{place.body} {path_of((*place.path, field))}: {sorted(seen)}, and silent"
    return None


CASES = [(place, field) for place in places() for field in FIELDS]


def failures(cases: Any, door: Callable[[Any], Answer]) -> list[str]:
    return [words for place, field in cases if (words := broken(place, field, door))]


DOORS = {by_reading: 263, by_serving: 263, by_healing: 263, by_teaching: 1999} | {
    **{by_checking: 1999, on_the_page: 1999},
}


@each_share
@pytest.mark.parametrize("door", DOORS)
def test_no_field_is_lost_in_silence(door: Callable[[Any], Answer], share: int) -> None:
    of = DOORS[door]
    assert failures(share_of(part(CASES, of), share), door) == []


@each_share
@pytest.mark.parametrize("door", [by_reading, by_serving, by_teaching, by_checking, on_the_page])
def test_null_is_absence(door: Callable[[Any], Answer], share: int) -> None:
    """Or it is refused, or named: it never says anything but in what is written whole."""
    cases = [(place, field) for place, field in CASES if (place.body, place.path) != WRITTEN]
    some = share_of(part(cases, DOORS[door]), share)
    assert [case for case in some if says_something(*case, door)] == []


WRITTEN = ("own", ("tools", 0, "function"))


def says_something(place: Place, field: str, door: Callable[[Any], Answer]) -> bool:
    """Whether a null changes the result."""
    usual = door(BODIES[place.body]()).result
    for body in place.body_with_null(field):
        try:
            answer = door(body)
        except dsv4.Error:
            continue
        if answer.result != usual and field not in answer.words:
            return True
    return False


@each_share
@pytest.mark.parametrize("command", ["encode", "count", "show"])
def test_no_command_loses_one(command: str, share: int, by_command: Any) -> None:
    assert failures(share_of(part(CASES, 3999), share), by_command(command)) == []


@pytest.mark.parametrize("role", _USUAL_FIELDS)
@pytest.mark.parametrize("rules", get_args(BodyRules))
def test_what_every_release_reads_is_read_by_each(role: str, rules: Any) -> None:
    """The short way past the table of fields leads past nothing that it does not have."""
    for dialect in dsv4.DIALECTS.values():
        assert _USUAL_FIELDS[role] <= message_fields(role, rules, dialect)
