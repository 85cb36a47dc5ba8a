"""Probes: crafted requests whose token counts tell prompts apart.

The requests are data, in probes.json: an id, the group that it says something about, a Chat request
and, where that is not plain, why it is as it is. The runner adds model, length of the answer and
streaming.
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
# The runs that send a probe: every run, only a quick one, or any that is left in doubt.
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
        """Whether it is sent only if others leave something in doubt."""
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


CROWDED = "crowded"


# Things that proxies clean up: white space, markup, quotes, dashes, numbers, accents, emoji,
# ligatures, scripts, addresses.
_UNTIDY = (
    "Weather in  the\t\tnorth,\r\nas <b>before</b>, **please**? It\u2019s A\u030angstro\u0308m "
    "\U0001f600 x\u200by \ufb01ne --> 12345678901 \u4f60\u597d.\n\n\n\n\n\nme@example.org "
    "+49 170 1234567 https://example.org/a?b=1"
)
_RULES = "You are the  Assistant of  ACME.\n\n\n1. Be BRIEF & <b>kind</b>.\n2. Never guess. "


def _schemas() -> Iterator[Object]:
    """The parameters of a tool, then the definitions that they refer to."""
    yield {
        "City": {"type": "string", "enum": ["Paris", "Rome", "Oslo"], "title": "Where"},
        "days": {"type": "integer", "enum": [1, 3, 7], "default": 3, "minimum": 1},
        "wind": {"type": "boolean", "default": True},
        "day": {"type": "string", "format": "date", "pattern": "^2[0-9]+$", "examples": ["2026"]},
        "near": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Place"}]},
    }
    yield {"Place": {"type": "object", "properties": {"name": {"type": "string"}}}}


def _crowded() -> Probe:
    """A request with long, many, repeated and unusual things, which proxies lose: each loss changes
    the count by a different number. It has a system text of more than 4,000 characters and three
    others, more than 20 tools and messages, a description and a result of more than 1,000
    characters, names with capitals, choices and defaults that are not texts, references, several
    parts, messages that come twice, and empty arguments."""
    long = "responsibilities"
    properties, definitions = _schemas()
    first = {"properties": properties, "required": ["City"], "$defs": definitions}
    described = [
        "The WEATHER of a CITY, e.g. PARIS or OSLO.\nONE of them at a time...",
        " ".join([long] * 65),
        *(f"Tool {n}." for n in range(2, 21)),
    ]
    tools = [
        {
            "name": f"{'Look_Up' if n < 6 else 'find'}_{n}",
            "description": text,
            "parameters": {"type": "object", **(first if n == 0 else {"properties": {}})},
        }
        for n, text in enumerate(described)
    ]
    arguments = (
        '{"City": "Paris", "days": 3, "wind": true, "near": [["a", "b"], ["c"]], '
        '"by": null, "why": "", "not": []}'
    )
    call = {"id": "call_00", "type": "function"}
    call["function"] = {"name": "Look_Up_0", "arguments": arguments}  # type: ignore[assignment]
    asked = {"role": "user", "content": "And what is it like now?"}
    parts = [{"type": "text", "text": text} for text in ("And now?", "Or in Rome?", "Or here?")]
    reasoned = {"role": "assistant", "content": "Rain.", "reasoning_content": "As I said before."}
    counted = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": str(n)} for n in range(16)
    ]
    result = f"Rain \u2614 at 3 \u00b0C. {' '.join([long] * 75)}"
    messages: list[Object] = [
        {"role": "system", "content": _RULES + " ".join([long] * 255)},
        {"role": "system", "content": "Speak of the weather"},
        *({"role": "user", "content": _UNTIDY}, {"role": "assistant", "content": "Rain."}),
        *({"role": "user", "content": parts}, {"role": "assistant", "content": "Sun."}),
        *(asked, reasoned),
        {"role": "system", "content": "And of nothing else."},
        {"role": "system", "content": "\nNot of snow: "},
        *(*counted, asked, asked),
        {**reasoned, "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_00", "content": result},
    ]
    listed = [{"type": "function", "function": tool} for tool in tools]
    return Probe(CROWDED, "prompt", {"messages": messages, "tools": listed})


_PROBES = [*(probe for probe in _ROWS if probe.sent_by == "every run"), *_spelling(), _crowded()]
_QUICK = [probe for probe in _ROWS if probe.sent_by == "quick"]
PROBES: Mapping[str, Probe] = MappingProxyType({probe.id: probe for probe in (*_PROBES, *_QUICK)})
"""Every counting probe, by its id."""
_MIXED = frozenset({"rich", CROWDED, *(probe.id for probe in _QUICK)})


def is_mixed(id: str) -> bool:
    """Whether nearly every fault changes a request, so that it hardly tells them apart."""
    return id.removesuffix(LONGER) in _MIXED


# Additions to the id of a probe, and to the user's text.
LONGER = "-longer"
_MORE = " and, while you are at it, tell me something else too"


def _longer(text: str) -> str:
    """A longer text. The spaces around it stay: servers may strip them."""
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
"""Requests that tell apart faults that the probes do not. None of them has two settings for
thinking, which proxies treat in any way they like."""
SIBLINGS: Mapping[str, Probe] = MappingProxyType(
    {probe.id: _sibling(probe) for probe in (*PROBES.values(), *TELLING)}
)
"""By the id of each of these, a second request that shows the same."""
FOLLOW_UPS = (*TELLING, *SIBLINGS.values())
"""Requests that are sent only if the probes leave something in doubt."""


def probes() -> list[Probe]:
    """The counting probes, in the order in which a full run sends them, without those that only a
    quick run sends."""
    return list(_PROBES)


def requests_of_probes() -> dict[str, Object]:
    return {id: probe.request for id, probe in PROBES.items()}
