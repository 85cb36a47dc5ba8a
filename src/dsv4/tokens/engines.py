"""What turns text into ids. No engine recognises the added vocabulary in its text.

Two choices are made for you. "auto" is the engine that encodes fastest; "one-shot" the one that is
loaded fastest, for a program that encodes a little and ends: `tokenizers` reads the V4 vocabulary
in a third of the time that fastokens needs to prepare for its speed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeAlias

from dsv4.errors import shown
from dsv4.tokens.vocabulary import Vocabulary, VocabularyError
from dsv4.version import how_to_install

# Text without special tokens -> ids.
Encode: TypeAlias = Callable[[str], list[int]]


def engine_named(name: str) -> Callable[[Vocabulary], Encode]:
    """The maker of an engine: by its own name, or the first that is installed of a choice."""
    if isinstance(name, str) and name in _CHOICES:
        order = _CHOICES[name]
        name = next((n for n in order if find_spec(n) is not None), order[0])
    if not isinstance(name, str) or name not in _ENGINES:
        expected = ", ".join((*_CHOICES, *_ENGINES))
        raise VocabularyError(f"engine: found {shown(name)}, expected one of {expected}")
    if find_spec(name) is None:
        raise VocabularyError(f"token ids need the package {name}: {how_to_install('tokens')}")
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
    engine = Tokenizer.from_str(vocabulary.without_added)
    engine.no_truncation()
    engine.no_padding()
    return lambda text: list(engine.encode(text, add_special_tokens=False).ids)


_CHOICES = {"auto": ("fastokens", "tokenizers"), "one-shot": ("tokenizers", "fastokens")}
_ENGINES: dict[str, Callable[[Vocabulary], Encode]] = {
    "fastokens": _fastokens,
    "tokenizers": _tokenizers,
}
