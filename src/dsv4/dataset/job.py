"""What is done to each chunk: conversations in, encoded examples out. Runs in any process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from dsv4._encode.prompt import Prompt
from dsv4._inputs.input_files import BYTE_ORDER_MARK, decode_utf8, parse_json
from dsv4._inputs.request_bodies import RequestOverrides, request_of
from dsv4.dataset.chunks import Chunk, Position
from dsv4.dataset.counting import Counts
from dsv4.dataset.failures import BadLine
from dsv4.dataset.forms import FILE, FLAT, FORMS, LINE, NOTHING, Example
from dsv4.dataset.learning import weightless, without
from dsv4.dataset.memory import Worker, this_worker
from dsv4.dataset.packing import packed
from dsv4.dataset.splitting import WHOLE, Share
from dsv4.errors import Error
from dsv4.request import Request
from dsv4.tokens.tokenizer import Tokenizer


class Done(NamedTuple):
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
    after: Position
    worker: Worker


@dataclass(frozen=True)
class Job:
    """All that a worker must know. `overrides` say how every conversation is encoded.

    `carry` are columns of the input that go along, `labels` are written in place of the mask,
    `drop_unlearnable` leaves out what has nothing to learn, `rejects` keeps bad lines.

    Examples of more than `longest` tokens are bad lines, or what `too_long` says. Rows hold
    examples of `pack` tokens together, or one each. `share` is the part that is wanted of all
    conversations, `counts` says whether examples are to be counted, `images` whether rows have a
    column for them.
    """

    overrides: RequestOverrides
    policy: str
    expand: bool
    tokenizer: str | None
    form: str
    carry: tuple[str, ...] | None = None
    labels: bool = False
    drop_unlearnable: bool = False
    rejects: bool = False
    engine: str = "auto"
    longest: int | None = None
    too_long: str = "fail"
    pack: int | None = None
    share: Share = WHOLE
    counts: bool = False
    images: bool = False


@dataclass
class _Tally:
    """What is counted of a chunk."""

    conversations: int = 0
    unlearnable: int = 0
    left_out: int = 0
    cut: int = 0
    dropped: int = 0
    counts: Counts = field(default_factory=Counts)


class Encoder:
    """Does a job, chunk by chunk, with a tokenizer that is loaded when the first one comes."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self, chunk: Chunk) -> Done:
        examples: list[Example] = []
        bad: list[str] = []
        rejects: list[bytes] = []
        tally = _Tally()
        for number, line in enumerate(chunk.lines, chunk.first):
            if line.isspace() or not self.job.share.takes(line):
                continue
            try:
                examples += self._examples(chunk.name, number, line, tally)
                tally.conversations += 1
            except Error as error:
                bad.append(str(error))
                if self.job.rejects:
                    rejects.append(_reject(chunk.name, number, line, str(error)))
        rows = examples if self.job.pack is None else packed(examples, self.job.pack)
        return Done(
            FORMS[self.job.form].packed(rows),
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
            this_worker(),
        )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.job.tokenizer, self.job.engine)

    def _examples(self, name: str, number: int, line: bytes, tally: _Tally) -> list[Example]:
        value = _value(name, number, line)
        carried = _carried(self.job.carry, value, name, number)
        place = f"{name}:{number}"
        with _placed(place):
            request = self.job.overrides.on(request_of(value))
            whole = request.encode()
            skipped = weightless(list(request.messages))
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

    def _encoded(
        self, request: Request, whole: Prompt, tally: _Tally
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
    ) -> Example:
        mask = list(map(int, weights))
        if skipped:
            mask = without(mask, self._tokenizer.owned(prompt), skipped)
        images = list(prompt.images) if self.job.images else None
        if prompt.images and self.job.form in FLAT:
            problem = f"found {len(prompt.images)} images, which .{self.job.form} has no place for"
            raise NoPlace(f"{problem}: expected .jsonl or .parquet")
        return Example(ids, mask, carried, self.job.labels, images=images)

    def _fitting(
        self, prompt: Prompt, example: Example, place: str, tally: _Tally
    ) -> list[Example]:
        """The example if it is short enough, or what is left of it."""
        longest, length = self.job.longest, len(example.ids)
        if longest is not None and length > longest:
            if self.job.too_long == "fail":
                raise TooLong(f"found {length} tokens, expected at most {longest}")
            end = self._last_turn(prompt, longest) if self.job.too_long == "cut" else 0
            shown = self._images_before(prompt, end) if example.images else example.images
            example = example._replace(ids=example.ids[:end], mask=example.mask[:end], images=shown)
            if not any(example.mask):  # nothing is left to learn
                tally.dropped += 1
                return []
            tally.cut += 1
        if self.job.counts:
            owned = self._tokenizer.owned(prompt)
            tally.counts.add(owned, len(example.ids), example.mask, place)
        return [example]

    def _images_before(self, prompt: Prompt, end: int) -> list[Any]:
        owned = self._tokenizer.owned(prompt)
        count = sum(piece.field == "image" for start, _, piece in owned if start < end)
        return list(prompt.images[:count])

    def _last_turn(self, prompt: Prompt, longest: int) -> int:
        """Where the last of the model's turns ends that is whole within that many tokens."""
        owned = self._tokenizer.owned(prompt)
        ends = [end for _, end, piece in owned if piece.field == "eos" and end <= longest]
        return ends[-1] if ends else 0


class NoPlace(Error):
    """Something that the form of the output cannot hold."""


class TooLong(Error):
    """An example of more tokens than were asked for."""


def _carried(names: tuple[str, ...] | None, value: Any, file: str, line: int) -> Mapping[str, Any]:
    """What goes along: the columns that were asked for, and where the row came from."""
    if names is None:
        return NOTHING
    fields = value if isinstance(value, dict) else {}
    return {**{name: fields.get(name) for name in names}, FILE: file, LINE: line}


def _reject(name: str, number: int, line: bytes, problem: str) -> bytes:
    """A bad line as the file of rejects keeps it: as it was, with its place and what is wrong."""
    text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    kept = {FILE: name, LINE: number, "error": problem, "text": text}
    return json.dumps(kept, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _value(name: str, number: int, line: bytes) -> Any:
    text = decode_utf8(line.rstrip(), name, number)  # the line end is not where an error can be
    return parse_json(text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text, name, number)


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Errors of a conversation, with its place."""
    try:
        yield
    except Error as error:
        raise BadLine(f"{place}: {error}") from None
    except RecursionError:
        raise BadLine(f"{place}: nested too deep to be encoded") from None
