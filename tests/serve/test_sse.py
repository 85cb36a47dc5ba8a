"""Server-sent events from bytes, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4.serve.backend import BackendError
from dsv4.serve.upstreams import sse_reader
from dsv4.serve.upstreams.sse_reader import ErrorData, NoField, SseReader

STREAM = (
    b': hi\n\ndata: {"a": 1}\n\nevent: x\ndata:two\ndata: lines\n\n'
    b"id: 3\n\ndata: \xc3\xa9\n\ndata: [DONE]\n\n"
)
EVENTS = [b'{"a": 1}', b"two\nlines", b"\xc3\xa9", b"[DONE]"]


@given(st.lists(st.integers(0, len(STREAM))), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_are_the_same_however_they_are_cut(cuts: list[int], end: bytes) -> None:
    reader, found, at = SseReader(), [], 0
    stream = STREAM.replace(b"\n", end)
    for cut in sorted({*cuts, len(stream)}):
        found += reader.feed(stream[at:cut])
        at = cut
    assert found == EVENTS


def test_an_event_is_complete_at_a_bare_cr_and_the_lf_behind_it_ends_no_other_line() -> None:
    reader = SseReader()
    assert reader.feed(b"data: a\r\r") == [b"a"]
    assert reader.feed(b"data: b\r") == []
    assert reader.feed(b"\ndata: c\r\n") == []
    assert reader.feed(b"\r\n") == [b"b\nc"]
    assert reader.end() == []


def test_the_end_of_the_body_ends_an_event() -> None:
    for begun in (b"data: b", b"data: b\n", b"data: b\r"):
        reader = SseReader()
        assert reader.feed(b"data: a\n\n" + begun) == [b"a"]
        assert reader.end() == [b"b"]
        assert reader.end() == []


def test_the_word_for_the_end_waits_for_no_blank_line() -> None:
    assert SseReader().feed(b"data: a\n\ndata: [DONE]\n") == [b"a", b"[DONE]"]


def test_of_the_names_of_events_only_error_means_something() -> None:
    reader = SseReader()
    named = b"event: ping\ndata: a\n\nevent:error\ndata: b\n\ndata: c\n\nevent: error\n\n"
    found = reader.feed(named)
    assert found == [b"a", b"b", b"c", b""]
    assert [type(data) is ErrorData for data in found] == [False, True, False, True]


def test_a_line_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_reader, "LONGEST_EVENT", 100)
    reader = SseReader()
    reader.feed(b"data: 123456")
    with pytest.raises(BackendError, match="an event without an end"):
        reader.feed(b"7" * 100)


@pytest.mark.parametrize(
    "line",
    [
        *("Internal Server Error", "Traceback (most recent call last):", "Traceback:", "502 Gone"),
        *("Error: boom", "Error", "ValueError: boom", "java.lang.Exception: boom"),
        "upstream connect error or disconnect/reset before headers. reset reason: overflow",
        *("<html>502</html>", '{"cost": 1}', "[1]", 'foo: {"a": 1}'),
        # The tail of an event that was cut in two.
        *('o"}, "finish_reason": null}]}', 'lo"}}]}', "]}", "}", 'ason": null}]}'),
        *('http://x"}}]}', "no end", "1}", "null]"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", ""])
def test_a_line_that_is_no_field_is_kept_for_what_it_is(line: str, end: str) -> None:
    reader = SseReader()
    found = [*reader.feed(f"data: a\n\n{line}{end}".encode()), *reader.end()]
    assert found == [b"a", line.encode()]
    assert [type(data) is NoField for data in found] == [False, True]


@pytest.mark.parametrize(
    "line",
    [
        *(": ping", ": {not an event}", ":", "id", "id: 5", "id: {5}", "retry: 3000", "retry"),
        *("foo: bar", "foo", "x-cost: 1 EUR [net]", "foo : bar", "foo:", "  foo: bar", "ID: 7"),
        *("event: message", "event : message", "data", "1f", "...", "x.y_z: a", "\x00"),
        *("url: http://x", "note: an error (none)"),
    ],
)
def test_comments_and_fields_that_nobody_knows_are_nothing(line: str) -> None:
    reader = SseReader()
    events = b'data: {"a": 1}\n\n' + line.encode() + b'\ndata: {"b": 2}\n' + line.encode() + b"\n\n"
    found = [data for data in reader.feed(events) if data]
    assert found == [b'{"a": 1}', b'{"b": 2}']


def test_data_before_a_line_that_is_no_field_is_an_event_of_its_own() -> None:
    found = SseReader().feed(b"data: [end]\n<html>\nevent: done\n502 Gone\n")
    assert found == [b"[end]", b"<html>", b"[DONE]", b"502 Gone"]


@pytest.mark.parametrize(
    "name", ["error", "Exception", "response.failed", "abort", "run.cancelled"]
)
def test_the_names_of_failures(name: str) -> None:
    for field in ("event", "EVENT", "event "):
        [data] = SseReader().feed(f"{field}: {name}\ndata: a\n\n".encode())
        assert type(data) is ErrorData
