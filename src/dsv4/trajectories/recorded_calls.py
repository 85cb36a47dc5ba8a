"""A call of a session, as the gateway records it: the ids that the model was given, those that it
sampled, and how the call ended.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from dsv4.trajectories.routed_experts import RoutedExperts

# The end of a call: by itself; at a limit; because the client left, or the backend failed; or it
# has not ended, because it is running or the gateway was killed.
CallState: TypeAlias = Literal["finished", "cut", "left", "failed", "unfinished"]

# A trainer's name for the weights: any text or number.
WeightsVersion: TypeAlias = str | int | float | None


class WeightsSpan(NamedTuple):
    """The version of the weights that sampled the tokens from `start` to `end`, counted from the
    first that was sampled."""

    version: WeightsVersion
    start: int
    end: int


# The version of tokens that were sampled either before or after a change: it is unknown which.
MIXED = "mixed"


class WeightsChange(NamedTuple):
    """A change of the weights to another version, at a moment."""

    at: float
    version: WeightsVersion


class TokenArrivals(NamedTuple):
    """The times at which a call began and each of its sampled tokens came; tokens of one piece
    came together."""

    began: float
    times: Sequence[float]

    def spans(
        self, version: WeightsVersion, changes: Iterable[WeightsChange]
    ) -> tuple[WeightsSpan, ...]:
        """The versions of the tokens of a call that began with `version`. A token that came by
        itself after a change was sampled after it; for several that came together this is
        unknown."""
        spans: list[WeightsSpan] = []
        times, start = self.times, 0
        for at, following in changes:
            first = bisect_left(times, at)
            low = max(first, start)
            high = bisect_right(times, times[first]) if first < len(times) else low
            if version == following or high <= low:
                spans.append(WeightsSpan(version, start, low))
                start = low
            else:
                middle = high if high - low > 1 else low
                spans += (WeightsSpan(version, start, low), WeightsSpan(MIXED, low, middle))
                start = middle
            version = following
        spans.append(WeightsSpan(version, start, len(times)))
        return tuple(span for span in spans if span.start < span.end)


# The number of bytes of an id in memory and in a store.
ID_BYTES = array("I").itemsize


# Ids from here on stand for pictures, as no vocabulary has so many. So two sequences that differ in
# a picture differ in an id, though the model's placeholder is the same.
FIRST_PICTURE = 1 << 31


def picture_id(name: str) -> int:
    """The id of a picture by its name: the hash of its bytes, or its address."""
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=4).digest()
    return FIRST_PICTURE | int.from_bytes(digest, "big") >> 1


class RecordedPicture(NamedTuple):
    """A picture in a prompt: its `name`, the model's `placeholder` for it, and its size and tokens
    if they are known. `data` are its bytes, which are kept once."""

    name: str
    placeholder: int
    width: int | None = None
    height: int | None = None
    tokens: int | None = None
    data: bytes | None = None

    def to_json(self) -> dict[str, Any]:
        """The picture as a value for JSON, without its bytes."""
        return {name: getattr(self, name) for name in ("name", "width", "height", "tokens")}


class TokenRun(NamedTuple):
    """Consecutive ids of the same origin.

    `sampled` says that the engine chose them; otherwise they were written for it, such as the
    opening of a forced call. `logprobs` has one number for each sampled id, or None if the engine
    gave none; it is None for ids that were written.
    """

    ids: Sequence[int]
    sampled: bool
    logprobs: Sequence[float | None] | None = None


class PromptBase(NamedTuple):
    """The ids that a prompt begins with: the first `length` of those of `call`, an earlier call's
    prompt and what followed it."""

    call: str
    length: int


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One completion of one call. A call with several choices is recorded once for each.

    - `id`, `number`: its name, and its place in the order in which the session's calls began.
    - `prompt`, `base`: the prompt's ids, or if there is a `base`, those that come after it.
    - `pictures`: those in the prompt, which has a `picture_id` for each.
    - `runs`: the ids after the prompt: those that were sampled and those that were written.
    - `state`, `delivered`: how it ended, and whether the client got all of it.
    - `problem`: why it is not exact; empty if all ids and log-probabilities are known.
    - `weights`: the version of the weights at its start and at its end.
    - `spans`: the versions of the weights that sampled its tokens: as the engine says, or by when
      the tokens came.
    - `arrivals`: when they came. A store turns it into spans, and does not keep it.
    - `experts`: those that were chosen for its tokens, if the session asked for them.
    - `digest`: that of the whole prompt, by `new_digest`; None if it was not recorded.
    - `end_number`: its place in the order in which the session's calls ended; None if it has not
      ended, or an older release recorded it.
    - `details`: all other values, as in JSON: `protocol`, `model`, `sampling`, `finish`,
      `started`, `first`, `ended`, `logprobs` (their kind), `repairs`, `message`, `reward`.
    """

    id: str
    number: int
    prompt: Sequence[int]
    runs: tuple[TokenRun, ...] = ()
    base: PromptBase | None = None
    state: CallState = "finished"
    delivered: bool = True
    problem: str = ""
    weights: tuple[WeightsVersion, WeightsVersion] = (None, None)
    spans: tuple[WeightsSpan, ...] = ()
    arrivals: TokenArrivals | None = None
    experts: RoutedExperts | None = None
    digest: str | None = None
    pictures: tuple[RecordedPicture, ...] = ()
    end_number: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def begun(cls, id: str, number: int, weights: WeightsVersion, started: float) -> RecordedCall:
        """A call that has begun: its `id`, its `number` in the session, the `weights` it began
        with, and when it `started`."""
        return cls(
            *(id, number, (), (), None, "unfinished", False),
            weights=(weights, weights),
            details={"started": started},
        )

    @property
    def sampled(self) -> int:
        """The number of sampled tokens."""
        return sum(len(run.ids) for run in self.runs if run.sampled)

    @property
    def is_whole(self) -> bool:
        """Whether it ended by itself, and the client got it."""
        return self.state == "finished" and self.delivered

    def with_changes(self, changes: Sequence[WeightsChange]) -> RecordedCall:
        """The call with the `changes` of the weights since it began."""
        first = self.weights[0]
        spans = self.spans
        if changes and self.arrivals is not None:
            spans = spans or self.arrivals.spans(first, changes)
        last = changes[-1].version if changes else first
        return replace(self, weights=(first, last), spans=spans, arrivals=None)


def packed_ids(ids: Iterable[int]) -> bytes:
    """Ids as bytes, `ID_BYTES` for each."""
    return (ids if isinstance(ids, array) else array("I", ids)).tobytes()


def unpacked_ids(data: bytes) -> array[int]:
    """The ids of `packed_ids`."""
    ids = array("I")
    ids.frombytes(data)
    return ids


def new_digest() -> hashlib.blake2b:
    """The digest that identifies a prompt; its packed ids are to be added to it."""
    return hashlib.blake2b(digest_size=16)


class SessionSeal(NamedTuple):
    """The fingerprint of a closed session: how many tokens were `sampled` in it, and the `sha256`
    of their ids, 4 bytes each with the lowest first, in the order in which calls ended."""

    sampled: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """The seal as a value for JSON."""
        return {"sampled_tokens": self.sampled, "sha256": self.sha256}


def seal_of(calls: Iterable[RecordedCall]) -> SessionSeal | None:
    """The seal of a session with these calls; None if an older release recorded one of them, so
    that it is unknown when it ended."""
    ended = [call for call in calls if call.state != "unfinished"]
    digest, sampled = hashlib.sha256(), 0
    if any(call.end_number is None for call in ended):
        return None
    for call in sorted(ended, key=lambda call: call.end_number or 0):
        for run in call.runs:
            if run.sampled:
                digest.update(_little_endian(run.ids))
                sampled += len(run.ids)
    return SessionSeal(sampled, digest.hexdigest())


def _little_endian(ids: Iterable[int]) -> bytes:
    values = array("I", ids)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


# The form in a store: a head in JSON, and the numbers as bytes, which take a tenth of the time.


class PackedCall(NamedTuple):
    """A call as a store keeps it: `numbers` are log-probabilities, followed by the experts."""

    head: str
    ids: bytes
    numbers: bytes


def pack_call(call: RecordedCall) -> PackedCall:
    """A call for a store."""
    head: dict[str, Any] = {
        "prompt": len(call.prompt),
        "runs": [[len(run.ids), run.sampled, run.logprobs is not None] for run in call.runs],
        **{name: getattr(call, name) for name in ("base", "weights", *_AS_IN_HEAD)},
    }
    if call.spans:
        head["spans"] = call.spans
    if call.pictures:
        head["pictures"] = [picture._replace(data=None) for picture in call.pictures]
    experts = b""
    if call.experts is not None:
        layers, per_token, size, experts, start = call.experts
        head["experts"] = [layers, per_token, size, start]
    ids = packed_ids(call.prompt) + b"".join(packed_ids(run.ids) for run in call.runs)
    logprobs = array("d")
    for run in call.runs:
        logprobs.extend(math.nan if v is None else v for v in run.logprobs or ())
    return PackedCall(
        json.dumps(head, ensure_ascii=False, default=str, separators=(",", ":")),
        ids,
        logprobs.tobytes() + experts,
    )


def unpack_call(
    id: str, number: int, packed: PackedCall, end_number: int | None = None
) -> RecordedCall:
    """A call from a store. Raises a `ValueError` for one that is damaged."""
    try:
        head = json.loads(packed.head)
        logprob_bytes = _LOGPROB_BYTES * sum(length for length, _, has in head["runs"] if has)
        numbers = packed.numbers[: logprob_bytes if "experts" in head else None]
        prompt, *runs = _cut(head, unpacked_ids(packed.ids), _logprobs(numbers))
        base = head["base"]
        return RecordedCall(
            *(id, number, prompt.ids, tuple(runs)),
            base=None if base is None else PromptBase(*base),
            pictures=tuple(RecordedPicture(*each) for each in head.get("pictures", ())),
            weights=tuple(head["weights"]),
            spans=tuple(WeightsSpan(*span) for span in head.get("spans", ())),
            experts=_experts(head.get("experts"), packed.numbers[logprob_bytes:]),
            end_number=end_number,
            **{name: head[name] for name in _AS_IN_HEAD},
        )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{id}: found a call that cannot be read: {error!r}") from None


# The fields of a call that its head has unchanged.
_AS_IN_HEAD = ("state", "delivered", "problem", "digest", "details")
_LOGPROB_BYTES = array("d").itemsize


def _experts(shape: Sequence[int] | None, data: bytes) -> RoutedExperts | None:
    if shape is None:
        return None
    layers, per_token, size, start = shape
    experts = RoutedExperts(layers, per_token, size, data, start)
    if (experts.end - start) * experts.width != len(data):
        raise ValueError(f"found {len(data)} bytes of experts, expected whole rows")
    return experts


def _cut(head: dict[str, Any], ids: array[int], logprobs: list[float | None]) -> list[TokenRun]:
    runs, at, logprob = [], 0, 0
    for length, sampled, has_logprobs in [[head["prompt"], False, False], *head["runs"]]:
        values = logprobs[logprob : logprob + length] if has_logprobs else None
        runs.append(TokenRun(ids[at : at + length], sampled, values))
        at, logprob = at + length, logprob + (length if has_logprobs else 0)
    if at != len(ids) or logprob != len(logprobs):
        raise ValueError(f"found {len(ids)} ids, expected {at}")
    return runs


def _logprobs(data: bytes) -> list[float | None]:
    values = array("d")
    values.frombytes(data)
    return [None if math.isnan(value) else value for value in values]
