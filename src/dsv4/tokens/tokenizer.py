"""Prompts -> ids and back."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, NamedTuple

from dsv4.encode.prompt import Piece, Prompt
from dsv4.encode.request import encode
from dsv4.errors import EncodeError, shown
from dsv4.tokens.engines import Encode, engine_named
from dsv4.tokens.masks import Policy, Span, owners, spans_of, weigher
from dsv4.tokens.vocabulary import Vocabulary, find_vocabulary

# Short runs between special tokens come again and again: the ids of so many are remembered.
REMEMBERED_RUNS = 16_384
REMEMBERED_LENGTH = 64


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
        self._checked: set[str] = set()

    @staticmethod
    def load(source: str | os.PathLike[str] | None = None, engine: str = "auto") -> Tokenizer:
        """The tokenizer of the bundled V4 vocabulary, of a `tokenizer.json` or of a checkpoint.

        A tokenizer is loaded once, however often it is asked for.
        """
        path = find_vocabulary(source)
        engine_named(engine)
        return _loaded(path, os.stat(path).st_mtime_ns, engine)

    @staticmethod
    def wrap(tokenizer: Any, engine: str = "auto") -> Tokenizer:
        """The tokenizer over the vocabulary of a `transformers` or `tokenizers` object."""
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(backend, "to_str"):
            found = shown(tokenizer)
            raise EncodeError("tokenizer", f"found {found}, expected a fast tokenizer")
        return Tokenizer(Vocabulary(backend.to_str(), "the given tokenizer"), engine)

    def __reduce__(self) -> tuple[Any, ...]:
        if os.path.isfile(self.vocabulary.name):
            return Tokenizer.load, (self.vocabulary.name, self._engine_name)
        return Tokenizer, (self.vocabulary, self._engine_name)

    # Text and prompts -> ids.

    def encode(self, prompt: Prompt) -> list[int]:
        """The ids of a prompt."""
        ids: list[int] = []
        added = self._specials(prompt)
        for run, special in prompt.runs():
            if run:
                ids += self._text_ids(run)
            if special is not None:
                ids.append(added[special])
        return ids

    def encode_text(self, text: str) -> list[int]:
        """The ids of a text, in which no special token is recognised."""
        if not isinstance(text, str):
            raise EncodeError("text", f"found {shown(text)}, expected text")
        return list(self._text_ids(text))

    def encode_masked(
        self, prompt: Prompt, policy: Policy = "assistant"
    ) -> tuple[list[int], list[float]]:
        """Ids and weights. `docs/tokens.md` draws the policies."""
        weigh = weigher(policy, prompt.pieces)
        ids, pieces = self.owned(prompt)
        weights = {id(piece): float(weigh(piece)) for piece in prompt.pieces}
        return ids, [weights[id(piece)] for piece in pieces]

    def spans(self, prompt: Prompt) -> list[Span]:
        """Which tokens came from which message and field. The spans cover all tokens."""
        return spans_of(self.owned(prompt)[1])

    def count(self, prompt: Prompt | str) -> int:
        """How many tokens a prompt has, or a text."""
        return len(self.encode_text(prompt) if isinstance(prompt, str) else self.encode(prompt))

    def prompt_cost(self, prompt: Prompt) -> dict[tuple[int | None, str], int]:
        """How many tokens each field of each message takes: (message, field) -> tokens."""
        cost: Counter[tuple[int | None, str]] = Counter()
        for span in self.spans(prompt):
            cost[span.message, span.field] += span.end - span.start
        return dict(cost)

    def expand(self, messages: Sequence[Any], **options: Any) -> list[Example]:
        """A conversation as training examples, each turn as it was sampled.

        When reasoning is dropped from earlier turns, what was sampled is in no single prompt: each
        stretch of assistant turns is an example with the reasoning it had. Options are `encode`'s.
        """
        examples: list[Example] = []
        start = 0
        for end in _sampled_ends(messages):
            prompt = encode(list(messages[:end]), **options)
            ids, weights = self.encode_masked(prompt, _sampled_in(messages, start))
            if examples and same_start(examples[-1].ids, ids) == len(examples[-1].ids):
                # Nothing was dropped: the example before goes on in this one.
                before = examples.pop()
                weights = [*before.weights, *weights[len(before.weights) :]]
            shared = same_start(examples[-1].ids, ids) if examples else 0
            examples.append(Example(prompt, ids, weights, shared))
            start = end
        return examples

    # Ids -> text.

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, special tokens spelled out."""
        return b"".join(map(self.bytes_of, ids)).decode("utf-8", "replace")

    def bytes_of(self, id: int) -> bytes:
        """What one id stands for."""
        found = self.vocabulary.bytes_of.get(id)
        if found is None:
            raise EncodeError("ids", f"found {shown(id)}, expected ids of {self.vocabulary.name}")
        return found

    def special_id(self, token: str) -> int:
        """The id of a special token."""
        return self.vocabulary.added[token]

    # Inside.

    @cached_property
    def _engine(self) -> Encode:
        with self._lock:
            return self._make_engine(self.vocabulary)

    @cached_property
    def _remembered(self) -> Any:
        return lru_cache(REMEMBERED_RUNS)(self._engine)

    def _text_ids(self, text: str) -> list[int]:
        if len(text) <= REMEMBERED_LENGTH:
            return self._remembered(text)  # type: ignore[no-any-return]
        return self._engine(text)

    def _specials(self, prompt: Prompt) -> dict[str, int]:
        """The ids of special tokens, after a look whether the dialect has them all."""
        if not isinstance(prompt, Prompt):
            raise EncodeError("prompt", f"found {shown(prompt)}, expected what dsv4.encode gives")
        if prompt.dialect.name not in self._checked:
            self.vocabulary.check(prompt.dialect)
            self._checked.add(prompt.dialect.name)
        return self.vocabulary.added

    def owned(self, prompt: Prompt) -> tuple[list[int], list[Piece]]:
        """Ids, and the piece that each belongs to."""
        added = self._specials(prompt)
        ids: list[int] = []
        owned: list[Piece] = []
        for run in _text_runs(prompt.pieces):
            if run[0].special:
                ids.append(added[run[0].text])
                owned.append(run[0])
                continue
            run_ids = self._text_ids("".join(piece.text for piece in run))
            ids += run_ids
            owned += owners(run, [len(self.vocabulary.bytes_of[id]) for id in run_ids])
        return ids, owned


@lru_cache(maxsize=8)
def _loaded(path: str, changed: int, engine: str) -> Tokenizer:
    return Tokenizer(Vocabulary.read(path), engine)


def _text_runs(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Special tokens one by one, and the text between them all together."""
    run: list[Piece] = []
    for piece in pieces:
        if not piece.special:
            run.append(piece)
            continue
        if run:
            yield run
            run = []
        yield [piece]
    if run:
        yield run


def _sampled_ends(messages: Sequence[Any]) -> Iterator[int]:
    """Where stretches of assistant turns end: before each turn of somebody else's that asks."""
    sampled = False
    for index, message in enumerate(messages):
        role = _role(message)
        if role == "assistant":
            sampled = True
        elif sampled and role in ("user", "tool", "developer", "system"):
            yield index
            sampled = False
    if sampled:
        yield len(messages)


_MODEL_FIELDS = ("reasoning", "content", "tool_calls", "eos")


def _sampled_in(messages: Sequence[Any], start: int) -> Policy:
    """Weighs what the model wrote from the message `start` on."""

    def weigh(message: int | None, field: str) -> float:
        if message is None or message < start or field not in _MODEL_FIELDS:
            return 0.0
        return float(_role(messages[message]) == "assistant")

    return weigh


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else "assistant"


def same_start(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids two lists begin with in common."""
    return next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
