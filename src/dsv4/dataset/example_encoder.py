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
    MASK_LAYOUT,
    NO_COLUMNS,
    ColumnLayout,
    TrainingExample,
)
from dsv4.errors import EncodeError, Error, short_repr
from dsv4.request import Request
from dsv4.tokens.masks import AttributedIds
from dsv4.tokens.tokenizer import Tokenizer

_BITS = 64


class SplitShare(NamedTuple):
    """A part of a split: the conversations whose hash, from 0 to 1, is between `low` and `high`."""

    low: float = 0.0
    high: float = 1.0

    def includes(self, line: bytes) -> bool:
        """Whether the conversation in a line belongs to this part."""
        if self == WHOLE_DATASET:
            return True
        digest = blake2b(line.strip(), digest_size=_BITS // 8).digest()
        return self.low <= int.from_bytes(digest, "big") / (1 << _BITS) < self.high


WHOLE_DATASET = SplitShare()


# Weights of messages.


def zero_weight_messages(messages: Sequence[object]) -> set[int]:
    """The messages that are not trained on: those with a `weight` of 0.

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
    """The mask with zeros for some messages."""
    mask = list(mask)
    for start, end, piece in owned:
        if piece.message in messages:
            mask[start:end] = [0] * (end - start)
    return mask


# Packing: several examples in one row, so that rows of one length are nearly full.


# Chunks of this many rows leave at most one of them half empty.
ROWS_PER_CHUNK = 64
# How many bytes of a conversation make a token: rarely more.
BYTES_PER_TOKEN = 4
MAX_CHUNK_BYTES = 1 << 24


def chunk_bytes_for_packing(length: int) -> int:
    """How large the chunks of an input are for rows of a length."""
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
        # The first token of an example has no context of its own to predict it from.
        mask += [0, *example.mask[1:]] if example.ids else []
    lengths = tuple(len(example.ids) for example in examples)
    image_lists = [example.images for example in examples if example.images is not None]
    images = [image for each in image_lists for image in each] if image_lists else None
    return TrainingExample(ids, mask, layout=examples[0].layout, lengths=lengths, images=images)


# Encoding a chunk.


class EncodedChunk(NamedTuple):
    """The result of a chunk. `data` are the bytes for the output."""

    data: bytes
    conversations: int
    examples: int
    rows: int
    tokens: int
    trained: int
    untrained: int
    unanswered: int
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
    """Everything that a worker needs. `overrides` are the options of every conversation.

    `carry` are columns of the input that are copied to the output, `layout` names those of the
    output. `drop_untrained` leaves out examples without any token to train on, `rejects` keeps bad
    lines.

    Examples of more than `max_length` tokens are handled as `too_long` says. Rows hold examples of
    `pack` tokens together, or one example each. `share` is the part of the conversations to encode,
    `counts` says whether examples are counted, `images` whether rows have a column for images.
    `ignore` are the kinds of errors that do not make a line bad.
    """

    overrides: RequestOverrides
    policy: str
    expand: bool
    tokenizer: str | None
    format_name: str
    carry: tuple[str, ...] | None = None
    layout: ColumnLayout = MASK_LAYOUT
    drop_untrained: bool = False
    rejects: bool = False
    engine: str = "auto"
    max_length: int | None = None
    too_long: str = "fail"
    pack: int | None = None
    share: SplitShare = WHOLE_DATASET
    counts: bool = False
    images: bool = False
    ignore: tuple[str, ...] = ()


@dataclass
class _ChunkTally:
    """Counts of a chunk."""

    conversations: int = 0
    untrained: int = 0
    unanswered: int = 0
    left_out: int = 0
    cut: int = 0
    dropped: int = 0
    counts: DatasetCounts = field(default_factory=DatasetCounts)


class ChunkEncoder:
    """Encodes the chunks of a job. The tokenizer is loaded with the first one."""

    def __init__(self, job: EncodingJob) -> None:
        self.job = job

    def __call__(self, chunk: InputChunk) -> EncodedChunk:
        examples: list[TrainingExample] = []
        bad: list[str] = []
        rejects: list[bytes] = []
        tally = _ChunkTally()
        for number, line in enumerate(chunk.lines, chunk.first):
            if line.isspace() or not self.job.share.includes(line):
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
            DATASET_FORMATS[self.job.format_name].to_bytes(rows),
            tally.conversations,
            len(examples),
            len(rows),
            sum(len(example.ids) for example in examples),
            sum(sum(example.mask) for example in examples),
            tally.untrained,
            tally.unanswered,
            tally.left_out,
            tally.cut,
            tally.dropped,
            tally.counts.to_text() if self.job.counts else "",
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
        untrained = sum(not any(example.mask) for example in examples)
        tally.untrained += untrained
        if untrained and self.job.drop_untrained:
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
            # No example ends with a user message, after which a prefix would go.
            expanded = self._tokenizer.expand(replace(request, prefix=""))
            tally.unanswered += not expanded
            for example in expanded:
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
        # The first token has no context to predict it from: in batches without padding, another
        # example precedes it.
        mask = [0, *map(int, weights[1:])] if ids else []
        if skipped:
            mask = mask_without_messages(mask, self._tokenizer.attributed(prompt), skipped)
        images = list(prompt.images) if self.job.images else None
        if prompt.images and self.job.format_name in ARRAY_FORMATS:
            problem = (
                f"found {len(prompt.images)} images, which .{self.job.format_name} has no place for"
            )
            raise UnsupportedByFormat(f"{problem}: expected .jsonl or .parquet")
        if prompt.images and self.job.layout.images is None:
            problem = f"found {len(prompt.images)} images, which the columns have no place for"
            raise UnsupportedByFormat(f"{problem}: expected text, or no trainer")
        return TrainingExample(ids, mask, carried, self.job.layout, images=images)

    def _fitting(
        self, prompt: Prompt, example: TrainingExample, place: str, tally: _ChunkTally
    ) -> list[TrainingExample]:
        """The example if it is short enough, or what is left of it."""
        most, length = self.job.max_length, len(example.ids)
        if most is not None and length > most:
            if self.job.too_long == "fail":
                raise ExampleTooLong(f"found {length} tokens, expected at most {most}")
            end = self._last_turn_end(prompt, most) if self.job.too_long == "cut" else 0
            images = self._images_before(prompt, end) if example.images else example.images
            example = example._replace(
                ids=example.ids[:end], mask=example.mask[:end], images=images
            )
            if not any(example.mask):  # nothing is left to train on
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

    def _last_turn_end(self, prompt: Prompt, most: int) -> int:
        """Where the last of the model's turns that fits into that many tokens ends."""
        owned = self._tokenizer.attributed(prompt)
        ends = [end for _, end, piece in owned if piece.field == "eos" and end <= most]
        return ends[-1] if ends else 0


class UnsupportedByFormat(Error):
    """Something that the output format cannot hold."""


class ExampleTooLong(Error):
    """An example of more tokens than were asked for."""


def _carried_columns(
    names: tuple[str, ...] | None, value: object, file: str, line: int
) -> Mapping[str, Any]:
    """The columns that are copied from the input, with the file and line of the row."""
    if names is None:
        return NO_COLUMNS
    fields = value if isinstance(value, dict) else {}
    return {**{name: fields.get(name) for name in names}, FILE: file, LINE: line}


def _reject_line(name: str, number: int, line: bytes, problem: str) -> bytes:
    """A bad line as the rejects file stores it: unchanged, with its place and the error."""
    text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    entry = {FILE: name, LINE: number, "error": problem, "text": text}
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _line_value(name: str, number: int, line: bytes) -> Any:
    text = decode_utf8(line.rstrip(), name, number)  # so that no error is located at the line end
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
