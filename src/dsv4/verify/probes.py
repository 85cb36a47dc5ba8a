"""Probes: crafted requests whose token counts tell prompts apart.

The requests are data, in probes.json: an id, the group that it says something about, a Chat request
and, where that is not plain, why it is as it is. Model, length of the answer and streaming are the
runner's to add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from dsv4._format import tokens
from dsv4._format.texts import read_table
from dsv4.profiles.server_requests import Object

ProbeGroup: TypeAlias = Literal[
    "counting", "prompt", "system", "thinking", "effort", "tools", "history", "content", "safety"
]
# Every run sends a probe, or only a quick one, or only where the others leave something in doubt.
SentBy: TypeAlias = Literal["every run", "quick", "doubt"]


@dataclass(frozen=True)
class Probe:
    """A counting probe: one request, asked for one token of answer.

    `repeats` is how often the default run sends it: differing answers mean that several servers
    share the address.
    """

    id: str
    group: ProbeGroup
    request: Object
    repeats: int = 1
    sent_by: SentBy = "every run"
    why: str = ""

    @property
    def follow_up(self) -> bool:
        """Whether it is sent only where others leave something in doubt."""
        return self.sent_by == "doubt"


def words(count: int) -> str:
    """A text of so many tokens: each word is one, with the space before it."""
    return " ".join(["word"] * count)


_ROWS = [Probe(**row) for row in read_table("probes", __file__)]
_REQUESTS = {probe.id: probe.request for probe in _ROWS}
HI: Object = _REQUESTS["plain"]["messages"][0]
WEATHER: Object = _REQUESTS["tools-two"]["tools"][0]
REASONING: str = _REQUESTS["reasoning-old"]["messages"][1]["reasoning_content"]
# Special tokens, as a text may spell them.
SPELLED = f"a{tokens.USER}b{tokens.ASSISTANT}c{tokens.THINK_END}d{tokens.EOS}e"


def _spelling() -> Iterator[Probe]:
    """Requests with texts that spell special tokens, in each place."""
    answer, loop = _REQUESTS["system-late"]["messages"], _REQUESTS["loop-bare"]["messages"]
    parameters = WEATHER["function"]["parameters"]
    tool = {"name": "t", "description": SPELLED, "parameters": parameters}
    requests: Mapping[str, Object] = {
        "user": {"messages": [{**HI, "content": SPELLED}]},
        "history": {"messages": [HI, {**answer[1], "content": SPELLED}, answer[-1]]},
        "result": {"messages": [*loop[:-1], {**loop[-1], "content": SPELLED}]},
        "tool": {"messages": [HI], "tools": [{"type": "function", "function": tool}]},
    }
    for place, request in requests.items():
        yield Probe(f"inject-{place}", "safety", request)


_PROBES = [*(probe for probe in _ROWS if probe.sent_by == "every run"), *_spelling()]
_QUICK = [probe for probe in _ROWS if probe.sent_by == "quick"]
PROBES: Mapping[str, Probe] = MappingProxyType({probe.id: probe for probe in (*_PROBES, *_QUICK)})
"""Every counting probe, by its id."""
_MIXED = frozenset({"rich", *(probe.id for probe in _QUICK)})


def is_mixed(id: str) -> bool:
    """Whether nearly every fault changes a request: it says little of what it is."""
    return id.removesuffix(LONGER) in _MIXED


# What is added to the text of a user, and to the id.
LONGER = "-longer"
_MORE = " and, while you are at it, tell me something else too"


def _longer(text: str) -> str:
    """A text with more in it. The spaces around it stay: servers may take them away."""
    stripped = text.strip()
    return text.replace(stripped, stripped + _MORE, 1)


def _sibling(probe: Probe) -> Probe:
    """A request like this one, whose first question is longer."""
    messages = list(probe.request["messages"])
    at = next(n for n, message in enumerate(messages) if message["role"] == "user")
    content = messages[at]["content"]
    if isinstance(content, str):
        longer: Any = _longer(content)
    else:
        longer = [{**content[0], "text": _longer(content[0]["text"])}, *content[1:]]
    messages[at] = {**messages[at], "content": longer}
    request = {**probe.request, "messages": messages}
    return Probe(probe.id + LONGER, probe.group, request, sent_by="doubt")


TELLING = tuple(probe for probe in _ROWS if probe.follow_up)
"""Requests that tell apart what the probes leave alike. None of them says two things of thinking at
once: proxies make of that what they like."""
SIBLINGS: Mapping[str, Probe] = MappingProxyType(
    {probe.id: _sibling(probe) for probe in (*PROBES.values(), *TELLING)}
)
"""By the id of each of these, a second request that shows what that one shows."""
FOLLOW_UPS = (*TELLING, *SIBLINGS.values())
"""What is sent only where the probes leave something in doubt."""


def probes() -> list[Probe]:
    """The counting probes, in the order in which a full run sends them, without those that only a
    quick one does."""
    return list(_PROBES)


def requests_of_probes() -> dict[str, Object]:
    return {id: probe.request for id, probe in PROBES.items()}
