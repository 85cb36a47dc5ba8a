"""What is done to each chunk: conversations in, encoded examples out. Runs in any process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from dsv4.dataset.chunks import Chunk, Position
from dsv4.dataset.counting import Counts
from dsv4.dataset.failures import BadLine
from dsv4.dataset.forms import FORMS, Example
from dsv4.dataset.memory import Worker, this_worker
from dsv4.dataset.packing import packed
from dsv4.dataset.splitting import WHOLE, Share
from dsv4.encoding.prompt import Prompt
from dsv4.errors import Error
from dsv4.reading.bodies import Overrides, request_of
from dsv4.reading.text import BYTE_ORDER_MARK, decoded, json_value
from dsv4.request import Request
from dsv4.tokens.expanding import Example as Expanded
from dsv4.tokens.tokenizer import Tokenizer


class Done(NamedTuple):
    """What became of a chunk. `data` is as it goes to the output."""

    data: bytes
    conversations: int
    examples: int
    rows: int
    tokens: int
    cut: int
    dropped: int
    counts: str
    bad: list[str]
    after: Position
    worker: Worker


@dataclass(frozen=True)
class Job:
    """All that a worker must know. `overrides` say how every conversation is encoded.

    Examples of more than `longest` tokens are bad lines, or what `too_long` says. Rows hold
    examples of `pack` tokens together, or one each. `share` is the part that is wanted of all
    conversations, `counts` whether examples are to be counted.
    """

    overrides: Overrides
    policy: str
    expand: bool
    tokenizer: str | None
    form: str
    longest: int | None = None
    too_long: str = "fail"
    pack: int | None = None
    share: Share = WHOLE
    counts: bool = False


@dataclass
class _Lengths:
    """What became of examples that were too long."""

    cut: int = 0
    dropped: int = 0


class Encoder:
    """Does a job, chunk by chunk, with a tokenizer that is loaded when the first one comes."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self, chunk: Chunk) -> Done:
        self._lengths, self._counts = _Lengths(), Counts()
        examples: list[Example] = []
        bad: list[str] = []
        conversations = 0
        for number, line in enumerate(chunk.lines, chunk.first):
            if line.isspace() or not self.job.share.takes(line):
                continue
            try:
                examples += self._examples(chunk.name, number, line)
                conversations += 1
            except Error as error:
                bad.append(str(error))
        rows = examples if self.job.pack is None else packed(examples, self.job.pack)
        return Done(
            FORMS[self.job.form].packed(rows),
            conversations,
            len(examples),
            len(rows),
            sum(len(example.ids) for example in examples),
            self._lengths.cut,
            self._lengths.dropped,
            self._counts.written() if self.job.counts else "",
            bad,
            chunk.after,
            this_worker(),
        )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.job.tokenizer)

    def _examples(self, name: str, number: int, line: bytes) -> list[Example]:
        place = f"{name}:{number}"
        value = _value(name, number, line)
        with _placed(place):
            request = self.job.overrides.on(request_of(value))
            return [
                example
                for prompt, ids, weights in self._encoded(request)
                for example in self._fitting(prompt, Example(ids, list(map(int, weights))), place)
            ]

    def _encoded(self, request: Request) -> Iterator[tuple[Prompt, list[int], list[float]]]:
        if self.job.expand:
            for example in expanded(self._tokenizer, request):
                yield example.prompt, example.ids, example.weights
        else:
            prompt = request.encode()
            yield prompt, *self._tokenizer.encode_masked(prompt, self.job.policy)

    def _fitting(self, prompt: Prompt, example: Example, place: str) -> list[Example]:
        """The example if it is short enough, or what is left of it."""
        longest, length = self.job.longest, len(example.ids)
        if longest is not None and length > longest:
            if self.job.too_long == "fail":
                raise TooLong(f"found {length} tokens, expected at most {longest}")
            end = self._last_turn(prompt, longest) if self.job.too_long == "cut" else 0
            example = Example(example.ids[:end], example.mask[:end])
            if not any(example.mask):  # nothing is left to learn
                self._lengths.dropped += 1
                return []
            self._lengths.cut += 1
        if self.job.counts:
            owned = self._tokenizer.owned(prompt)
            self._counts.add(owned, len(example.ids), example.mask, place)
        return [example]

    def _last_turn(self, prompt: Prompt, longest: int) -> int:
        """Where the last of the model's turns ends that is whole within so many tokens."""
        owned = self._tokenizer.owned(prompt)
        ends = [end for _, end, piece in owned if piece.field == "eos" and end <= longest]
        return ends[-1] if ends else 0


class TooLong(Error):
    """An example of more tokens than were asked for."""


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


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Errors of a conversation, with its place."""
    try:
        yield
    except Error as error:
        raise BadLine(f"{place}: {error}") from None
    except RecursionError:
        raise BadLine(f"{place}: nested too deep to be encoded") from None
