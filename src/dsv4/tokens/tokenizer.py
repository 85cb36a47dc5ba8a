"""Prompts -> ids and back."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from dsv4.decoding.prompts import prompt_from
from dsv4.decoding.recognition import dialects_of
from dsv4.encoding.pieces import Piece
from dsv4.encoding.prompt import Prompt
from dsv4.encoding.raw_turns import RawTurn
from dsv4.errors import EncodeError, Location, OptionError, shown
from dsv4.format.dialects import Dialect, dialect_named
from dsv4.format.tokens import EOS, THINK_END, V3_2_TOKENS
from dsv4.request import Options, Request
from dsv4.tokens.engines import Encode, engine_named
from dsv4.tokens.masks import Owned, Policy, Span, Weigh, borders, weigher
from dsv4.tokens.vocabulary import Vocabulary, VocabularyError, find_vocabulary, is_bundled

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Short runs between special tokens come again and again: the ids of this many are remembered.
REMEMBERED_RUNS = 16_384
REMEMBERED_LENGTH = 64


_NONE: Mapping[int, Sequence[int]] = MappingProxyType({})


class Example(NamedTuple):
    """One training example: a prompt, its ids, and weights for what was sampled in it.

    `shared` is how many ids it has in common with the example before it, from the start.
    """

    prompt: Prompt
    ids: list[int]
    weights: list[float]
    shared: int


class Tokenizer:
    """The ids of prompts. Special tokens come from the format alone, whatever a text spells.

    Nothing is loaded before it is needed. One tokenizer may be used from many threads.
    """

    def __init__(self, vocabulary: Vocabulary, engine: str = "auto") -> None:
        self.vocabulary = vocabulary
        self._make_engine = engine_named(engine)
        self._engine_name = engine
        self._lock = Lock()
        self._engine: Encode | None = None
        self._remembered = lru_cache(REMEMBERED_RUNS)(self._fresh_ids)
        self._checked: set[str] = set()

    @staticmethod
    def load(source: str | os.PathLike[str] | None = None, engine: str = "auto") -> Tokenizer:
        """The tokenizer of the bundled V4 vocabulary, of a `tokenizer.json` or of a checkpoint.

        `source` is a path to one of these; without it, the bundled vocabulary is taken. `engine`
        says what splits text: "auto" takes the fastest that is installed. A tokenizer is loaded
        once, however often it is asked for. A vocabulary of your own is looked at right away.
        Raises a `VocabularyError` where it lacks tokens that all dialects share, or cannot be read.
        """
        engine_named(engine)
        path = find_vocabulary(source)
        with _loading:
            return _loaded(path, os.stat(path).st_mtime_ns, engine)

    @staticmethod
    def wrap(tokenizer: Any, engine: str = "auto") -> Tokenizer:
        """The tokenizer over the vocabulary of an object of `transformers` or `tokenizers`.

        `tokenizer` is that object, `engine` is as for `load`. Raises an `OptionError` for anything
        but a fast tokenizer.
        """
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "to_str"):
            found = shown(tokenizer)
            raise OptionError("tokenizer", f"found {found}, expected a fast tokenizer")
        return Tokenizer(Vocabulary(backend.to_str(), "the given tokenizer"), engine)

    def __reduce__(self) -> tuple[Any, ...]:
        path = self.vocabulary.name
        if not os.path.isfile(path):
            return Tokenizer, (self.vocabulary, self._engine_name)
        return _unpickled, (path, self._engine_name)

    # Text and prompts -> ids.

    def encode(self, prompt: Prompt) -> list[int]:
        """The ids of `prompt`. Turns whose ids were given with them have those.

        Raises a `VocabularyError` where the vocabulary lacks a token of the prompt, and an
        `EncodeError` for text that UTF-8 cannot write.
        """
        ids: list[int] = []
        added = self._specials(prompt)
        if prompt.sampled:
            return self.owned(prompt).ids
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
            raise OptionError("text", f"found {shown(text)}, expected text")
        try:
            return list(self._text_ids(text))
        except _HalfCharacter:
            raise OptionError("text", _half_problem(text)) from None

    def encode_masked(
        self, prompt: Prompt, policy: Policy = "assistant"
    ) -> tuple[list[int], list[float]]:
        """The ids of `prompt`, with a weight for each: what `policy` says is trained on.

        A policy is a name, or a function of message and field; `docs/tokens.md` draws them. Raises
        what `encode` raises, and an `OptionError` for a policy that there is not.
        """
        owned = self.owned(prompt)
        return owned.ids, owned.weights(weigher(policy, prompt.pieces))

    def spans(self, prompt: Prompt) -> list[Span]:
        """Which tokens of `prompt` came from which message and field. The spans cover them all."""
        return self.owned(prompt).spans()

    def count(self, prompt: Prompt | str) -> int:
        """How many tokens `prompt` has, which may also be a text."""
        return len(self.encode_text(prompt) if isinstance(prompt, str) else self.encode(prompt))

    def prompt_cost(self, prompt: Prompt) -> dict[tuple[int | None, str], int]:
        """How many tokens each field takes in `prompt`: (message, field) -> tokens."""
        cost: Counter[tuple[int | None, str]] = Counter()
        for start, end, piece in self.owned(prompt):
            cost[piece.message, piece.field] += end - start
        return dict(cost)

    def expand(
        self, messages: Iterable[Any] | Request, **options: Unpack[Options]
    ) -> list[Example]:
        """A conversation as training examples, each turn as it was sampled.

        When reasoning is dropped from earlier turns, what was sampled is in no single prompt: each
        stretch of assistant turns is an example with the reasoning it had. `options` are those of
        `Request`, which may also be given in place of the messages.
        """
        request = _as_request(messages, options)
        examples: list[Example] = []
        for start, prompt in _sampled_prompts(request):
            owned = self.owned(prompt)
            weights = owned.weights(_model_from(start))
            shared = same_start(examples[-1].ids, owned.ids) if examples else 0
            examples.append(Example(prompt, owned.ids, weights, shared))
        return examples

    # Ids -> text.

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, special tokens spelled out. An unknown id raises an `OptionError`."""
        return b"".join(map(self.bytes_of, ids)).decode("utf-8", "replace")

    def prompt(self, ids: Iterable[int], *, dialect: str | Dialect | None = None) -> Prompt:
        """The prompt of ids, for `dsv4.decode`: what is a token stays one, what spells one not.

        `ids` are those of a whole prompt. `dialect` is the release it is written in; without it,
        the text shows which it may be. Raises an `EncodeError` for an id that the vocabulary does
        not have, and an `OptionError` for an unknown dialect.
        """
        ids = list(ids)
        likely = dialect if dialect is not None else dialects_of(self.decode(ids))[0]
        release = dialect_named(likely)
        return prompt_from(self._parts(ids, release), release)

    def _parts(self, ids: Sequence[int], dialect: Dialect) -> Iterator[str]:
        added = self.vocabulary.added
        specials = {added[token]: token for token in dialect.special_tokens if token in added}
        run: list[int] = []
        for id in ids:
            if id not in specials:
                run.append(id)
                continue
            if run:
                yield self.decode(run)
                run = []
            yield specials[id]
        if run:
            yield self.decode(run)

    def bytes_of(self, id: int) -> bytes:
        """The bytes that `id` stands for. Raises an `OptionError` for an unknown one."""
        found = self.vocabulary.bytes_of.get(id)
        if found is None:
            raise OptionError("ids", f"found {shown(id)}, expected ids of {self.vocabulary.name}")
        return found

    def special_id(self, token: str) -> int:
        """The id of a special token, `token`. Raises a `VocabularyError` where there is none."""
        found = self.vocabulary.added.get(token)
        if found is None:
            raise VocabularyError(f"{self.vocabulary.name} has no special token {token}")
        return found

    # Ids and whose they are.

    def owned(self, prompt: Prompt, sampled: Mapping[int, Sequence[int]] = _NONE) -> Owned:
        """The ids of `prompt`, and the pieces they came from.

        `sampled` gives the ids of all that the model wrote in some messages, by index.
        """
        added = self._specials(prompt)
        if prompt.sampled:
            sampled = {**self._given_ids(prompt.sampled), **sampled}
        return self._owned(prompt.pieces, added, sampled)

    def _given_ids(self, turns: Mapping[int, RawTurn]) -> dict[int, Sequence[int]]:
        think_end, eos = self.special_id(THINK_END), self.special_id(EOS)
        given = {index: turn.ids(think_end, eos) for index, turn in turns.items()}
        return {index: ids for index, ids in given.items() if ids is not None}

    def ids_of(self, pieces: Sequence[Piece]) -> list[int]:
        """The ids of `pieces` by themselves, apart from the prompt they are of."""
        return self._owned(pieces, self.vocabulary.added, _NONE).ids

    def _owned(
        self, pieces: Sequence[Piece], added: dict[str, int], sampled: Mapping[int, Sequence[int]]
    ) -> Owned:
        owned = Owned()
        for kind, run in _text_runs(pieces, sampled):
            first = run[0]
            if kind is _ALONE:
                owned.add((added[first.text],), first)
            elif kind != _TEXT:
                owned.add(sampled[kind], first)
            else:
                self._add_text(owned, run)
        return owned

    def _add_text(self, owned: Owned, run: Sequence[Piece]) -> None:
        try:
            ids = self._text_ids("".join(piece.text for piece in run))
        except _HalfCharacter:
            raise _half_character(run) from None
        if len(run) == 1:
            owned.add(ids, run[0])
        else:
            length_of = self.vocabulary.length_of.__getitem__
            owned.add_run(ids, run, borders(run, map(length_of, ids)))

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

    def _load_engine(self) -> Encode:
        with self._lock:
            if self._engine is None:
                try:
                    self._engine = self._make_engine(self.vocabulary)
                except Exception as error:  # the engines raise whatever they like
                    problem = f"{self.vocabulary.name} cannot be read by the engine: {error}"
                    raise VocabularyError(problem) from error
            return self._engine

    def _specials(self, prompt: Prompt) -> dict[str, int]:
        """The ids of special tokens, after a look whether the dialect has them all."""
        if not isinstance(prompt, Prompt):
            raise OptionError("prompt", f"found {shown(prompt)}, expected what dsv4.encode gives")
        dialect = prompt.dialect
        if dialect.name not in self._checked:
            self.vocabulary.check(dialect.special_tokens, str(dialect))
            self._checked.add(dialect.name)
        return self.vocabulary.added


def _as_request(messages: Iterable[Any] | Request, options: Options) -> Request:
    if not isinstance(messages, Request):
        return Request(messages, **options)
    if options:
        problem = f"found {', '.join(options)} beside a request, expected the options on it"
        raise OptionError("messages", problem)
    return messages


class _HalfCharacter(Exception):
    """A text that UTF-8 cannot write."""


def _half_problem(text: str) -> str:
    problem = f"found {shown(text)}, in which half a surrogate pair stands alone"
    return f"{problem}: expected text that UTF-8 can write"


def _half_character(pieces: Sequence[Piece]) -> EncodeError:
    """The error for pieces in one of which half a character stands: it names the message."""
    for piece in pieces:
        try:
            piece.text.encode()
        except UnicodeEncodeError:
            message: Location = () if piece.message is None else ("messages", piece.message)
            return EncodeError((*message, piece.field), _half_problem(piece.text))
    return EncodeError(("messages",), "found half a character, expected text that UTF-8 can write")


_loading = Lock()


@lru_cache(maxsize=32)
def _loaded(path: str, changed: int, engine: str) -> Tokenizer:
    vocabulary = Vocabulary.read(path)
    if not is_bundled(path):
        vocabulary.check(V3_2_TOKENS, "any dialect")
    return Tokenizer(vocabulary, engine)


def _unpickled(path: str, engine: str) -> Tokenizer:
    """The tokenizer of a path, or the bundled one where that is gone: as on another machine."""
    return Tokenizer.load(path if os.path.isfile(path) else None, engine)


# The kinds of runs below; an index is that of a message whose ids are given.
_TEXT = -1
_ALONE = None


def _text_runs(
    pieces: Sequence[Piece], sampled: Mapping[int, Any]
) -> Iterator[tuple[int | None, list[Piece]]]:
    """Special tokens one by one, and the text between them all together; and what was sampled in
    a message, whatever is in it."""
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


def _sampled_prompts(request: Request) -> Iterator[tuple[int, Prompt]]:
    """The prompts in which every assistant turn is as it was sampled, each with the index from
    which on its turns are in no prompt before it."""
    messages = list(request.messages)
    start, before = 0, 0
    last: Prompt | None = None
    for end in _sampled_ends(messages):
        prompt = replace(request, messages=messages[:end]).encode()
        if last is not None and not str(prompt).startswith(str(last)):
            yield start, last
            start = before
        last, before = prompt, end
    if last is not None:
        yield start, last


def _sampled_ends(messages: Sequence[Any]) -> Iterator[int]:
    """Where stretches of assistant turns end."""
    sampled = [_is_assistant(message) for message in messages]
    for end in range(1, len(sampled) + 1):
        if sampled[end - 1] and not any(sampled[end : end + 1]):
            yield end


def _is_assistant(message: Any) -> bool:
    # An object is what parsing gave.
    return not isinstance(message, dict) or message.get("role") == "assistant"


def _model_from(start: int) -> Weigh:
    """Weighs what the model wrote from the message `start` on."""
    return lambda piece: piece.origin == "model" and (piece.message or 0) >= start


def same_start(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids two lists begin with in common."""
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return shorter
    return next(n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
