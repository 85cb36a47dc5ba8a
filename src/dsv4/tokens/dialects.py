"""Which dialect a vocabulary is for: its special tokens say, and the name of its checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dsv4.errors import UnknownModel
from dsv4.format.dialects import DIALECTS, Dialect, dialect_for, dialect_named
from dsv4.tokens.vocabulary import VocabularyError, misfits

# How the hub's cache names the folder of a checkpoint.
_CACHED = "models--"


def dialect_over(added: Mapping[str, int], name: str, wanted: str | Dialect | None) -> Dialect:
    """The dialect of prompts for a vocabulary.

    `added` are its special tokens and their ids; `name` the path or name of its checkpoint.
    `wanted` is the dialect that the caller asks for, None to have it recognised: releases that
    share a vocabulary are told apart by name. Raises `VocabularyError` where the tokens of the
    dialect are not all there, or where no dialect fits.
    """
    if wanted is not None:
        return _checked(dialect_named(wanted), added, name)
    named = maybe_named(name)
    if named is not None:
        return _checked(named, added, name)
    fitting = [d for d in DIALECTS.values() if not misfits(d.special_tokens, added)]
    if not fitting:
        least = min(DIALECTS.values(), key=lambda dialect: len(dialect.special_tokens))
        wrong = misfits(least.special_tokens, added)
        raise VocabularyError(f"{name} does not fit any dialect: {wrong}")
    # Whoever has more tokens than another dialect needs has them for a reason. Of two that need
    # the same, the first is the first release.
    return max(fitting, key=lambda dialect: len(dialect.special_tokens))


def maybe_named(name: str) -> Dialect | None:
    """The dialect that the name of a checkpoint tells, or of the folder that it is in."""
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    if parts and os.path.splitext(parts[-1])[1] == ".json":
        parts.pop()
    cached = [part for part in parts if part.startswith(_CACHED)]
    for part in (*parts[-1:], *cached):
        try:
            return dialect_for(part)
        except UnknownModel:
            pass
    return None


def _checked(dialect: Dialect, added: Mapping[str, int], name: str) -> Dialect:
    wrong = misfits(dialect.special_tokens, added)
    if wrong:
        raise VocabularyError(f"{name} does not fit {dialect}: {wrong}")
    return dialect
