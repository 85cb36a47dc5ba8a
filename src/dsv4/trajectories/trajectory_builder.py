"""Builds the trajectories of a session from its calls: calls are joined only where their ids prove
that one continues the other.

All sequences of a session are put into one tree of ids. A call whose prompt reaches the end of an
earlier call's sequence continues that call. Every id is looked at once, however many calls have it
in their prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from dsv4.errors import OptionError, mismatch
from dsv4.tokens.coder import common_prefix_length
from dsv4.trajectories.recorded_calls import (
    FIRST_PICTURE,
    ID_BYTES,
    MIXED,
    CallState,
    RecordedCall,
    RecordedPicture,
    WeightsSpan,
    WeightsVersion,
    new_digest,
    packed_ids,
    picture_id,
    unpacked_ids,
)
from dsv4.trajectories.routed_experts import RoutedExperts, joined_experts


class SessionNote(NamedTuple):
    """A remark on a session: `kind` is one of those in docs/trajectories.md, `call` the call that
    it is about, if any, and `message` has the words."""

    kind: str
    call: str | None
    message: str


class BreakCause(NamedTuple):
    """The reason why a prompt does not continue an earlier sequence: a `kind` of note, and text."""

    kind: str
    message: str


# The kind of a break after which an earlier conversation continues without its first messages.
COMPACTED = "compacted"

# Gets the ids of a sequence and those of a prompt that leaves it.
ExplainBreak: TypeAlias = Callable[[Sequence[int], Sequence[int]], BreakCause | None]


@dataclass(frozen=True, slots=True)
class TrajectoryTurn:
    """The place of a call in a trajectory.

    `prompt` is the range of ids that its prompt added, `sampled` are the ranges that the engine
    chose; `trained` says whether these count in the loss of this trajectory.
    """

    call: str
    prompt: tuple[int, int]
    sampled: tuple[tuple[int, int], ...]
    trained: bool
    state: CallState
    delivered: bool
    details: Mapping[str, Any]

    def with_reward(self, reward: float) -> TrajectoryTurn:
        """The turn with its `reward`."""
        return replace(self, details={**self.details, "reward": reward})

    def to_json(self) -> dict[str, Any]:
        """The turn as a value for JSON."""
        return {
            **{name: getattr(self, name) for name in ("call", "trained", "state", "delivered")},
            "prompt": list(self.prompt),
            "sampled": [list(span) for span in self.sampled],
            **self.details,
        }


class WeightsRun(NamedTuple):
    """The version of the weights that sampled the tokens between `start` and `end`."""

    version: WeightsVersion
    start: int
    end: int


@dataclass(slots=True)
class Trajectory:
    """One sequence that the model saw: from the first prompt to the last sampled token.

    `loss_mask` is 1 where the engine sampled the token in this session and it is to be trained on;
    `logprobs` has the log-probability of each sampled token, None elsewhere. `exact` says whether
    all of it is known for certain. `experts` are those of all tokens except the last, which no call
    has read; None if they were not requested, or if those of a token are missing. `images` are the
    pictures in it, by their places: each is one id, the placeholder that engines replace.
    """

    input_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    turns: list[TrajectoryTurn] = field(default_factory=list)
    weights: list[WeightsRun] = field(default_factory=list)
    exact: bool = True
    experts: RoutedExperts | None = None
    images: dict[int, RecordedPicture] = field(default_factory=dict)

    @property
    def trained(self) -> int:
        """The number of its tokens that count in the loss."""
        return sum(self.loss_mask)

    def to_json(self) -> dict[str, Any]:
        """The trajectory as a value for JSON."""
        return {
            "input_ids": self.input_ids,
            "loss_mask": self.loss_mask,
            "logprobs": self.logprobs,
            "turns": [turn.to_json() for turn in self.turns],
            "weights": [run._asdict() for run in self.weights],
            "exact": self.exact,
            "routed_experts": None if self.experts is None else self.experts.to_json(),
            "images": [{"at": at, **image.to_json()} for at, image in self.images.items()],
        }


_COUNTS = ("exact", "complete", "calls", "sampled_tokens", "damaged_tokens")


@dataclass(slots=True)
class BuiltSession:
    """The trajectories that were built from the calls of a session, with notes and counts."""

    trajectories: list[Trajectory] = field(default_factory=list)
    notes: list[SessionNote] = field(default_factory=list)
    calls: int = 0
    sampled_tokens: int = 0
    damaged_tokens: int = 0
    exact: bool = True
    complete: bool = True

    def to_json(self) -> dict[str, Any]:
        """The session as a value for JSON."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "trajectories": [trajectory.to_json() for trajectory in self.trajectories],
            "notes": [note._asdict() for note in self.notes],
        }


def build(
    calls: Iterable[RecordedCall],
    *,
    shared: Literal["once", "all"] = "once",
    include: Collection[str] = (),
    explain: ExplainBreak | None = None,
) -> BuiltSession:
    """The trajectories of a session.

    `calls` may come in any order. If several trajectories share sampled tokens, `shared` says
    whether these are trained on "once", in the longest one, or in "all". `include` names calls that
    otherwise do not count in the loss: "cut", "left", "failed", "undelivered". `explain` says why a
    prompt does not continue the one before it. Returns the trajectories, in the order of their
    first calls. Raises an `OptionError` for an option that is wrong.
    """
    if shared not in ("once", "all"):
        raise OptionError("shared", mismatch(shared, "once or all"))
    for name in include:
        if name not in _EXCLUDED:
            expected = ", ".join(_EXCLUDED)
            raise OptionError("include", mismatch(name, expected))
    return _Builder(frozenset(include), explain).built(calls, shared)


_EXCLUDED = ("cut", "left", "failed", "undelivered")


# The tree.


class _Node:
    """A place in the tree: all ids from the root to here belong to some call.

    `edge` are the packed ids between its parent and itself. `owner` is the first call that has
    them, and `ends` are the calls whose sequences end here: both are set when a call is placed.
    """

    __slots__ = ("children", "depth", "edge", "ends", "owner", "parent")

    def __init__(self, edge: bytes, parent: _Node | None) -> None:
        self.edge = edge
        self.parent = parent
        self.owner: _CallNode | None = None
        self.depth: int = len(edge) // ID_BYTES + (parent.depth if parent else 0)
        self.children: dict[bytes, _Node] = {}
        self.ends: list[_CallNode] = []

    def add_child(self, edge: bytes) -> _Node:
        child = self.children[edge[:ID_BYTES]] = _Node(edge, self)
        return child

    def split(self, length: int) -> _Node:
        """A node between its parent and itself, after so many bytes of its edge."""
        assert self.parent is not None
        upper = _Node(self.edge[:length], self.parent)
        self.parent.children[self.edge[:ID_BYTES]] = upper
        self.edge, self.parent = self.edge[length:], upper
        upper.children[self.edge[:ID_BYTES]] = self
        return upper

    def ids_after(self, above: _Node | None) -> bytes:
        """The ids between a node further up and this one."""
        edges: list[bytes] = []
        node: _Node | None = self
        while node is not None and node is not above:
            edges.append(node.edge)
            node = node.parent
        return b"".join(reversed(edges))


def _descend(node: _Node, ids: bytes) -> _Node:
    """Puts ids into the tree, below a node. Returns the node where they end."""
    while ids:
        child = node.children.get(ids[:ID_BYTES])
        if child is None:
            return node.add_child(ids)
        same = common_prefix_length(child.edge, ids) // ID_BYTES * ID_BYTES
        if same < len(child.edge):
            child = child.split(same)
        node, ids = child, ids[same:]
    return node


# The forest.


class _CallNode:
    """A call in the forest."""

    __slots__ = (
        *("call", "children", "end", "end_digest", "is_trained"),
        *("parent", "prompt", "prompt_digest", "rank"),
    )

    def __init__(self, call: RecordedCall, is_trained: bool) -> None:
        self.call = call
        self.is_trained = is_trained
        self.parent: _CallNode | None = None
        self.children: list[_CallNode] = []
        self.prompt: _Node  # where its prompt ends
        self.end: _Node  # where all of it ends
        self.prompt_digest = self.end_digest = new_digest()
        # The rank of the longest path through it, and the leaf of that path.
        self.rank: tuple[tuple[int, int, int], _CallNode] = ((0, 0, 0), self)

    def take(self, node: _Node) -> _Node | None:
        """Makes this call the owner of a node and of those above it, up to the first that an
        earlier call owns. Returns the topmost new one; None if there is none."""
        newest = None
        above: _Node | None = node
        while above is not None and above.owner is None:
            above.owner, newest, above = self, above, above.parent
        return newest

    @property
    def latest(self) -> _CallNode:
        """The end of the path that its latest descendants make."""
        node = self
        while node.children:
            node = node.children[-1]
        return node

    def ranked(self) -> tuple[tuple[int, int, int], _CallNode]:
        """The best of its children's ranks, or its own if it has no children."""
        trained = self.end.depth if self.is_trained else 0
        best = max((child.rank for child in self.children), key=lambda r: r[0], default=None)
        if best is None:
            return (trained, self.end.depth, -self.call.number), self
        (below, depth, number), leaf = best
        return (max(below, trained), depth, number), leaf

    def path(self) -> list[_CallNode]:
        """The calls from the root to this one."""
        nodes: list[_CallNode] = []
        node: _CallNode | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class _ChainBreak(NamedTuple):
    """A call whose prompt differs from the ids of an older call after `depth` tokens."""

    node: _CallNode
    old: _CallNode
    depth: int


class _Builder:
    def __init__(self, include: frozenset[str], explain: ExplainBreak | None) -> None:
        self._include = include
        self._explain = explain
        self._root = _Node(b"", None)
        self._located: dict[str, _CallNode] = {}
        self._pictures: dict[int, RecordedPicture] = {}
        self._notes: list[SessionNote] = []
        self._breaks: list[_ChainBreak] = []
        self._session = BuiltSession()

    def built(self, calls: Iterable[RecordedCall], shared: str) -> BuiltSession:
        in_order = sorted(calls, key=lambda call: (call.number, call.id))
        session = self._session
        for call in in_order:
            session.calls += 1
            session.sampled_tokens += call.sampled
            self._tell_state(call)
            self._pictures |= {picture_id(each.name): each for each in call.pictures}
        # First every call is located, then it is determined which call continues which: a call that
        # began later may have ended first, and then it may be the base of the other's prompt.
        for call in _bases_first(in_order):
            if call.sampled:
                self._locate(call)
        placed = [node for call in in_order if (node := self._located.get(call.id))]
        for node in placed:
            self._place(node)
        for chain_break in self._breaks:
            self._explain_break(*chain_break)
        for node in reversed(placed):
            node.rank = node.ranked()
        leaves = [node for node in placed if not node.children]
        leaves.sort(key=lambda node: [each.call.number for each in node.path()])
        session.trajectories = [self._trajectory(leaf, shared) for leaf in leaves]
        order: dict[str | None, int] = {call.id: n for n, call in enumerate(in_order)}
        session.notes = sorted(self._notes, key=lambda note: order[note.call])
        return session

    def _trajectory(self, leaf: _CallNode, shared: str) -> Trajectory:
        trajectory = Trajectory()
        for node in leaf.path():
            is_own = shared == "all" or node.rank[1] is leaf
            _add_turn(trajectory, node, node.is_trained and is_own)
        if self._pictures:
            self._put_placeholders(trajectory)
        if any(node.call.experts is not None for node in leaf.path()):
            length = len(trajectory.input_ids) - 1
            trajectory.experts = joined_experts(self._experts(leaf), length)
            if trajectory.experts is None:
                self._note("experts_missing", leaf.call, "the experts of some tokens did not come")
        return trajectory

    def _put_placeholders(self, trajectory: Trajectory) -> None:
        """Replaces ids of pictures, which the model was not given, by its placeholders."""
        for at, id in enumerate(trajectory.input_ids):
            if id >= FIRST_PICTURE:
                trajectory.images[at] = self._pictures[id]
                trajectory.input_ids[at] = self._pictures[id].placeholder

    def _experts(self, leaf: _CallNode) -> Iterator[RoutedExperts]:
        """The parts that make up a path's experts. For each call, the parts of calls that its
        prompt begins with come first; these may be on other paths."""
        for node in leaf.path():
            parts: list[RoutedExperts] = []
            call: RecordedCall | None = node.call
            limit: int | None = None
            while call is not None and call.experts is not None:
                experts = call.experts
                end = experts.end if limit is None else min(limit, experts.end)
                if experts.width and experts.start < end:
                    parts.append(experts.between(experts.start, end))
                base = call.base if experts.start else None
                limit = None if base is None else base.length
                earlier = None if base is None else self._located.get(base.call)
                call = None if earlier is None else earlier.call
            yield from reversed(parts)

    def _note(self, kind: str, call: RecordedCall, message: str) -> None:
        self._notes.append(SessionNote(kind, call.id, message))

    def _tell_state(self, call: RecordedCall) -> None:
        if call.state != "finished":
            self._note(call.state, call, _STATES[call.state])
        elif not call.delivered:
            self._note("undelivered", call, "the client was gone before it had the whole answer")
        if call.problem:
            self._session.exact = False
            self._note("inexact", call, call.problem)
        if call.state == "unfinished":
            self._session.complete = False
        first, last = call.weights
        if call.spans:
            first, last = call.spans[0].version, call.spans[-1].version
        if first != last:
            text = f"the weights were changed from {first} to {last} while it was sampled"
            self._note("mixed_weights", call, text)

    def _is_trained(self, call: RecordedCall) -> bool:
        if call.state not in ("finished", *self._include):
            return False
        return call.delivered or call.state != "finished" or "undelivered" in self._include

    def _locate(self, call: RecordedCall) -> None:
        """Puts the ids of a call into the tree."""
        node = _CallNode(call, self._is_trained(call))
        start = self._start(call, node)
        if start is None:
            self._session.exact = self._session.complete = False
            self._session.damaged_tokens += call.sampled
            self._note("damaged", call, "its prompt cannot be read: what it goes on from is gone")
            return
        node.prompt = _descend(start, packed_ids(call.prompt))
        tail = b"".join(packed_ids(run.ids) for run in call.runs)
        node.end = _descend(node.prompt, tail)
        node.end_digest = node.prompt_digest.copy()
        node.end_digest.update(tail)
        self._located[call.id] = node

    def _place(self, node: _CallNode) -> None:
        """Puts a call below the one that it continues, which began before it."""
        node.parent = _continued(node.prompt)
        if node.parent is not None:
            node.parent.children.append(node)
        self._tell_break(node, node.take(node.prompt))
        node.take(node.end)
        node.end.ends.append(node)

    def _start(self, call: RecordedCall, node: _CallNode) -> _Node | None:
        """The node after which the rest of a prompt begins; None if its digest does not prove this.

        A record's statement about an earlier call is not trusted; only the ids are.
        """
        start: _Node | None = self._root
        digest = new_digest()
        if call.base is not None:
            base = self._located.get(call.base.call)
            start = None if base is None else _node_at(base, call.base.length)
            if base is not None and start is not None:
                state = base.end_digest if start is base.end else base.prompt_digest
                digest = state.copy()
        digest.update(packed_ids(call.prompt))
        if call.digest is not None and call.digest != digest.hexdigest():
            return None
        node.prompt_digest = digest
        return start

    def _met(self, node: _Node) -> Sequence[int]:
        """The ids up to a node, as the model saw them."""
        trajectory = Trajectory(list(unpacked_ids(node.ids_after(None))))
        self._put_placeholders(trajectory)
        return trajectory.input_ids

    def _tell_break(self, node: _CallNode, newest: _Node | None) -> None:
        """Notes why a call does not continue at the end of an earlier one. `newest` is the first
        node of its prompt that earlier calls do not have."""
        fork = None if newest is None else newest.parent
        other = None if fork is None else _first_owner(fork, node)
        if fork is None or other is None:
            is_continued = node.parent is not None and node.parent.end is node.prompt
            if newest is None and not is_continued:
                self._note("repeated", node.call, "this prompt was sent before")
            return
        if node.parent is not None and fork.depth < other.prompt.depth:
            text = f"two calls go on from {node.parent.call.id} in different ways"
            self._note("branch", node.call, text)
            return
        self._breaks.append(_ChainBreak(node, other.latest, fork.depth))

    def _explain_break(self, node: _CallNode, old: _CallNode, depth: int) -> None:
        """Notes why a call's prompt differs from the ids of another. This is done once it is known
        which calls were continued."""
        cause = None
        if self._explain is not None:
            cause = self._explain(self._met(old.end), self._met(node.prompt))
        kind, why = cause or BreakCause("rewritten", "")
        if kind == COMPACTED and _went_on(old, node):
            kind, why = "new_conversation", "the other conversation went on beside it"
        place = f"its prompt leaves the ids of {old.call.id} after {depth} tokens"
        self._note(kind, node.call, f"{place}: {why}" if why else place)


_STATES: dict[CallState, str] = {
    "cut": "the answer was cut off at its limit",
    "left": "the client left before the answer ended",
    "failed": "the backend failed before the answer ended",
    "unfinished": "it has not ended: it is running, or the gateway was stopped",
}


def _went_on(old: _CallNode, node: _CallNode) -> bool:
    """Whether an older call was continued after a node began, or was still running then. If so, the
    new call is not a shortened form of its conversation, which would have ended."""
    ended, began = old.call.details.get("ended"), node.call.details.get("started")
    is_running = ended is not None and began is not None and ended > began
    return is_running or any(child.call.number > node.call.number for child in old.children)


def _bases_first(calls: Iterable[RecordedCall]) -> Iterator[RecordedCall]:
    """Calls in their order, but each after the base of its stored prompt."""
    waiting = {call.id: call for call in calls}
    while waiting:
        chain = [waiting.pop(next(iter(waiting)))]
        while (base := chain[-1].base) is not None and base.call in waiting:
            chain.append(waiting.pop(base.call))
        yield from reversed(chain)


def _first_owner(fork: _Node, node: _CallNode) -> _CallNode | None:
    """The first call that continues from a place with other ids than a node's."""
    owners = [child.owner for child in fork.children.values()]
    others = [owner for owner in owners if owner is not None and owner is not node]
    return min(others, key=lambda other: other.call.number, default=None)


def _continued(node: _Node) -> _CallNode | None:
    """The call that a prompt which ends at a node continues: the one with the longest sequence; of
    several with the same sequence, a whole one, and of these the latest."""
    above: _Node | None = node
    while above is not None and not above.ends:
        above = above.parent
    if above is None:
        return None
    return max(above.ends, key=lambda end: (end.call.is_whole, end.call.number))


def _node_at(base: _CallNode, length: int) -> _Node | None:
    if length == base.end.depth:
        return base.end
    return base.prompt if length == base.prompt.depth else None


# A path as a trajectory.


def _add_turn(trajectory: Trajectory, node: _CallNode, is_trained: bool) -> None:
    call = node.call
    start = len(trajectory.input_ids)
    above = None if node.parent is None else node.parent.end
    _add_ids(trajectory, unpacked_ids(node.prompt.ids_after(above)), 0, None)
    prompt = (start, len(trajectory.input_ids))
    spans: list[tuple[int, int]] = []
    for run in call.runs:
        at = len(trajectory.input_ids)
        _add_ids(trajectory, run.ids, int(run.sampled and is_trained), run.logprobs)
        if run.sampled:
            spans.append((at, len(trajectory.input_ids)))
    trajectory.exact = trajectory.exact and not call.problem
    trajectory.turns.append(
        TrajectoryTurn(
            *(call.id, prompt, tuple(spans), is_trained),
            *(call.state, call.delivered, call.details),
        )
    )
    for version, begin, end in _weights_runs(call, spans):
        if trajectory.weights and trajectory.weights[-1].version == version:
            begin = trajectory.weights.pop().start
        trajectory.weights.append(WeightsRun(version, begin, end))


def _add_ids(
    trajectory: Trajectory, ids: Sequence[int], mask: int, logprobs: Sequence[float | None] | None
) -> None:
    trajectory.input_ids.extend(ids)
    trajectory.loss_mask.extend([mask] * len(ids))
    trajectory.logprobs.extend([None] * len(ids) if logprobs is None else logprobs)


def _weights_runs(call: RecordedCall, spans: Sequence[tuple[int, int]]) -> Iterator[WeightsRun]:
    """The versions of the weights that sampled a call's tokens: as the engine reports them, with
    their borders; otherwise those noted at the start and end of the call."""
    first, last = call.weights
    versions = call.spans or (WeightsSpan(MIXED if first != last else first, 0, call.sampled),)
    before = 0  # tokens that were sampled before a span
    for start, end in spans:
        for version, low, high in versions:
            begin, stop = max(low - before, 0), min(high - before, end - start)
            if begin < stop:
                yield WeightsRun(version, start + begin, start + stop)
        before += end - start
