"""The demo model as a backend: in this process, token by token, at a settable pace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import EOS
from dsv4.serve.backend import Backend, Chunk, Chunks, Counts, Form, Model, Options
from dsv4.serve.demo.answers import answer_to
from dsv4.serve.demo.reading import read_prompt
from dsv4.serve.demo.writing import model_ids, write_answer
from dsv4.tokens import Tokenizer

MODEL = Model("dsv4-demo", 1_048_576)
# Characters of a piece, where there is no vocabulary to cut by.
_PIECE = 4


class Demo(Backend):
    """The demo model."""

    grammar_form: Form | None = None

    def __init__(self, tokenizer: Tokenizer | None, pace: float) -> None:
        self._tokenizer = tokenizer
        self._wait = 1 / pace if pace else 0.0

    async def stream(self, prompt: Prompt, ids: Sequence[int] | None, options: Options) -> Chunks:
        # It sees what a model sees: ids, and nothing that they do not tell.
        if ids is not None and self._tokenizer is not None:
            prompt = self._tokenizer.prompt(ids)
        asked = await asyncio.to_thread(read_prompt, prompt)
        text = write_answer(answer_to(asked, None if ids is None else len(ids)), asked)
        pieces = list(self._pieces(text))
        written = pieces[: options.max_tokens]
        loop = asyncio.get_running_loop()
        due = loop.time()
        for piece in written:
            due += self._wait
            await asyncio.sleep(max(due - loop.time(), 0))
            yield piece
        counts = Counts(len(ids) if ids is not None else None, None, len(written))
        # What has no end was cut, as by an engine that stops where its limit is.
        cut = len(written) < len(pieces) or not text.endswith(EOS)
        yield Chunk(ids=(), finish="length" if cut else "stop", counts=counts)

    def _pieces(self, text: str) -> Iterator[Chunk]:
        if self._tokenizer is None:
            yield from (Chunk(text[n : n + _PIECE]) for n in range(0, len(text), _PIECE))
        else:
            yield from (Chunk(ids=(id,)) for id in model_ids(self._tokenizer, text))

    async def models(self) -> list[Model]:
        return [MODEL]

    async def aclose(self) -> None:
        pass
