"""Examples for the page: requests for the Prompt and Cache views, and completions for the Stream
view, each with the rule of docs/recovery.md that reads it.

They are in page_examples.json, which has special tokens by their names: no token is spelled
outside `_format/`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dsv4._format import tokens
from dsv4._format.spellings import BAR
from dsv4._format.texts import read_text

_SPELLINGS = {
    "{EOS}": str(tokens.EOS),
    "{THINK_END}": str(tokens.THINK_END),
    "{USER}": str(tokens.USER),
    "{ASSISTANT}": str(tokens.ASSISTANT),
    "{DSML}": str(tokens.DSML),
    # A look-alike, not a special token.
    "{ASCII_DSML}": str(tokens.DSML).replace(BAR, "|"),
}


@dataclass(frozen=True, slots=True)
class ExampleCompletion:
    """A completion with a name, its purpose, and the rule for it; 0 is the format itself."""

    name: str
    words: str
    rule: int
    text: str
    thinking: bool = True


def _read_examples() -> dict[str, Any]:
    text = read_text("page_examples.json", __file__)
    for name, spelling in _SPELLINGS.items():
        text = text.replace(name, spelling)
    examples: dict[str, Any] = json.loads(text)
    return examples


_EXAMPLES = _read_examples()
COMPLETION_TOOLS: list[dict[str, Any]] = _EXAMPLES["tools"]
EXAMPLE_COMPLETIONS = tuple(ExampleCompletion(**each) for each in _EXAMPLES["completions"])
# One request of each protocol, and one for each feature worth seeing.
EXAMPLE_REQUESTS: dict[str, Any] = _EXAMPLES["requests"]


def example_sources() -> list[dict[str, str]]:
    """The examples as the page shows them: a title, and JSON text."""
    return [
        {"title": title, "source": json.dumps(value, indent=2, ensure_ascii=False)}
        for title, value in EXAMPLE_REQUESTS.items()
    ]
