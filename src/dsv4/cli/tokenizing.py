"""The tokenizer, which is an optional part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dsv4.cli.failure import Failure
from dsv4.reading.failures import reason

if TYPE_CHECKING:
    import dsv4
    from dsv4.tokens import Tokenizer


def load_tokenizer(path: str | None = None) -> Tokenizer:
    """The tokenizer of the bundled vocabulary, or of a file or folder."""
    from dsv4.tokens import Tokenizer

    try:
        with vocabulary_must_fit():
            return Tokenizer.load(path)
    except (OSError, UnicodeDecodeError) as error:
        problem = reason(error) if isinstance(error, OSError) else "not UTF-8"
        raise Failure(f"{path}: {problem}") from None


@contextmanager
def vocabulary_must_fit() -> Iterator[None]:
    """A vocabulary that is missing, or lacks a token, is no fault of the conversation's."""
    from dsv4.tokens.vocabulary import VocabularyError

    try:
        yield
    except VocabularyError as error:
        raise Failure(str(error)) from None


def maybe_tokenizer(path: str | None, prompt: dsv4.Prompt) -> Tokenizer | None:
    """The tokenizer that was asked for; else the bundled one, if it is there and fits."""
    try:
        tokenizer = load_tokenizer(path)
        with vocabulary_must_fit():
            tokenizer.count(prompt)
    except Failure:
        if path is not None:
            raise
        return None
    return tokenizer
