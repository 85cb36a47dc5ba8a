"""The rows of all corpora as requests to a server, and what is to be read of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dsv4
from completions import CORPUS, calls_of, declared
from encoding_dsv4 import eos_token as EOS

NAMES = ("malformed", "second", "third")


@dataclass(frozen=True)
class Reading:
    """What a server says a completion means. `finish` is None where nobody asks."""

    reasoning: str
    content: str
    calls: list[tuple[str, Any]]
    finish: str | None = None


@dataclass(frozen=True)
class Row:
    """A completion of a corpus: `text` is what the engine writes of it.

    An engine ends at its first EOS, so what a row has behind it is not written, and then it
    `is_whole` no more. A row without one gets it, unless `is_cut`: then the limit ends it.
    """

    corpus: str
    id: str
    text: str
    is_cut: bool
    is_whole: bool
    thinking: bool
    tools: list[dict[str, Any]]
    tool_choice: str
    prefix: str
    dialect: str
    wanted: dict[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.corpus}-{self.id}"

    @property
    def visible(self) -> str:
        """What parsers inside a server see: that takes the EOS off."""
        return self.text.removesuffix(EOS)

    def parsed(self) -> Reading:
        """What `dsv4.parse` makes of what the engine writes, and of why it ended."""
        return self._read(self.text, "length" if self.is_cut else None)

    def parsed_inside(self) -> Reading:
        """What it makes of what parsers inside a server see."""
        return self._read(self.visible, None)

    def _read(self, text: str, reason: Any) -> Reading:
        parser = dsv4.StreamParser(
            thinking=self.thinking,
            tools=self.tools,
            tool_choice=self.tool_choice,  # type: ignore[arg-type]
            prefix=self.prefix,
            calls="whole",
        )
        events = [*parser.feed(text), *parser.finish(reason)]
        message = dsv4.assemble(events)
        # A client runs what is complete, whatever came after it.
        finish = "tool_calls" if message.tool_calls else message.finish
        return Reading(message.reasoning, message.content, calls_of(message), finish)

    def is_read_right(self, reading: Reading) -> bool:
        """Whether a reading is what the corpus wants. Outer white space of texts does not count."""
        found = {"reasoning": reading.reasoning.strip(), "content": reading.content.strip()}
        asked = {name: self.wanted.get(name) for name in found}
        if any(text is not None and found[name] != text.strip() for name, text in asked.items()):
            return False
        calls = self.wanted.get("calls")
        # As text, which tells 1 from True and 1.0.
        if calls is not None and repr(reading.calls) != repr(calls):
            return False
        return not {name for name, _ in reading.calls} & set(self.wanted.get("never", ()))


# A server knows the tools of its requests.
LEFT_OUT = {"E10-tools-unknown-to-us"}


def rows() -> list[Row]:
    """Every row, as an engine writes it."""
    return [
        _row(name, case) for name in NAMES for case in _lines(name) if case["id"] not in LEFT_OUT
    ]


def rows_for_parsers() -> list[Row]:
    """Those that a server's own parsers can be given: all of the text, from its beginning."""
    return [row for row in rows() if row.is_whole and not row.prefix]


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with (CORPUS / f"{name}.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _row(corpus: str, case: dict[str, Any]) -> Row:
    if corpus == "third":
        options, expected = case["options"], case["expect"]
        thinking, choice = options.get("thinking", True), options.get("tool_choice", "auto")
        reason, tools = options.get("reason"), options["tools"] or {}
        calls, wanted = expected.get("calls"), expected
    else:
        options, tools, wanted = {}, case["tools"], case
        thinking, choice = case["start"] == "reasoning", case["tool_choice"]
        reason, calls = case["finish"], case["tool_calls"]
    wanted = {key: wanted.get(key) for key in ("reasoning", "content")} | {
        "calls": calls and [(call["name"], call["arguments"]) for call in calls]
        if calls
        else calls,
        "never": wanted.get("never", ()),
    }
    before, ended, after = case["text"].partition(EOS)
    # The third says where an EOS came; in the others it goes without saying.
    is_cut = not ended and (reason == "length" or corpus == "third")
    return Row(
        corpus=corpus,
        id=case["id"],
        text=before if is_cut else before + EOS,
        is_cut=is_cut,
        is_whole=not after.strip(),
        thinking=thinking,
        tools=declared(**tools),
        tool_choice=choice,
        prefix=options.get("prefix", ""),
        dialect=options.get("dialect", "v4"),
        wanted=wanted,
    )
