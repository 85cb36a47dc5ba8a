"""The turns of a session, or the exchanges of a log: what each costs, what of it the engine's cache
keeps and loses, and what was repaired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from dsv4._encode.inputs import fields_of
from dsv4._encode.prompt import Prompt, prompt_from_tokens
from dsv4._format.dialects import dialect_named
from dsv4._format.tokens import markup
from dsv4._parse.parse import parse
from dsv4._playground.cache_view import (
    AS_SENT,
    VARIANTS,
    MeasuredPrompt,
    PromptMeter,
    cached_turns,
    describe_turn,
    prompt_message_counts,
)
from dsv4._playground.page_problem import text_field
from dsv4._playground.page_request import PageRequest, PlaygroundContext
from dsv4._playground.pasted_text import held_requests, recognised
from dsv4._playground.prompt_view import tokenizer_for
from dsv4._why.judge import judge
from dsv4._why.pasted_kinds import Pasted, PastedExchanges, PastedRecords, PastedSession
from dsv4._why.verdict import without_keys
from dsv4.api.request_fields import maybe_json
from dsv4.errors import Error

# So many earlier requests an engine is taken to remember, and so many of a log are listed.
REMEMBERED = 16
MOST_TURNS = 500
NOT_MEASURED = "not measured: of a long session, the last turns are"


class ListedTurn(NamedTuple):
    """A request: the `turn` that opens it, the `size` of its prompt, how much of what the engine
    held before (`held`) it begins with (`reused`), in `words`, and what is wrong with its answer
    (`repairs`), or why it has no prompt (`problem`).
    """

    turn: int
    size: int = 0
    held: int = 0
    reused: int = 0
    words: str = ""
    repairs: Sequence[str] = ()
    problem: str = ""


def list_turns(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The turns of what was pasted, and in what their sizes are counted."""
    text = text_field(body, "source")
    pasted = recognised(text)
    if isinstance(pasted, PastedSession):
        listed, no_tokens = _session_turns({**body, "turn": pasted.turns}, context)
    else:
        listed, no_tokens = _logged_turns(pasted, body, context)
    return {
        "unit": "characters" if no_tokens else "tokens",
        "no_tokens": no_tokens,
        "left_out": max(len(held_requests(pasted)) - len(listed), 0),
        "turns": [turn._asdict() for turn in listed],
    }


# A session.


def _session_turns(
    body: Mapping[str, Any], context: PlaygroundContext
) -> tuple[list[ListedTurn], str | None]:
    page = PageRequest.from_body(body, context)
    try:
        request = page.request(page.source.value)
        tokenizer, problem = tokenizer_for(context.tokenizer, request.encode())
        turns = cached_turns(request, VARIANTS[AS_SENT][1], PromptMeter(tokenizer))
    except Error as error:
        raise page.problem(error) from None
    messages: Sequence[Any] = [fields_of(message) for message in request.messages]
    measured = {turn.messages: turn for turn in turns}
    listed = []
    for stop in prompt_message_counts(messages):
        repairs = list(_repairs(messages[stop])) if stop < len(messages) else []
        turn = measured.get(stop)
        if turn is None:
            listed.append(ListedTurn(stop, words=NOT_MEASURED, repairs=repairs))
            continue
        words = describe_turn(turn, AS_SENT)
        listed.append(ListedTurn(stop, turn.size, turn.held, turn.reused, words, repairs))
    return listed, problem


def _repairs(message: Mapping[str, Any]) -> Iterator[str]:
    """What a client should not have got: markup in a text, arguments that are no JSON."""
    content = message.get("content")
    if isinstance(content, str) and "<" in content:
        read = parse(content, thinking=False)
        yield from (f"{call.name} is called in the text" for call in read.tool_calls)
        yield from (f"{call.name} breaks off in the text" for call in read.incomplete)
        yield from dict.fromkeys(each.sentence for each in read.diagnostics)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call
        arguments = function.get("arguments")
        if isinstance(arguments, str) and not isinstance(maybe_json(arguments or "{}"), dict):
            yield f"the arguments of {function.get('name')} are no JSON object"


# A log.


def _logged_turns(
    pasted: Pasted, body: Mapping[str, Any], context: PlaygroundContext
) -> tuple[list[ListedTurn], str | None]:
    listed: list[ListedTurn] = []
    held: deque[MeasuredPrompt] = deque(maxlen=REMEMBERED)
    meter, no_tokens = None, None
    for n in range(len(held_requests(pasted)))[:MOST_TURNS]:
        repairs = list(_reported(pasted, n))
        try:
            prompt, answered = _prompts(pasted, n, body, context)
        except Error as error:
            listed.append(ListedTurn(n, repairs=repairs, problem=str(error)))
            continue
        if meter is None:
            tokenizer, no_tokens = tokenizer_for(context.tokenizer, prompt)
            meter = PromptMeter(tokenizer)
        measured = meter.measure(prompt)
        nearest = max(held, key=partial(meter.shared, b=measured), default=None)
        kept = 0 if nearest is None else meter.shared(nearest, measured)
        before = nearest.size if nearest is not None and kept else 0
        listed.append(ListedTurn(n, measured.size, before, kept, _words(before, kept), repairs))
        held.append(measured if answered is None else meter.measure(answered))
    return listed, no_tokens


def _words(held: int, kept: int) -> str:
    if not held:
        return "nothing of it was in an earlier prompt"
    return "it goes on from an earlier one" if kept == held else "it differs from an earlier one"


def _prompts(
    pasted: Pasted, n: int, body: Mapping[str, Any], context: PlaygroundContext
) -> tuple[Prompt, Prompt | None]:
    """The prompt of an exchange; with its completion, where that is known."""
    if isinstance(pasted, PastedRecords):
        record = pasted.records[n]
        sent, completion = record["prompt"], record["completion"]
        if isinstance(sent, str) and isinstance(completion, str) and sent:
            dialect = dialect_named(record.get("dialect") or context.dialect)
            written = (sent, sent + completion)
            first, second = (prompt_from_tokens(markup(text).parts, dialect) for text in written)
            return first, second
    page = PageRequest.from_body({**body, "turn": n}, context)
    return page.request(page.source.value).encode(), None


def _reported(pasted: Pasted, n: int) -> Iterator[str]:
    """What is wrong with the answer of an exchange."""
    if isinstance(pasted, PastedRecords):
        diagnostics = pasted.records[n].get("diagnostics") or ()
        for each in diagnostics:
            if isinstance(each, dict):
                yield without_keys(str(each.get("sentence") or each.get("kind")))
    if isinstance(pasted, PastedExchanges):
        replies = [each.reply for each in pasted.exchanges if each.request is not None]
        reply = replies[n]
        wrong = "" if reply is None else judge(reply).wrong
        if wrong:
            yield without_keys(wrong)
