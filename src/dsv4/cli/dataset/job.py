"""What is done to each chunk: conversations in, encoded examples out. Runs in any process."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import dsv4
from dsv4.cli.dataset.chunks import Chunk, Position
from dsv4.cli.dataset.forms import FORMS, Example
from dsv4.cli.dataset.memory import Worker, this_worker
from dsv4.cli.dataset.sources import BYTE_ORDER_MARK
from dsv4.cli.failure import Failure
from dsv4.cli.reading import Document, decoded, json_value
from dsv4.cli.requests import Request, request_in, with_options
from dsv4.cli.tokenizing import load_tokenizer

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


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
    """All that a worker must know. `options` are those that say how a prompt is encoded."""

    options: argparse.Namespace
    policy: str = "assistant"
    expand: bool = False
    tokenizer: str | None = None
    form: str = "jsonl"


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
                examples += self._examples(_request(chunk.name, number, line, self.job.options))
                conversations += 1
            except Failure as failure:
                bad.append(str(failure))
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
        return load_tokenizer(self.job.tokenizer)

    def _examples(self, request: Request) -> list[Example]:
        with _placed(request.place):
            if not self.job.expand:
                prompt = request.encode_as_is()
                return [_masked(*self._tokenizer.encode_masked(prompt, self.job.policy))]
            expanded = self._tokenizer.expand(request.messages, **request.encode_options())
            return [_masked(example.ids, example.weights) for example in expanded]


def _request(name: str, number: int, line: bytes, options: argparse.Namespace) -> Request:
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    text = decoded(line.rstrip(), name, number)  # the line end is not where an error can be
    value = json_value(text, name, number)
    return with_options(request_in(Document(f"{name}:{number}", value)), options)


def _masked(ids: list[int], weights: list[float]) -> Example:
    return Example(ids, list(map(int, weights)))


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Errors of a conversation, with its place."""
    try:
        yield
    except dsv4.Error as error:
        raise Failure(f"{place}: {error}") from None
    except RecursionError:
        raise Failure(f"{place}: nested too deep to be encoded") from None
