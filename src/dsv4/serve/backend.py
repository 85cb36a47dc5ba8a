"""What the gateway asks of a backend: a prompt in, pieces of a completion out.

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


# A way of writing grammars, by the engines that read it.
Form: TypeAlias = Literal["xgrammar", "gbnf", "lark"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens, as the backend counts them. None is what it did not say."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    reasoning: int | None = None

    @property
    def bounded(self) -> Counts:
        """The same, as far as they can be true: a server may say anything, and none is below zero
        or beyond what a number of tokens can be."""
        return Counts(*map(_bounded, (self.prompt, self.cached, self.completion, self.reasoning)))

    def behind(self, before: Counts) -> Counts:
        """The same, where those `before` came first: some servers say one count at each end, and
        none or zero of the other."""
        own, others = astuple(self), astuple(before)
        return Counts(*(new or old or new for new, old in zip(own, others, strict=True)))


# No request has as many tokens.
_MOST_TOKENS = 2**40


def _bounded(count: int | None) -> int | None:
    return None if count is None else min(max(count, 0), _MOST_TOKENS)


# What log-probabilities are of: the model's own distribution ("raw"), the one that was sampled from
# ("processed"), or the model's after the temperature and before top-p ("tempered").
LogprobsMode: TypeAlias = Literal["raw", "processed", "tempered"]


@dataclass(slots=True)  # one may be made for every token, as of `Chunk`
class Logprob:
    """A token with its log probability, and those that might have stood in its place.

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
    of its tokens: with `ids`, a number alone is that of the id in its place. `finish` says why
    generation ended, on the last piece, in the words of any server: "eos" where the model ended it,
    "stop" where a stop string may have done so, "length", "content_filter"; a word that is not
    known counts as a failure. `stop_string` is the one that ended it, where the backend says so.
    `experts` are those of all tokens but the last, and `weights` the versions of the weights over
    what was generated, on the last piece.
    `delta` is what a chat server sent, and `id` its name for the whole. `more` says that the next
    piece is here too, so that both can go out together, and `is_large` that to read this one takes
    longer than other streams should wait.
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


# What a backend sends, piece by piece.
Chunks: TypeAlias = AsyncGenerator[Chunk, None]
# Takes pieces that came together. What it returns must be awaited before more is given.
TakeChunks: TypeAlias = Callable[[list[Chunk]], Awaitable[None] | None]
# A piece that is a text alone: the text; what stands for it in the quotes of JSON, where that is
# the text itself; and the digits of its one id, if it has one.
PlainText: TypeAlias = tuple[str, bytes, bytes]
# Takes such a piece, and the field of a delta that the text is of, if it is of one. False: it took
# nothing, and must be given the piece.
TakeText: TypeAlias = Callable[[PlainText, str], Awaitable[None] | bool]


def takes_no_text(piece: PlainText, field: str) -> bool:
    """Stands for what takes pieces alone."""
    return False


@runtime_checkable
class PushedChunks(Protocol):
    """Pieces that can be taken as they come, in place of being waited for one by one."""

    async def push(self, take: TakeChunks, take_text: TakeText) -> None:
        """Gives all pieces to `take`, but those that `take_text` has taken. Raises
        `BackendError`."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to generate. What is None is left to the backend.

    `grammar` is that of the whole completion, reasoning included. `grammar_after_reasoning` makes
    the one for a backend that lets reasoning pass, and applies a grammar to what follows. `extra`
    are fields that only this backend knows (`engine_fields.py`).
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
    # Special tokens to stop at, with their ids where there is a tokenizer: it need not know them.
    stop_tokens: Mapping[str, int | None] = field(default_factory=dict)
    logprobs: int | None = None
    grammar: Grammar | None = None
    grammar_after_reasoning: Callable[[], Grammar] | None = None
    # Whether to tell the experts of each token, and how many a token takes, where that is known.
    routed_experts: bool | int = False
    # Fields of the request that only this engine knows, as its body has them.
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    """A model that the backend serves: its name, and the context length if it says.

    `checkpoints` are what it says was loaded, where it says so: the model, its tokenizer. `owner`
    is whose model it is, by the backend's list.
    """

    name: str
    context: int | None = None
    checkpoints: tuple[str, ...] = ()
    owner: str = ""


class BackendError(Exception):
    """The backend failed. `status` is the one to answer a client with, before the first byte;
    `retry_after` how many seconds it should wait. `final` says that no other try will help.

    `quoted` are words of the backend's own, which clients are told after the message. They may
    have texts of requests in them, so `summary`, which is for the log, does without."""

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
        """Whether the same request may work in a moment: worth another try."""
        return self.status in (502, 503, 529) and not self.final


class BackendOverflow(BackendError):
    """The prompt is longer than the backend's context: `tokens` and `limit`, where it says."""

    def __init__(self, quoted: str, tokens: int | None, limit: int | None) -> None:
        super().__init__("the backend's context is too small", 400, quoted=quoted)
        self.tokens = tokens
        self.limit = limit


class ServedBackend(Protocol):
    """What every backend has.

    One that has an attribute `logprobs_mode`, of `LogprobsMode`, says what its log-probabilities
    are of.
    """

    # The form of grammar that it takes ("xgrammar", "gbnf", "lark"); None if it takes none.
    grammar_form: Form | None

    async def models(self) -> list[Model]:
        """What it serves. Raises `BackendError` where it does not answer."""
        ...

    async def aclose(self) -> None:
        """Frees what it holds."""


class Backend(ServedBackend, Protocol):
    """What generates text."""

    def stream(self, prompt: Prompt, ids: Sequence[int] | None, options: Options) -> Chunks:
        """Generates what follows `prompt`, by `options`. `ids` are the prompt's, where a tokenizer
        is there.

        Closing the iterator must immediately free what the generation holds. Raises
        `BackendError`.
        """
        ...


@runtime_checkable
class ProbedBackend(Protocol):
    """A backend that has to be asked what it applies grammars to."""

    async def check_grammars(self) -> str | None:
        """To all that is generated ("grammar"), to what follows the reasoning ("server"), or to
        nothing: None. Raises a `BackendError` where it does not answer."""


@dataclass(frozen=True, slots=True)
class ImageSupport:
    """Whether a backend is sent images. `why` says why not, and what would help; `by_address` that
    it also takes the address of one, which it fetches itself."""

    reads: bool
    why: str = ""
    by_address: bool = False


@runtime_checkable
class ImageBackend(Protocol):
    """A backend that may take the images of a prompt. It has to be asked; one that cannot be asked
    gets none."""

    async def check_images(self) -> ImageSupport:
        """What it says of itself. Raises a `BackendError` where it does not answer."""
        ...


class PassedAnswer(Protocol):
    """An answer that is passed on as it comes."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """What has come; nothing at the end."""
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
    """A chat server: it makes its own prompts, and takes requests in place of them."""

    def stream_request(self, body: dict[str, Any]) -> Chunks:
        """The answer to a request in Chat Completions' form."""
        ...


AnyBackend: TypeAlias = Backend | ChatBackend


def is_chat(backend: AnyBackend) -> TypeGuard[ChatBackend]:
    """Whether a backend takes requests in place of prompts."""
    return hasattr(backend, "stream_request")


# What servers write before there is a reason.
_NO_REASONS = ("", "null", "None", "none")


def read_finish(reason: object, message: object = None) -> Reason | None:
    """Why generation ended, in the words of any server; None where it says nothing.

    Raises a `BackendError`, with the server's own `message`, for what the table of rule 26 does not
    have: what came may not be the whole, and no client may take it for that.
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
    """A name as OpenAI's protocol writes its own: `toolCalls` and `Tool-Calls` are `tool_calls`."""
    return _CAPITAL.sub(r"_\1", name).replace("-", "_").lower()


_CAPITAL = re.compile("(?<=[a-z])([A-Z])")


def read_object(text: str | bytes | None) -> dict[str, Any] | None:
    """The JSON object that a text is; None for every other text."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_text(value: object) -> str | None:
    """A text of a backend's answer; None where it is no text."""
    return value if isinstance(value, str) else None


def settled(finish: Reason | None, *, by_string: bool) -> Reason | None:
    """Why generation ended, for a parser. `by_string` says that a stop string may have ended it:
    where none can have, "stop" is the model's own end (rule 26)."""
    return "eos" if finish == "stop" and not by_string else finish


def read_names(*values: object) -> tuple[str, ...]:
    """The names of checkpoints in a backend's answer: those that are texts, and say something."""
    return tuple(value for value in values if isinstance(value, str) and value)


def read_number(value: object) -> int | None:
    """A whole number of a backend's answer; None where it is no number."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if is_number and math.isfinite(value) else None  # type: ignore[call-overload, arg-type]


# No number has more, and Python reads none of thousands.
_MOST_DIGITS = 20


def read_digits(value: object) -> int | None:
    """The same where some servers write its digits as text."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < _MOST_DIGITS else None
    return read_number(value)
