"""What turns text into ids. No engine recognises the added vocabulary in its text."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeAlias

from dsv4.errors import shown
from dsv4.tokens.vocabulary import INSTALL, Vocabulary, VocabularyError

# Text without special tokens -> ids.
Encode: TypeAlias = Callable[[str], list[int]]


def engine_named(name: str) -> Callable[[Vocabulary], Encode]:
    """The maker of an engine. "auto" is the fastest that is installed."""
    if name == "auto":
        name = next((n for n in _ENGINES if find_spec(n) is not None), "fastokens")
    if not isinstance(name, str) or name not in _ENGINES:
        expected = ", ".join(("auto", *_ENGINES))
        raise VocabularyError(f"engine: found {shown(name)}, expected one of {expected}")
    if find_spec(name) is None:
        raise VocabularyError(f"the engine {name} is not installed: {INSTALL}")
    return _ENGINES[name]


def _fastokens(vocabulary: Vocabulary) -> Encode:
    from fastokens import Tokenizer  # type: ignore[import-untyped]

    engine = Tokenizer.from_json_str(vocabulary.text)
    # A checkpoint's file may tell to cut texts, or to fill them up.
    engine.no_truncation()
    engine.no_padding()
    return lambda text: list(engine.encode_ordinary(text).ids)


def _tokenizers(vocabulary: Vocabulary) -> Encode:
    from tokenizers import Tokenizer

    # Most structural tokens are not marked special in the file, so no flag keeps them out of text:
    # only a vocabulary without them does.
    bare = {**vocabulary.content, "added_tokens": [], "truncation": None, "padding": None}
    engine = Tokenizer.from_str(json.dumps(bare))
    return lambda text: list(engine.encode(text, add_special_tokens=False).ids)


_ENGINES: dict[str, Callable[[Vocabulary], Encode]] = {
    "fastokens": _fastokens,
    "tokenizers": _tokenizers,
}
