"""Further forms of answers: what stands at other places, comes later than its end, or says itself
twice."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable

from upstream_plans import (
    PIECE,
    Change,
    JsonObject,
    Piece,
    Plan,
    choices,
    choices_of,
    deltas,
    has_calls,
    has_content,
    has_reason,
    has_reasoning,
    on_body,
    on_events,
    on_pieces,
    streams,
    streams_calls,
)

# Without events there is no end to send.
BARE = ("an object on each line", "a list of objects", "objects without anything between")

# Calls.


@on_events("calls behind the reason", "finish", streams_calls)
def calls_after_reason(plan: Plan) -> None:
    """As proxies write that send calls when all else is said."""
    calls = [e for e in plan.events if PIECE in e and e[PIECE].kind == "call"]
    at = max(n for n, e in enumerate(plan.events) if has_reason(e)) + 1
    plan.events[at:at] = calls
    for event in calls:
        del plan.events[next(n for n, e in enumerate(plan.events) if e is event)]


@on_events("the name comes behind the id", "call names", streams_calls)
def late_names(plan: Plan) -> None:
    for n, event in reversed([*enumerate(plan.events)]):
        for delta in _deltas_of(plan, event):
            first = (delta.get("tool_calls") or [{}])[0]
            function = first.get("function")
            if first.get("id") and isinstance(function, dict) and function.get("name"):
                before = {k: v for k, v in first.items() if k != "function"}
                own = {PIECE: Piece("call", "", event[PIECE].call)} if PIECE in event else {}
                plan.events.insert(n, {**plan.event({"tool_calls": [before]}), **own})
                del first["id"]
                first.pop("type", None)


@on_pieces("a call once more, without its id", "call repeats")
def calls_again_without_ids(plan: Plan) -> None:
    for n, call in enumerate(plan.good.calls):
        at = max(k for k, p in enumerate(plan.pieces) if p.kind == "call" and p.call == n)
        plan.pieces.insert(at + 1, Piece("call", call.arguments, n, None, call.name))


@on_pieces("all text once more at its end", "text repeats", streams)
def texts_again(plan: Plan) -> None:
    """As proxies write that pass on the event of Responses which ends a text."""
    for kind in ("reasoning", "content"):
        own = [n for n, piece in enumerate(plan.pieces) if piece.kind == kind and piece.text]
        text = "".join(plan.pieces[n].text for n in own)
        if len(own) > 1 and len(text) > 15:
            plan.pieces.insert(own[-1] + 1, Piece(kind, text))


@on_events("each call in both forms", "call grouping", has_calls)
def both_forms(plan: Plan) -> None:
    """As servers write that were there before tools, for clients of both ages."""
    for delta in deltas(plan):
        for piece in (delta.get("tool_calls") or ())[:1]:
            if isinstance(piece.get("function"), dict) and not piece.get("index"):
                delta["function_call"] = dict(piece["function"])


@on_events("the last call first", "call grouping", has_calls)
def calls_backwards(plan: Plan) -> None:
    """By their numbers they are in order."""
    for delta in deltas(plan):
        calls = delta.get("tool_calls")
        if isinstance(calls, list) and len({str(call.get("index")) for call in calls}) == len(
            calls
        ):
            calls.reverse()


# Texts.


@on_events("content as one part", "content", has_content)
def one_part(plan: Plan) -> None:
    for delta in deltas(plan):
        if isinstance(delta.get("content"), str) and delta["content"]:
            delta["content"] = {"type": "text", "text": delta["content"]}


@on_events("reasoning as an object", "reasoning", has_reasoning)
def reasoning_object(plan: Plan) -> None:
    name = plan.rng.choice(["reasoning", "thinking"])
    inner = plan.rng.choice(["content", "text", "thinking"])
    for delta in deltas(plan):
        thought = delta.pop("reasoning_content", None)
        if isinstance(thought, str) and thought:
            delta[name] = {inner: thought}


@on_events("the text of a refusal", "content", has_content)
def refused(plan: Plan) -> None:
    for delta in deltas(plan):
        if isinstance(delta.get("content"), str) and delta["content"]:
            delta |= {"refusal": delta["content"], "content": None}


@on_events("content beside the delta", "content", has_content)
def content_beside(plan: Plan) -> None:
    for choice in choices(plan):
        delta = choice.get("delta") or {}
        if isinstance(delta.get("content"), str) and delta["content"]:
            choice["content"] = delta.pop("content")


@on_events("reasoning beside the delta", "reasoning", has_reasoning)
def reasoning_beside(plan: Plan) -> None:
    for choice in choices(plan):
        delta = choice.get("delta") or {}
        if delta.get("reasoning_content"):
            choice["reasoning_content"] = delta.pop("reasoning_content")


@on_events("text in the delta in place of content", "content", has_content)
def delta_text(plan: Plan) -> None:
    for delta in deltas(plan):
        if isinstance(delta.get("content"), str) and delta["content"]:
            delta["text"] = delta.pop("content")


# Choices and ends.


@on_events("a reason in every event", "empty reasons", streams)
def reasons(plan: Plan) -> None:
    for choice in choices(plan):
        choice["finish_reason"] = choice["finish_reason"] or "stop"


@on_events("every event has two choices, and one is empty", "choices", streams)
def empty_choice(plan: Plan) -> None:
    for event in plan.events:
        if event.get("choices"):
            event["choices"].append({"index": 1, "delta": {}, "finish_reason": None})


# Bytes.


@on_body("gzip with zeros behind it", "coding")
def padded_gzip(plan: Plan) -> None:
    plan.headers.append(("content-encoding", "gzip"))
    plan.body = gzip.compress(plan.body) + b"\0" * 16


@on_body("gzip without its end", "coding", streams)
def short_gzip(plan: Plan) -> None:
    """The check at the end is lost; the answer has its own end."""
    if plan.done and plan.ends == "chunked":
        plan.headers.append(("content-encoding", "gzip"))
        plan.body = gzip.compress(plan.body)[:-8]


@on_body("tabs behind data", "frame", streams)
def tabs(plan: Plan) -> None:
    plan.body = plan.body.replace(b"data: {", b"data:\t{")


@on_body("times to wait, and numbers of events", "noise", streams)
def retries(plan: Plan) -> None:
    plan.body = plan.body.replace(b"data: {", b"retry: 3000\nid: 5\ndata: {")


# Damage.


def grows(plan: Plan) -> bool:
    """Whether a text comes in so many pieces that one that grows cannot be what the model said."""
    counts = Counter(piece.kind for piece in plan.pieces)
    return not plan.whole and not plan.good.calls and min(counts.values(), default=0) > 2


@on_events("all text so far in every delta", "damage", grows)
def growing_deltas(plan: Plan) -> None:
    said: dict[str, str] = {}
    for delta in deltas(plan):
        for name in ("content", "reasoning_content"):
            if isinstance(delta.get(name), str):
                delta[name] = said[name] = said.get(name, "") + delta[name]


@on_events("a message that grows in place of deltas", "damage", grows)
def growing_alone(plan: Plan) -> None:
    """As Qwen's own route streams where nobody asks for increments. What cannot be known before the
    third of them is a failure in the end."""
    forms = {(name, type(v)) for delta in deltas(plan) for name, v in delta.items() if v}
    if len(dict(forms)) < len(forms) or not {form for _, form in forms} <= {str, list}:
        return  # what has no one form has none that grows
    said: JsonObject = {}
    for event in plan.events:
        for choice in choices_of(event):
            for name, text in (choice.pop(plan.delta_name, None) or {}).items():
                if text:
                    said[name] = text if name == "role" else said.get(name, type(text)()) + text
            choice["message"] = dict(said)


def is_text(plan: Plan) -> bool:
    return bool(plan.good.content) and not plan.good.calls


def moved(name: str, what: str, place: str, needs: Callable[[Plan], bool]) -> Change:
    @on_events(name, "damage", needs)
    def change(plan: Plan) -> None:
        for delta in deltas(plan):
            if delta.get(what):
                delta[place] = delta.pop(what)

    return change


@on_events("deltas under a name that nobody knows", "choice form", streams)
def unknown_deltas(plan: Plan) -> None:
    for event in plan.events:
        if PIECE in event:
            for choice in choices_of(event):
                if "delta" in choice:
                    choice["x_delta"] = choice.pop("delta")


@on_events("one delta under a name that nobody knows", "choice form", streams)
def unknown_delta(plan: Plan) -> None:
    found = [e for e in plan.events if PIECE in e and e[PIECE].text]
    if found:
        for choice in choices_of(plan.rng.choice(found)):
            if "delta" in choice:
                choice["update"] = choice.pop("delta")


@on_body("gzip whose check is another", "damaged bytes")
def bad_gzip(plan: Plan) -> None:
    plan.headers = [("content-encoding", "gzip")]
    data = gzip.compress(plan.body)
    plan.body = data[:20] + bytes(byte ^ 0x55 for byte in data[20:30]) + data[30:]


def _deltas_of(plan: Plan, event: JsonObject) -> list[JsonObject]:
    found = [choice.get(plan.delta_name) for choice in choices_of(event)]
    return [delta for delta in found if isinstance(delta, dict)]


FURTHER_KEEPING: tuple[Change, ...] = (
    calls_after_reason,
    late_names,
    calls_again_without_ids,
    texts_again,
    both_forms,
    calls_backwards,
    one_part,
    reasoning_object,
    refused,
    content_beside,
    reasoning_beside,
    delta_text,
    reasons,
    empty_choice,
    unknown_deltas,
    unknown_delta,
    padded_gzip,
    short_gzip,
    tabs,
    retries,
)
FURTHER_DAMAGING: tuple[Change, ...] = (
    growing_deltas,
    growing_alone,
    moved("content as a message in a delta", "content", "message", is_text),
    moved("content as a delta in a delta", "content", "delta", is_text),
    *(
        moved(f"calls as {name}", "tool_calls", name, has_calls)
        for name in ("tool_call", "calls", "function_calls", "tools", "message")
    ),
    bad_gzip,
)
_REASONS = "empty reasons: a reason in every event"
FURTHER_CLASHES: tuple[set[str], ...] = (
    # Then nothing but the end says that this is all.
    {_REASONS, "damaged bytes"},
    {_REASONS, "coding: gzip without its end"},
    {_REASONS, "done: no [DONE]"},
    *({_REASONS, f"frame: {frame}"} for frame in BARE),
    # Its deltas are needed to know it for what it is.
    *(
        {message, f"choice form: {which}"}
        for message in (
            "message: all so far in a message beside every delta",
            "damage: a message that says something else",
        )
        for which in (
            "deltas under a name that nobody knows",
            "one delta under a name that nobody knows",
        )
    ),
    # Only [DONE] says that calls behind a reason are all, or ends what has lost its own end.
    *(
        {change, end}
        for change in ("finish: calls behind the reason", "coding: gzip without its end")
        for end in (
            "done: no [DONE]",
            "last line",
            *(f"frame: {frame}" for frame in BARE),
        )
    ),
    # What follows a reason and an end is no part of the answer.
    {"finish: calls behind the reason", "damaged bytes: an end in the middle"},
    # Empty pieces would come first.
    {"call rest", "finish: calls behind the reason"},
    # Nothing is left that could be known.
    *(
        {"damage: content under a name that nobody knows", f"choice form: {which}"}
        for which in (
            "deltas under a name that nobody knows",
            "one delta under a name that nobody knows",
        )
    ),
    # A number under a name that nobody knows may be anything.
    *(
        {"damage: a delta that is no object", f"choice form: {which}"}
        for which in (
            "deltas under a name that nobody knows",
            "one delta under a name that nobody knows",
        )
    ),
    # An empty call is how some servers say that they could not read one.
    *(
        {"damage: a call loses its name", f"call pieces: no arguments as {word}"}
        for word in ("nothing", "null")
    ),
    # One call alone is left, and no word of others.
    {"call grouping: each call in both forms", "damage: tool_calls, and the calls are gone"},
    {"call grouping: each call in both forms", "damage: calls under a name that nobody knows"},
    # The message would have the text twice; and so would the other choice.
    {"text repeats", "message"},
    {"text repeats", "choices"},
    # What is left of a name is a name, and calls may have no arguments.
    {"call names: a name comes in two pieces", "damage: the first piece of a call is lost"},
    {"message: arguments only in a last message", "damage: tool_calls, and the calls are gone"},
    # Where the deltas have no text, nothing tells that their equal calls are one.
    {"choices: the second of two equal choices first", "message: content only in a last message"},
    # Where a call's id or number comes late, changes or is missing, one without an id is another.
    *(
        {"call repeats: a call once more, without its id", other}
        for other in ("call ids", "call numbers", "call grouping", "choices", "call names")
    ),
    # Both write the message, and the last one would write nothing.
    {"message", "damage: a message that grows in place of deltas"},
    # Equal calls of two choices are two.
    {"call grouping: each call in both forms", "choices: text and calls in two choices"},
    {"call grouping: each call in both forms", "choices: each call in a choice of its own"},
    # What is left of a call is nameless.
    {"call names: the name comes behind the id", "damage: the pieces alternate between choices"},
)
