"""The tokens that a prefix cache can reuse from one request of a log to the next, and what breaks
the prefix.

Each prompt is written once, and looked up among all that came before it. The oldest are forgotten:
time grows with the log, and memory does not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dsv4._format.dialects import Dialect
from dsv4._format.texts import RECIPE_IMAGE
from dsv4._format.tokens import IMAGE
from dsv4._images.image_source import identity
from dsv4.errors import EncodeError, short_repr
from dsv4.profiles.gateway_prompts import prompt_of
from dsv4.profiles.profile import Profile, render
from dsv4.profiles.request_changes import as_text, messages_in
from dsv4.profiles.request_facts import images
from dsv4.profiles.server_requests import Object
from dsv4.tokens.coder import common_prefix_length
from dsv4.verify.token_counts import PromptCounter

# Limits: tokens of remembered prompts, and texts whose tokens are remembered.
MOST_TOKENS = 4_000_000
REMEMBERED_TEXTS = 8_192
# The tokens at the end of a prompt that ask for an answer. They change as soon as there is an
# answer whose reasoning is not shown: a negligible loss.
HEADER = 2
# Fields of a request, besides messages and tools, that change its prompt.
_OPTIONS = (
    *("reasoning_effort", "thinking", "chat_template_kwargs", "tool_choice", "response_format"),
    "model",
)
_MESSAGE_FIELDS = ("role", "content", "reasoning_content", "reasoning", "tool_calls")
NEW = "a new conversation"
FORGOTTEN = "the server had forgotten what it could have reused"


@dataclass(frozen=True)
class CacheTurn:
    """One request of a log.

    - `tokens`: those of its prompt; `reusable`: how many of them an earlier request had already.
    - `reused`: how many were reused according to the log; None where it does not say.
    - `lost`: the tokens of the conversation's last prompt that have to be computed again.
    - `cause`: what broke the prefix, "" where nothing did; `detail` says more about it.
    - `after`: the number of the request that it was compared with.
    """

    number: int
    tokens: int
    reusable: int
    reused: int | None = None
    lost: int = 0
    cause: str = ""
    detail: str = ""
    after: int | None = None

    @property
    def forgotten(self) -> int:
        """The tokens that could have been reused and were not; 0 if at least half were reused,
        because caches keep whole blocks."""
        if self.reused is None or self.reused * 2 >= self.reusable:
            return 0
        return self.reusable - self.reused


@dataclass(frozen=True)
class _Remembered:
    """A request, and how many tokens its prompt has."""

    body: Object
    tokens: int


# A radix tree of prompts, as tokens.


class _Edge:
    """Tokens that all prompts below have in common, and the number of the last one of them."""

    __slots__ = ("below", "last", "tokens")

    def __init__(self, tokens: Sequence[Hashable], last: int) -> None:
        self.tokens, self.last = tokens, last
        self.below: dict[Hashable, _Edge] = {}


class PrefixTree:
    """Prompts that were added, each with a number that is higher than all before it.

    Tokens that prompts share are kept once. A prompt is looked up and added in time that grows with
    its length, however many there are.
    """

    def __init__(self) -> None:
        self._root = _Edge((), 0)

    def add(
        self, tokens: Sequence[Hashable], number: int, oldest: int = 0
    ) -> tuple[int, int | None]:
        """Adds a prompt. Returns how many of its first tokens an earlier prompt also begins with,
        and the number of the last such prompt; None where there is none. Prompts before the
        `oldest` do not count."""
        edge, at = self._root, 0
        before: int | None = None
        while at < len(tokens):
            child = edge.below.get(tokens[at])
            if child is None or child.last < oldest:
                edge.below[tokens[at]] = _Edge(tokens[at:], number)
                break
            same = common_prefix_length(child.tokens, tokens[at : at + len(child.tokens)])
            before, at = child.last, at + same
            if same < len(child.tokens):
                child = _split(edge, child, same)
            child.last = number
            edge = child
        return at, before

    def forget(self, oldest: int) -> None:
        """Removes the tokens that only prompts before this number have."""
        edges = [self._root]
        while edges:
            edge = edges.pop()
            edge.below = {key: each for key, each in edge.below.items() if each.last >= oldest}
            edges += edge.below.values()


def _split(above: _Edge, edge: _Edge, at: int) -> _Edge:
    """The first part of an edge, with the rest of it below."""
    first = _Edge(edge.tokens[:at], edge.last)
    above.below[first.tokens[0]] = first
    edge.tokens = edge.tokens[at:]
    first.below[edge.tokens[0]] = edge
    return first


# The requests of a log.


class CacheForecast:
    """Requests of a log, one after the other, on one server.

    `profile` writes the prompts, in the model's `dialect`. Each request is compared with the last
    one of those that share most with it.
    """

    def __init__(
        self, profile: Profile, dialect: str = "v4", counter: PromptCounter | None = None
    ) -> None:
        self._profile, self._dialect = profile, dialect
        self._counter = counter or PromptCounter()
        self._run_tokens = lru_cache(REMEMBERED_TEXTS)(self._new_run_tokens)
        self._tree = PrefixTree()
        self._requests: OrderedDict[int, _Remembered] = OrderedDict()
        self._number = self._remembered = self._forgotten = 0

    def add(self, body: Object, reused: int | None = None) -> CacheTurn:
        """The forecast for the next request, a Chat `body`; `reused` is the number in the log.

        Raises `EncodeError` where the server would refuse it.
        """
        tokens = self._tokens(render(body, self._profile, dialect=self._dialect), body)
        self._number += 1
        oldest = next(iter(self._requests), 0)
        shared, before = self._tree.add(tokens, self._number, oldest)
        turn = CacheTurn(self._number, len(tokens), 0, reused)
        if before is not None:
            turn = self._turn(body, len(tokens), before, shared, reused)
        self._remember(_Remembered(body, len(tokens)))
        return turn

    def _tokens(self, prompt: str, body: Object) -> Sequence[Hashable]:
        release = self._profile.release(self._profile.own_dialect(self._dialect))
        pictures = _pictures(body, release)
        if pictures:  # as some servers write an image
            prompt = prompt.replace(RECIPE_IMAGE, IMAGE)
        tokens: list[Hashable] = []
        for run in self._counter.runs(prompt, release):
            tokens += pictures.pop(0) if run == IMAGE and pictures else self._run_tokens(run)
        return tuple(tokens)

    def _new_run_tokens(self, run: str) -> Sequence[Hashable]:
        """The ids of a text or of a special token; a token without an id stands for itself."""
        return tuple(run if id is None else id for id in self._counter.run_ids(run))

    def _remember(self, request: _Remembered) -> None:
        self._requests[self._number] = request
        self._remembered += request.tokens
        while self._remembered > MOST_TOKENS and len(self._requests) > 1:
            _, oldest = self._requests.popitem(last=False)
            self._remembered -= oldest.tokens
            self._forgotten += 1
        if self._forgotten > len(self._requests):
            self._tree.forget(next(iter(self._requests)))
            self._forgotten = 0

    def _turn(
        self, body: Object, tokens: int, number: int, shared: int, reused: int | None
    ) -> CacheTurn:
        before = self._requests[number]
        turn = CacheTurn(self._number, tokens, shared, reused, after=number)
        if shared < before.tokens and _is_new(before.body, body):
            return replace(turn, cause=NEW)
        lost = before.tokens - shared
        if lost <= HEADER:
            return turn
        cause, detail = _cause(before.body, body)
        return replace(turn, lost=lost, cause=cause, detail=detail)


def _pictures(body: Object, release: Dialect) -> list[Sequence[Hashable]]:
    """For each image of a prompt, in its order: the identity of the picture, once for each token.

    The image token is the same for all pictures, so the pictures themselves are compared.
    """
    if release.image_rule is None or images(body) is None:
        return []
    try:
        prompt = prompt_of(body, release)
    except EncodeError:  # the server takes what dsv4 does not
        return []
    grids = zip(prompt.images, prompt.image_grids, strict=True)
    return [(identity(record),) * (grid.tokens if grid else 1) for record, grid in grids]


# Causes of a broken prefix, as far as the requests show them.


def _is_new(old: Object, new: Object) -> bool:
    """Whether two requests belong to two conversations: their first questions differ."""
    return bool(_question(old) != _question(new))


def _question(body: Object) -> Any:
    return next((m.get("content") for m in messages_in(body) if m.get("role") == "user"), None)


def _cause(old: Object, new: Object) -> tuple[str, str]:
    """The first part that differs, in the order in which prompts have them."""
    if (old.get("tools") or []) != (new.get("tools") or []):
        return "the tools differ", _tools_detail(old.get("tools"), new.get("tools"))
    for name in _OPTIONS:
        if old.get(name) != new.get(name):
            was, now = short_repr(old.get(name)), short_repr(new.get(name))
            return f"`{name}` differs", f"was {was}, is {now}"
    return _message_cause(messages_in(old), messages_in(new))


def _tools_detail(old: Any, new: Any) -> str:
    was, now = _tool_names(old), _tool_names(new)
    if sorted(was) == sorted(now):
        return "in another order" if was != now else "the same names, with other schemas"
    added, removed = sorted(set(now) - set(was)), sorted(set(was) - set(now))
    parts = [f"added {', '.join(added)}"] if added else []
    return "; ".join([*parts, *([f"removed {', '.join(removed)}"] if removed else [])])


def _tool_names(tools: Any) -> list[str]:
    listed = tools if isinstance(tools, list) else []
    functions = [each.get("function") for each in listed if isinstance(each, dict)]
    return [str(each.get("name")) for each in functions if isinstance(each, dict)]


def _message_cause(old: Sequence[Object], new: Sequence[Object]) -> tuple[str, str]:
    for index, (was, now) in enumerate(zip(old, new, strict=False)):
        if was == now:
            continue
        if now in old[index + 1 :]:
            return "earlier messages were left out", f"from messages[{index}] on"
        return _rewritten(index, was, now)
    if len(new) < len(old):
        return "the conversation was cut back", f"from {len(old)} messages to {len(new)}"
    added = new[len(old) :]
    if added and added[0].get("role") != "assistant":
        return "another message came where an answer was asked for", f"messages[{len(old)}]"
    return "the server writes earlier turns otherwise once others follow", ""


def _rewritten(index: int, was: Object, now: Object) -> tuple[str, str]:
    role = str(was.get("role"))
    field = next((name for name in _MESSAGE_FIELDS if was.get(name) != now.get(name)), "")
    where = f"messages[{index}]{'.' * bool(field)}{field}"
    if field in ("reasoning_content", "reasoning") and not now.get(field):
        return "reasoning was taken out of an earlier answer", where
    at = common_prefix_length(as_text(was.get(field)), as_text(now.get(field)))
    what = "the system text" if role == "system" else f"an earlier message ({role})"
    return f"{what} was rewritten", f"{where}, after {at:,} characters"


@dataclass(frozen=True)
class LostByCause:
    """The cost of one cause: in how many requests, and how many tokens."""

    cause: str
    requests: int
    tokens: int


class CacheSummary:
    """The tokens that a whole log could reuse, and those it lost, worst causes first."""

    def __init__(self) -> None:
        self.requests = self.tokens = self.reusable = self.reused = self.reported = 0
        self._lost: dict[str, tuple[int, int]] = {}

    def add(self, turn: CacheTurn) -> None:
        """Adds one request."""
        self.requests += 1
        self.tokens += turn.tokens
        self.reusable += turn.reusable
        if turn.reused is not None:
            self.reported += 1
            self.reused += turn.reused
        for cause, tokens in ((turn.cause, turn.lost), (FORGOTTEN, turn.forgotten)):
            if tokens:
                requests, before = self._lost.get(cause, (0, 0))
                self._lost[cause] = requests + 1, before + tokens

    @property
    def lost(self) -> list[LostByCause]:
        """The losses by cause, the most expensive first."""
        losses = [LostByCause(cause, *costs) for cause, costs in self._lost.items()]
        return sorted(losses, key=lambda each: (-each.tokens, each.cause))
