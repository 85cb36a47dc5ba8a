"""Assistant turns as the model wrote them (`Sampled`), and what the prompt shows of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dsv4._encode.fragments import (
    ANSWER,
    ANSWER_END,
    ANSWER_LABEL,
    CALLS_LABEL,
    REASONING,
    REASONING_END,
    REASONING_LABEL,
    Fragment,
    Label,
)
from dsv4._format.dialects import Dialect
from dsv4._format.tokens import DSML, EOS, THINK_END, markup
from dsv4.types import Sampled


class RawTurn(NamedTuple):
    """What was sampled, and its place in the prompt.

    `reasoned` says whether the message as it was read has reasoning, `thinks` whether the format
    shows reasoning here, `closes` whether the turn ends with EOS even if the model wrote none.
    """

    sampled: Sampled
    reasoned: bool
    thinks: bool
    closes: bool

    @property
    def text(self) -> str | None:
        """What is shown of the model's text. None where only the message as it was read tells."""
        if self.sampled.text is None:
            return None
        text = str.__str__(self.sampled.text)
        if self.thinks or not self._began_thinking(text.startswith(THINK_END)):
            return text
        # The reasoning is dropped. If it was never ended, nobody knows by the text what is left.
        _, ended, rest = text.partition(THINK_END)
        return rest if ended else None

    def ids(self, think_end: int, eos: int) -> list[int] | None:
        """The same of the ids, given those of the two tokens that matter."""
        if self.sampled.ids is None:
            return None
        ids = list(self.sampled.ids)
        began_thinking = self._began_thinking(ids[:1] == [think_end])
        if self.thinks and not began_thinking:
            ids.insert(0, think_end)
        elif began_thinking and not self.thinks:
            if think_end not in ids:
                return None
            del ids[: ids.index(think_end) + 1]
        if self.closes and ids[-1:] != [eos]:
            ids.append(eos)
        return ids

    def _began_thinking(self, begins_with_its_end: bool) -> bool:
        return self.reasoned or begins_with_its_end

    def entries(self, index: int | None, dialect: Dialect) -> Iterator[str]:
        """The turn as entries of a prompt: what it spells of special tokens is real."""
        text = self.text or ""
        if self.thinks:
            yield REASONING[index]
            if self._began_thinking(text.startswith(THINK_END)):
                reasoning, ended, text = text.partition(THINK_END)
                yield _model_fragment(reasoning, REASONING_LABEL, dialect)
                if not ended and not self.closes:
                    return
            yield REASONING_END
        else:
            yield ANSWER[index]
        answer = text.removesuffix(EOS)
        block = _start_of_calls(answer)
        yield _model_fragment(answer[:block], ANSWER_LABEL, dialect)
        yield _model_fragment(answer[block:], CALLS_LABEL, dialect)
        if self.closes or len(answer) < len(text):
            yield ANSWER_END


def _model_fragment(text: str, label: Label, dialect: Dialect) -> Fragment:
    return Fragment(markup(text, dialect.special_tokens), label)


def _start_of_calls(text: str) -> int:
    """Where the markup of calls begins: at its first token, with the line that it opens."""
    at = text.find(DSML)
    if at < 0:
        return len(text)
    before = text[:at].removesuffix("<")
    return len(before.removesuffix("\n\n"))


def prefix_entries(prefix: str, thinks: bool, dialect: Dialect) -> Iterator[str]:
    """The start of an answer that the request gives, which is the model's as if it were sampled."""
    turn = RawTurn(
        Sampled({"role": "assistant"}, prefix), reasoned=thinks, thinks=thinks, closes=False
    )
    yield from turn.entries(None, dialect)
