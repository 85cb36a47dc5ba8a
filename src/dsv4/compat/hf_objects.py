"""What objects of `transformers` tell: vocabulary, dialect, the schema of a function."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from dsv4._format.dialects import Dialect, dialect_named
from dsv4.errors import OptionError, short_repr
from dsv4.version import how_to_install

# Where a tokenizer has our function, with the dialect that was chosen for it.
INSTALLED = "apply_chat_template"


def dialect_of(tokenizer: Any, wanted: str | Dialect | None = None) -> Dialect:
    """The dialect of prompts for a tokenizer: of `transformers`, of dsv4, or None.

    `wanted` is a dialect that it must fit; None to have it recognised, by its special tokens and
    by the name of its checkpoint. Raises `VocabularyError` where they do not fit.
    """
    if tokenizer is None:
        return dialect_named("v4" if wanted is None else wanted)
    if hasattr(tokenizer, "dialect_for"):
        known: Dialect = tokenizer.dialect if wanted is None else tokenizer.dialect_for(wanted)
        return known
    if wanted is None and isinstance(tokenizer.__dict__.get(INSTALLED), partial):
        return dialect_named(tokenizer.__dict__[INSTALLED].keywords["dialect"])
    from dsv4.tokens.vocabulary import dialect_of_vocabulary

    return dialect_of_vocabulary(added(tokenizer), name_of(tokenizer), wanted)


def name_of(tokenizer: Any) -> str:
    inner = getattr(tokenizer, "tokenizer", tokenizer)
    return str(getattr(inner, "name_or_path", None) or "the given tokenizer")


def added(tokenizer: Any) -> dict[str, int]:
    """The special tokens of a tokenizer, and their ids."""
    if hasattr(tokenizer, "get_added_vocab"):
        return dict(tokenizer.get_added_vocab())
    if hasattr(tokenizer, "get_added_tokens_decoder"):
        return {
            str(token.content): id for id, token in tokenizer.get_added_tokens_decoder().items()
        }
    raise OptionError("tokenizer", f"found {short_repr(tokenizer)}, expected a fast tokenizer")


def as_schema(tool: Any) -> Any:
    """Tools may be functions, which `transformers` can describe."""
    if not callable(tool):
        return tool
    try:
        from transformers.utils import get_json_schema
    except ImportError as error:
        raise ImportError(
            f"a function as a tool needs transformers: {how_to_install('hf')}"
        ) from error
    return get_json_schema(tool)


# To read a vocabulary takes long, so each tokenizer's is read once.
_known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def tokenizer_over(tokenizer: Any) -> Any:
    from dsv4.tokens import Tokenizer

    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    try:
        known = _known.get(tokenizer)
    except TypeError:  # no weak reference to it can be made
        return Tokenizer.wrap(tokenizer)
    if known is None:
        known = _known[tokenizer] = Tokenizer.wrap(tokenizer)
    return known
