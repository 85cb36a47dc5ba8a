"""What is done to each chunk: conversations in, encoded examples out. Runs in any process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from dsv4.dataset.chunks import Chunk, Position
from dsv4.dataset.failures import BadLine
from dsv4.dataset.forms import FORMS, Example
from dsv4.dataset.memory import Worker, this_worker
from dsv4.errors import Error
from dsv4.reading.bodies import Overrides, request_of
from dsv4.reading.text import BYTE_ORDER_MARK, decoded, json_value
from dsv4.request import Request
from dsv4.tokens.tokenizer import Example as Expanded
from dsv4.tokens.tokenizer import Tokenizer


class Done(NamedTuple):
    """What became of a chunk. `data` is as it goes to the output."""

    data: bytes
    conversations: int
    examples: int
    tokens: int
    bad: list[str]
    after: Position
    worker: Worker


@dataclass(frozen=True)
class Job:
    """All that a worker must know. `overrides` say how every conversation is encoded."""

    overrides: Overrides
    policy: str
    expand: bool
    tokenizer: str | None
    form: str


class Encoder:
    """Does a job, chunk by chunk, with a tokenizer that is loaded when the first one comes."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self, chunk: Chunk) -> Done:
        examples: list[Example] = []
        bad: list[str] = []
        conversations = 0
        for number, line in enumerate(chunk.lines, chunk.first):
            if line.isspace():
                continue
            try:
                examples += self._examples(chunk.name, number, line)
                conversations += 1
            except Error as error:
                bad.append(str(error))
        return Done(
            FORMS[self.job.form].packed(examples),
            conversations,
            len(examples),
            sum(len(example.ids) for example in examples),
            bad,
            chunk.after,
            this_worker(),
        )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.job.tokenizer)

    def _examples(self, name: str, number: int, line: bytes) -> list[Example]:
        value = _value(name, number, line)
        with _placed(f"{name}:{number}"):
            request = self.job.overrides.on(request_of(value))
            if self.job.expand:
                return [_masked(e.ids, e.weights) for e in expanded(self._tokenizer, request)]
            return [_masked(*self._tokenizer.encode_masked(request.encode(), self.job.policy))]


def expanded(tokenizer: Tokenizer, request: Request) -> list[Expanded]:
    """A conversation as training examples, each turn as it was sampled."""
    return tokenizer.expand(
        list(request.messages),
        tools=request.tools,
        response_format=request.response_format,
        thinking=request.thinking,
        effort=request.effort,
        drop_thinking=request.drop_thinking,
        bos=request.bos,
        dialect=request.dialect,
    )


def _value(name: str, number: int, line: bytes) -> Any:
    text = decoded(line.rstrip(), name, number)  # the line end is not where an error can be
    return json_value(text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text, name, number)


def _masked(ids: list[int], weights: list[float]) -> Example:
    return Example(ids, list(map(int, weights)))


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Errors of a conversation, with its place."""
    try:
        yield
    except Error as error:
        raise BadLine(f"{place}: {error}") from None
    except RecursionError:
        raise BadLine(f"{place}: nested too deep to be encoded") from None
