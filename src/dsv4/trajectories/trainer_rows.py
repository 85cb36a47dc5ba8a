"""Trajectories in the fields of trainers: TRL's `rollout_func`, verl's `AgentLoopOutput`, SkyRL's
`GeneratorOutput`.

In each, the prompt is everything before the first sampled token. The rest has a mask that is 0
where the model did not write. A session of several sequences becomes several rows, which say so. A
session that ended at a limit stays in its group, marked, even if nothing of it is trained on:
otherwise the mean reward of a group would leave out the sessions that did not end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeAlias

from dsv4.trajectories.routed_experts import RoutedExperts

RowFormat: TypeAlias = Literal["rows", "trl", "verl", "skyrl"]
Row: TypeAlias = dict[str, Any]
# The fields of a session besides its trajectories.
_OF_SESSION = ("group", "metadata", "reward", "reward_metadata", "closed", "complete")


def rows_of(
    session: Mapping[str, Any], format: RowFormat = "rows"
) -> tuple[list[Row], Counter[str]]:
    """The rows of a session.

    `session` is the answer of `GET /sessions/{id}/trajectories`, `format` the trainer's name, or
    "rows" for all fields. Returns the rows, and the count of what was left out, by the reason.
    """
    made = session_rows(session, format)
    return made.rows, made.left_out


class TokenBalance(NamedTuple):
    """An account of the tokens that were `sampled`: those that are trained on in rows that were
    `written`, and those that were `left_out`, by the reason."""

    sampled: int
    written: int
    left_out: Counter[str]

    @property
    def missing(self) -> int:
        """The number of tokens without an account."""
        return self.sampled - self.written - self.left_out.total()


class SessionRows(NamedTuple):
    """The rows of a session, the trajectories that were `left_out`, by the reason, and an account
    of all sampled tokens."""

    rows: list[Row]
    left_out: Counter[str]
    balance: TokenBalance


def session_rows(session: Mapping[str, Any], format: RowFormat) -> SessionRows:
    """The rows of a session, and an account of the tokens that are not in them."""
    if format == "rows":
        session_fields = {
            "session": session["id"],
            **{name: session.get(name) for name in _OF_SESSION},
        }
        rows = [{**session_fields, **each} for each in session["trajectories"]]
        return SessionRows(rows, Counter(), _balance(session, session["trajectories"], []))
    usable, left = _usable(session)
    if format in _NEED_REWARD and session["reward"] is None:
        left += [("no reward", one.source) for one in usable]
        usable = []
    if format in _NEED_LOGPROBS:
        unknown = "log-probabilities are missing"
        left += [(unknown, one.source) for one in usable if one.logprobs is None]
        usable = [one for one in usable if one.logprobs is not None]
    rows = [_ROWS[format](session, usable, n) for n in range(len(usable))]
    balance = _balance(session, [one.source for one in usable], left)
    return SessionRows(rows, Counter(reason for reason, _ in left), balance)


# Trajectories that are not written, each with the reason.
_LeftOut: TypeAlias = list[tuple[str, Mapping[str, Any]]]


def _balance(
    session: Mapping[str, Any], written: Iterable[Mapping[str, Any]], left: _LeftOut
) -> TokenBalance:
    """Accounts for each call: its tokens are trained on in one of the rows, or there is a reason
    why not."""
    tokens: dict[str, int] = {}
    reasons: dict[str, str] = {}
    trained: set[str] = set()
    for reason, one in (*(("", one) for one in written), *left):
        for turn in one["turns"]:
            call = turn["call"]
            tokens[call] = sum(end - start for start, end in turn["sampled"])
            if turn["trained"] and not reason:
                trained.add(call)
            elif turn["trained"]:
                reasons[call] = reason
            else:
                reasons.setdefault(call, _why_not_trained(turn))
    left_out = Counter({"damaged": session.get("damaged_tokens", 0)})
    for call in tokens.keys() - trained:
        left_out[reasons[call]] += tokens[call]
    written_tokens = sum(tokens[call] for call in trained)
    return TokenBalance(session["sampled_tokens"], written_tokens, +left_out)


def _why_not_trained(turn: Mapping[str, Any]) -> str:
    if turn["state"] != "finished":
        return str(turn["state"])
    return "trained in another row" if turn["delivered"] else "undelivered"


def batch_of(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Rows as TRL and SkyRL take them: the `rows` of a batch as a list for each field."""
    listed = list(rows)
    return {name: [row[name] for row in listed] for name in (listed[0] if listed else ())}


class _Parted(NamedTuple):
    """A trajectory cut at its first sampled token."""

    prompt: list[int]
    response: list[int]
    mask: list[int]
    logprobs: list[float] | None  # None if one of them is unknown
    turns: Sequence[Mapping[str, Any]]
    source: Mapping[str, Any]

    @property
    def experts(self) -> list[list[list[int]]] | None:
        """The experts of all tokens except the last, as lists by layer."""
        packed = self.source.get("routed_experts")
        return None if packed is None else RoutedExperts.from_json(packed).lists()

    @property
    def padded_experts(self) -> list[list[list[int]]] | None:
        """The same, with zeros for the last token, which no call has read."""
        rows = self.experts
        return rows and [*rows, [[0] * len(layer) for layer in rows[-1]]]

    @property
    def is_truncated(self) -> bool:
        """Whether it ended at a limit."""
        return bool(self.turns) and self.turns[-1]["state"] == "cut"


def _parted(one: Mapping[str, Any]) -> _Parted:
    ids, mask, logprobs = one["input_ids"], one["loss_mask"], one["logprobs"]
    sampled = [span[0] for turn in one["turns"] for span in turn["sampled"]]
    at = min(sampled, default=len(ids))
    unknown = any(on and value is None for on, value in zip(mask, logprobs, strict=True))
    # Masked tokens count as certain: a null would make the whole loss not a number.
    values = [0.0 if value is None else value for value in logprobs[at:]]
    return _Parted(ids[:at], ids[at:], mask[at:], None if unknown else values, one["turns"], one)


def _usable(session: Mapping[str, Any]) -> tuple[list[_Parted], _LeftOut]:
    """The trajectories that train something or ended at a limit, by the time of their last call."""
    left: _LeftOut = []
    usable: list[_Parted] = []
    for one in session["trajectories"]:
        expanded = _expanded(one)
        if expanded is None:
            left.append(("images of unknown size", one))
            continue
        parted = _parted(expanded)
        if any(parted.mask) or (parted.is_truncated and parted.response):
            usable.append(parted)
        else:
            left.append(("nothing to train on", one))
    usable.sort(key=lambda p: p.turns[-1].get("started") or 0)
    return usable, left


def _expanded(one: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A trajectory in which each image has all of its tokens, as the model saw it; None if the size
    of an image is unknown."""
    images = one.get("images") or ()
    if any(image["tokens"] is None for image in images):
        return None
    if not images:
        return one
    times = [1] * len(one["input_ids"])
    for image in images:
        times[image["at"]] = image["tokens"]
    places = list(accumulate(times, initial=0))

    def moved(span: Sequence[int]) -> list[int]:
        return [places[at] for at in span]

    lists = ("input_ids", "loss_mask", "logprobs")
    repeated = {
        name: [value for value, n in zip(one[name], times, strict=True) for _ in range(n)]
        for name in lists
    }
    turns = [
        {**turn, "prompt": moved(turn["prompt"]), "sampled": [moved(s) for s in turn["sampled"]]}
        for turn in one["turns"]
    ]
    weights = [
        {**run, "start": places[run["start"]], "end": places[run["end"]]} for run in one["weights"]
    ]
    moved_images = [{**image, "at": places[image["at"]]} for image in images]
    return {**one, **repeated, "turns": turns, "weights": weights, "images": moved_images}


def _place(session: Mapping[str, Any], parted: Sequence[_Parted], n: int) -> Row:
    """The fields that tell where a sequence belongs, and whether it ended at a limit."""
    return {
        "session": session["id"],
        "group": session["group"],
        "sequence": n,
        "sequences": len(parted),
        "truncated": parted[n].is_truncated,
        # Trainers take `images` for pictures.
        "image_places": list(parted[n].source.get("images") or ()),
    }


def _trl_row(session: Mapping[str, Any], usable: Sequence[_Parted], n: int) -> Row:
    one = usable[n]
    return {
        "prompt_ids": one.prompt,
        "completion_ids": one.response,
        "logprobs": one.logprobs,
        "env_mask": one.mask,
        # Other fields are passed to the reward functions.
        "reward": session["reward"],
        **_place(session, usable, n),
    }


def _verl_row(session: Mapping[str, Any], usable: Sequence[_Parted], n: int) -> Row:
    one = usable[n]
    return {
        "prompt_ids": one.prompt,
        "response_ids": one.response,
        "response_mask": one.mask,
        "response_logprobs": one.logprobs,
        "reward_score": session["reward"],
        # Each call is a turn of the user's or the tools', and one of the model's.
        "num_turns": 2 * len(one.turns),
        "metrics": {"generate_sequences": _seconds(one.turns)},
        "routed_experts": one.experts,
        "extra_fields": {
            **_place(session, usable, n),
            **_global_steps(one.source["weights"]),
            "metadata": session.get("metadata"),
            "weights": one.source["weights"],
            "exact": one.source["exact"],
        },
    }


def _skyrl_row(session: Mapping[str, Any], usable: Sequence[_Parted], n: int) -> Row:
    one = usable[n]
    return {
        "prompt_token_ids": one.prompt,
        "response_ids": one.response,
        "rewards": _rewards(one, session["reward"]),
        "loss_masks": one.mask,
        "stop_reasons": "length" if one.is_truncated else "stop",
        "rollout_logprobs": one.logprobs,
        "rollout_expert_indices": one.padded_experts,
        "trajectory_ids": {
            "instance_id": session["group"] or session["id"],
            "repetition_id": session.get("number", 0),
        },
        "is_last_step": n == len(usable) - 1,
    }


def _rewards(parted: _Parted, reward: float) -> float | list[float]:
    """The reward of the whole. If turns have their own, a list with each at the last token of its
    turn, and that of the whole at the end."""
    if not any("reward" in turn for turn in parted.turns):
        return reward
    by_token = [0.0] * len(parted.response)
    for turn in parted.turns:
        if turn.get("reward") is not None and turn["sampled"]:
            by_token[turn["sampled"][-1][1] - 1 - len(parted.prompt)] += turn["reward"]
    by_token[-1] += reward
    return by_token


def _global_steps(weights: Sequence[Mapping[str, Any]]) -> Row:
    """The least and the greatest version of the weights, under verl's names, if all are steps."""
    try:
        steps = [int(run["version"]) for run in weights]
    except (TypeError, ValueError):  # other names for weights, or none
        steps = []
    if not steps:
        return {}
    return {"min_global_steps": min(steps), "max_global_steps": max(steps)}


def _seconds(turns: Sequence[Mapping[str, Any]]) -> float:
    times = [(turn.get("started"), turn.get("ended")) for turn in turns]
    spans = [(start, end) for start, end in times if start is not None and end is not None]
    seconds: float = sum(max(end - start, 0.0) for start, end in spans)
    return round(seconds, 3)


_ROWS: dict[str, Callable[[Mapping[str, Any], Sequence[_Parted], int], Row]] = {
    "trl": _trl_row,
    "verl": _verl_row,
    "skyrl": _skyrl_row,
}
# Trainers that need log-probabilities, or a reward, in every row.
_NEED_LOGPROBS = ("trl", "skyrl")
_NEED_REWARD = ("skyrl",)
ROW_FORMATS: tuple[str, ...] = ("rows", *_ROWS)
