"""SGLang, by its `/generate`: ids in, ids out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from dsv4._encode.prompt import Prompt
from dsv4.api.request_fields import JsonObject
from dsv4.serve.backend import (
    Backend,
    Chunk,
    Chunks,
    Counts,
    Form,
    Logprob,
    Model,
    Options,
    logprobs_mode_of,
    read_finish,
    read_names,
    read_number,
    read_text,
)
from dsv4.serve.backends import engine_fields
from dsv4.serve.backends.engine_fields import joined
from dsv4.serve.backends.vllm import bias_fields
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.upstream import Upstream


class SglangBackend(Backend):
    """An SGLang server."""

    grammar_form: Form | None = "xgrammar"
    fields = engine_fields.SGLANG

    def __init__(self, settings: Settings) -> None:
        self._upstream = Upstream(settings)
        self.logprobs_mode = logprobs_mode_of(settings.logprobs_mode, "tempered")

    def stream(self, prompt: Prompt, ids: Sequence[int] | None, options: Options) -> Chunks:
        asked = partial(_body, prompt, ids, options)
        return self._upstream.chunks("/generate", asked, _SglangProgress().chunk)

    async def models(self) -> list[Model]:
        info = await self._upstream.get("/get_model_info")
        server = await self._upstream.get("/get_server_info")
        context = read_number(server.get("context_length") or server.get("max_total_num_tokens"))
        name = str(info.get("served_model_name") or info.get("model_path"))
        loaded = read_names(info.get("model_path"), info.get("tokenizer_path"))
        return [Model(name, context, loaded)]

    async def aclose(self) -> None:
        await self._upstream.aclose()


async def _body(prompt: Prompt, ids: Sequence[int] | None, options: Options) -> dict[str, Any]:
    sampling: dict[str, Any] = {
        # Its own default is 128.
        "max_new_tokens": options.max_tokens,
        # Without these the markup would be gone from the text, or pulled apart by spaces.
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }
    names = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty")
    sampling |= {name: v for name in names if (v := getattr(options, name)) is not None}
    if options.seed is not None:
        sampling["sampling_seed"] = options.seed
    if options.stop_tokens and ids is not None:
        sampling["stop_token_ids"] = list(options.stop_tokens.values())
    stop = [*options.stop, *(options.stop_tokens if ids is None else ())]
    if stop:
        sampling["stop"] = stop
    if options.logit_bias is not None:
        sampling["logit_bias"] = bias_fields(options)
    if options.grammar is not None:
        sampling |= options.grammar.fields("sglang")["sampling_params"]
    body: dict[str, Any] = {"text": prompt.text} if ids is None else {"input_ids": list(ids)}
    if options.logprobs is not None:
        body |= {"return_logprob": True, "return_text_in_logprobs": True}
        body["top_logprobs_num"] = options.logprobs
    return joined({**body, "sampling_params": sampling, "stream": True}, options.extra)


class _SglangProgress:
    """How much of a completion has come. Its events carry all the text so far.

    Ids come as all so far or as what is new, depending on how the server was started. The number
    of tokens so far, which comes too, tells which.
    """

    def __init__(self) -> None:
        self._text = 0
        self._ids = 0
        self._logprobs = 0

    def chunk(self, event: JsonObject, more: bool) -> Chunk:
        meta = event.get("meta_info") or {}
        text = event.get("text") or ""
        new, self._text = text[self._text :], max(self._text, len(text))
        reason = meta.get("finish_reason")
        reason = reason if isinstance(reason, dict) and reason.get("type") else {"type": reason}
        return Chunk(
            text=new,
            ids=self._new_ids(event.get("output_ids"), read_number(meta.get("completion_tokens"))),
            logprobs=self._new_logprobs(meta),
            finish=read_finish(reason["type"], reason.get("message")),
            stop_string=read_text(reason.get("matched")),
            counts=Counts(
                read_number(meta.get("prompt_tokens")),
                read_number(meta.get("cached_tokens")),
                read_number(meta.get("completion_tokens")),
            ),
            more=more,
        )

    def _new_ids(self, ids: object, completed: int | None) -> list[int] | None:
        if not isinstance(ids, list):
            return None
        new = ids[self._ids :] if completed is not None and len(ids) == completed else ids
        self._ids += len(new)
        return new

    def _new_logprobs(self, meta: JsonObject) -> tuple[Logprob, ...]:
        """All so far come each time, as value, id and text of each token."""
        given = meta.get("output_token_logprobs")
        if not isinstance(given, list):
            return ()
        tops: list[Any] = meta.get("output_top_logprobs") or [None] * len(given)
        first, self._logprobs = self._logprobs, len(given)
        return tuple(
            Logprob(
                str(text),
                value,
                tuple((str(t), v) for v, _, t in top or ()),
                read_number(id),
                tuple(id for _, id, _ in top or ()),
            )
            for (value, id, text), top in list(zip(given, tops, strict=False))[first:]
            if value is not None
        )
