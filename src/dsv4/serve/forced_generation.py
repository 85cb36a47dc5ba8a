"""A call that the model must make, after reasoning, on a backend that takes no grammars: one
generation up to the end of the reasoning, and a second one that continues after the opening of the
call.

For the reader of the answer it is one completion, with some tokens written by the gateway.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from dsv4._completion.reasons import Reason, ended_by
from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import EOS, THINK_END, markup
from dsv4.api import ApiRequest
from dsv4.serve.backend import AnyBackend, Backend, Chunk, Chunks, Counts, Options
from dsv4.serve.choice_reader import estimated_tokens
from dsv4.serve.markup_ids import markup_ids
from dsv4.tokens import Tokenizer

# Ways of leaving it to the model whether to call.
FREE_CHOICES = ("auto", "none")


def forced_opening(call: ApiRequest, backend: AnyBackend) -> str:
    """The beginning of the call that a request forces, where it must follow the reasoning and the
    backend has no grammar for that; empty for all others."""
    request = call.request
    if not request.thinking or backend.grammar_form is not None:
        return ""
    # The same text as in a prompt after which the model does not think.
    empty = replace(request, thinking=False, messages=[{"role": "user", "content": ""}], prefix="")
    return empty.encode().ending.open


def written_text(text: str, tokenizer: Tokenizer | None) -> Chunk:
    """A text of the gateway's, with special tokens as their ids."""
    return Chunk(text, None if tokenizer is None else markup_ids(tokenizer, text))


@dataclass(slots=True, eq=False, repr=False)
class ForcedGeneration:
    """The two generations of one completion. `opening` begins the call, after the reasoning."""

    backend: Backend
    prompt: Prompt
    ids: Sequence[int] | None
    options: Options
    opening: Chunk
    tokenizer: Tokenizer | None
    border: Chunk = field(init=False)
    # The first generation: its text, and its end.
    _text: str = ""
    _sampled_ids: list[int] = field(default_factory=list)
    _as_ids: bool = False
    _is_closed: bool = False
    _finish: Reason | None = None
    _counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.border = written_text(str(THINK_END), self.tokenizer)

    async def chunks(self) -> Chunks:
        """All pieces of the completion, including those that the gateway writes."""
        async with aclosing(self.backend.stream(self.prompt, self.ids, self._first)) as first:
            async for chunk in first:
                if not self._is_closed:
                    yield self._reasoned(chunk)
                elif chunk.ids or chunk.text:  # it did not stop at the end of the reasoning
                    break
                else:
                    self._counts = chunk.counts or self._counts
        first_count = self._first_count
        budget = self.options.max_tokens - first_count
        end = ended_by(self._finish)
        is_cut = not self._is_closed and end is not None and end.is_cut
        if is_cut or budget <= 0:
            finish = self._finish if is_cut else "length"
            yield Chunk(
                ids=() if self._as_ids else None, finish=finish, counts=self._total(first_count)
            )
            return
        texts = [self.opening] if self._is_closed else [self.border, self.opening]
        for text in texts:
            yield Chunk(text.text, text.ids if self._as_ids else None)
        prompt, ids = self._continued(texts)
        count = 0
        second = replace(self.options, max_tokens=budget)
        async with aclosing(self.backend.stream(prompt, ids, second)) as rest:
            async for chunk in rest:
                count += len(chunk.ids or ())
                own_count = None if chunk.counts is None else chunk.counts.completion
                if own_count is not None:
                    chunk.counts = self._total(first_count + own_count)
                elif chunk.counts is not None or (chunk.finish is not None and self._as_ids):
                    chunk.counts = self._total(first_count + count if self._as_ids else None)
                yield chunk

    @property
    def _first(self) -> Options:
        """The options of the first generation: it stops at the end of the reasoning."""
        id = None if self.border.ids is None else self.border.ids[0]
        return replace(self.options, stop_tokens={self.border.text: id})

    def _reasoned(self, chunk: Chunk) -> Chunk:
        """A piece of the first generation, without anything after the reasoning."""
        self._counts = chunk.counts or self._counts
        self._finish = chunk.finish or self._finish
        if chunk.ids is not None and self.border.ids is not None:
            self._as_ids = True
            ids = self._reasoned_ids(list(chunk.ids))
            return Chunk(ids=ids, logprobs=chunk.logprobs[: len(ids)], more=chunk.more)
        return Chunk(self._reasoned_text(chunk.text), logprobs=chunk.logprobs, more=chunk.more)

    def _reasoned_ids(self, ids: list[int]) -> list[int]:
        assert self.border.ids is not None and self.tokenizer is not None
        border, end = self.border.ids[0], self.tokenizer.special_id(EOS)
        if border in ids:
            self._is_closed = True
            del ids[ids.index(border) + 1 :]
        elif end in ids:  # an EOS would end the turn
            del ids[ids.index(end) :]
        self._sampled_ids += ids
        return ids

    def _reasoned_text(self, text: str) -> str:
        text = text.removesuffix(str(EOS))
        # The tag may have begun in the piece before.
        start = max(len(self._text) - len(self.border.text) + 1, 0)
        length = len(self._text)
        self._text += text
        at = self._text.find(self.border.text, start)
        if at < 0:
            return text
        self._is_closed = True
        self._text = self._text[: at + len(self.border.text)]
        return self._text[length:]

    @property
    def _first_count(self) -> int:
        """The number of tokens in the reasoning."""
        if self._as_ids:
            return len(self._sampled_ids)
        if self._counts.completion is not None:
            return self._counts.completion
        if self.tokenizer is None:
            return estimated_tokens(self._text)
        return self.tokenizer.count(self._text)

    def _total(self, completion: int | None) -> Counts:
        """The counts of both generations: the prompt is the first one's."""
        counts = self._counts
        return Counts(counts.prompt, counts.cached, completion, counts.reasoning)

    def _continued(self, texts: Sequence[Chunk]) -> tuple[Prompt, list[int] | None]:
        """The prompt of the second generation."""
        ids = None if self.ids is None else list(self.ids)
        text = self._text
        if ids is not None and self.tokenizer is not None:
            reasoning = self._sampled_ids if self._as_ids else self.tokenizer.encode_text(text)
            ids += [*reasoning, *(id for each in texts for id in each.ids or ())]
            text = self.tokenizer.decode(reasoning)
        special = (part for each in texts for part in markup(each.text).parts)
        return self.prompt.continued(text, *special), ids
