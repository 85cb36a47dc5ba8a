"""The work on one chunk, in any process: conversations in; encoded, masked, cut and packed examples
out.

Which part of a split a conversation belongs to depends only on its own text, so copies of it
never land in two parts. Examples are packed within a chunk, and chunks depend only on the input,
so rows depend neither on the number of workers nor on where a run was interrupted.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from dsv4._check.training_checks import find_unfit
from dsv4._encode.prompt import Prompt
from dsv4._inputs.input_files import BYTE_ORDER_MARK, decode_utf8, parse_json
from dsv4._inputs.request_bodies import RequestOverrides, request_of
from dsv4.dataset.dataset_errors import BadLine
from dsv4.dataset.dataset_reader import InputChunk, InputPosition
from dsv4.dataset.dataset_statistics import DatasetCounts, WorkerMemory, memory_of_this_process
from dsv4.dataset.output_formats import (
    ARRAY_FORMATS,
    DATASET_FORMATS,
    FILE,
    LINE,
    NO_COLUMNS,
    TrainingExample,
)
from dsv4.dataset.trainer_columns import MASK_LAYOUT, ColumnLayout
from dsv4.errors import EncodeError, Error, short_repr
from dsv4.request import Request
from dsv4.tokens.masks import AttributedIds
from dsv4.tokens.tokenizer import Tokenizer

# Which part of a dataset a conversation is for: its own text says, and nothing else.
#
# So the same conversation is always in the same part, in whatever file and order it comes, and
# two copies of it never stand on both sides.


_BITS = 64


class SplitShare(NamedTuple):
    """A stretch of the numbers from 0 to 1."""

    low: float = 0.0
    high: float = 1.0

    def takes(self, line: bytes) -> bool:
        """Whether a conversation is in this part."""
        if self == WHOLE_DATASET:
            return True
        digest = blake2b(line.strip(), digest_size=_BITS // 8).digest()
        return self.low <= int.from_bytes(digest, "big") / (1 << _BITS) < self.high


WHOLE_DATASET = SplitShare()


# What is learned from an example, besides what its mask says: messages have weights.


def zero_weight_messages(messages: Sequence[Any]) -> set[int]:
    """The messages that are not to be learned from: those with a `weight` of 0.

    A weight is 0 or 1, as in OpenAI's files for fine-tuning.
    """
    found: set[int] = set()
    for index, message in enumerate(messages):
        weight = message.get("weight") if isinstance(message, dict) else None
        if weight is None:
            continue
        if isinstance(weight, bool) or weight not in (0, 1):
            location = ("messages", index, "weight")
            raise EncodeError(location, f"found {short_repr(weight)}, expected 0 or 1")
        if weight == 0:
            found.add(index)
    return found


def mask_without_messages(
    mask: Sequence[int], owned: AttributedIds, messages: set[int]
) -> list[int]:
    """The mask with nothing to learn in some messages."""
    mask = list(mask)
    for start, end, piece in owned:
        if piece.message in messages:
            mask[start:end] = [0] * (end - start)
    return mask


# Several examples in one row, so that rows of one length are nearly full.
#
# Examples are packed within a chunk, and where chunks end depends on the input alone: so the rows
# do not depend on how many work on them, nor on where a run was stopped.


# Chunks of this many rows leave at most one of them half empty.
ROWS_PER_CHUNK = 64
# What a token takes of a file of conversations, at most as a rule.
BYTES_PER_TOKEN = 4
MAX_CHUNK_BYTES = 1 << 24


def chunk_bytes_for_packing(length: int) -> int:
    """How large the chunks of an input must be for rows of a length."""
    return min(MAX_CHUNK_BYTES, max(1 << 20, ROWS_PER_CHUNK * length * BYTES_PER_TOKEN))


def pack_examples(examples: Sequence[TrainingExample], length: int) -> list[TrainingExample]:
    """Rows of at most `length` tokens. No example may be longer.

    The longest example goes first, each into the fullest row that has room for it. Rows come in
    the order of their first example, and so do the examples in a row.
    """
    rows: list[list[int]] = []
    room: list[tuple[int, int]] = []  # what is left in each row, and which row it is; in order
    for n in sorted(range(len(examples)), key=lambda n: -len(examples[n].ids)):
        needed = len(examples[n].ids)
        at = bisect_left(room, (needed, -1))
        if at == len(room):
            rows.append([n])
            insort(room, (length - needed, len(rows) - 1))
        else:
            left, row = room.pop(at)
            rows[row].append(n)
            insort(room, (left - needed, row))
    return [_packed_row([examples[n] for n in sorted(row)]) for row in sorted(rows, key=min)]


def _packed_row(examples: list[TrainingExample]) -> TrainingExample:
    ids: list[int] = []
    mask: list[int] = []
    for example in examples:
        ids += example.ids
        # Nothing before it in the row leads to the first token of an example.
        mask += [0, *example.mask[1:]] if example.ids else []
    lengths = tuple(len(example.ids) for example in examples)
    shown = [example.images for example in examples if example.images is not None]
    images = [image for each in shown for image in each] if shown else None
    return TrainingExample(ids, mask, layout=examples[0].layout, lengths=lengths, images=images)


# What is done to each chunk: conversations in, encoded examples out. Runs in any process.


class EncodedChunk(NamedTuple):
    """What became of a chunk. `data` is as it goes to the output."""

    data: bytes
    conversations: int
    examples: int
    rows: int
    tokens: int
    learned: int
    unlearnable: int
    left_out: int
    cut: int
    dropped: int
    counts: str
    bad: list[str]
    rejects: bytes
    after: InputPosition
    worker: WorkerMemory


@dataclass(frozen=True)
class EncodingJob:
    """All that a worker must know. `overrides` say how every conversation is encoded.

    `carry` are columns of the input that go along, `layout` names those of the
    output, `drop_unlearnable` leaves out what has nothing to learn, `rejects` keeps bad lines.

    Examples of more than `longest` tokens are bad lines, or what `too_long` says. Rows hold
    examples of `pack` tokens together, or one each. `share` is the part that is wanted of all
    conversations, `counts` says whether examples are to be counted, `images` whether rows have a
    column for them. `ignore` are the kinds of errors that do not make a line bad.
    """

    overrides: RequestOverrides
    policy: str
    expand: bool
    tokenizer: str | None
    form: str
    carry: tuple[str, ...] | None = None
    layout: ColumnLayout = MASK_LAYOUT
    drop_unlearnable: bool = False
    rejects: bool = False
    engine: str = "auto"
    longest: int | None = None
    too_long: str = "fail"
    pack: int | None = None
    share: SplitShare = WHOLE_DATASET
    counts: bool = False
    images: bool = False
    ignore: tuple[str, ...] = ()


@dataclass
class _ChunkTally:
    """What is counted of a chunk."""

    conversations: int = 0
    unlearnable: int = 0
    left_out: int = 0
    cut: int = 0
    dropped: int = 0
    counts: DatasetCounts = field(default_factory=DatasetCounts)


class ChunkEncoder:
    """Does a job, chunk by chunk, with a tokenizer that is loaded when the first one comes."""

    def __init__(self, job: EncodingJob) -> None:
        self.job = job

    def __call__(self, chunk: InputChunk) -> EncodedChunk:
        examples: list[TrainingExample] = []
        bad: list[str] = []
        rejects: list[bytes] = []
        tally = _ChunkTally()
        for number, line in enumerate(chunk.lines, chunk.first):
            if line.isspace() or not self.job.share.takes(line):
                continue
            try:
                examples += self._examples(chunk.name, number, line, tally)
                tally.conversations += 1
            except Error as error:
                bad.append(str(error))
                if self.job.rejects:
                    rejects.append(_reject_line(chunk.name, number, line, str(error)))
        rows = examples if self.job.pack is None else pack_examples(examples, self.job.pack)
        return EncodedChunk(
            DATASET_FORMATS[self.job.form].packed(rows),
            tally.conversations,
            len(examples),
            len(rows),
            sum(len(example.ids) for example in examples),
            sum(sum(example.mask) for example in examples),
            tally.unlearnable,
            tally.left_out,
            tally.cut,
            tally.dropped,
            tally.counts.written() if self.job.counts else "",
            bad,
            b"".join(rejects),
            chunk.after,
            memory_of_this_process(),
        )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.job.tokenizer, self.job.engine)

    def _examples(
        self, name: str, number: int, line: bytes, tally: _ChunkTally
    ) -> list[TrainingExample]:
        value = _line_value(name, number, line)
        carried = _carried_columns(self.job.carry, value, name, number)
        place = f"{name}:{number}"
        with _located_errors(place):
            request = self.job.overrides.on(request_of(value))
            whole = request.encode()
            self._check_fit(request, whole)
            skipped = zero_weight_messages(list(request.messages))
            examples = [
                example
                for prompt, ids, weights in self._encoded(request, whole, tally)
                for example in self._fitting(
                    prompt, self._example(prompt, ids, weights, skipped, carried), place, tally
                )
            ]
        unlearnable = sum(not any(example.mask) for example in examples)
        tally.unlearnable += unlearnable
        if unlearnable and self.job.drop_unlearnable:
            return [example for example in examples if any(example.mask)]
        return examples

    def _check_fit(self, request: Request, prompt: Prompt) -> None:
        """Raises where `check --for training` has an error that is not to be ignored."""
        for found in find_unfit(request, prompt):
            if found.kind not in self.job.ignore:
                hint = f"--ignore {found.kind} trains on it as it is"
                raise EncodeError(found.location, f"{found.message} ({hint})")

    def _encoded(
        self, request: Request, whole: Prompt, tally: _ChunkTally
    ) -> Iterator[tuple[Prompt, list[int], list[float]]]:
        """Each example: its prompt, ids and weights. `whole` is the prompt of all messages."""
        if self.job.expand:
            # No example ends with a question, which is where a prefix goes.
            for example in self._tokenizer.expand(replace(request, prefix="")):
                yield example.prompt, example.ids, example.weights
        else:
            tally.left_out += sum(rule == "old_reasoning" for _, _, rule in whole.dropped)
            yield whole, *self._tokenizer.encode_masked(whole, self.job.policy)

    def _example(
        self,
        prompt: Prompt,
        ids: list[int],
        weights: list[float],
        skipped: set[int],
        carried: Mapping[str, Any],
    ) -> TrainingExample:
        # Nothing leads to the first token. In batches without padding, what stands before it is
        # another example.
        mask = [0, *map(int, weights[1:])] if ids else []
        if skipped:
            mask = mask_without_messages(mask, self._tokenizer.attributed(prompt), skipped)
        images = list(prompt.images) if self.job.images else None
        if prompt.images and self.job.form in ARRAY_FORMATS:
            problem = f"found {len(prompt.images)} images, which .{self.job.form} has no place for"
            raise UnsupportedByFormat(f"{problem}: expected .jsonl or .parquet")
        if prompt.images and self.job.layout.images is None:
            problem = f"found {len(prompt.images)} images, which the columns have no place for"
            raise UnsupportedByFormat(f"{problem}: expected text, or no trainer")
        return TrainingExample(ids, mask, carried, self.job.layout, images=images)

    def _fitting(
        self, prompt: Prompt, example: TrainingExample, place: str, tally: _ChunkTally
    ) -> list[TrainingExample]:
        """The example if it is short enough, or what is left of it."""
        longest, length = self.job.longest, len(example.ids)
        if longest is not None and length > longest:
            if self.job.too_long == "fail":
                raise ExampleTooLong(f"found {length} tokens, expected at most {longest}")
            end = self._last_turn(prompt, longest) if self.job.too_long == "cut" else 0
            shown = self._images_before(prompt, end) if example.images else example.images
            example = example._replace(ids=example.ids[:end], mask=example.mask[:end], images=shown)
            if not any(example.mask):  # nothing is left to learn
                tally.dropped += 1
                return []
            tally.cut += 1
        if self.job.counts:
            owned = self._tokenizer.attributed(prompt)
            tally.counts.add(owned, len(example.ids), example.mask, place)
        return [example]

    def _images_before(self, prompt: Prompt, end: int) -> list[Any]:
        owned = self._tokenizer.attributed(prompt)
        count = sum(piece.field == "image" for start, _, piece in owned if start < end)
        return list(prompt.images[:count])

    def _last_turn(self, prompt: Prompt, longest: int) -> int:
        """Where the last of the model's turns ends that is whole within that many tokens."""
        owned = self._tokenizer.attributed(prompt)
        ends = [end for _, end, piece in owned if piece.field == "eos" and end <= longest]
        return ends[-1] if ends else 0


class UnsupportedByFormat(Error):
    """Something that the form of the output cannot hold."""


class ExampleTooLong(Error):
    """An example of more tokens than were asked for."""


def _carried_columns(
    names: tuple[str, ...] | None, value: Any, file: str, line: int
) -> Mapping[str, Any]:
    """What goes along: the columns that were asked for, and where the row came from."""
    if names is None:
        return NO_COLUMNS
    fields = value if isinstance(value, dict) else {}
    return {**{name: fields.get(name) for name in names}, FILE: file, LINE: line}


def _reject_line(name: str, number: int, line: bytes, problem: str) -> bytes:
    """A bad line as the file of rejects keeps it: as it was, with its place and what is wrong."""
    text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    kept = {FILE: name, LINE: number, "error": problem, "text": text}
    return json.dumps(kept, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _line_value(name: str, number: int, line: bytes) -> Any:
    text = decode_utf8(line.rstrip(), name, number)  # the line end is not where an error can be
    return parse_json(text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text, name, number)


@contextmanager
def _located_errors(place: str) -> Iterator[None]:
    """Errors of a conversation, with its place."""
    try:
        yield
    except Error as error:
        raise BadLine(f"{place}: {error}") from None
    except RecursionError:
        raise BadLine(f"{place}: nested too deep to be encoded") from None
