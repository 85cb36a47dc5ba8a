"""What a prefix cache can reuse from one request of a log to the next, and what breaks it.

Each prompt is written once, compared with those of the conversations that were last seen, and then
forgotten with them: time grows with the log, and memory does not.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dsv4._format.tokens import Special
from dsv4.errors import short_repr
from dsv4.profiles.profile import Profile, render
from dsv4.profiles.request_changes import messages_in
from dsv4.profiles.server_requests import Object
from dsv4.tokens.coder import common_prefix_length
from dsv4.verify.token_counts import PromptCounter

# Conversations that take turns in one log: an agent, and those that it starts.
REMEMBERED = 24
# Texts are compared in blocks, and letter by letter only in the one that differs.
BLOCK = 4096
# The tokens at the end of a prompt that ask for an answer. They change once there is one whose
# reasoning is not shown, which is no loss to speak of.
HEADER = 2
# What a request says besides its messages and tools, and prompts show.
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

    - `tokens`: those of its prompt; `reusable`: how many an earlier request had already brought.
    - `reused`: how many the log says were; None where it does not.
    - `lost`: the tokens of the conversation's last prompt that have to be computed again.
    - `cause`: what broke the prefix, "" where nothing did; `detail` says more of it.
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
        """What could have been reused and was not. Caches keep whole blocks, so a little is."""
        if self.reused is None or self.reused * 2 >= self.reusable:
            return 0
        return self.reusable - self.reused


@dataclass(frozen=True)
class _Seen:
    """A request, and its prompt as special tokens and the texts between them. `ends` and `counts`
    are the letters and the tokens up to the end of each of these runs."""

    number: int
    body: Object
    prompt: str
    runs: Sequence[str]
    ends: Sequence[int]
    counts: Sequence[int]

    @property
    def tokens(self) -> int:
        return self.counts[-1] if self.counts else 0


_NOTHING = _Seen(0, {}, "", (), (), ())


class CacheForecast:
    """Requests of a log, one after the other, on one server.

    `profile` writes the prompts, in the model's `dialect`.
    """

    def __init__(
        self, profile: Profile, dialect: str = "v4", counter: PromptCounter | None = None
    ) -> None:
        self._profile, self._dialect = profile, dialect
        self._counter = counter or PromptCounter()
        self._seen: list[_Seen] = []
        self._number = 0

    def add(self, body: Object, reused: int | None = None) -> CacheTurn:
        """What becomes of the next request, a Chat `body`; `reused` is what the log says of it.

        Raises `EncodeError` where the server would refuse it.
        """
        self._number += 1
        prompt = render(body, self._profile, dialect=self._dialect)
        before, shared = self._nearest(prompt)
        now = self._read(body, prompt, before or _NOTHING, shared)
        if before is None:
            self._remember(now, None)
            return CacheTurn(now.number, now.tokens, 0, reused)
        turn = self._turn(before, now, shared, reused)
        self._remember(now, None if turn.cause == NEW else before)
        return turn

    def _read(self, body: Object, prompt: str, before: _Seen, shared: int) -> _Seen:
        """The request with the runs of its prompt. Those that it shares are not read again."""
        same = bisect_right(before.ends, shared)
        while same and not isinstance(before.runs[same - 1], Special):
            same -= 1  # more text may follow this one here
        runs, ends, counts = [*before.runs[:same]], [*before.ends[:same]], [*before.counts[:same]]
        at, count = (ends[-1], counts[-1]) if same else (0, 0)
        release = self._profile.release(self._profile.own_dialect(self._dialect))
        for run in self._counter.runs(prompt[at:], release):
            at, count = at + len(run), count + self._counter.tokens_of(run)
            runs.append(run)
            ends.append(at)
            counts.append(count)
        return _Seen(self._number, body, prompt, runs, ends, counts)

    def _nearest(self, prompt: str) -> tuple[_Seen | None, int]:
        """The latest of the prompts that have most in common with this one."""
        best: _Seen | None = None
        most = -1
        for seen in reversed(self._seen):
            shared = _shared_letters(seen.prompt, prompt)
            if shared > most:
                best, most = seen, shared
        return best, most

    def _remember(self, now: _Seen, instead_of: _Seen | None) -> None:
        if instead_of is not None:
            self._seen.remove(instead_of)
        self._seen = [*self._seen, now][-REMEMBERED:]

    def _turn(self, before: _Seen, now: _Seen, shared: int, reused: int | None) -> CacheTurn:
        if shared == len(before.prompt):
            return CacheTurn(now.number, now.tokens, before.tokens, reused, after=before.number)
        reusable = self._shared_tokens(before, now)
        fields: dict[str, Any] = {"reused": reused, "after": before.number}
        if _is_new(before.body, now.body):
            return CacheTurn(now.number, now.tokens, reusable, cause=NEW, **fields)
        lost = before.tokens - reusable
        if lost <= HEADER:
            return CacheTurn(now.number, now.tokens, reusable, **fields)
        cause, detail = _cause(before.body, now.body)
        return CacheTurn(
            now.number, now.tokens, reusable, lost=lost, cause=cause, detail=detail, **fields
        )

    def _shared_tokens(self, before: _Seen, now: _Seen) -> int:
        same = common_prefix_length(before.runs, now.runs)
        count = before.counts[same - 1] if same else 0
        if same < min(len(before.runs), len(now.runs)):
            ends = (self._counter.run_ids(each.runs[same]) for each in (before, now))
            count += common_prefix_length(*ends)
        return count


def _shared_letters(a: str, b: str) -> int:
    if b.startswith(a):
        return len(a)
    shorter = min(len(a), len(b))
    for start in range(0, shorter, BLOCK):
        end = min(start + BLOCK, shorter)
        if a[start:end] != b[start:end]:
            return start + common_prefix_length(a[start:end], b[start:end])
    return shorter


# What broke a prefix, as far as the requests say.


def _is_new(old: Object, new: Object) -> bool:
    """Whether two requests are of two conversations: their first question is another."""
    return bool(_question(old) != _question(new))


def _question(body: Object) -> Any:
    return next((m.get("content") for m in messages_in(body) if m.get("role") == "user"), None)


def _cause(old: Object, new: Object) -> tuple[str, str]:
    """The first of these that is another one, in the order in which prompts have them."""
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
    at = common_prefix_length(_as_text(was.get(field)), _as_text(now.get(field)))
    what = "the system text" if role == "system" else f"an earlier message ({role})"
    return f"{what} was rewritten", f"{where}, after {at:,} characters"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class LostByCause:
    """What one cause has cost: in how many requests, and how many tokens."""

    cause: str
    requests: int
    tokens: int


class CacheSummary:
    """What a whole log could reuse, and what it lost, worst causes first."""

    def __init__(self) -> None:
        self.requests = self.tokens = self.reusable = self.reused = self.reported = 0
        self._lost: dict[str, tuple[int, int]] = {}

    def add(self, turn: CacheTurn) -> None:
        """One request more."""
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
        """By cause, the most expensive first."""
        found = [LostByCause(cause, *costs) for cause, costs in self._lost.items()]
        return sorted(found, key=lambda each: (-each.tokens, each.cause))
