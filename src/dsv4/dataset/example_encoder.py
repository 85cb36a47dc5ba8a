"""The work on one chunk, in any process: conversations in; encoded, masked, cut and packed examples
out.

Examples are packed within a chunk, and chunks depend only on the input, so rows depend neither on
the number of workers nor on where a run was interrupted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from dsv4._check.call_checks import RESULT_RULES
from dsv4._check.findings import CheckedConversation
from dsv4._check.message_checks import turns_without_token
from dsv4._check.training_checks import find_unfit
from dsv4._encode.prompt import Prompt
from dsv4._encode.turns import NATIVE
from dsv4._format.dialects import DEFAULT
from dsv4._format.texts import UNSUPPORTED
from dsv4._format.tokens import EOS, THINK_END, THINK_START
from dsv4._inputs.input_files import (
    BYTE_ORDER_MARK,
    InputError,
    decode_utf8,
    parse_unambiguous_json,
)
from dsv4._inputs.line_messages import OF_TRAINING, has_moved_blocks, unread_inside
from dsv4._inputs.line_shapes import (
    LineConversation,
    line_conversation,
    line_pair,
    line_with_label,
)
from dsv4.api.ignored_fields import server_fields
from dsv4.api.own_bodies import is_of_model
from dsv4.dataset import dataset_notes, output_formats
from dsv4.dataset.dataset_errors import BadLine, DatasetError
from dsv4.dataset.dataset_notes import LineNotes
from dsv4.dataset.dataset_options import DatasetOptions
from dsv4.dataset.dataset_pictures import picture_address, picture_folder, picture_size
from dsv4.dataset.dataset_reader import InputChunk, InputPosition
from dsv4.dataset.dataset_statistics import (
    DatasetCounts,
    RunCounts,
    WorkerMemory,
    memory_of_this_process,
)
from dsv4.dataset.example_packing import pack_examples
from dsv4.dataset.output_formats import AnswerExample, ColumnLayout, OutputRow, TrainingExample
from dsv4.dataset.vision_rows import ROW_WRITERS, PicturedExample, check_spelled_tokens
from dsv4.errors import EncodeError, Error, mismatch
from dsv4.request import Request
from dsv4.tokens.masks import AttributedIds, Weigh, weigher
from dsv4.tokens.tokenizer import Tokenizer, model_from, sampled_stretches

# Weights of messages.


def _is_weight_of_answer(place: str, body: Any) -> bool:
    found = re.fullmatch(r"(messages|input)\[(\d+)\]\.weight", place)
    return found is not None and is_of_model(body[found[1]][int(found[2])])


def zero_weight_messages(messages: Sequence[object]) -> set[int]:
    """The messages that are not trained on: those with a `weight` of 0.

    A weight is 0 or 1, as in OpenAI's files for fine-tuning.
    """
    indexes: set[int] = set()
    for index, message in enumerate(messages):
        weight = message.get("weight") if isinstance(message, dict) else None
        if weight is None:
            continue
        if isinstance(weight, bool) or weight not in (0, 1):
            location = ("messages", index, "weight")
            raise EncodeError(location, mismatch(weight, "0 or 1"))
        if weight == 0:
            indexes.add(index)
    return indexes


def training_mask(owned: AttributedIds, weigh: Weigh, skipped: Container[int | None]) -> list[int]:
    """A mask with 1 for each token that is trained on: by its piece, except in skipped messages."""
    mask = [0] * len(owned.ids)
    for start, end, piece in owned:
        # No model writes an image, whatever a policy says about that place.
        if weigh(piece) and piece.field != "image" and piece.message not in skipped:
            mask[start:end] = [1] * (end - start)
    # The first token has no context to predict it from: in batches without padding, another
    # example precedes it.
    mask[:1] = [0] * len(mask[:1])
    return mask


# Encoding a chunk.


class EncodedChunk(NamedTuple):
    """The result of a chunk: `data` are the bytes for the output. `name` and `first` are the file
    and the first line that it was read from, `hashes` those of its lines, `bad` the reasons why
    lines were left out."""

    name: str
    first: int
    data: bytes
    counted: RunCounts
    bad: list[str]
    rejects: bytes
    hashes: bytes
    after: InputPosition
    worker: WorkerMemory


@dataclass(frozen=True)
class EncodingJob:
    """All that a worker needs: the options, and values that follow from them.

    `layout` names the columns of the output. `engine` is the tokenizer's. `images` says whether
    rows have a column for images.
    """

    options: DatasetOptions
    format_name: str
    layout: ColumnLayout = output_formats.MASK_LAYOUT
    engine: str = "auto"
    images: bool = False

    @property
    def policy(self) -> str:
        return self.options.policy or "assistant"

    @property
    def max_length(self) -> int | None:
        return self.options.pack if self.options.max_length is None else self.options.max_length


class _Draft(NamedTuple):
    """An example before it becomes a row, with the request and prompt that it was encoded from.

    If the example was cut, `owned` continues after the last of `ids`.
    """

    ids: list[int]
    mask: list[int]
    owned: AttributedIds
    request: Request
    prompt: Prompt


@dataclass
class _ChunkTally:
    """Counts of a chunk, the place of the line that is being read, and the folder in which its
    pictures may be."""

    place: str = ""
    line: bytes = b""
    folder: str | None = None
    conversations: int = 0
    answers: int = 0
    notes: LineNotes = field(default_factory=LineNotes)
    counts: DatasetCounts = field(default_factory=DatasetCounts)
    of_line: set[str] = field(default_factory=set)

    def note(self, kind: str, count: int = 1) -> None:
        self.notes.add(kind, self.place, count)

    def note_line(self, kind: str) -> None:
        """Notes something once for each line, however many answers the line has."""
        if kind not in self.of_line:
            self.of_line.add(kind)
            self.note(kind)


class ChunkEncoder:
    """Encodes the chunks of a job. The tokenizer is loaded with the first one."""

    def __init__(self, job: EncodingJob) -> None:
        self.job = job
        self._overrides = job.options.overrides

    def __call__(self, chunk: InputChunk) -> EncodedChunk:
        examples: list[OutputRow] = []
        bad: list[str] = []
        rejects: list[bytes] = []
        hashes: list[bytes] = []
        tally = _ChunkTally(chunk.name)
        if not chunk.lines:
            tally.note(dataset_notes.EMPTY_FILE)
        for number, line in enumerate(chunk.lines, chunk.first):
            if line.isspace():
                hashes.append(bytes(dataset_notes.HASH_BYTES))
                continue
            hashes.append(dataset_notes.line_hash(line))
            try:
                examples += self._rows(chunk.name, number, line, tally)
                tally.conversations += 1
            except Error as error:
                bad.append(str(error))
                if self.job.options.rejects is not None:
                    rejects.append(_reject_line(chunk.name, number, line, str(error)))
        rows = self._packed(examples)
        return EncodedChunk(
            chunk.name,
            chunk.first,
            output_formats.DATASET_FORMATS[self.job.format_name].to_bytes(rows),
            RunCounts(
                conversations=tally.conversations,
                examples=len(examples),
                rows=len(rows),
                tokens=sum(len(example.ids) for example in examples),
                trained=sum(sum(example.mask) for example in examples),
                answers=tally.answers,
                bad=len(bad),
                notes=tally.notes,
                counts=tally.counts if self.job.options.counts else None,
            ),
            bad,
            b"".join(rejects),
            b"".join(hashes),
            chunk.after,
            memory_of_this_process(),
        )

    def _packed(self, examples: Sequence[OutputRow]) -> Sequence[OutputRow]:
        """The examples as they are written: packed, if requested."""
        if self.job.options.pack is None:
            return examples
        single = [example for example in examples if isinstance(example, TrainingExample)]
        return pack_examples(single, self.job.options.pack)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.job.options.tokenizer, self.job.engine)

    @cached_property
    def _thinking_ids(self) -> tuple[int, int]:
        return self._tokenizer.special_id(THINK_START), self._tokenizer.special_id(THINK_END)

    def _rows(self, name: str, number: int, line: bytes, tally: _ChunkTally) -> list[OutputRow]:
        value = _line_value(name, number, line)
        options, tally.place = self.job.options, f"{name}:{number}"
        tally.line, tally.of_line = line, set()
        tally.folder = picture_folder(name)
        carried = _carried_columns(options.carry, value, name, number)
        try:
            if options.preferences or options.kto:
                rows: list[OutputRow] = list(self._answers(value, carried, tally))
            else:
                drafts = self._drafts(line_conversation(value), tally)
                fitting = [d for draft in drafts if (d := self._fitting(draft, tally)) is not None]
                self._count(fitting, tally)
                write = self._text_rows if options.trainer in ROW_WRITERS else self._examples
                rows = list(write(fitting, carried, tally))
        except Error as error:
            raise BadLine(f"{tally.place}: {error}") from None
        except RecursionError:
            raise BadLine(f"{tally.place}: nested too deep to be encoded") from None
        tally.note(dataset_notes.NOTHING_TO_LEARN, sum(not any(row.mask) for row in rows))
        if not options.keep_untrained:
            rows = [row for row in rows if any(row.mask)]
        for row in rows:
            self._count_answers(row, tally)
        return rows

    def _count_answers(self, row: OutputRow, tally: _ChunkTally) -> None:
        """Counts the answers for which thinking is opened, and those that close it immediately."""
        ids, mask, at = row.ids, row.mask, -1
        start, end = self._thinking_ids
        for _ in range(ids.count(start)):
            at = ids.index(start, at + 1)
            if at + 1 < len(ids) and mask[at + 1]:
                tally.answers += 1
                tally.note(dataset_notes.NO_REASONING, int(ids[at + 1] == end))

    def _request(self, line: LineConversation, tally: _ChunkTally) -> Request:
        request = line.read(self._overrides)
        if request.notes:
            tally.note_line(dataset_notes.UNKNOWN_MODEL)
        if request.request.context:
            tally.note_line(dataset_notes.CONTEXT)
        if has_moved_blocks(request.body):
            tally.note_line(dataset_notes.MOVED)
        fields = [*request.ignored, *server_fields(request.body), *unread_inside(request.body)]
        for place in fields:
            name = place.rpartition(".")[2]
            if _is_weight_of_answer(place, request.body):  # the mask uses it
                continue
            if OF_TRAINING.search(name) and "unread_field" not in self.job.options.ignore:
                problem = f"{place}: found a field of this name, which is not understood"
                raise InputError(f"{problem} (--ignore unread_field goes on without it)")
            tally.note_line(dataset_notes.UNREAD + re.sub(r"\[\d+\]", "", place))
        return request.request

    def _checked(self, request: Request, tally: _ChunkTally) -> Prompt:
        """The prompt. Raises if `check --for training` has an error that is not ignored; other
        findings are noted."""
        prompt = self._with_sizes(request.encode(), tally)
        conversation = CheckedConversation(request, prompt)
        answers = list(conversation.of_role("assistant"))
        self._check_answers(conversation, answers, tally)
        for finding in find_unfit(conversation):
            if finding.kind not in self.job.options.ignore:
                fix = "dsv4 check --fix moves it to where it belongs, if that is certain; "
                hint = f"--ignore {finding.kind} trains on it as it is"
                if finding.kind == "arguments_not_json":
                    fix = ""
                raise EncodeError(finding.location, f"{finding.message} ({fix}{hint})")
        for _, message in answers:
            for name in NATIVE.open_turn_fields:
                tally.note(dataset_notes.OPEN_TURN, int(bool(message.get(name))))
        tally.note(dataset_notes.OPEN_TURN, int(bool(request.prefix)))
        _note_calls(conversation, tally)
        if self.job.options.dialect is None and prompt.dialect.name != DEFAULT.name:
            tally.note_line(dataset_notes.OTHER_RELEASE)
        before = {conversation.role(index - 1) for index, _ in answers}
        ends_open = bool(before) and conversation.role(conversation.last) == "user"
        tally.note(dataset_notes.UNANSWERED, int(ends_open))
        if before - {"user", "tool"}:
            tally.note(dataset_notes.UNOPENED, sum(1 for _ in turns_without_token(conversation)))
        return prompt

    def _check_answers(
        self,
        conversation: CheckedConversation,
        answers: Sequence[tuple[int, Mapping[str, Any]]],
        tally: _ChunkTally,
    ) -> None:
        """Raises for an empty answer, and for one in which a text stands for a part that could not
        be read."""
        for index, message in answers:
            text, place = conversation.texts[index], ("messages", index)
            if not _says_something(message, text):
                raise EncodeError(place, "found an empty answer, expected a text or a call")
            if UNSUPPORTED[0] in text and UNSUPPORTED[0].encode() not in tally.line:
                problem = "found something that cannot be read, expected texts and calls"
                raise EncodeError(place, problem)

    def _omit(self, prompt: Prompt, parts: Sequence[_Draft], tally: _ChunkTally) -> None:
        """Notes the omissions of a prompt, except those that only some of its parts have."""
        for omission in prompt.dropped:
            index, name, rule = omission
            with_it = [part.prompt for part in parts if index < len(list(part.request.messages))]
            # The mask uses the weight.
            if name != "weight" and all(omission in each.dropped for each in with_it):
                tally.note(dataset_notes.KINDS_OF_OMISSIONS.get(rule, dataset_notes.LEFT_FIELD))

    # Examples before they become rows.

    def _drafts(self, line: LineConversation, tally: _ChunkTally) -> Iterator[_Draft]:
        """The examples in a line, of any length."""
        with _locations_of(line):
            request = self._request(line, tally)
            whole = self._checked(request, tally)
            if not self.job.options.expand:
                self._omit(whole, (), tally)
                yield self._draft(request, whole, self._attributed(whole))
                return
            # No example ends with a user message, after which a prefix would go.
            request = replace(request, prefix="")
            drafts = list(self._expanded(request, tally))
            tally.note(dataset_notes.NOTHING_TO_LEARN, int(not drafts))
            self._omit(whole, drafts, tally)
            yield from drafts

    def _expanded(self, request: Request, tally: _ChunkTally) -> Iterator[_Draft]:
        """An example for each run of the model's turns, as it was sampled."""
        messages = list(request.messages)
        for start, end, owned in sampled_stretches(self._tokenizer, request, messages):
            part = replace(request, messages=messages[:end])
            prompt = self._with_sizes(part.encode(), tally)
            if prompt.images:
                owned = self._attributed(prompt)
            yield self._draft(part, prompt, owned, start)

    def _draft(
        self, request: Request, prompt: Prompt, owned: AttributedIds, start: int | None = None
    ) -> _Draft:
        """An example that is trained on from the message `start` on; if that is None, the policy
        decides."""
        weigh = weigher(self.job.policy, owned.pieces) if start is None else model_from(start)
        mask = training_mask(owned, weigh, zero_weight_messages(list(request.messages)))
        return _Draft(owned.ids, mask, owned, request, prompt)

    def _fitting(self, draft: _Draft, tally: _ChunkTally) -> _Draft | None:
        """The example if it is short enough, otherwise its first part; None if it is left out."""
        most, length = self.job.max_length, len(draft.ids)
        if most is None or length <= most:
            return draft
        if self.job.options.too_long == "fail":
            raise DatasetError(f"found {length} tokens, expected at most {most}")
        if self.job.options.too_long == "cut":
            shortened = self._cut_after_turn(draft, most)
            if any(shortened.mask):
                tally.note(dataset_notes.CUT)
                return shortened
        tally.note(dataset_notes.TOO_LONG)
        return None

    def _cut_after_turn(self, draft: _Draft, most: int) -> _Draft:
        """The example up to the end of the last turn of the model that fits."""
        eos = self._tokenizer.special_id(EOS)
        end = next((n for n in range(most, 0, -1) if draft.ids[n - 1] == eos), 0)
        return draft._replace(ids=draft.ids[:end], mask=draft.mask[:end])

    def _attributed(self, prompt: Prompt) -> AttributedIds:
        """The ids of a prompt, with all tokens of its images if their ids are known."""
        rule = prompt.dialect.image_rule
        expands = prompt.images and rule is not None and not rule.pairs_rows
        return self._tokenizer.attributed(prompt, images="expanded" if expands else "compact")

    def _with_sizes(self, prompt: Prompt, tally: _ChunkTally) -> Prompt:
        """A prompt with the sizes of pictures that are files."""
        if not prompt.images:
            return prompt
        return prompt.with_image_sizes(lambda record: picture_size(record, tally.folder))

    def _count(self, drafts: Sequence[_Draft], tally: _ChunkTally) -> None:
        if self.job.options.counts:
            for draft in drafts:
                tally.counts.add(draft.owned, len(draft.ids), draft.mask, tally.place)

    def _text_rows(
        self, drafts: Sequence[_Draft], carried: Mapping[str, Any], tally: _ChunkTally
    ) -> Iterator[AnswerExample]:
        """Rows for a trainer that computes ids itself."""
        write = ROW_WRITERS[self.job.options.trainer or ""]
        for ids, mask, owned, request, prompt in drafts:
            check_spelled_tokens(prompt)
            images = [picture_address(record, tally.folder) for record in prompt.images]
            for row in write(PicturedExample(request, prompt, owned, ids, mask, images)):
                yield row._replace(carried=carried)

    def _examples(
        self, drafts: Sequence[_Draft], carried: Mapping[str, Any], tally: _ChunkTally
    ) -> Iterator[TrainingExample]:
        for draft in drafts:
            images = self._images(draft)
            yield TrainingExample(draft.ids, draft.mask, carried, self.job.layout, images=images)

    def _images(self, draft: _Draft) -> list[Any] | None:
        """The images in an example; None where rows have no column for them."""
        images = list(draft.prompt.images)
        if images and self.job.layout.images is None:
            problem = f"found {len(images)} images, which the columns have no place for"
            hint = "expected text, --for trl-vision or ms-swift, or no trainer"
            raise DatasetError(f"{problem}: {hint}")
        if not self.job.images:
            return None
        if not images:
            return []
        end = len(draft.ids)
        count = sum(piece.field == "image" for start, _, piece in draft.owned if start < end)
        return images[:count]

    # Separate answers: pairs of which one is better, and answers with a label.

    def _answers(
        self, value: object, carried: Mapping[str, Any], tally: _ChunkTally
    ) -> Iterator[AnswerExample]:
        """The answers in a line, with their label if there is one; those too long are left out."""
        label: dict[str, bool] = {}
        if self.job.options.preferences:
            chosen, rejected, start = line_pair(value)
            lines = {"chosen": chosen, "rejected": rejected}
        else:
            conversation, label["label"], start = line_with_label(value)
            lines = {"completion": conversation}
        sides = {name: self._side(name, line, start, tally) for name, line in lines.items()}
        first, *others = sides.values()
        if any(side.prompt != first.prompt for side in others):
            problem = "found a prompt that the format writes otherwise than before chosen"
            hint = "expected conversations that end with the first answer in which they differ"
            raise EncodeError(("rejected",), f"{problem}, {hint}")
        length = len(first.prompt) + max(len(side.ids) for side in sides.values())
        most = self.job.max_length
        if most is not None and length > most:
            if self.job.options.too_long == "fail":
                raise DatasetError(f"found {length} tokens, expected at most {most}")
            tally.note(dataset_notes.TOO_LONG)
            return
        texts = None
        if self.job.options.trainer is not None:
            texts = {"prompt": first.prompt_text, **{name: s.text for name, s in sides.items()}}
        answers = {name: (side.ids, side.mask) for name, side in sides.items()}
        yield AnswerExample(first.prompt, answers, {**label, **carried}, texts)

    def _side(
        self, name: str, line: LineConversation, start: int, tally: _ChunkTally
    ) -> _EncodedSide:
        with _locations_of(line, name):
            request = self._request(line, tally)
            prompt = self._checked(request, tally)
            for index in sorted(zero_weight_messages(list(request.messages))):
                if index >= start:
                    problem = "found 0, expected none: this answer is compared, or has a label"
                    raise EncodeError(("messages", index, "weight"), problem)
            self._omit(prompt, (), tally)
            draft = self._draft(request, prompt, self._attributed(prompt), start)
            encoded = _split_side(draft, start)
            if self.job.options.trainer is not None:
                _check_texts(prompt, encoded, self._tokenizer.special_id(EOS))
        self._count([draft], tally)
        return encoded


@contextmanager
def _locations_of(line: LineConversation, name: str = "messages") -> Iterator[None]:
    """Gives errors of a conversation their place in the line. `name` is the place of all of it."""
    try:
        yield
    except EncodeError as error:
        location = line.location(error.location)
        location = (name,) if location == ("messages",) else location
        raise EncodeError(location, error.problem) from None


class _EncodedSide(NamedTuple):
    """One of two answers: its prompt, and the answer after it, as ids and as text."""

    prompt: list[int]
    ids: list[int]
    mask: list[int]
    prompt_text: str
    text: str


def _split_side(draft: _Draft, start: int) -> _EncodedSide:
    """Splits a conversation at the beginning of the model's first turn from `start` on."""
    owned, tokens, pieces = draft.owned, 0, 0
    for first, _, piece in owned:
        if piece.origin == "model" and (piece.message or 0) >= start:
            tokens = first
            pieces = owned.pieces.index(piece, pieces)
            break
    if not tokens:
        raise EncodeError(("messages", start), "found no answer, expected one of the model")
    texts = [piece.text for piece in owned.pieces]
    return _EncodedSide(
        draft.ids[:tokens],
        draft.ids[tokens:],
        draft.mask[tokens:],
        "".join(texts[:pieces]),
        "".join(texts[pieces:]),
    )


def _check_texts(prompt: Prompt, side: _EncodedSide, eos: int) -> None:
    """Raises if a trainer that reads texts would train on other tokens than intended."""
    if prompt.images:
        problem = f"found {len(prompt.images)} images, which the columns have no place for"
        raise DatasetError(f"{problem}: expected text, or no trainer")
    check_spelled_tokens(prompt)
    if not all(side.mask):
        problem = "found more than one answer, or a weight of 0, after the prompt"
        raise EncodeError(("messages",), f"{problem}: the trainer trains on all of it")
    if side.ids[-1:] != [eos]:
        raise EncodeError(("messages",), "found an answer without its end, which the trainer adds")


def _note_calls(conversation: CheckedConversation, tally: _ChunkTally) -> None:
    """Notes calls of undeclared tools, calls without results, and results without calls."""
    calls = conversation.calls
    if calls:
        declared = {tool.name for tool in conversation.tools}
        tally.note(dataset_notes.UNDECLARED_TOOL, sum(c.name not in declared for c in calls))
    if calls or "tool" in conversation.roles:
        for finding in chain.from_iterable(rule(conversation) for rule in RESULT_RULES):
            tally.note(finding.kind)


# A visible character: not white space, nor one that only joins or separates others.
_VISIBLE = re.compile(r"[^\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")


def _says_something(message: Mapping[str, Any], text: str) -> bool:
    """Whether an answer, whose `text` is given, has anything in it."""
    if _VISIBLE.search(text):
        return True
    thoughts = (message.get("reasoning_content"), message.get("reasoning"))
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return (
        any(message.get(name) for name in ("tool_calls", "content_blocks"))
        or any(_VISIBLE.search(each) for each in thoughts if isinstance(each, str))
        or any(isinstance(part, dict) and part.get("type") != "text" for part in parts)
    )


def _carried_columns(
    names: Sequence[str] | None, value: object, file: str, line: int
) -> Mapping[str, Any]:
    """The columns that are copied from the input, with the file and line of the row."""
    if names is None:
        return output_formats.NO_COLUMNS
    fields = value if isinstance(value, dict) else {}
    return {
        **{name: fields.get(name) for name in names},
        output_formats.FILE: file,
        output_formats.LINE: line,
    }


def _reject_line(name: str, number: int, line: bytes, problem: str) -> bytes:
    """A bad line as the rejects file stores it: unchanged, with its place and the error."""
    text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    entry = {output_formats.FILE: name, output_formats.LINE: number, "error": problem, "text": text}
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _line_value(name: str, number: int, line: bytes) -> Any:
    text = decode_utf8(line.rstrip(), name, number)  # so that no error is located at the line end
    text = text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text
    return parse_unambiguous_json(text, name, number)
