"""The rows of the corpora as lines for the scripts that run the parsers of servers."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from typing import Any

from corpus_rows import Row

from dsv4.tokens import Tokenizer


class SpelledTokens:
    """Texts in which special tokens are spelled, as ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._spelled = re.compile(f"({'|'.join(map(re.escape, tokenizer.vocabulary.added))})")

    def ids(self, text: str) -> list[int]:
        added = self._tokenizer.vocabulary.added
        ids: list[int] = []
        for part in self._spelled.split(text):
            ids += [added[part]] if part in added else self._tokenizer.encode_text(part)
        return ids


def parser_lines(rows: Sequence[Row]) -> str:
    tokenizer = Tokenizer.load()
    tokens = SpelledTokens(tokenizer)
    return "".join(
        json.dumps(_line(row, tokens.ids(row.visible), tokenizer)) + "\n" for row in rows
    )


def _line(row: Row, ids: list[int], tokenizer: Tokenizer) -> dict[str, Any]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return {
        "name": row.name,
        "text": row.visible,
        "ids": ids,
        # In the middle of a character there is none.
        "pieces": [decoder.decode(tokenizer.bytes_of(id)) for id in ids],
        **{"tools": row.tools, "tool_choice": row.tool_choice, "thinking": row.thinking},
    }
