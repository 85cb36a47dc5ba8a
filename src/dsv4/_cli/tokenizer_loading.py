"""The tokenizer of a command: optional, and with errors that name the file or the conversation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dsv4
from dsv4._cli.command_errors import FINDINGS, Failure
from dsv4._inputs.input_files import os_error_reason

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


# For larger inputs, the faster engine is worth the time it takes to load.
LARGE_INPUT = 1_000_000


def load_tokenizer(path: str | None = None, inputs: Iterable[str | None] = ()) -> Tokenizer:
    """The tokenizer of the bundled vocabulary, or of a file or folder, for what is to be read."""
    from dsv4.tokens import Tokenizer

    engine = "auto" if sum(map(_file_size, inputs)) > LARGE_INPUT else "one-shot"
    try:
        with vocabulary_errors():
            return Tokenizer.load(path, engine)
    except (OSError, UnicodeDecodeError) as error:
        problem = os_error_reason(error) if isinstance(error, OSError) else "not UTF-8"
        raise Failure(f"{path}: {problem}") from None


def _file_size(path: str | None) -> int:
    try:
        return 0 if path is None else os.stat(path).st_size
    except OSError:
        return 0


@contextmanager
def vocabulary_errors() -> Iterator[None]:
    """A vocabulary that is missing, or lacks a token, is no fault of the conversation's."""
    from dsv4.tokens.vocabulary import VocabularyError

    try:
        yield
    except VocabularyError as error:
        hint = "give the tokenizer.json of a model of this dialect with --tokenizer"
        raise Failure(f"{error}; {hint}" if "does not fit" in str(error) else str(error)) from None


@contextmanager
def tokenizer_errors_at(place: str) -> Iterator[None]:
    """Adds the place to errors of the tokenizer."""
    try:
        with vocabulary_errors():
            yield
    except Failure as failure:
        raise Failure(f"{place}: {failure}", failure.status) from None
    except dsv4.Error as error:
        raise Failure(f"{place}: {error}", FINDINGS) from None


def load_fitting_tokenizer(path: str | None, prompt: dsv4.Prompt) -> Tokenizer | None:
    """The tokenizer that was asked for; else the bundled one, if it is there and fits."""
    try:
        tokenizer = load_tokenizer(path)
        with vocabulary_errors():
            tokenizer.count(prompt)
    except Failure:
        if path is not None:
            raise
        return None
    return tokenizer
