"""A good answer of a chat server on its way to bytes, and what a change of it is.

A `Plan` is one answer: first pieces (reasoning, text, some of a call), then events, then a body. A
change works on one of these.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]

WORDS = (
    "The file",
    " is",
    " here",
    ",",
    " I think",
    "\n",
    " größer",
    " 文件",
    " 🎉",
    '"',
    "\\",
    " a",
    ".",
    "/",
    "\u2028",
    "\x85",
    "data: [DONE]",
    '{"error": 1}',
    "\n\n",
)
TOOL_NAMES = ("bash", "read", "read_file", "get_weather")


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Good:
    """What the model said."""

    reasoning: str
    content: str
    calls: tuple[Call, ...]
    prompt: int
    cached: int
    completion: int

    @property
    def finish(self) -> str:
        return "tool_calls" if self.calls else "stop"


def text_of(rng: random.Random, words: int) -> str:
    return ("So" + "".join(rng.choice(WORDS) for _ in range(words)) + " so.") if words else ""


def value_of(rng: random.Random, depth: int = 2) -> Any:
    kinds = ["text", "number", "list", "object", "null"] if depth else ["text", "number"]
    kind = rng.choice(kinds)
    if kind == "list":
        return [value_of(rng, depth - 1) for _ in range(rng.randrange(3))]
    if kind == "object":
        return {text_of(rng, 1): value_of(rng, depth - 1) for _ in range(rng.randrange(3))}
    return {"text": text_of(rng, rng.randrange(1, 6)), "number": rng.choice([0, 7, -1.5])}.get(kind)


def good_answer(rng: random.Random) -> Good:
    calls = tuple(
        Call(
            f"call_{rng.randrange(16**8):08x}{n}",
            rng.choice(TOOL_NAMES),
            json.dumps(
                {f"k{k}": value_of(rng) for k in range(rng.randrange(4))},
                ensure_ascii=rng.random() < 0.5,
            ),
        )
        for n in range(rng.choice([0, 0, 1, 1, 2, 3]))
    )
    content = text_of(rng, rng.choice([0, 1, 5, 30]) if calls else rng.choice([1, 5, 30]))
    cached = rng.randrange(50)
    return Good(
        text_of(rng, rng.choice([0, 1, 5, 30])),
        content,
        calls,
        cached + rng.randrange(1, 50),
        cached,
        rng.randrange(1, 90),
    )


@dataclass
class Piece:
    """Some of an answer: text, or some of the call of a number."""

    kind: str
    text: str = ""
    call: int = 0
    id: str | None = None
    name: str | None = None


@dataclass
class Plan:
    """An answer on its way to bytes, and which of its facts a client can still be told."""

    rng: random.Random
    good: Good
    pieces: list[Piece] = field(default_factory=list)
    whole: bool = False
    reasoning_fields: tuple[str, ...] = ("reasoning_content",)
    content_form: Callable[[str], Any] = str
    arguments_form: Callable[[str], Any] = str
    call_number: Callable[[Piece, int], Any] = lambda piece, count: piece.call
    function_level: bool = True
    delta_name: str = "delta"
    finish: Any = None
    usage: JsonObject | None = None
    events: list[JsonObject] = field(default_factory=list)
    on_events: list[Callable[[Plan], None]] = field(default_factory=list)
    frame: Callable[[str], str] = lambda text: f"data: {text}\n\n"
    ascii: bool = False
    pretty: bool = False
    separators: tuple[str, str] | None = None
    done: str = "data: [DONE]\n\n"
    body: bytes = b""
    on_body: list[Callable[[Plan], None]] = field(default_factory=list)
    kind: str | None = "text/event-stream"
    headers: list[tuple[str, str]] = field(default_factory=list)
    cuts: Callable[[Plan, bytes], list[bytes]] = lambda plan, data: cut_anywhere(plan.rng, data, 7)
    ends: str = "chunked"  # or "length", "close", "reset"
    version: str = "1.1"
    status: str = "200 OK"
    chunk: Callable[[bytes], bytes] = lambda piece: b"%x\r\n%s\r\n" % (len(piece), piece)
    packets: Callable[[Plan, bytes], list[bytes]] | None = None  # None: one for each chunk
    head_form: Callable[[str, str], str] = lambda name, value: f"{name}: {value}\r\n"
    early: bytes = b""  # a head before the head
    trailers: bytes = b""
    knows_ids: bool = True
    knows_usage: bool = True
    is_cut: bool = False  # and its reason says so
    told: Good | None = None  # where a client is told it in another form

    def __post_init__(self) -> None:
        good = self.good
        self.finish = good.finish
        self.usage = {
            "prompt_tokens": good.prompt,
            "completion_tokens": good.completion,
            "total_tokens": good.prompt + good.completion,
            "prompt_tokens_details": {"cached_tokens": good.cached},
        }
        self.pieces = [
            *(Piece("reasoning", text) for text in self._cut(good.reasoning)),
            *(Piece("content", text) for text in self._cut(good.content)),
        ]
        for n, call in enumerate(good.calls):
            self.pieces.append(Piece("call", "", n, call.id, call.name))
            self.pieces += [Piece("call", text, n) for text in self._cut(call.arguments)]

    def _cut(self, text: str) -> list[str]:
        most = self.rng.choice([1, 3, 10, 1000])
        pieces = []
        while text:
            size = self.rng.randint(1, most)
            pieces.append(text[:size])
            text = text[size:]
        return pieces

    # Events.

    def delta_of(self, piece: Piece, count: int = 0) -> JsonObject:
        if piece.kind == "reasoning":
            return {name: reasoning_as(name, piece.text) for name in self.reasoning_fields}
        if piece.kind == "content":
            return {"content": self.content_form(piece.text)}
        return {"tool_calls": [self.call_of(piece, count)]}

    def call_of(self, piece: Piece, count: int = 0) -> JsonObject:
        function: JsonObject = {"arguments": self.arguments_form(piece.text)}
        if piece.name is not None:
            function = {"name": piece.name, **function}
        call: JsonObject = {}
        number = self.call_number(piece, count)
        if number is not NOTHING:
            call["index"] = number
        if piece.id is not None:
            call |= {"id": piece.id, "type": "function"}
        return {**call, **({"function": function} if self.function_level else function)}

    def event(self, delta: JsonObject, finish: Any = None, **more: Any) -> JsonObject:
        choice = {"index": 0, self.delta_name: delta, "finish_reason": finish, **more}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return {**head, "choices": [choice]}

    def make_events(self) -> None:
        if self.whole:
            whole = self.event(self.message(), self.finish)
            self.events = [{**whole, **({"usage": self.usage} if self.usage else {})}]
            self.events[0]["choices"][0]["message"] = self.events[0]["choices"][0].pop(
                self.delta_name
            )
        else:
            first = {"role": "assistant", "content": ""}
            self.events = [self.event(first)]
            self.events += [
                {**self.event(self.delta_of(p, n)), PIECE: p} for n, p in enumerate(self.pieces)
            ]
            self.events.append(self.event({}, self.finish))
            if self.usage is not None:
                self.events.append({**self.event({}), "choices": [], "usage": self.usage})
        for change in self.on_events:
            change(self)
        for event in self.events:
            event.pop(PIECE, None)

    def message(self) -> JsonObject:
        good = self.good
        message: JsonObject = {"role": "assistant", "content": None}
        if good.reasoning:
            message |= self.delta_of(Piece("reasoning", good.reasoning))
        if good.content:
            message["content"] = self.content_form(good.content)
        if good.calls:
            pieces = [Piece("call", c.arguments, n, c.id, c.name) for n, c in enumerate(good.calls)]
            message["tool_calls"] = [self.call_of(piece, n) for n, piece in enumerate(pieces)]
        return message

    # Bytes.

    def make_body(self) -> None:
        indent = 1 if self.pretty else None
        form: JsonObject = {"indent": indent, "separators": self.separators}
        texts = [json.dumps(e, ensure_ascii=self.ascii, **form) for e in self.events]
        if self.whole and self.kind == "application/json":
            self.body = texts[0].encode()
        else:
            self.body = ("".join(map(self.frame, texts)) + self.done).encode()
        for change in self.on_body:
            change(self)

    def wire(self) -> list[bytes]:
        """The answer as pieces of HTTP, with its head."""
        self.make_events()
        self.make_body()
        fields = [*self.headers, *([("content-type", self.kind)] if self.kind else [])]
        pieces = self.cuts(self, self.body)
        if self.ends == "length":
            fields.append(("content-length", str(len(self.body))))
        elif self.ends != "close":
            fields.append(("transfer-encoding", "chunked"))
            pieces = [self.chunk(piece) for piece in pieces if piece]
            if self.ends == "chunked":
                pieces.append(b"0\r\n" + self.trailers + b"\r\n")
        lines = "".join(self.head_form(name, value) for name, value in fields)
        head = f"HTTP/{self.version} {self.status}\r\n{lines}\r\n"
        wire = [self.early + head.encode(), *pieces]
        return wire if self.packets is None else self.packets(self, b"".join(wire))


# Where an event has the piece that it was made of, until it is bytes.
PIECE = "the piece"


class Nothing:
    """Stands for a field that is not there."""


NOTHING = Nothing()


def reasoning_as(name: str, text: str) -> Any:
    if name == "reasoning_details":
        return [{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]
    if name == "thinking_blocks":
        return [{"type": "thinking", "thinking": text, "signature": ""}]
    return text


def cut_anywhere(rng: random.Random, data: bytes, most: int) -> list[bytes]:
    places = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(most)))
    ends = [*places, len(data)]
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False) if b > a]


# Changes.


@dataclass(frozen=True)
class Change:
    """One way to write an answer. Of each group a plan has one at most; `needs` says whether it
    means anything for an answer."""

    name: str
    group: str
    apply: Callable[[Plan], None]
    needs: Callable[[Plan], bool] = lambda plan: True


def setting(name: str, group: str, needs: Any = None, **values: Any) -> Change:
    def apply(plan: Plan) -> None:
        for field_name, value in values.items():
            setattr(plan, field_name, value)

    return Change(name, group, apply, needs or (lambda plan: True))


def has_calls(plan: Plan) -> bool:
    return bool(plan.good.calls)


def streams_calls(plan: Plan) -> bool:
    return bool(plan.good.calls) and not plan.whole


def streams_one_call(plan: Plan) -> bool:
    return len(plan.good.calls) == 1 and not plan.whole


def streams(plan: Plan) -> bool:
    return not plan.whole


def has_reasoning(plan: Plan) -> bool:
    return bool(plan.good.reasoning)


def has_content(plan: Plan) -> bool:
    return bool(plan.good.content)


def on_events(name: str, group: str, needs: Any = None) -> Callable[[Any], Change]:
    def made(function: Callable[[Plan], None]) -> Change:
        def apply(plan: Plan) -> None:
            plan.on_events.append(function)

        return Change(name, group, apply, needs or (lambda plan: True))

    return made


def on_body(name: str, group: str, needs: Any = None) -> Callable[[Any], Change]:
    def made(function: Callable[[Plan], None]) -> Change:
        def apply(plan: Plan) -> None:
            plan.on_body.append(function)

        return Change(name, group, apply, needs or (lambda plan: True))

    return made


def on_pieces(name: str, group: str, needs: Any = None) -> Callable[[Any], Change]:
    def made(function: Callable[[Plan], None]) -> Change:
        return Change(name, group, function, needs or streams_calls)

    return made


def deltas(plan: Plan) -> list[JsonObject]:
    """Every delta or message of a plan's events."""
    found = [choice.get(name) for choice in choices(plan) for name in ("delta", "message")]
    return [delta for delta in found if delta and isinstance(delta, dict)]


def parts_of(delta: JsonObject) -> list[Any]:
    """The content as the list of its parts, whatever form it has."""
    content = delta.get("content") or []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content["parts"] if isinstance(content, dict) else content)


def call_pieces(plan: Plan) -> list[JsonObject]:
    found = [delta.get("tool_calls") for delta in deltas(plan)]
    return [piece for pieces in found if isinstance(pieces, list) for piece in pieces]


def choices(plan: Plan) -> list[JsonObject]:
    return [choice for event in plan.events for choice in choices_of(event)]


def first_delta(plan: Plan, event: JsonObject) -> JsonObject:
    """What the first choice of an event adds, if it adds anything."""
    return next((choice.get(plan.delta_name) or {} for choice in choices_of(event)), {})


def choices_of(event: JsonObject) -> list[JsonObject]:
    found = event.get("choices")
    return (
        [choice for choice in found if isinstance(choice, dict)] if isinstance(found, list) else []
    )


def has_reason(event: JsonObject) -> bool:
    return any(choice.get("finish_reason") for choice in choices_of(event))
