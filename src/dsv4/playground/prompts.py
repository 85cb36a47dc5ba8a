"""A request -> its prompt in rows, with the source of each part; or two prompts of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dsv4._encode.prompt import Prompt, prompt_from_tokens
from dsv4._format.dialects import DIALECTS, dialect_named
from dsv4._format.tokens import markup
from dsv4._view.view_rows import ViewRow, view_of
from dsv4.api import convert
from dsv4.errors import Error, Location, short_repr
from dsv4.playground.asking import (
    PROTOCOLS,
    Protocol,
    Switches,
    place_in_source,
    protocol_of,
    request_in,
)
from dsv4.playground.bench import Bench
from dsv4.playground.differences import Ranges, differences
from dsv4.playground.problems import Problem, flag_of, message_and_location, one_of, text_of
from dsv4.playground.provenance import Marks, Origins, Span, spans_of, spans_of_texts, tool_name
from dsv4.playground.rows import Cutter, SentRow, tokens_of
from dsv4.playground.source import Source
from dsv4.profiles import PROFILES, compare, render
from dsv4.request import Request
from dsv4.version import how_to_install

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer

NO_TOKENS = f"Token counts need the extra `tokens`: {how_to_install('tokens')}"


@dataclass(frozen=True)
class Asked:
    """What the page asks to see."""

    source: Source
    protocol: Protocol
    switches: Switches
    bench: Bench

    @classmethod
    def of(cls, body: Mapping[str, Any], bench: Bench) -> Asked:
        """Raises a `Problem` for a body that does not say it."""
        switches = Switches.of(body)
        wanted = one_of(body, "protocol", ("auto", *PROTOCOLS), "auto")
        source = Source(_source_in(body))
        _check_size(source)
        protocol = protocol_of(source.value) if wanted == "auto" else wanted
        return cls(source, protocol, switches, bench)

    @property
    def dialect(self) -> str | None:
        """The release that the page or, for a protocol, the server names; None for a file's own."""
        default = None if self.protocol == "file" else self.bench.dialect
        return self.switches.dialect or default

    def request(self, value: Any) -> Request:
        """The request that a value makes, read as this one is."""
        return request_in(value, self.protocol, self.switches, self.bench)

    def problem(self, error: Error, origins: Origins | None = None) -> Problem:
        """An error at its line of the source."""
        if isinstance(error, Problem):
            return error
        message, location = message_and_location(error)
        if origins is not None and location[:1] == ("messages",) and len(location) > 1:
            index = location[1]
            found = origins.message(index) if isinstance(index, int) else None
            location = (*found, *location[2:]) if found is not None else location
        else:
            location = place_in_source(location, self.source.value)
        return self.source.problem(message, location)


# More is no conversation to look at.
MOST_MESSAGES = 20_000


def _check_size(source: Source) -> None:
    value = source.value
    listed: list[Any] = [value]
    if isinstance(value, dict):
        listed = [value.get(name) for name in ("messages", "input", "conversations")]
    for found in listed:
        if isinstance(found, list) and len(found) > MOST_MESSAGES:
            raise Problem(f"found {len(found):,} messages, expected at most {MOST_MESSAGES:,}")


def _source_in(body: Mapping[str, Any]) -> str:
    """The JSON text that the page has, or what scripts send in its place: the request."""
    if "request" in body and "source" not in body:
        return json.dumps(body["request"], ensure_ascii=False)
    return text_of(body, "source")


@dataclass(frozen=True)
class Side:
    """A prompt, and where its parts came from."""

    title: str
    prompt: Prompt
    messages: Sequence[Any] | None
    spans: list[Span]
    origins: Origins


def prompt(body: Mapping[str, Any], bench: Bench) -> dict[str, Any]:
    """The prompt of a request, or two of its prompts side by side.

    `body` has the JSON text `source`, the switches, and what else is asked for: `sides`, each
    "dsv4", "dialect:NAME" or "profile:NAME", and `ids`, whether borders of tokens are wanted.
    """
    asked = Asked.of(body, bench)
    names = _sides_in(body)
    with_ids = flag_of(body, "ids", False)
    sides = [side_or_problem(asked, name) for name in names]
    if len(sides) == 1 and isinstance(sides[0], Problem):
        raise sides[0]
    differing: Sequence[Ranges] = ([], [])
    same = None
    if len(sides) == 2 and isinstance(sides[0], Side) and isinstance(sides[1], Side):
        differing = differences(sides[0].prompt, sides[1].prompt)
        same = sides[0].prompt.text == sides[1].prompt.text
    return {
        "protocol": asked.protocol,
        "sides": [
            _sent(side, asked, ranges, with_ids)
            for side, ranges in zip(sides, differing, strict=False)
        ],
        "tools": _tool_names(asked),
        "same": same,
        "reasons": _reasons(asked, names),
    }


def text(body: Mapping[str, Any], bench: Bench) -> dict[str, Any]:
    """The prompt alone, for scripts: its text and how many tokens it has, None if not known."""
    asked = Asked.of(body, bench)
    side = side_or_problem(asked, one_of(body, "shown", SIDES, "dsv4"))
    if isinstance(side, Problem):
        raise side
    tokenizer, _ = fitting(bench.tokenizer, side.prompt)
    tokens = None if tokenizer is None else tokenizer.count(side.prompt)
    return {"prompt": side.prompt.text, "tokens": tokens}


SIDES = ("dsv4", *(f"dialect:{n}" for n in DIALECTS), *(f"profile:{n}" for n in PROFILES))


def _sides_in(body: Mapping[str, Any]) -> list[str]:
    given = body.get("sides", ["dsv4"])
    if not isinstance(given, list) or not 1 <= len(given) <= 2:
        raise Problem(f"found {short_repr(given)}, expected one side or two", location=("sides",))
    for n, side in enumerate(given):
        if side not in SIDES:
            expected = f"one of {', '.join(SIDES)}"
            raise Problem(f"found {short_repr(side)}, expected {expected}", location=("sides", n))
    return given


def _tool_names(asked: Asked) -> list[str]:
    """The tools that may be chosen."""
    value = asked.source.value
    tools = value.get("tools") if isinstance(value, dict) else None
    names = map(tool_name, tools) if isinstance(tools, list) else ()
    return [name for name in names if name]


# Making a side.


def side_or_problem(asked: Asked, name: str) -> Side | Problem:
    """A prompt by the name of its side, or why there is none."""
    kind, _, which = name.partition(":")
    try:
        if kind == "profile":
            return _served(asked, which)
        return own_side(
            replace(asked, switches=replace(asked.switches, dialect=which)) if which else asked
        )
    except Problem as problem:
        return problem


def own_side(asked: Asked) -> Side:
    """The prompt that dsv4 writes. Raises a `Problem` at its place."""
    value = asked.source.value
    try:
        request = asked.request(value)
    except Error as error:
        raise asked.problem(error) from None
    marks = Marks(value)
    try:
        marked = asked.request(marks.value)
    except Error:  # what is read of a text depends on what it says
        marked = None
    origins = Origins(value, marked, marks, exact=asked.protocol == "file")
    try:
        written = request.encode()
        texts = spans_of_texts(written.text, marked.encode().text, marks) if marked else []
    except Error as error:
        raise asked.problem(error, origins) from None
    spans = spans_of(written, texts, origins)
    return Side(f"dsv4, {written.dialect}", written, list(request.messages), spans, origins)


def _served(asked: Asked, name: str) -> Side:
    """The prompt that a server writes."""
    profile = PROFILES[name]
    dialect = served_dialect(asked, name)
    value = asked.source.value
    marks = Marks(value)
    try:
        text = render(chat_body(value, asked.protocol), name, dialect=dialect)
    except Error as error:
        raise asked.problem(error) from None
    try:
        marked = render(chat_body(marks.value, asked.protocol), name, dialect=dialect)
        texts = spans_of_texts(text, marked, marks)
    except Error:
        texts = []
    written = _read_back(text, dialect)
    origins = Origins(value, None, marks, exact=False)
    spans = spans_of(written, texts, origins)
    return Side(f"{profile.server}, {dialect}", written, None, spans, origins)


def served_dialect(asked: Asked, name: str) -> str:
    """The dialect that a server writes: the one that is asked for, if it can."""
    wanted = asked.switches.dialect or asked.bench.dialect
    allowed = PROFILES[name].dialects
    return wanted if wanted in allowed else allowed[0]


def chat_body(value: Any, protocol: Protocol) -> Any:
    """A request as servers of the Chat protocol get it."""
    if protocol == "file" or protocol == "chat":
        return {"messages": value} if isinstance(value, list) else value
    return convert(value, protocol, "chat")


def _read_back(text: str, dialect: str) -> Prompt:
    """A server's prompt with its parts told apart, where it can be read; else its tokens alone."""
    from dsv4._decode import decode

    release = dialect_named(dialect)
    try:
        decoded = decode(text, dialect=release)
        if decoded.exact:
            return decoded.request.encode()
    except Error:
        pass
    return prompt_from_tokens(markup(text).parts, release)


def _reasons(asked: Asked, names: list[str]) -> list[dict[str, Any]]:
    """Why two servers write different prompts, in words."""
    profiles = [name.partition(":")[2] for name in names if name.startswith("profile:")]
    if len(profiles) != 2:
        return []
    dialect = served_dialect(asked, profiles[0])
    try:
        body = chat_body(asked.source.value, asked.protocol)
        compared = compare(body, *profiles, dialect=dialect)
    except Error:
        return []
    found = []
    for reason in compared.reasons:
        location = place_in_source(reason.location, asked.source.value)
        place = asked.source.nearest(location) if location else None
        units = None if place is None else list(asked.source.in_units(place))
        found.append({"kind": reason.kind, "message": reason.message, "place": units})
    return found


# Sending a side.


def _sent(side: Side | Problem, asked: Asked, differing: Ranges, with_ids: bool) -> dict[str, Any]:
    if isinstance(side, Problem):
        return {"problem": side.to_dict()}
    tokenizer, problem = fitting(asked.bench.tokenizer, side.prompt)
    view = view_of(side.prompt, side.messages, tokenizer)
    tokens = tokens_of(side.prompt, tokenizer) if tokenizer and with_ids else None
    cutter = Cutter(side.spans, differing, tokens)
    rows = [
        SentRow(row, None, _ghost_source(row, side.origins))
        if row.ghost
        else SentRow(row, cutter, None)
        for row in view.rows
    ]
    return {
        "title": side.title,
        "total": view.total,
        "tokens": None if tokenizer is None else sum(row.tokens or 0 for row in view.rows),
        "characters": len(side.prompt),
        "no_tokens": problem,
        "ending": {"words": view.ending.words, "generates": view.ending.generates},
        "rows": [row.sent for row in rows],
        "places": [places_of(row.sources, asked.source) for row in rows],
        "shares": shares(view.rows),
        "spelled": len(side.prompt.special_text),
        "unread": [
            {"message": message, "field": field}
            for message, field, rule in side.prompt.dropped
            if rule == "unread"
        ],
    }


def _ghost_source(row: ViewRow, origins: Origins) -> Location | None:
    return None if row.message is None else origins.field(row.message, row.field)


def places_of(locations: Sequence[Location], source: Source) -> list[list[int] | None]:
    """Where locations stand in the source, as a browser counts."""
    found = (source.nearest(location) if location else None for location in locations)
    return [None if place is None else list(source.in_units(place)) for place in found]


def fitting(tokenizer: Tokenizer | None, prompt: Prompt) -> tuple[Tokenizer | None, str | None]:
    """The tokenizer, where there is one for this prompt; else what is the matter."""
    if tokenizer is None:
        return None, NO_TOKENS
    from dsv4.tokens import VocabularyError

    try:
        tokenizer.count(prompt)
    except VocabularyError:
        hint = "start the server with --tokenizer and the tokenizer.json of such a model"
        return None, f"There are no token counts for {prompt.dialect}: {hint}."
    except Error as error:
        return None, f"There are no token counts: {error}."
    return tokenizer, None


def shares(rows: Sequence[ViewRow]) -> list[dict[str, Any]]:
    """What takes how much of the prompt: tokens, or characters where those are not known."""
    amounts: Counter[str] = Counter()
    for row in rows:
        if row.ghost is None:
            amounts[_kind(row)] += _size(row) if row.tokens is None else row.tokens
    return [{"kind": kind, "amount": amount} for kind, amount in amounts.items() if amount]


def _kind(row: ViewRow) -> str:
    if row.field in ("content", "image"):
        return row.role or "other"
    named = {"reasoning": "reasoning", "tool_calls": "calls", "tools": "tools"}
    return named.get(row.field, "format")


def _size(row: ViewRow) -> int:
    return sum(len(s.original or s.text) for line in row.lines for s in line)
