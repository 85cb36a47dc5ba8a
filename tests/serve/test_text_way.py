"""The short way of a text says what the general way says, from bytes of HTTP to bytes of events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from gateway import gateway_before, run
from hypothesis import given, settings
from hypothesis import strategies as st
from standins import ChatServer

import dsv4
from dsv4._completion.events import ContentDelta, Event, ReasoningDelta
from dsv4._format.tokens import DSML, THINK_END
from dsv4.api.event_writer import in_quotes
from dsv4.serve import generation
from dsv4.serve.backend import Chunk
from dsv4.serve.backends.vllm import read_completion
from dsv4.serve.choice_reader import EventLog
from dsv4.serve.upstreams.answer_chunks import ChunkReader
from dsv4.serve.upstreams.http_client import HttpConnection
from dsv4.tokens import IdParser, Tokenizer
from parts import fewer

KINDS = ContentDelta, ReasoningDelta
PIECES = (
    *(
        "word ",
        "\n",
        "\n\n",
        "a\nb",
        "",
        '"',
        "\\",
        "\t",
        "\r",
        "空文件",
        "🙂",
        "é",
        "\u2028",
        "\x85",
    ),
    *("<", ">", "</think>", f"<{DSML}invoke", "｜", "𐀀", "`", "```\n", "&lt;"),
)
piece_lists = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=60)


def passed(
    parser: Any, feed: Any, piece: Any, text: str, log: EventLog
) -> tuple[str | None, list[Event]]:
    """A piece by the short way, where one kind takes it; else by the general one."""
    for kind in KINDS:
        shown = parser.pass_by(*piece, text, kind)
        if shown is not None:
            if shown:
                log.add_text(shown, kind)
            return shown, [kind(shown)] if shown else []
    events = feed()
    log.add(events)
    return None, events


@settings(max_examples=fewer(200, 10))
@given(piece_lists, st.booleans())
def test_a_parser_gives_the_same_events_by_both_ways(pieces: list[str], thinking: bool) -> None:
    general, short = (dsv4.StreamParser(thinking=thinking) for _ in range(2))
    log, all_events = EventLog(), []
    for piece in pieces:
        expected = general.feed(piece)
        _, events = passed(short, lambda piece=piece: short.feed(piece), (), piece, log)
        assert events == expected
        all_events += expected
    last = general.finish()
    assert short.finish() == last
    log.add(last)
    assert dsv4.assemble(log.all()) == dsv4.assemble([*all_events, *last])


@settings(max_examples=fewer(200, 20))
@given(pieces=piece_lists)
def test_ids_give_the_same_events_by_both_ways(tokenizer: Tokenizer, pieces: list[str]) -> None:
    text = "".join(pieces).encode("utf-8", "replace").decode()
    ids = [
        *tokenizer.encode_text(text),
        tokenizer.special_id(THINK_END),
        *tokenizer.encode_text(text),
    ]
    general, short = IdParser(tokenizer), IdParser(tokenizer)
    for id in ids:
        own = tokenizer.decode([id])  # of a part of a character, what stands for it
        feed = lambda id=id: short.feed_ids([id])  # noqa: E731
        assert passed(short, feed, (id,), own, EventLog())[1] == general.feed_ids([id])
    assert short.finish() == general.finish()


def test_another_text_than_that_of_the_id_is_not_taken(tokenizer: Tokenizer) -> None:
    parser = IdParser(tokenizer)
    [id] = tokenizer.encode_text("word")
    parser.feed_ids([id])  # with which the text begins
    assert parser.pass_by(id, "words", ReasoningDelta) is None
    assert parser.pass_by(id, "word", ContentDelta) is None
    assert parser.pass_by(id, "word", ReasoningDelta) == "word"


def frame(text: str, id: int, ensure_ascii: bool) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": None, "token_ids": [id]}
    event = {"id": "cmpl-1", "choices": [choice], "usage": None}
    return b"data: %b\n\n" % json.dumps(event, ensure_ascii=ensure_ascii).encode()


@given(piece_lists, st.booleans())
def test_events_of_one_form_are_read_as_json_reads_them(
    pieces: list[str], ensure_ascii: bool
) -> None:
    usual, general = ChunkReader(read_completion, by_form=True), ChunkReader(read_completion)
    for n, piece in enumerate(["begin", "go on", *pieces]):
        text = piece.encode("utf-8", "replace").decode()
        event = frame(text, n + 10, ensure_ascii)
        [expected] = general.feed(event)
        form = usual.usable_form
        read = None if form is None else form.read(event)
        if read is not None:
            assert read[::2] == (text, b"%d" % (n + 10))
            assert read[1] in (b"", in_quotes(text))
        assert usual.feed(event) == [expected]
        assert form is not None or n < 2


@pytest.mark.parametrize(
    "inside", [r"a\"", "a\\", r"\ud83d", r"\x", 'a","b":"c', "a\tb", r"\\\"", 'a"b']
)
def test_what_is_no_text_of_its_own_is_not_read_by_form(inside: str) -> None:
    reader = ChunkReader(read_completion, by_form=True)
    for text in ("begin", "go on", "more"):
        reader.feed(frame(text, 1, False))
    assert reader.usable_form is not None
    event = frame("XX", 1, False).replace(b"XX", inside.encode())
    read = reader.usable_form.read(event)
    try:
        expected = json.loads(event[6:])["choices"][0]["text"]
    except ValueError:
        expected = None
    assert read is None or read[0] == expected


BODIES = [b"data: x\n\n", b"a\r\nb", b"\r\n", b"0\r\n\r\n", b"x" * 300]


@given(
    st.lists(st.sampled_from(BODIES), max_size=8),
    st.lists(st.integers(0, 40), max_size=8),
    st.sampled_from(["%x", "%X", "%04x", "%x;a=b"]),
)
def test_chunks_of_http_are_read_wherever_they_are_cut(
    bodies: list[bytes], cuts: list[int], size: str
) -> None:
    async def scenario() -> None:
        connection, given = HttpConnection(), []
        connection.connection_made(asyncio.Transport())
        connection.data_received(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

        def sink(part: bytes) -> bool:
            given.append(part)
            return True

        passing = asyncio.ensure_future(connection.pass_to(sink))
        await asyncio.sleep(0)
        for body in bodies:  # each alone, or in pieces
            chunk = (size % len(body)).encode() + b"\r\n" + body + b"\r\n"
            at = cuts.pop() if cuts else 0
            for part in filter(None, (chunk[:at], chunk[at:])):
                connection.data_received(part)
        connection.data_received(b"0\r\n\r\n")
        await passing
        assert b"".join(given) == b"".join(bodies)
        assert await connection.read() == b""

    asyncio.run(scenario())


TEXTS = [
    "Let me ",
    "see.\n",
    "\n",
    "If a ",
    "< b, ",
    "`x` ",
    "is\t",
    '"so"',
    " 空",
    " 🙂",
    "\n\n",
    "end",
]


@pytest.mark.parametrize("protocol", ["chat/completions", "messages", "responses"])
def test_a_client_gets_the_same_bytes_by_both_ways(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    deltas = [{name: text} for name in ("reasoning_content", "content") for text in TEXTS * 3]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    answer = json.dumps([{"id": "x", "created": 1, "choices": [each]} for each in choices])
    pieces: list[Chunk] = []
    made = ChunkReader.made

    def counted(reader: ChunkReader, *what: Any) -> Chunk:
        pieces.append(made(reader, *what))
        return pieces[-1]

    monkeypatch.setattr(ChunkReader, "made", counted)

    async def streamed() -> list[str]:
        upstream = ChatServer(tokenizer, answer, pause=0.002)
        said = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 999}
        if protocol == "responses":
            said = {"input": "Hi"}
        if protocol == "messages":
            said["thinking"] = {"type": "enabled", "budget_tokens": 1024}
        async with gateway_before(upstream.running()) as g:
            events = await g.stream(f"/v1/{protocol}", said)
        return [text for event in events for text in texts_of(event)]

    short = run(streamed())
    assert len(pieces) <= len(deltas) // 3  # nearly all had taken the short way
    with monkeypatch.context() as patch:
        patch.setattr(generation, "takes_no_text", lambda *_: False)
        patch.setattr("dsv4.serve.completion_run.TextWay.take", lambda *_: False)
        general = run(streamed())
    assert general == short
    assert "".join(TEXTS * 3).rstrip() in "".join(short)


TEXT_FIELDS = "", "text", "thinking", "content", "reasoning_content"


def texts_of(event: Any) -> list[str]:
    """The texts that an event of any protocol brings."""
    if not isinstance(event, dict):
        return []
    delta = event.get("delta") or (event.get("choices") or [{}])[0].get("delta") or ""
    texts = {"": delta} if isinstance(delta, str) else delta
    return [texts[name] for name in TEXT_FIELDS if name in texts]
