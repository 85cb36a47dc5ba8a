"""The interface of a backend: a prompt in, pieces of a completion out.

Any object with these methods can be passed to `dsv4.serve.app`, so an engine in the same process
works as well as one behind HTTP.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeGuard, runtime_checkable

from dsv4._completion.reasons import Ended, Reason, ended_by
from dsv4._encode.prompt import Prompt
from dsv4.errors import short_repr

if TYPE_CHECKING:
    from dsv4.grammar import Grammar
    from dsv4.trajectories.recorded_calls import WeightsSpan
    from dsv4.trajectories.routed_experts import RoutedExperts


# A form of grammars, by the engines that read it.
Form: TypeAlias = Literal["xgrammar", "gbnf", "lark"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Token counts, as the backend reports them. None is a count that it did not report."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    reasoning: int | None = None

    @property
    def bounded(self) -> Counts:
        """The same counts, without impossible ones: a server may report anything, but no count is
        below zero or larger than a number of tokens can be."""
        return Counts(*map(_bounded, (self.prompt, self.cached, self.completion, self.reasoning)))

    def behind(self, before: Counts) -> Counts:
        """The same counts, filled up with those `before`: some servers report one count at each
        end, and none or zero for the other."""
        own, others = astuple(self), astuple(before)
        return Counts(*(new or old or new for new, old in zip(own, others, strict=True)))


# No request has as many tokens.
_MOST_TOKENS = 2**40


def _bounded(count: int | None) -> int | None:
    return None if count is None else min(max(count, 0), _MOST_TOKENS)


# The distribution of log-probabilities: the model's own ("raw"), the one that was sampled from
# ("processed"), or the model's after the temperature and before top-p ("tempered").
LogprobsMode: TypeAlias = Literal["raw", "processed", "tempered"]


@dataclass(slots=True)  # one may be made for every token, as of `Chunk`
class Logprob:
    """A token with its log probability, and the other candidates for its place.

    Where `id` is given, and `top_ids` for all of `top`, the texts are made from them: a token that
    is a part of a character has no text of its own.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()
    id: int | None = None
    top_ids: tuple[int, ...] = ()


@dataclass(slots=True)  # one is made for every token: a frozen one takes three times as long
class Chunk:
    """A piece of a completion.

    Where `ids` are given they are what was generated, and `text` is not read. `logprobs` are those
    of its tokens: with `ids`, a bare number is that of the id in its place. `finish` says why
    generation ended, on the last piece, under any server's name for it: "eos" where the model ended
    it, "stop" where a stop string may have done so, "length", "content_filter"; an unknown word
    counts as a failure. `stop_string` is the one that ended it, where the backend says so.
    `experts` are those of all tokens but the last, and `weights` the versions of the weights over
    what was generated, on the last piece. `delta` is the one that a chat server sent, and `id` its
    id of the answer. `more` says that the next piece is here too, so that both can be sent
    together; `is_large` says that reading this piece takes longer than other streams should wait.
    """

    text: str = ""
    ids: Sequence[int] | None = None
    logprobs: Sequence[Logprob | float] = ()
    finish: Reason | None = None
    counts: Counts | None = None
    delta: Mapping[str, Any] | None = None
    id: str | None = None
    more: bool = False
    is_large: bool = False
    stop_string: str | None = None
    experts: RoutedExperts | None = None
    weights: tuple[WeightsSpan, ...] = ()


# The pieces that a backend sends, one by one.
Chunks: TypeAlias = AsyncGenerator[Chunk, None]
# Takes pieces that came together. The result must be awaited before more are given.
TakeChunks: TypeAlias = Callable[[list[Chunk]], Awaitable[None] | None]
# A piece that is only text: the text; its bytes as JSON has them between quotes, if it needs no
# escapes; and the digits of its one id, if it has one.
PlainText: TypeAlias = tuple[str, bytes, bytes]
# Takes such a piece, and the name of its field in a delta, if it has one. If it returns False, it
# took nothing, and the piece must be given to `TakeChunks`.
TakeText: TypeAlias = Callable[[PlainText, str], Awaitable[None] | bool]


def takes_no_text(piece: PlainText, field: str) -> bool:
    """A `TakeText` that takes nothing."""
    return False


@runtime_checkable
class PushedChunks(Protocol):
    """Pieces that can be pushed as they come, instead of being awaited one by one."""

    async def push(self, take: TakeChunks, take_text: TakeText) -> None:
        """Gives all pieces to `take`, except those that `take_text` has taken. Raises
        `BackendError`."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a generation. None leaves an option to the backend.

    `grammar` is that of the whole completion, reasoning included. `grammar_after_reasoning` makes
    the one for a backend that lets reasoning pass and applies a grammar only after it. `extra` are
    fields that only this backend knows (`engine_fields.py`).
    """

    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    logit_bias: tuple[tuple[int, float], ...] | None = None
    stop: tuple[str, ...] = ()
    # Special tokens to stop at, with their ids: None without a tokenizer that knows them.
    stop_tokens: Mapping[str, int | None] = field(default_factory=dict)
    logprobs: int | None = None
    grammar: Grammar | None = None
    grammar_after_reasoning: Callable[[], Grammar] | None = None
    # Whether to report the experts of each token; and how many a token takes, where that is known.
    routed_experts: bool | int = False
    # Fields of the request for this engine only, in the form of its body.
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    """A model that the backend serves: its name, and the context length if it says.

    `checkpoints` are the names of what was loaded, where the backend reports them: the model, its
    tokenizer. `owner` is the model's owner in the backend's list.
    """

    name: str
    context: int | None = None
    checkpoints: tuple[str, ...] = ()
    owner: str = ""


class BackendError(Exception):
    """The backend failed. `status` is the one to answer a client with, before the first byte;
    `retry_after` how many seconds it should wait. `final` says that no other try will help.

    `quoted` is the backend's own text, which clients get after the message. It may contain texts of
    requests, so `summary`, which is for the log, leaves it out."""

    def __init__(
        self,
        message: str,
        status: int = 502,
        retry_after: float | None = None,
        *,
        final: bool = False,
        quoted: str | None = None,
    ) -> None:
        self.summary = message
        self.message: str = message if quoted is None else f"{message}: {quoted}"
        super().__init__(self.message)
        self.status = status
        self.retry_after = retry_after
        self.final = final

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed in a moment, so that another try is worthwhile."""
        return self.status in (502, 503, 529) and not self.final


class BackendOverflow(BackendError):
    """The prompt is longer than the backend's context: `tokens` and `limit`, where it reports
    them."""

    def __init__(self, quoted: str, tokens: int | None, limit: int | None) -> None:
        super().__init__("the backend's context is too small", 400, quoted=quoted)
        self.tokens = tokens
        self.limit = limit


class ServedBackend(Protocol):
    """The common part of every backend.

    An attribute `logprobs_mode`, of `LogprobsMode`, names the distribution of its
    log-probabilities.
    """

    # The form of grammar that it takes ("xgrammar", "gbnf", "lark"); None if it takes none.
    grammar_form: Form | None

    async def models(self) -> list[Model]:
        """The models that it serves. Raises `BackendError` where it does not answer."""
        ...

    async def aclose(self) -> None:
        """Frees its resources."""


class Backend(ServedBackend, Protocol):
    """A backend that generates text."""

    def stream(self, prompt: Prompt, ids: Sequence[int] | None, options: Options) -> Chunks:
        """Generates the completion of `prompt`, by `options`. `ids` are the prompt's, where there
        is a tokenizer.

        Closing the iterator must immediately free the generation's resources. Raises
        `BackendError`.
        """
        ...


@runtime_checkable
class ProbedBackend(Protocol):
    """A backend that must be asked which part of a completion it applies grammars to."""

    async def check_grammars(self) -> str | None:
        """The scope of grammars: all of the output ("grammar"), the part after the reasoning
        ("server"), or nothing (None). Raises a `BackendError` where it does not answer."""


@dataclass(frozen=True, slots=True)
class ImageSupport:
    """Whether a backend is sent images. `why` is the reason why not, and the remedy; `by_address`
    says that it also takes the address of an image, which it fetches itself."""

    reads: bool
    why: str = ""
    by_address: bool = False


@runtime_checkable
class ImageBackend(Protocol):
    """A backend that may take the images of a prompt. It is asked whether it does; a backend
    without this method gets none."""

    async def check_images(self) -> ImageSupport:
        """Its answer about images. Raises a `BackendError` where it does not answer."""
        ...


class PassedAnswer(Protocol):
    """An answer that is passed on as it comes."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """The bytes that have come; empty at the end."""
        ...


@runtime_checkable
class PassingBackend(Protocol):
    """A backend that takes requests of any route."""

    def passed(
        self, method: str, path: str, data: bytes
    ) -> AbstractAsyncContextManager[PassedAnswer]:
        """The answer to a request. Raises a `BackendError` where there is none."""
        ...


class ChatBackend(ServedBackend, Protocol):
    """A chat server: it makes its own prompts, and takes requests instead of them."""

    def stream_request(self, body: dict[str, Any]) -> Chunks:
        """The answer to a request in Chat Completions' form."""
        ...


AnyBackend: TypeAlias = Backend | ChatBackend


def is_chat(backend: AnyBackend) -> TypeGuard[ChatBackend]:
    """Whether a backend takes requests instead of prompts."""
    return hasattr(backend, "stream_request")


# Values that servers write before there is a reason.
_NO_REASONS = ("", "null", "None", "none")


def read_finish(reason: object, message: object = None) -> Reason | None:
    """The reason why generation ended, from any server's name for it; None where it names none.

    Raises a `BackendError`, with the server's own `message`, for a reason that is not in the table
    of rule 26: the answer may be incomplete, and no client may take it for the whole.
    """
    if reason is None or reason in _NO_REASONS:
        return None
    if not isinstance(reason, str):
        raise BackendError(
            f"the backend sent the finish reason {short_repr(reason)}, expected text"
        )
    if ended_by(reason) is Ended.FAILURE:
        if message:
            raise BackendError("the backend gave up", quoted=str(message))
        raise BackendError(f"the backend gave up: {reason}")
    return "stop" if ended_by(reason) is Ended.STOP else reason


def usual_case(name: str) -> str:
    """A name in the style of OpenAI's protocol: `toolCalls` and `Tool-Calls` are `tool_calls`."""
    return _CAPITAL.sub(r"_\1", name).replace("-", "_").lower()


_CAPITAL = re.compile("(?<=[a-z])([A-Z])")


def read_object(text: str | bytes | None) -> dict[str, Any] | None:
    """The JSON object in a text; None for every other text."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_text(value: object) -> str | None:
    """A text of a backend's answer; None where it is not a text."""
    return value if isinstance(value, str) else None


def settled(finish: Reason | None, *, by_string: bool) -> Reason | None:
    """The reason why generation ended, for a parser. `by_string` says that a stop string may have
    ended it: where none can have, "stop" is the model's own end (rule 26)."""
    return "eos" if finish == "stop" and not by_string else finish


def read_names(*values: object) -> tuple[str, ...]:
    """The names of checkpoints in a backend's answer: those that are texts and not empty."""
    return tuple(value for value in values if isinstance(value, str) and value)


def read_number(value: object) -> int | None:
    """A whole number of a backend's answer; None where it is not a number."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if is_number and math.isfinite(value) else None  # type: ignore[call-overload, arg-type]


# No number has more digits, and Python reads no text of thousands.
_MOST_DIGITS = 20


def read_digits(value: object) -> int | None:
    """The same, also for digits as text, which some servers write."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < _MOST_DIGITS else None
    return read_number(value)
