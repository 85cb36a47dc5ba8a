"""llama.cpp's server, by its `/completion`: ids in, ids out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from dsv4.encoding.prompt import Prompt
from dsv4.serve.backend import Backend, Chunk, Counts, Form, Model, Options, read_number
from dsv4.serve.settings import Settings
from dsv4.serve.upstream import Upstream
from dsv4.tokens import Tokenizer


class Llamacpp(Backend):
    """A llama.cpp server."""

    grammar_form: Form | None = "gbnf"

    def __init__(self, settings: Settings, tokenizer: Tokenizer | None) -> None:
        self._upstream = Upstream(settings)
        self._has_tokenizer = tokenizer is not None

    async def stream(
        self, prompt: Prompt, ids: Sequence[int] | None, options: Options
    ) -> AsyncGenerator[Chunk, None]:
        async for event in self._upstream.events("/completion", _body(prompt, ids, options)):
            yield self._chunk(event)

    def _chunk(self, event: Any) -> Chunk:
        tokens = event.get("tokens")
        stopped = event.get("stop") is True
        timings = event.get("timings") or {}
        # Special tokens come as empty text, so the text is made from the ids. A character that is
        # cut between two tokens comes with the second: its ids come with both.
        has_ids = self._has_tokenizer and isinstance(tokens, list)
        return Chunk(
            text=event.get("content") or "",
            ids=tokens if has_ids else None,
            finish=_finish(event) if stopped else None,
            counts=Counts(
                read_number(event.get("tokens_evaluated")),
                read_number(timings.get("cache_n", event.get("tokens_cached"))),
                read_number(event.get("tokens_predicted")),
            )
            if stopped
            else None,
        )

    async def models(self) -> list[Model]:
        answer = await self._upstream.get("/v1/models")
        properties = await self._upstream.get("/props")
        settings = properties.get("default_generation_settings") or {}
        context = read_number(settings.get("n_ctx"))
        return [Model(str(model.get("id")), context) for model in answer.get("data") or ()]

    async def aclose(self) -> None:
        await self._upstream.aclose()


def _finish(event: Any) -> Any:
    limited = event.get("stop_type") == "limit" or event.get("stopped_limit") is True
    return "length" if limited else "stop"


def _body(prompt: Prompt, ids: Sequence[int] | None, options: Options) -> dict[str, Any]:
    body: dict[str, Any] = {
        # As text the prompt might get a second BOS.
        "prompt": prompt.text if ids is None else list(ids),
        "n_predict": options.max_tokens,
        "stream": True,
        "return_tokens": True,
        "cache_prompt": True,
        # Its own defaults are not neutral.
        "top_k": options.top_k or 0,
        "min_p": options.min_p or 0.0,
        "repeat_penalty": 1.0,
        "top_p": 1.0 if options.top_p is None else options.top_p,
        "temperature": 1.0 if options.temperature is None else options.temperature,
    }
    given = {
        "presence_penalty": options.presence_penalty,
        "frequency_penalty": options.frequency_penalty,
        "seed": options.seed,
        "stop": list(options.stop) or None,
    }
    body |= {name: value for name, value in given.items() if value is not None}
    if options.grammar is not None:
        body |= options.grammar.fields("llamacpp")
    return body
