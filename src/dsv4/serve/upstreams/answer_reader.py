"""Reads what a server sends in answer to a request for a stream: which bytes are events, which
event is an error, and whether the answer is whole. docs/gateway-backends.md has the table.

An answer is whole if its server said why it ended. Everything else is a failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from dsv4.api.request_fields import JsonObject, fast_json_reader
from dsv4.serve.backend import BackendError, read_digits
from dsv4.serve.heal.chat_delta import KNOWN_FIELDS
from dsv4.serve.upstreams.bare_json import BareJson
from dsv4.serve.upstreams.sse_reader import (
    BYTE_ORDER_MARK,
    DONE,
    END_WORD,
    NoField,
    SseReader,
)
from dsv4.serve.upstreams.upstream_failures import told_failure, without_key

# An event with one of these fields is a piece of an answer, whatever else is in it.
_PIECES = ("choices", "text", "content", "meta_info")
# Fields of an event that is an error but does not call itself one.
_ERROR_FIELD = re.compile(
    r"message|detail|code|msg|err|errmsg|errno|fault|fail(ed|ures?)?|aborted|cancell?ed|interrupted"
    r"|.*(error|exception).*",
    re.IGNORECASE,
)
_NOTHING: tuple[object, ...] = (None, False, "", 0, [])
# Values of such a field where nothing is wrong.
_FINE = re.compile(
    "(0+|20[0-9]|ok|none|no error|success(ful)?|succeeded|done|completed?)[.!]?", re.IGNORECASE
)
# Fields beside an answer that report its outcome.
_HOW_IT_WENT = frozenset(
    (
        *("success", "status", "status_code", "type", "event", "code", "errors", "errmsg", "errno"),
        "base_resp",
    )
)
_FAILURE = re.compile("error|exception|fail(?!over)|abort|cancell?ed|interrupted", re.IGNORECASE)


class AnswerReader:
    """Reads the body of one answer: server-sent events, or JSON in place of them.

    A character beyond the first 65,536 may come as two halves of a surrogate pair, in two events,
    from a server that writes JSON piece by piece. The first half waits for the second.
    """

    def __init__(self, key: str | None = None) -> None:
        """`key` is the gateway's own, which is never shown."""
        self._key = key
        self._halves: dict[_Place, str] = {}
        self._settled: set[_Place] = set()  # halves that a message after the deltas completes
        self._sse = SseReader()
        self._bare: BareJson | None = None  # where the body is JSON without events
        self._has_begun = False
        self.is_done = False  # anything after this is not a part of the answer

    @property
    def is_between_events(self) -> bool:
        """Whether the next data is read as if nothing had come before."""
        return self._has_begun and not self._halves and self._sse.is_between_events

    @property
    def has_half(self) -> bool:
        """Whether a text of the answer ends in half of a character."""
        left = self._halves.keys() - self._settled
        return any("logprobs" not in place for place in left)

    @property
    def held_size(self) -> int:
        """The bytes of the next event that have come."""
        return (self._bare or self._sse).held_size

    def feed(self, data: bytes) -> list[JsonObject]:
        """The events that a piece of the body completes. Raises a `BackendError`."""
        if not self._has_begun:
            data = self._first_piece(data)
        return self._read((self._bare or self._sse).feed(data))

    def _first_piece(self, data: bytes) -> bytes:
        """The first piece, which shows the kind of the body: servers announce a stream, or JSON,
        and send the other."""
        data = data.lstrip(BYTE_ORDER_MARK)  # it may come byte by byte
        first = data.lstrip(b" \t\r\n\x1e")[:1]
        self._has_begun = bool(first)
        if first in (b"{", b"[") and not data.lstrip().startswith(DONE):
            self._bare = BareJson()
        return data

    def end(self) -> list[JsonObject]:
        """The events that the end of the body completes."""
        return self._read((self._bare or self._sse).end())

    def _read(self, blocks: list[bytes]) -> list[JsonObject]:
        try:
            return self._events_of(blocks)
        except RecursionError:
            raise BackendError("the backend sent JSON that is nested too deep") from None

    def _events_of(self, blocks: list[bytes]) -> list[JsonObject]:
        events: list[JsonObject] = []
        for data in blocks:
            if data.__class__ is not bytes:
                raise self._failure(data)
            if data == DONE:
                self.is_done = True
                break
            try:
                event = parse_event(data)
            except (ValueError, RecursionError, BackendError):
                if _is_end(data):
                    self.is_done = True
                    break
                if _SIGN_OF_LIFE.fullmatch(data):
                    continue
                event = self._slow_event(data)
            # Half of a pair has no bytes of its own, so it comes as an escape.
            if self._halves or (_BACKSLASH in data and _HALF.search(data)):
                event = self._joined(event, ())
            # Every token passes here, and nearly all events need no further check.
            if (
                event.__class__ is not dict
                or not event.get("choices")
                or data.find(b'"error') >= 0  # quotes within a text are escaped
                or not _HOW_IT_WENT.isdisjoint(event)
                or _choices_say_how_it_went(event["choices"])
            ):
                if _is_end(data):
                    self.is_done = True
                    break
                events += self._read_slowly(event)
            else:
                events.append(event)
        return events

    def _slow_event(self, data: bytes) -> Any:
        """An event by Python's own parser; its `data:` may be there twice."""
        try:
            return _slow_event_json(data.lstrip().removeprefix(b"data:"))
        except BackendError as error:
            text = without_key(data.decode("utf-8", "replace"), self._key)
            raise BackendError(error.summary, quoted=repr(text[:80])) from None

    def _failure(self, data: bytes) -> BackendError:
        """The failure that an event or a line is, whatever it contains."""
        if not isinstance(data, NoField):
            return told_failure(_error_value(data), self._key)
        text = without_key(data.decode("utf-8", "replace"), self._key)
        return BackendError("the backend sent something else than events", quoted=text[:80])

    def _read_slowly(self, event: Any) -> list[JsonObject]:
        """The events within an unusual one: a list of events, the JSON text of one, or one in a
        wrapping."""
        event = self._of_text(event)
        if isinstance(event, list):
            return [each for item in event for each in self._read_slowly(item)]
        event = self._unwrapped(event)
        self._refuse_errors(event)
        return [event] if event else []

    def _of_text(self, value: Any) -> Any:
        """The value of a JSON text, whose own texts may have halves; any other value unchanged."""
        if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
            return value
        try:
            return self._joined(json.loads(value), ())
        except (ValueError, RecursionError):
            return value

    def _unwrapped(self, event: Any) -> Any:
        """The answer inside a wrapping without an error, or the error inside it; any other event
        unchanged."""
        if not isinstance(event, dict) or event.get("choices"):
            return event
        # The names in Tencent's own route begin with a capital.
        event = {f"{name[:1].lower()}{name[1:]}": value for name, value in event.items()}
        error = event.get("error")
        if event.get("choices") or (error and not _is_empty(error)) or _says_failure(event):
            return event
        for name, value in event.items():
            is_known = name in _WRAPPERS
            inner = self._unwrapped(self._of_text(value) if is_known else value)
            if not isinstance(inner, dict):
                continue
            is_answer = "choices" in inner or "usage" in inner
            if inner.get("choices") or (is_answer and (is_known or len(event) < len(inner))):
                return inner if event.get("usage") is None else {"usage": event["usage"], **inner}
            if name.lower() in _ERROR_WRAPPERS and _error_in(inner):
                return inner
        return event

    def _refuse_errors(self, event: Any) -> None:
        if not isinstance(event, dict):
            if event is not None and event != "":  # those are signs of life
                raise told_failure(event, self._key)
            return
        if error := _error_in(event):
            raise told_failure(error, self._key)

    def _joined(self, value: object, place: _Place) -> Any:
        """A copy of a value, with surrogate pairs in its texts joined."""
        if isinstance(value, dict):
            return {
                n: self._joined(item, (*place, _name_at(place, n))) for n, item in value.items()
            }
        if isinstance(value, list):
            return [
                self._joined(item, (*place, _number_in(item, n))) for n, item in enumerate(value)
            ]
        if not isinstance(value, str):
            return value
        half = self._halves.pop(place, "") if value else ""
        # A message beside deltas has its whole text again in each event.
        begins_anew = "message" in place and not _SECOND_HALF.match(value)
        text = value if begins_anew else half + value
        if _FIRST_HALF.match(text[-1:]) and place != _CUMULATIVE:
            self._halves[place], text = text[-1], text[:-1]
            self._settled.discard(place)
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if begins_anew:
            self._settle(tuple("delta" if n == "message" else n for n in place), joined)
        return joined

    def _settle(self, place: _Place, message: str) -> None:
        """Notes that the half at the end of the deltas may be their last: the message has its whole
        character."""
        half = self._halves.get(place)
        # The first half, as UTF-16 computes it, of a character beyond the first 65,536.
        if half and any(0xD7C0 + (ord(each) >> 10) == ord(half) for each in message):
            self._settled.add(place)


def _is_end(data: bytes) -> bool:
    """Whether an event is the end marker, in some spelling."""
    return END_WORD.fullmatch(data) is not None


# Data that some servers send while they have nothing to say: a word, or the time.
_SIGN_OF_LIFE = re.compile(rb"[\[\s:]*(ping|heartbeat|keep-?alive)[\]\s]*|[\d\s:.TZ+-]+", re.I)


# Fields in which some vendors' own routes wrap an answer, which may be JSON text.
_WRAPPERS = ("data", "result", "output", "response", "payload", "body", "message")
# The same for an error: iFlytek and Volcengine have theirs beside the answer.
_ERROR_WRAPPERS = (*_WRAPPERS, "header", "responsemetadata")


def _name_at(place: _Place, name: str) -> str:
    """The name of a field, for its place. Unknown fields of a choice count as its delta."""
    return "delta" if place[-2:-1] == ("choices",) and name not in KNOWN_FIELDS else name


def _number_in(item: object, place: int) -> int | str:
    """The key of an entry in a list: its own number, where it has one."""
    number = item.get("index") if isinstance(item, dict) else None
    return number if isinstance(number, (int, str)) else place


def _error_in(event: JsonObject) -> object:
    """The error that an event is, or that it has beside an answer, if there is one."""
    event = _without_empty_error(event)
    own = event.get("error") or _error_beside(event) or _error_of_choices(event.get("choices"))
    return own or (event if is_error(event) else None)


def is_error(event: JsonObject) -> bool:
    """Whether an event is an error and not a piece of an answer."""
    for name in _PIECES:
        if event.get(name):
            return False
    if _says_failure(event):
        return True
    return any(_ERROR_FIELD.fullmatch(n) and not _is_fine(v) for n, v in event.items())


def _choices_say_how_it_went(choices: object) -> bool:
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not _HOW_IT_WENT.isdisjoint(choice):
            return True
    return False


def _says_failure(event: JsonObject) -> bool:
    """Whether an event reports a failure of its own, whatever else is in it."""
    for name in ("object", "type", "status", "event"):
        if _FAILURE.search(str(event.get(name))):
            return True
    statuses = map(read_digits, map(event.get, ("status", "status_code", "code")))
    if event.get("success") is False or any(400 <= (each or 0) < 600 for each in statuses):
        return True
    names = ("error_code", "error_message", "error_msg", "errors", "errmsg", "errno")
    if not all(_is_fine(event.get(name) or None) for name in names):
        return True
    code, words = event.get("code"), event.get("message", event.get("msg"))
    is_word = isinstance(code, str) and not (code.isdecimal() or _is_fine(code))
    return is_word and not _is_fine(words)


def _is_fine(value: object) -> bool:
    """Whether an error's field says that there is no error."""
    return value in _NOTHING or _FINE.fullmatch(str(value)) is not None


def _without_empty_error(event: JsonObject) -> JsonObject:
    """An event without its error, where that is empty and beside an answer."""
    is_empty = _is_empty(event.get("error"))
    is_answer = isinstance(event.get("choices"), (list, dict)) or event.get("usage")
    return {**event, "error": None} if is_empty and is_answer else event


def _is_empty(error: object) -> bool:
    return isinstance(error, dict) and all(map(_is_fine, error.values()))


def _error_beside(event: JsonObject) -> object:
    """The error that Groq, MiniMax and FastChat send beside an answer when they give up."""
    if _says_failure(event):
        return event
    of_groq, status = event.get("x_groq"), event.get("base_resp")
    if isinstance(of_groq, dict) and of_groq.get("error"):
        return of_groq["error"]
    is_failure = isinstance(status, dict) and not _is_fine(status.get("status_code"))
    return status if is_failure else None


def _error_of_choices(choices: object) -> object:
    """The error of a choice, beside its delta or in it, if there is one."""
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            message = choice.get("delta") or choice.get("message")
            for part in (choice, message):
                if isinstance(part, dict) and (part.get("error") or _says_failure(part)):
                    return part.get("error") or part
    return None


def _error_value(data: bytes) -> object:
    """The content of an event whose name marks an error: JSON or not."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")
    return value.get("error") or value if isinstance(value, dict) else value


# The core of `json.loads`, without its checks around each text.
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def _slow_event_json(data: bytes) -> Any:
    """Python's own parser decides last: it accepts half of a pair, and NaN."""
    try:
        text = data.decode().strip()
        if not text:
            return None
        event, end = _scan(text, 0)
        if end < len(text):
            raise ValueError
    except (ValueError, StopIteration, RecursionError):
        start = repr(data[:80])
        raise BackendError("the backend sent something that is not JSON", quoted=start) from None
    return event


parse_event = fast_json_reader() or _slow_event_json


_Place: TypeAlias = tuple[str | int, ...]
# As a number, which is found in a fraction of the time of a text.
_BACKSLASH = ord("\\")
_HALF = re.compile(rb"\\u[dD]")
_FIRST_HALF = re.compile("[\ud800-\udbff]")
_SECOND_HALF = re.compile("[\udc00-\udfff]")

# SGLang's text is whole again in each event.
_CUMULATIVE = ("text",)
