"""Prompts to ids and back: the vocabulary, the engine that encodes ordinary text, and the parser
that reads a completion from its ids, with special tokens recognised by their ids only.

Engines never recognise special tokens in text. "auto" is the engine that encodes fastest;
"one-shot" the one that loads fastest, for a program that encodes a little and exits.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import groupby, pairwise
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary, WeakValueDictionary

from dsv4._completion.events import Event, TextKind
from dsv4._completion.reasons import Reason
from dsv4._decode.dialect_detection import dialects_of
from dsv4._encode.inputs import as_list
from dsv4._encode.prompt import Piece, Prompt, RawTurn, prompt_from_tokens
from dsv4._format.dialects import DEFAULT, DIALECTS, Dialect, dialect_named
from dsv4._format.spellings import COMPLETION_TOKENS
from dsv4._images.image_grid import image_grid
from dsv4._images.image_source import why_no_size
from dsv4._parse.parser import StreamParser
from dsv4.errors import EncodeError, ImageError, Location, OptionError, mismatch, short_repr
from dsv4.tokens.masks import AttributedIds, Policy, Span, piece_token_ends, weigher
from dsv4.tokens.vocabulary import (
    TokensNotInstalled,
    Vocabulary,
    VocabularyError,
    dialect_of_vocabulary,
    find_vocabulary,
    is_bundled,
)
from dsv4.types import DialectName

if TYPE_CHECKING:
    from typing_extensions import Self


# Prompts to ids and back: the vocabulary, and the engine that encodes ordinary text.
#
# Engines never recognise special tokens in text. "auto" is the engine that encodes fastest; "one-
# shot" the one that loads fastest, for a program that encodes a little and exits.


# An image as the one id that engines take, or as all of the ids that a model sees.
ImageIds: TypeAlias = Literal["compact", "expanded"]


# Text without special tokens -> ids.
TextEncoder: TypeAlias = Callable[[str], list[int]]


# Makes an engine for a vocabulary.
EngineMaker: TypeAlias = Callable[[Vocabulary], TextEncoder]


def engine_named(name: str | EngineMaker) -> EngineMaker:
    """The maker of an engine: as given, by its name, or the first installed one of a choice."""
    if callable(name):
        return name
    if isinstance(name, str) and name in _ENGINE_CHOICES:
        order = _ENGINE_CHOICES[name]
        name = next((n for n in order if find_spec(n) is not None), order[0])
    if not isinstance(name, str) or name not in _ENGINES:
        expected = ", ".join((*_ENGINE_CHOICES, *_ENGINES))
        raise VocabularyError(f"engine: found {short_repr(name)}, expected one of {expected}")
    if find_spec(name) is None:
        raise TokensNotInstalled(name)
    return _ENGINES[name]


def _fastokens(vocabulary: Vocabulary) -> TextEncoder:
    from fastokens import Tokenizer  # type: ignore[import-untyped]

    engine = Tokenizer.from_json_str(vocabulary.text)
    # A checkpoint's file may ask to truncate texts, or to pad them.
    engine.no_truncation()
    engine.no_padding()
    return lambda text: list(engine.encode_ordinary(text).ids)


def _tokenizers(vocabulary: Vocabulary) -> TextEncoder:
    from tokenizers import Tokenizer

    # Most structural tokens are not marked special in the file, so no flag keeps them out of text:
    # only a vocabulary without them does.
    engine = Tokenizer.from_str(vocabulary.without_added)
    engine.no_truncation()
    engine.no_padding()
    return lambda text: list(engine.encode(text, add_special_tokens=False).ids)


_ENGINE_CHOICES = {"auto": ("fastokens", "tokenizers"), "one-shot": ("tokenizers", "fastokens")}
_ENGINES: dict[str, Callable[[Vocabulary], TextEncoder]] = {
    "fastokens": _fastokens,
    "tokenizers": _tokenizers,
}


# Short runs between special tokens come again and again: the ids of this many are remembered.
REMEMBERED_RUNS = 16_384
REMEMBERED_LENGTH = 64


_NONE: Mapping[int, Sequence[int]] = MappingProxyType({})


@runtime_checkable
class _FastTokenizer(Protocol):
    """The interface of `tokenizers.Tokenizer` and objects like it."""

    def to_str(self) -> str: ...


class Coder:
    """The ids of prompts. Special tokens come only from the format, whatever a text spells.

    Nothing is loaded before it is needed. One tokenizer may be used from many threads.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        engine: str | EngineMaker = "auto",
        dialect: DialectName | Dialect | None = None,
        checkpoint: str | None = None,
    ) -> None:
        """`checkpoint` is the name of the vocabulary's checkpoint, if not the vocabulary's own.

        The other parameters are those of `load`.
        """
        self.vocabulary = vocabulary
        self._checkpoint = checkpoint
        self._wanted = None if dialect is None else self.dialect_for(dialect)
        if self._wanted is not None:
            self.vocabulary = vocabulary.named_for(self._wanted)
        self._dialect = self._wanted
        self._make_engine = engine_named(engine)
        self._engine_name = engine
        self._engine: TextEncoder | None = None
        self._remembered = lru_cache(REMEMBERED_RUNS)(self._fresh_ids)
        self._checked: dict[Dialect, dict[str, int]] = {}
        self._acting: dict[Dialect, dict[int, str]] = {}

    @classmethod
    def load(
        cls,
        source: str | os.PathLike[str] | None = None,
        engine: str = "auto",
        dialect: DialectName | Dialect | None = None,
    ) -> Self:
        """The tokenizer of the bundled vocabulary, of a `tokenizer.json` or of a checkpoint.

        `source` is the path of the file or of the checkpoint's folder; `engine` is "fastokens",
        "tokenizers" or "auto", the fastest that is installed; `dialect` is the dialect that it
        shall have, None to have it recognised. The bundled vocabulary is V4's; for V4.1 and
        "v4-vision" it has their names for reserved tokens. A tokenizer is loaded once, however
        often it is asked for.
        A vocabulary of your own is checked immediately. Raises `VocabularyError` if there is none,
        or if it does not have the tokens of the dialect.
        """
        engine_named(engine)
        path = find_vocabulary(source)
        release = None if dialect is None else dialect_named(dialect)
        with _loading:
            kind: Any = cls  # a class is hashable, but mypy does not know it
            tokenizer: Self = _load_vocabulary_and_engine(
                kind, path, os.stat(path).st_mtime_ns, engine, release
            )
            return tokenizer

    @classmethod
    def wrap(
        cls, tokenizer: object, engine: str = "auto", dialect: DialectName | Dialect | None = None
    ) -> Self:
        """The tokenizer over the vocabulary of a `transformers` or `tokenizers` object.

        `tokenizer` is that object; `engine` and `dialect` are those of `load`. Objects with the
        same vocabulary share it. Raises an `OptionError` for anything but a fast tokenizer.
        """
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not isinstance(backend, _FastTokenizer):
            raise OptionError("tokenizer", mismatch(tokenizer, "a fast tokenizer"))
        name = getattr(tokenizer, "name_or_path", None) or "the given tokenizer"
        return cls(_shared_vocabulary(backend.to_str()), engine, dialect, checkpoint=str(name))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.checkpoint}, dialect {self.dialect}>"

    @property
    def checkpoint(self) -> str:
        """The checkpoint or file of the vocabulary: a path, or a name."""
        return self.vocabulary.name if self._checkpoint is None else self._checkpoint

    @property
    def dialect(self) -> Dialect:
        """The dialect of prompts for this vocabulary, recognised by its special tokens and by the
        name of its checkpoint."""
        if self._dialect is None:
            bundled = is_bundled(self.vocabulary.name)
            self._dialect = DEFAULT if bundled else self.dialect_for(None)
        return self._dialect

    def dialect_for(self, wanted: DialectName | Dialect | None) -> Dialect:
        """A dialect by name; raises `VocabularyError` if its tokens are not in the vocabulary.

        None gives the one that is recognised.
        """
        vocabulary = self.vocabulary if wanted is None else self._named_for(wanted)
        return dialect_of_vocabulary(vocabulary.added, self.checkpoint, wanted)

    def with_dialect(self, dialect: DialectName | Dialect) -> Self:
        """This tokenizer with the names that `dialect` has for special tokens, as from `load`.

        Prompts are always encoded with the names of their own dialect; this is for decoding, and
        for `special_id`. Raises a `VocabularyError` if its tokens are not in the vocabulary.
        """
        release = self.dialect_for(dialect)
        if self._named_for(release) is self.vocabulary:
            return self
        return type(self)(self.vocabulary, self._engine_name, release, self._checkpoint)

    def _named_for(self, dialect: DialectName | Dialect) -> Vocabulary:
        return self.vocabulary.named_for(dialect_named(dialect))

    def __reduce__(self) -> tuple[Any, ...]:
        path, options = self.vocabulary.name, (self._engine_name, self._wanted)
        if not os.path.isabs(path):  # it was not read from a file
            return type(self), (self.vocabulary, *options, self._checkpoint)
        # The package may be in another place where this is unpickled.
        source = None if is_bundled(path) else path
        arguments = (source, *options)
        return _unpickled, (type(self), *arguments, self.vocabulary.digest)

    # Text and prompts -> ids.

    def encode(self, prompt: Prompt, *, images: ImageIds = "compact") -> list[int]:
        """The ids of `prompt`. Turns that were given with their ids have exactly those.

        With `images="compact"` an image is one id, which engines replace; with "expanded" it is as
        many as it has tokens, for trainers. Raises a `VocabularyError` if the vocabulary lacks a
        token of the prompt, an `EncodeError` for text that UTF-8 cannot write, and with "expanded"
        an `ImageError` for an image whose size is not known.
        """
        if images != "compact":
            return self.attributed(prompt, images=images).ids
        ids: list[int] = []
        added = self._specials(prompt)
        if prompt.sampled:
            return self.attributed(prompt).ids
        for run, special in prompt.runs():
            if run:
                try:
                    ids += self._text_ids(run)
                except _HalfCharacter:
                    raise _half_character(prompt.pieces) from None
            if special is not None:
                ids.append(added[special])
        return ids

    def encode_text(self, text: str) -> list[int]:
        """The ids of `text`, in which no special token is recognised.

        Raises an `OptionError` for anything but text that UTF-8 can write.
        """
        if not isinstance(text, str):
            raise OptionError("text", mismatch(text, "text"))
        try:
            return list(self._text_ids(text))
        except _HalfCharacter:
            raise OptionError("text", _half_problem(text)) from None

    def encode_masked(
        self, prompt: Prompt, policy: Policy = "assistant", *, images: ImageIds = "compact"
    ) -> tuple[list[int], list[float]]:
        """The ids of `prompt`, with a weight for each: `policy` decides which are trained on.

        A policy is a name, or a function of message and field; `docs/tokens.md` draws them. Images
        have no weight; `images` is that of `encode`. Raises the same errors as `encode`, and an
        `OptionError` for an unknown policy.
        """
        attributed = self.attributed(prompt, images=images)
        return attributed.ids, attributed.weights(weigher(policy, prompt.pieces))

    def check_text(self, prompt: Prompt) -> None:
        """Raises an `EncodeError` if UTF-8 cannot write a text of the prompt."""
        try:
            prompt.text.encode()
        except UnicodeEncodeError:
            raise _half_character(prompt.pieces) from None

    def spans(self, prompt: Prompt, *, images: ImageIds = "compact") -> list[Span]:
        """The spans of `prompt`'s tokens, by message and field they came from. They cover them all.

        `images` is that of `encode`.
        """
        return self.attributed(prompt, images=images).spans()

    def count(self, prompt: Prompt | str) -> int:
        """The number of tokens in `prompt`, which may also be a text.

        An image counts with all of its tokens. Raises an `ImageError` if its size is not known:
        `prompt.with_image_size` gives it one.
        """
        if isinstance(prompt, str):
            return len(self.encode_text(prompt))
        counts = _numbers(self.image_tokens(prompt), prompt)
        return len(self.encode(prompt)) + sum(counts) - len(counts)

    def image_tokens(self, prompt: Prompt) -> list[int | None]:
        """The number of tokens of each image in `prompt`; None if its size is not known."""
        grids = prompt.image_grids if prompt.images else []
        rule, at = prompt.dialect.image_rule, 0
        if rule is None or not rule.pairs_rows:
            return [None if grid is None else grid.tokens for grid in grids]
        # Here a block depends on the number of tokens before it.
        counts: list[int | None] = []
        places = self._image_places(prompt) if grids else []
        _check_places(places, grids)
        for grid, (before, place) in zip(grids, pairwise((-1, *places)), strict=True):
            at += place - before - 1
            count: int | None = None
            if grid is not None:
                sides = grid.width, grid.height
                count = image_grid(*sides, dialect=prompt.dialect, start=at).tokens
            counts.append(count)
            at += count or rule.padding_before(at) + 2
        return counts

    def prompt_cost(self, prompt: Prompt) -> dict[tuple[int | None, str], int]:
        """The number of tokens that each field takes in `prompt`: (message, field) -> tokens.

        Images count with all of their tokens; one whose size is not known counts as one.
        """
        cost: Counter[tuple[int | None, str]] = Counter()
        for start, end, piece in self.counted(prompt):
            cost[piece.message, piece.field] += end - start
        return dict(cost)

    def counted(self, prompt: Prompt) -> AttributedIds:
        """As many ids as `prompt` has tokens, and the pieces they came from.

        An image whose size is not known has one.
        """
        attributed = self.attributed(prompt)
        if not prompt.images:
            return attributed
        counts = [count or 1 for count in self.image_tokens(prompt)]
        return self._expanded(attributed, prompt, counts)

    def _expanded(
        self, attributed: AttributedIds, prompt: Prompt, counts: Sequence[int]
    ) -> AttributedIds:
        _check_places(self._image_places(prompt), counts)
        return attributed.expanded(str(prompt.dialect.image_token), counts)

    def _image_places(self, prompt: Prompt) -> list[int]:
        """The places of the ids of images."""
        image = self._specials(prompt).get(str(prompt.dialect.image_token))
        return [n for n, id in enumerate(self.encode(prompt)) if id == image]

    # Ids -> text.

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, special tokens spelled out. An unknown id raises an `OptionError`."""
        return _text_of(as_list(ids, ("ids",), "a list of ids"), self.vocabulary)

    def prompt(self, ids: Iterable[int], *, dialect: DialectName | Dialect | None = None) -> Prompt:
        """The prompt of ids, for `dsv4.decode`: tokens stay tokens, spelled ones stay text.

        `ids` are those of a whole prompt. `dialect` is the release it is written in; without it,
        the text shows which it may be. Raises an `OptionError` for an id that the vocabulary does
        not have, and for an unknown dialect.
        """
        listed = as_list(ids, ("ids",), "a list of ids")
        if dialect is None:  # by the most names that a dialect has: no other prompt has these
            named = max(DIALECTS.values(), key=lambda dialect: len(dialect.renamed_tokens))
            likely = dialects_of(_text_of(listed, self._named_for(named)))
            dialect = self._wanted if self._wanted in likely else likely[0]
        release = dialect_named(dialect)
        return prompt_from_tokens(self._parts(listed, release), release)

    def _parts(self, ids: Sequence[int], dialect: Dialect) -> Iterator[str]:
        added = self._named_for(dialect).added
        specials = {added[token]: token for token in dialect.special_tokens if token in added}
        for special, run in groupby(ids, specials.get):
            if special is None:
                yield self.decode(run)
            else:
                yield from (special for _ in run)

    def bytes_of(self, id: int) -> bytes:
        """The bytes that `id` stands for. Raises an `OptionError` for an unknown one."""
        return _bytes_of(id, self.vocabulary)

    def special_id(self, token: str) -> int:
        """The id of a special token, `token`. Raises a `VocabularyError` if there is none."""
        id = self.vocabulary.added.get(token)
        if id is None:
            raise VocabularyError(f"{self.vocabulary.name} has no special token {token}")
        return id

    def acting_ids(self, dialect: Dialect) -> Mapping[int, str]:
        """The tokens with a meaning in a completion of `dialect`, by their ids.

        Raises a `VocabularyError` if one is missing that every completion may have.
        """
        if dialect not in self._acting:
            self._acting[dialect] = self._acting_ids(dialect)
        return self._acting[dialect]

    def _acting_ids(self, dialect: Dialect) -> dict[int, str]:
        own, added = dialect.tokens, self._named_for(dialect).added | self.vocabulary.added
        needed = own.bos, own.eos, own.think_start, own.think_end, dialect.tags.dsml
        missing = [token for token in needed if token not in added]
        if missing:
            raise VocabularyError(f"{self.vocabulary.name} has no special token {missing[0]}")
        # The dialect's own come last: an id may have another name in the vocabulary.
        roles = own.user, own.assistant, own.latest_reminder, dialect.system_token
        listed = (*_FURTHER, *filter(None, roles), *needed)
        return {added[token]: str(token) for token in listed if token in added}

    # Ids, and the pieces they came from.

    def attributed(
        self,
        prompt: Prompt,
        sampled: Mapping[int, Sequence[int]] = _NONE,
        *,
        images: ImageIds = "compact",
    ) -> AttributedIds:
        """The ids of `prompt`, and the pieces they came from.

        `sampled` gives the ids of everything that the model wrote in some messages, by index.
        `images` is that of `encode`.
        """
        added = self._specials(prompt)
        if prompt.sampled:
            sampled = {**self._sampled_ids(prompt.sampled, added), **sampled}
        attributed = self._attributed(prompt.pieces, added, sampled)
        if images == "compact":
            return attributed
        if images != "expanded":
            problem = f"found {short_repr(images)}"
            raise OptionError("images", f'{problem}, expected "compact" or "expanded"')
        return self._with_blocks(attributed, prompt)

    def _with_blocks(self, attributed: AttributedIds, prompt: Prompt) -> AttributedIds:
        """The ids, with all the ids that engines write for each image."""
        if not prompt.images and not self._image_places(prompt):
            return attributed
        rule = prompt.dialect.image_rule
        if rule is not None and rule.pairs_rows:
            problem = f'found "expanded" for {prompt.dialect}, in which engines differ in the ids'
            raise OptionError("images", f'{problem} of an image, expected "compact"')
        return self._expanded(attributed, prompt, _numbers(self.image_tokens(prompt), prompt))

    def _sampled_ids(
        self, turns: Mapping[int, RawTurn], added: Mapping[str, int]
    ) -> dict[int, Sequence[int]]:
        sampled = {
            index: turn.ids(added[turn.tokens.think_end], added[turn.tokens.eos])
            for index, turn in turns.items()
        }
        return {index: ids for index, ids in sampled.items() if ids is not None}

    def ids_of(self, pieces: Sequence[Piece]) -> list[int]:
        """The ids of `pieces` by themselves, apart from their prompt."""
        return self._attributed(pieces, self.vocabulary.added, _NONE).ids

    def _attributed(
        self, pieces: Sequence[Piece], added: dict[str, int], sampled: Mapping[int, Sequence[int]]
    ) -> AttributedIds:
        attributed = AttributedIds()
        for kind, run in _text_runs(pieces, sampled):
            first = run[0]
            if kind is None:  # _ALONE
                attributed.add((added[first.text],), first)
            elif kind != _TEXT:
                attributed.add(sampled[kind], first)
            else:
                self._add_text(attributed, run)
        return attributed

    def _add_text(self, attributed: AttributedIds, run: Sequence[Piece]) -> None:
        try:
            ids = self._text_ids("".join(piece.text for piece in run))
        except _HalfCharacter:
            raise _half_character(run) from None
        if len(run) == 1:
            attributed.add(ids, run[0])
        else:
            length_of = self.vocabulary.length_of.__getitem__
            attributed.add_run(ids, run, piece_token_ends(run, map(length_of, ids)))

    # Inside.

    def _text_ids(self, text: str) -> list[int]:
        if len(text) <= REMEMBERED_LENGTH:
            return self._remembered(text)
        return self._fresh_ids(text)

    def _fresh_ids(self, text: str) -> list[int]:
        engine = self._engine or self._load_engine()
        try:
            return engine(text)
        except (UnicodeEncodeError, TypeError):
            raise _HalfCharacter from None

    def _load_engine(self) -> TextEncoder:
        # One for each vocabulary, however many tokenizers use it: an engine takes 200 MiB.
        with _loading:
            engines = _engines.setdefault(self.vocabulary.ordinary, {})
            if self._make_engine not in engines:
                try:
                    engines[self._make_engine] = self._make_engine(self.vocabulary.ordinary)
                except Exception as error:  # the engines raise whatever they like
                    problem = f"{self.vocabulary.name} cannot be read by the engine: {error}"
                    raise VocabularyError(problem) from error
            self._engine = engines[self._make_engine]
            return self._engine

    def _specials(self, prompt: Prompt) -> dict[str, int]:
        """The ids of special tokens, after a check that the vocabulary has all of the dialect's."""
        if not isinstance(prompt, Prompt):
            raise OptionError("prompt", mismatch(prompt, "what dsv4.encode gives"))
        dialect = prompt.dialect
        added = self._checked.get(dialect)
        if added is None:
            vocabulary = self._named_for(dialect)
            vocabulary.check(dialect.special_tokens, str(dialect))
            added = self._checked[dialect] = vocabulary.added
        return added


def _bytes_of(id: int, vocabulary: Vocabulary) -> bytes:
    try:
        bytes_ = vocabulary.bytes_of.get(id)
    except TypeError:  # a list, as of a whole batch
        bytes_ = None
    if bytes_ is None:
        raise OptionError("ids", mismatch(id, f"ids of {vocabulary.name}"))
    return bytes_


def _text_of(ids: Iterable[int], vocabulary: Vocabulary) -> str:
    return b"".join(_bytes_of(id, vocabulary) for id in ids).decode("utf-8", "replace")


def _check_places(places: Sequence[int], images: Sequence[object]) -> None:
    if len(places) != len(images):
        problem = f"found {len(places)} places of images and {len(images)} images"
        raise OptionError("prompt", f"{problem}, expected as many")


def _numbers(counts: Sequence[int | None], prompt: Prompt) -> list[int]:
    """The numbers of tokens of all images. Raises if one is not known."""
    numbers = [count for count in counts if count is not None]
    if len(numbers) < len(counts):
        first = next(n for n, count in enumerate(counts) if count is None)
        raise ImageError(f"image {first + 1} of {len(counts)}: {why_no_size(prompt.images[first])}")
    return numbers


class _HalfCharacter(Exception):
    """A text that UTF-8 cannot write."""


def _half_problem(text: str) -> str:
    problem = f"found {short_repr(text)}, in which half a surrogate pair stands alone"
    return f"{problem}: expected text that UTF-8 can write"


def _half_character(pieces: Sequence[Piece]) -> EncodeError:
    """The error for pieces of which one has half a character in it: it names the message."""
    for piece in pieces:
        try:
            piece.text.encode()
        except UnicodeEncodeError:
            message: Location = () if piece.message is None else ("messages", piece.message)
            return EncodeError((*message, piece.field), _half_problem(piece.text))
    return EncodeError(("messages",), "found half a character, expected text that UTF-8 can write")


_loading = RLock()
_engines: WeakKeyDictionary[Vocabulary, dict[Any, TextEncoder]] = WeakKeyDictionary()


# A vocabulary is read once, and there is one tokenizer for each way to ask for it.
@lru_cache(maxsize=32)
def _vocabulary(path: str, changed: int) -> Vocabulary:
    return Vocabulary.read(path)


@lru_cache(maxsize=64)
def _load_vocabulary_and_engine(
    kind: Callable[..., Any], path: str, changed: int, engine: str, dialect: Dialect | None
) -> Any:
    tokenizer = kind(_vocabulary(path, changed), engine, dialect)
    if dialect is None and not is_bundled(path):
        tokenizer.dialect  # noqa: B018  a vocabulary of no dialect is refused
    return tokenizer


# The vocabularies of tokenizers that were wrapped, by their digests, as long as one is in use.
_vocabularies: WeakValueDictionary[bytes, Vocabulary] = WeakValueDictionary()
# The beginning of a `tokenizer.json` is not part of the vocabulary, and changes with its use.
_SETTINGS_END = '"added_tokens":'
_NO_SETTINGS = '{"version":"1.0","truncation":null,"padding":null,'


def _shared_vocabulary(text: str) -> Vocabulary:
    """The vocabulary in the text of a `tokenizer.json`: one for all that have the same."""
    _, settings_end, rest = text.partition(_SETTINGS_END)
    if settings_end:
        text = _NO_SETTINGS + settings_end + rest
    vocabulary = Vocabulary(text, "the given tokenizer")
    with _loading:
        return _vocabularies.setdefault(vocabulary.digest, vocabulary)


def _unpickled(
    kind: type[Coder], source: str | None, engine: str, dialect: Dialect | None, digest: bytes
) -> Coder:
    """The tokenizer of a path, if that still holds the same vocabulary."""
    tokenizer = kind.load(source, engine, dialect)
    if tokenizer.vocabulary.digest != digest:
        name = tokenizer.vocabulary.name
        raise VocabularyError(f"{name} is not what it was when the tokenizer was pickled")
    return tokenizer


# The kinds of runs below; an index is that of a message whose ids are given.
_TEXT = -1
_ALONE = None


def _text_runs(
    pieces: Sequence[Piece], sampled: Mapping[int, Any]
) -> Iterator[tuple[int | None, list[Piece]]]:
    """Runs of pieces: each special token by itself, all text between two together, and the sampled
    part of a message as one, whatever is in it."""
    run: list[Piece] = []
    before: int | None = _ALONE
    for piece in pieces:
        kind = _ALONE if piece.special else _TEXT
        if sampled and piece.origin == "model" and piece.message in sampled:
            kind = piece.message
        if run and (kind is _ALONE or kind != before):
            yield before, run
            run = []
        run.append(piece)
        before = kind
    if run:
        yield before, run


def common_prefix_length(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The number of ids, or letters, that two sequences have in common at the beginning."""
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return shorter
    # Slices are compared in C. The first difference is in the second of ever smaller halves.
    same, width = 0, shorter
    while width > 1:
        half = width // 2
        if a[same : same + half] == b[same : same + half]:
            same += half
            width -= half
        else:
            width = half
    return same


# Parses a completion from token ids: special tokens are recognised by their ids, and by their
# spelling only where a grammar allowed nothing else.


# Further tokens with a meaning in a completion, besides those that every vocabulary has.
_FURTHER = tuple(spelling for spelling, _, _ in COMPLETION_TOKENS)


class IdParser:
    """Feeds a `dsv4.StreamParser` with ids.

    A special token is recognised by its id. Text of ordinary tokens never spells one, whatever it
    looks like, unless it was written under a grammar that has these tokens as text.

    - `tokenizer`: the vocabulary of the ids.
    - `parser`: the parser of the completion, a fresh one: `dsv4.StreamParser(…)` or
      `request.parser()`. A `StreamParser` with its default options, if not given.
    - `markers`: the form in which the completion's grammar writes special tokens, as in
      `Grammar.markers`. With "text", the tokens around reasoning and the one of tool calls also
      count if ordinary tokens spell them: such a grammar allows that, and allows no text that would
      spell one.

    Raises a `VocabularyError` if the vocabulary lacks a token that completions have.
    """

    def __init__(
        self,
        tokenizer: Coder,
        parser: StreamParser | None = None,
        *,
        markers: Literal["tokens", "text"] = "tokens",
    ) -> None:
        if markers not in ("tokens", "text"):
            raise OptionError("markers", mismatch(markers, "one of tokens, text"))
        self._tokenizer = tokenizer
        self._parser = StreamParser() if parser is None else parser
        self._spelled = markers == "text"
        self._begun = ""  # text that may become a marker, if markers may be spelled
        self._acting = tokenizer.acting_ids(self._parser.dialect)
        self._bytes_of = tokenizer.vocabulary.bytes_of
        # The tokens that a grammar may make a model write, and their possible beginnings.
        own, dsml = self._parser.dialect.tokens, self._parser.dialect.tags.dsml
        markers_of = own.think_start, own.think_end, dsml
        self._marker = re.compile(f"({'|'.join(map(re.escape, markers_of))})")
        self._starts = tuple(one[:n] for one in markers_of for n in range(len(one) - 1, 0, -1))
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._in_character = False  # whether the decoder waits for the rest of one

    def feed_ids(self, ids: Iterable[int]) -> list[Event]:
        """The events that `ids` bring, possibly none.

        `ids` are the next ids of the completion; characters may be split over them. Raises an
        `OptionError` for an id that is not in the vocabulary.
        """
        if type(ids) is list and len(ids) == 1:
            id = ids[0]
            if id.__class__ is int and id in self._bytes_of and id not in self._acting:
                # Nearly all that engines send, and nearly all of it is ASCII.
                data = self._bytes_of[id]
                if self._in_character or self._spelled or not data.isascii():
                    return self._feed_bytes(data)
                return self._parser.feed_inert(data.decode("ascii"))
        events: list[Event] = []
        for token, run in groupby(as_list(ids, ("ids",), "a list of ids"), self._maybe_acting):
            if token is None:
                events += self._feed_bytes(b"".join(map(self._tokenizer.bytes_of, run)))
                continue
            events += self._feed_bytes(b"", final=True)
            for _ in run:
                events += self._parser.feed(token)
        return events

    def pass_by(self, id: int, text: str, kind: TextKind) -> str | None:
        """Takes `id` without creating an event, if its text is `text` and that would be one of
        `kind`, or none. Returns the event's text. None: nothing was taken, and the id is to be
        fed."""
        if self._in_character or self._spelled or id in self._acting:
            return None
        return self._parser.pass_by(text, kind) if self._bytes_of.get(id) == text.encode() else None

    def feed(self, text: str) -> list[Event]:
        """The events that `text` brings, in which special tokens are spelled."""
        return [*self._feed_bytes(b"", final=True), *self._parser.feed(text)]

    def finish(self, reason: Reason | None = None) -> list[Event]:
        """The events that the end of the text brings. `reason` is why generation ended."""
        return [*self._feed_bytes(b"", final=True), *self._parser.finish(reason)]

    def _maybe_acting(self, id: int) -> str | None:
        try:
            return self._acting.get(id)
        except TypeError:  # a list, as of a whole batch: the tokenizer says so
            return None

    def _feed_bytes(self, data: bytes, final: bool = False) -> list[Event]:
        """Feeds text of ordinary tokens, in which only markers count, and only if they may."""
        text = self._decoder.decode(data, final)
        self._in_character = bool(self._decoder.getstate()[0])
        if self._spelled:
            return self._feed_spelled(text, final)
        return self._parser.feed_inert(text) if text else []

    def _feed_spelled(self, text: str, final: bool) -> list[Event]:
        """Feeds text in which markers may be spelled, each of them in one piece."""
        *complete, rest = self._marker.split(self._begun + text)
        self._begun = ""
        if not final:
            self._begun = next((start for start in self._starts if rest.endswith(start)), "")
            rest = rest.removesuffix(self._begun)
        events: list[Event] = []
        for n, piece in enumerate((*complete, rest)):
            # Every other piece is a marker.
            feed = self._parser.feed if n % 2 else self._parser.feed_inert
            events += feed(piece) if piece else []
        return events
