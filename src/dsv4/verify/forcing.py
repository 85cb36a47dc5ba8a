"""Ways to have any weights write exactly a text, as servers take them with a chat request.

vLLM takes a choice and SGLang a regex, in one request, since each ignores what the other reads; a
grammar is for servers that have only that. Where none is taken, a bias forces one token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dsv4._format.tokens import Special
from dsv4.verify.answers import whole_answer
from dsv4.verify.report import CHAT, Post


# No thinking, in the words of every server: a grammar may only begin after it.
def _mode_fields(thinking: bool) -> Mapping[str, Any]:
    switches = {"type": "enabled" if thinking else "disabled"}, {"thinking": thinking}
    return {"thinking": switches[0], "chat_template_kwargs": switches[1], "temperature": 0}


NOT_THINKING, THINKING = _mode_fields(False), _mode_fields(True)
QUESTION: Any = {"role": "user", "content": "Go on."}
GREETING = "Hello there, friend."
# More than any logit is worth.
BIAS = 100


@dataclass(frozen=True)
class ForcingWay:
    """Fields of a request that leave only one text as its answer."""

    name: str
    fields: Callable[[str], Mapping[str, Any]]

    def request(self, text: str, **fields: Any) -> dict[str, Any]:
        """A request whose answer is this `text`."""
        return {
            "messages": [QUESTION],
            **NOT_THINKING,
            # Weights that were never trained may write each byte as a token of its own.
            "max_tokens": len(text.encode()) + 16,
            **self.fields(text),
            **fields,
        }


def _choice_or_regex(text: str) -> Mapping[str, Any]:
    return {"structured_outputs": {"choice": [text]}, "regex": re.escape(text)}


def _grammar(text: str) -> Mapping[str, Any]:
    return {"ebnf": f"root ::= {json.dumps(text, ensure_ascii=False)}"}


# The cheapest first: most servers that take one take the first.
WAYS = (ForcingWay("choice or regex", _choice_or_regex), ForcingWay("grammar", _grammar))


def forcing_way(post: Post) -> ForcingWay | None:
    """The first way that the server takes; None where it takes none."""
    for way in WAYS:
        answer = whole_answer(post(CHAT, way.request(GREETING)))
        if answer is not None and answer.content == GREETING:
            return way
    return None


def repeating(token: Special, times: int = 1, **fields: Any) -> dict[str, Any]:
    """A request whose answer is this `token`, so many `times`, where the server takes a bias."""
    biased = {"max_tokens": times, "logit_bias": {str(token.id): BIAS}}
    return {"messages": [QUESTION], **NOT_THINKING, **biased, **fields}
