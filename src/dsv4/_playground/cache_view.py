"""The Cache view: how much of each prompt of a conversation an engine has already computed, and why
not more.

When an engine has answered, its cache holds the prompt and the completion. Of the next prompt, only
the common beginning with these is free. The client may shorten it: `VARIANTS` are clients that do
not send back exactly what the model wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dsv4._encode.inputs import MessageFields, as_inputs, fields_of
from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import Special
from dsv4._images.image_source import identity
from dsv4._playground.page_problem import choice_field
from dsv4._playground.page_request import PageRequest, PlaygroundContext
from dsv4._playground.prompt_view import PageSide, own_side, source_ranges, tokenizer_for
from dsv4.request import Request
from dsv4.tokens.coder import common_prefix_length
from dsv4.tokens.masks import AttributedIds
from dsv4.tokens.prefix_difference import ComparedPrompt as PrefixSide
from dsv4.tokens.prefix_difference import difference_between

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


Change: TypeAlias = Callable[[MessageFields], MessageFields]


class CachedTurn(NamedTuple):
    """A prompt of a conversation, compared with the text that the engine's cache held before it.

    `answer` is the index of the message that answers it, None for the last. `size` is the number of
    its tokens, `before` that of the prompt before it, `held` that of the tokens in the cache,
    `reused` that of the tokens it shares with the beginning of the cache. If these are not all,
    `message` and `field` are the place of the first difference, and `cause` is the reason for it.
    """

    answer: int | None
    messages: int
    size: int
    before: int
    held: int
    reused: int
    message: int | None = None
    field: str | None = None
    cause: str | None = None


def view_cache(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The turns of a conversation as one client sends it, and the costs of all clients."""
    page = PageRequest.from_body(body, context)
    chosen = choice_field(body, "variant", tuple(VARIANTS), AS_SENT)
    side = own_side(page)
    request = page.request(page.source.value)
    tokenizer, problem = tokenizer_for(context.tokenizer, side.prompt)
    meter = PromptMeter(tokenizer)
    # Causes are searched only for the client that is shown: that takes longer than counting.
    view = {name: last_turns(request, name, meter, with_causes=name == chosen) for name in VARIANTS}
    computed = {n: sum(turn.size - turn.reused for turn in turns) for n, turns in view.items()}
    return {
        "unit": "characters" if tokenizer is None else "tokens",
        "no_tokens": problem,
        "dialect": str(side.prompt.dialect),
        "variant": chosen,
        "left_out": len(prompt_message_counts(_messages(request))) - len(view[chosen]),
        "turns": [_turn_to_json(turn, chosen, page, side) for turn in view[chosen]],
        "variants": [
            {
                "name": name,
                "title": VARIANTS[name][0],
                "computed": computed[name],
                "prompted": sum(turn.size for turn in turns),
                "lost": computed[name] - computed[AS_SENT],
            }
            for name, turns in view.items()
        ],
    }


def last_turns(
    request: Request, variant: str, meter: PromptMeter, with_causes: bool = True
) -> list[CachedTurn]:
    """The last turns of a conversation. Their number is limited, because each is encoded again."""
    messages = _messages(request)
    start = len(prompt_message_counts(messages)) - max_turns(len(messages))
    return list(cached_turns(request, variant, meter, max(start, 0), with_causes))


def cached_turns(
    request: Request, variant: str, meter: PromptMeter, start: int = 0, with_causes: bool = True
) -> Iterator[CachedTurn]:
    """The turns of a conversation from the number `start` on, as a client `variant` sends it."""
    messages, change = _messages(request), VARIANTS[variant][1]
    sent = list(map(change, messages))
    held: MeasuredPrompt | None = None
    before = 0
    first = max(start - 1, 0)  # the turn before the first one, which fills the cache
    for n, stop in enumerate(prompt_message_counts(messages)[first:], first):
        prompt = meter.measure(_encoded(request, sent[:stop]))
        answer = stop if stop < len(messages) else None
        if n >= start:
            turn = CachedTurn(answer, stop, prompt.size, before, 0, 0)
            if held is not None:
                turn = turn._replace(held=held.size, reused=meter.shared(held, prompt))
                turn = _with_cause(turn, held.prompt, prompt.prompt) if with_causes else turn
            yield turn
        if answer is not None:
            # The cache holds the model's own message, whatever the client sends back.
            held = meter.measure(_encoded(request, [*sent[:stop], messages[stop]]))
        before = prompt.size


def max_turns(messages: int) -> int:
    """The most prompts that are shown of a conversation."""
    return max(10, min(200, 40_000 // max(messages, 1)))


def prompt_message_counts(messages: Sequence[MessageFields]) -> list[int]:
    """The number of messages of each prompt: those before an answer, and all if none is last."""
    stops = [n for n, message in enumerate(messages) if n and message["role"] == "assistant"]
    return stops if messages and messages[-1]["role"] == "assistant" else [*stops, len(messages)]


def _messages(request: Request) -> list[MessageFields]:
    return [fields_of(message) for message in request.messages]


def _encoded(request: Request, messages: list[MessageFields]) -> Prompt:
    return replace(request, messages=as_inputs(messages), prefix="").encode()


def _with_cause(turn: CachedTurn, held: Prompt, prompt: Prompt) -> CachedTurn:
    """A turn with the place and the cause of its first difference from the cache, if any."""
    difference = None
    if turn.reused < turn.held:
        numbers: dict[str, int] = {}
        difference = difference_between(_prefix_side(held, numbers), _prefix_side(prompt, numbers))
    if difference is None:
        return turn
    shown = difference
    return turn._replace(message=shown.message, field=shown.field, cause=shown.cause)


def _prefix_side(prompt: Prompt, numbers: dict[str, int]) -> PrefixSide:
    """A prompt for `difference_between`, with each piece as one token: pieces of the same text get
    the same id from `numbers`."""
    owned = AttributedIds()
    for piece in prompt.pieces:
        owned.add([numbers.setdefault(piece.text, len(numbers))], piece)
    return PrefixSide(owned, prompt.dialect, lambda: prompt.dropped)


class CachedPicture(NamedTuple):
    """A picture in place of its special token: its identity, and the number of its tokens."""

    identity: str
    tokens: int


Run: TypeAlias = tuple[str, Special | CachedPicture | None]


class MeasuredPrompt(NamedTuple):
    """A prompt, its text between special tokens with the token after each, and its size."""

    prompt: Prompt
    runs: list[Run]
    size: int


class PromptMeter:
    """Measures prompts, and the common beginning of two: in tokens, or else in characters.

    Text between special tokens is tokenized by itself, and is repeated from turn to turn: counts
    are cached.
    """

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer
        self._units: dict[str, Sequence[Any]] = {}
        self._sizes: dict[Run, int] = {}

    def measure(self, prompt: Prompt) -> MeasuredPrompt:
        """The prompt with its measures."""
        runs: list[Run] = list(self._runs(prompt))
        return MeasuredPrompt(prompt, runs, self._sum(runs))

    def _runs(self, prompt: Prompt) -> Iterator[Run]:
        if self._tokenizer is None or not prompt.images:
            yield from prompt.runs()
            return
        counts = self._tokenizer.image_tokens(prompt)
        pictures = zip(map(identity, prompt.images), counts, strict=True)
        for text, special in prompt.runs():
            if special == prompt.dialect.image_token:
                which, count = next(pictures)
                yield text, CachedPicture(which, count or 1)
            else:
                yield text, special

    def shared(self, a: MeasuredPrompt, b: MeasuredPrompt) -> int:
        """The length of the beginning that `a` and `b` have in common."""
        same = common_prefix_length(a.runs, b.runs)
        reached = self._sum(a.runs[:same])
        if same == len(a.runs) or same == len(b.runs):
            return reached
        return reached + common_prefix_length(
            self._read(a.runs[same][0]), self._read(b.runs[same][0])
        )

    def _sum(self, runs: Sequence[Run]) -> int:
        try:
            return sum(map(self._sizes.__getitem__, runs))
        except KeyError:
            for run, special in set(runs).difference(self._sizes):
                self._sizes[run, special] = len(self._read(run)) + self._size(special)
            return sum(map(self._sizes.__getitem__, runs))

    def _size(self, special: Special | CachedPicture | None) -> int:
        if isinstance(special, CachedPicture):
            return special.tokens
        return 0 if special is None else len(special) if self._tokenizer is None else 1

    def _read(self, text: str) -> Sequence[Any]:
        """The tokens of a text, or its characters."""
        if self._tokenizer is None:
            return text
        if text not in self._units:
            self._units[text] = self._tokenizer.encode_text(text)
        return self._units[text]


def _turn_to_json(
    turn: CachedTurn, variant: str, page: PageRequest, side: PageSide
) -> dict[str, Any]:
    place = None
    if turn.message is not None and turn.field is not None:
        location = side.origins.field(turn.message, _FIELDS.get(turn.field, turn.field))
        place = source_ranges([location], page.source)[0] if location is not None else None
    return {**turn._asdict(), "place": place, "words": describe_turn(turn, variant)}


_FIELDS = {"reasoning": "reasoning_content", "header": "role", "eos": "content"}


# The clients' changes, which explain differences that prompts alone do not explain.
_CLIENT_CAUSES = {
    ("no_reasoning", "reasoning"): "the client sent the turn back without its reasoning",
    ("sorted_arguments", "tool_calls"): "the client wrote the arguments anew",
}


def describe_turn(turn: CachedTurn, variant: str) -> str:
    """A sentence on the part of the engine's cache that a prompt reuses."""
    if not turn.held:
        return "nothing was held before this prompt: all of it is new"
    if turn.reused == turn.held:
        return "all that the engine held is the start of this prompt"
    owner = "" if turn.message is None else f"messages[{turn.message}]."
    cause = turn.cause
    if cause is not None and cause.endswith("of the message differs"):
        cause = _CLIENT_CAUSES.get((variant, turn.field or ""), cause)
    return f"it breaks in {owner}{turn.field}: {cause}"


# Clients that do not send back exactly what the model wrote.


def _unchanged(message: MessageFields) -> MessageFields:
    return message


def _without_reasoning(message: MessageFields) -> MessageFields:
    if message["role"] != "assistant":
        return message
    return {k: v for k, v in message.items() if k not in ("reasoning_content", "reasoning")}


def _sorted_arguments(message: MessageFields) -> MessageFields:
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": list(map(_sorted_call, calls))}


def _sorted_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    if function is None or "arguments" not in function:
        return call
    arguments = function["arguments"]
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        written = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": written}}


AS_SENT = "as_sent"
VARIANTS: dict[str, tuple[str, Change]] = {
    AS_SENT: ("as it is sent", _unchanged),
    "no_reasoning": ("the client drops reasoning", _without_reasoning),
    "sorted_arguments": ("the client re-serialises arguments with sorted keys", _sorted_arguments),
}
