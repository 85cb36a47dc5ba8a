"""Tokenizers of `transformers`, of `tokenizers` and of dsv4: the dialect of each, and the types of
the arguments of `dsv4.compat.hf`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, cast
from weakref import WeakKeyDictionary

from dsv4._format.dialects import Dialect, dialect_named
from dsv4.errors import OptionError, mismatch
from dsv4.tokens import Tokenizer
from dsv4.tokens.vocabulary import dialect_of_vocabulary
from dsv4.types import DialectName, MessageInput, ToolInput
from dsv4.version import how_to_install

# The types of arguments, as far as objects of `transformers` are used. These are not imported: any
# object with the same methods will do.


class SupportsToList(Protocol):
    """An array or a tensor."""

    def tolist(self) -> Any: ...


class HasMessages(Protocol):
    """A conversation of `transformers`' pipelines."""

    messages: Chat


Chat: TypeAlias = Sequence[MessageInput]
# One conversation, or a batch of them.
Chats: TypeAlias = Chat | HasMessages | Sequence[Chat | HasMessages]
# A text or its ids.
Written: TypeAlias = str | Sequence[int]
# One of these, or a batch of them.
WrittenBatch: TypeAlias = Written | Sequence[Written] | SupportsToList
# A tool, or a function that `transformers` describes as one.
HfTool: TypeAlias = ToolInput | Callable[..., object]


# Tokenizers: their vocabulary and dialect.


# The attribute of a tokenizer that has our function, with the dialect that was chosen for it.
INSTALLED = "apply_chat_template"


def dialect_of(tokenizer: object, wanted: DialectName | Dialect | None = None) -> Dialect:
    """The dialect of prompts for a tokenizer: of `transformers`, of dsv4, or None.

    `wanted` is a dialect that it must fit; None to have it recognised, by its special tokens and
    by the name of its checkpoint. Raises `VocabularyError` if they do not fit.
    """
    if tokenizer is None:
        return dialect_named("v4" if wanted is None else wanted)
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.dialect if wanted is None else tokenizer.dialect_for(wanted)
    if wanted is None and isinstance(tokenizer.__dict__.get(INSTALLED), partial):
        return dialect_named(tokenizer.__dict__[INSTALLED].keywords["dialect"])
    return dialect_of_vocabulary(special_tokens_of(tokenizer), name_of(tokenizer), wanted)


def name_of(tokenizer: object) -> str:
    inner = getattr(tokenizer, "tokenizer", tokenizer)
    return str(getattr(inner, "name_or_path", None) or "the given tokenizer")


def special_tokens_of(tokenizer: object) -> dict[str, int]:
    """The special tokens of a tokenizer, and their ids."""
    if vocabulary := getattr(tokenizer, "get_added_vocab", None):
        return dict(vocabulary())
    if decoder := getattr(tokenizer, "get_added_tokens_decoder", None):
        return {str(token.content): id for id, token in decoder().items()}
    raise OptionError("tokenizer", mismatch(tokenizer, "a fast tokenizer"))


def as_schema(tool: HfTool) -> ToolInput:
    """A tool as a dict or an object. Functions are described by `transformers`."""
    if not callable(tool):
        return tool
    try:
        # Its documentation imports the name from here; its type information does not export it.
        from transformers.utils import get_json_schema  # pyright: ignore[reportPrivateImportUsage]
    except ImportError as error:
        raise ImportError(
            f"a function as a tool needs transformers: {how_to_install('hf')}"
        ) from error
    return cast(ToolInput, get_json_schema(tool))  # there, it is a dict of anything


# Reading a vocabulary takes long, so each tokenizer's is read once.
_tokenizers: WeakKeyDictionary[object, Tokenizer] = WeakKeyDictionary()


def tokenizer_over(tokenizer: object) -> Tokenizer:
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    try:
        wrapped = _tokenizers.get(tokenizer)
    except TypeError:  # it does not support weak references
        return Tokenizer.wrap(tokenizer)
    if wrapped is None:
        wrapped = _tokenizers[tokenizer] = Tokenizer.wrap(tokenizer)
    return wrapped
