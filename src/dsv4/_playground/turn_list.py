"""The turns of a session, or the exchanges of a log: the size of each, the parts of it that the
engine's cache keeps and loses, and the repairs.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from dsv4._encode.inputs import MessageFields, fields_of
from dsv4._encode.prompt import Prompt, prompt_from_tokens
from dsv4._format.dialects import dialect_named
from dsv4._format.tokens import markup
from dsv4._parse.parse import parse
from dsv4._playground.cache_view import (
    AS_SENT,
    MeasuredPrompt,
    PromptMeter,
    cached_turns,
    describe_turn,
    prompt_message_counts,
)
from dsv4._playground.page_problem import text_field, whole_field
from dsv4._playground.page_request import PageRequest, PlaygroundContext
from dsv4._playground.pasted_text import held_requests, recognised
from dsv4._playground.prompt_view import tokenizer_for
from dsv4._why.judge import judge
from dsv4._why.pasted_kinds import (
    Pasted,
    PastedAnswer,
    PastedError,
    PastedExchanges,
    PastedRecords,
    PastedSession,
)
from dsv4._why.verdict import without_keys
from dsv4.api.request_fields import maybe_json
from dsv4.errors import Error

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer

# The number of earlier requests that an engine is assumed to have in its cache.
REMEMBERED = 16
# Seconds for which turns are measured before an answer is sent with those that are ready.
PATIENCE = 2.0


class ListedTurn(NamedTuple):
    """A request: the `turn` that opens it, the `size` of its prompt, the size of the cached text
    (`held`) and of the part that the prompt begins with (`reused`), both in `words`, the faults of
    its answer (`repairs`), or the reason why it has no prompt (`problem`).
    """

    turn: int
    size: int = 0
    held: int = 0
    reused: int = 0
    words: str = ""
    repairs: tuple[str, ...] = ()
    problem: str = ""


def list_turns(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The turns of a pasted text, from the number `start` on: as many as are measured in a moment.
    Also their number (`total`), and the unit of their sizes.
    """
    start = max(whole_field(body, "start", 0), 0)
    asked = json.dumps({name: value for name, value in body.items() if name != "start"})
    measuring = _measuring(asked, context.tokenizer, context.dialect)
    turns = measuring.turns_from(start)
    return {
        "unit": "characters" if measuring.no_tokens else "tokens",
        "no_tokens": measuring.no_tokens,
        "total": measuring.total,
        "turns": [turn._asdict() for turn in turns],
    }


class MeasuredTurns:
    """The turns of a pasted text, which are measured on demand."""

    def __init__(self, body: Mapping[str, Any], context: PlaygroundContext) -> None:
        self._body = body
        self._context = context
        self._turns: list[ListedTurn] = []
        self.no_tokens: str | None = None
        pasted = recognised(text_field(body, "source"))
        if isinstance(pasted, PastedSession):
            page = PageRequest.from_body({**body, "turn": pasted.turns}, context)
            self._rest = self._of_session(page)
            self.total = len(prompt_message_counts(_messages(page)))
        else:
            self.total = len(held_requests(pasted))
            self._rest = self._of_log(pasted)

    def turns_from(self, start: int) -> list[ListedTurn]:
        """The turns from the number `start` on. At least that turn is measured, if there is one."""
        until = monotonic() + PATIENCE
        while len(self._turns) <= start or monotonic() < until:
            turn = next(self._rest, None)
            if turn is None:
                break
            self._turns.append(turn)
        return self._turns[start:]

    def _meter(self, prompt: Prompt) -> PromptMeter:
        """The meter: it counts tokens if the tokenizer fits the prompt, else characters."""
        tokenizer, self.no_tokens = tokenizer_for(self._context.tokenizer, prompt)
        return PromptMeter(tokenizer)

    # A session.

    def _of_session(self, page: PageRequest) -> Iterator[ListedTurn]:
        try:
            request, messages = page.request(page.source.value), _messages(page)
            meter = self._meter(request.encode())
            for turn in cached_turns(request, AS_SENT, meter):
                repairs = () if turn.answer is None else tuple(_repairs(messages[turn.answer]))
                amounts = (turn.size, turn.held, turn.reused)
                words = describe_turn(turn, AS_SENT)
                yield ListedTurn(turn.messages, *amounts, words, repairs)
        except Error as error:
            raise page.problem(error) from None

    # A log.

    def _of_log(self, pasted: Pasted) -> Iterator[ListedTurn]:
        held: deque[MeasuredPrompt] = deque(maxlen=REMEMBERED)
        meter: PromptMeter | None = None
        for n, told in enumerate(_told(pasted)):
            repairs = tuple(told)
            try:
                prompt, answered = _prompts(pasted, n, self._body, self._context)
            except Error as error:
                yield ListedTurn(n, repairs=repairs, problem=str(error))
                continue
            meter = meter or self._meter(prompt)
            measured = meter.measure(prompt)
            shares = [(meter.shared(one, measured), one.size) for one in held]
            kept, size = max(shares, key=lambda share: share[0], default=(0, 0))
            before = size if kept else 0
            yield ListedTurn(n, measured.size, before, kept, _words(before, kept), repairs)
            held.append(measured if answered is None else meter.measure(answered))


@lru_cache(maxsize=1)
def _measuring(asked: str, tokenizer: Tokenizer | None, dialect: str) -> MeasuredTurns:
    """The turns of a request, cached, so that the next answer continues after the last one."""
    context = PlaygroundContext(tokenizer=tokenizer, dialect=dialect)
    return MeasuredTurns(json.loads(asked), context)


def _messages(page: PageRequest) -> list[MessageFields]:
    try:
        return list(map(fields_of, page.request(page.source.value).messages))
    except Error as error:
        raise page.problem(error) from None


def _repairs(message: Mapping[str, Any]) -> Iterator[str]:
    """The faults of a message that a client got: markup in a text, arguments that are not JSON."""
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


def _words(held: int, kept: int) -> str:
    if not held:
        return "nothing of it was in an earlier prompt"
    return "it goes on from an earlier one" if kept == held else "it differs from an earlier one"


def _prompts(
    pasted: Pasted, n: int, body: Mapping[str, Any], context: PlaygroundContext
) -> tuple[Prompt, Prompt | None]:
    """The prompt of an exchange, and the prompt with its completion, None if that is unknown."""
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


def _told(pasted: Pasted) -> Iterator[Iterator[str]]:
    """The faults of the answer of each exchange."""
    if isinstance(pasted, PastedRecords):
        yield from map(_reported, pasted.records)
    elif isinstance(pasted, PastedExchanges):
        yield from (_judged(each.reply) for each in pasted.exchanges if each.request is not None)
    else:
        yield from (iter(()) for _ in held_requests(pasted))


def _reported(record: Mapping[str, Any]) -> Iterator[str]:
    for each in record.get("diagnostics") or ():
        if isinstance(each, dict):
            yield without_keys(str(each.get("sentence") or each.get("kind")))


def _judged(reply: PastedAnswer | PastedError | None) -> Iterator[str]:
    wrong = "" if reply is None else judge(reply).wrong
    if wrong:
        yield without_keys(wrong)
