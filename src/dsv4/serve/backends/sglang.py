"""SGLang, by its `/generate`: ids in, ids out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dsv4._encode.prompt import Prompt
from dsv4.api.request_fields import JsonObject
from dsv4.serve.backend import (
    BackendError,
    Chunk,
    Chunks,
    Counts,
    Form,
    ImageSupport,
    Logprob,
    LogprobsMode,
    Model,
    Options,
    read_finish,
    read_names,
    read_number,
    read_text,
)
from dsv4.serve.backends import engine_fields
from dsv4.serve.backends.engine_fields import joined
from dsv4.serve.backends.http_backend import HttpBackend
from dsv4.serve.backends.vllm import check_count, read_spans, sampling_fields
from dsv4.serve.images.sent_images import image_urls, large_body
from dsv4.trajectories.recorded_calls import WeightsSpan
from dsv4.trajectories.routed_experts import RoutedExperts, experts_of_int32


class SglangBackend(HttpBackend):
    """An SGLang server."""

    grammar_form: Form | None = "xgrammar"
    fields = engine_fields.SGLANG
    usual_logprobs: LogprobsMode | None = "tempered"

    async def _image_support(self) -> ImageSupport:
        try:
            info = await self._upstream.ask("/model_info")
        except BackendError as error:
            if not error.final:
                raise
            info = await self._upstream.ask("/get_model_info")  # the name in older servers
        if info.get("has_image_understanding") is True:
            return ImageSupport(True, by_address=True)
        return ImageSupport(False, "SGLang says of its model that it has no image understanding")

    def stream(self, prompt: Prompt, ids: Sequence[int] | None, options: Options) -> Chunks:
        body = partial(self._body_with_images if prompt.images else _body, prompt, ids, options)
        progress = _SglangProgress(len(ids or ()), options.routed_experts)
        return self._upstream.chunks("/generate", body, progress.chunk)

    async def _body_with_images(
        self, prompt: Prompt, ids: Sequence[int] | None, options: Options
    ) -> bytes:
        urls = image_urls(prompt, ids, await self.check_images())
        return await large_body({**await _body(prompt, ids, options), "image_data": urls})

    async def models(self) -> list[Model]:
        info = await self._upstream.ask("/get_model_info")
        server = await self._upstream.ask("/get_server_info")
        context = read_number(server.get("context_length") or server.get("max_total_num_tokens"))
        name = str(info.get("served_model_name") or info.get("model_path"))
        checkpoints = read_names(info.get("model_path"), info.get("tokenizer_path"))
        return [Model(name, context, checkpoints)]


async def _body(prompt: Prompt, ids: Sequence[int] | None, options: Options) -> dict[str, Any]:
    sampling: dict[str, Any] = {
        # SGLang's default is 128.
        "max_new_tokens": options.max_tokens,
        # Without these, markup would be missing from the text, or split by spaces.
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }
    fields = sampling_fields(replace(options, logprobs=None), by_id=ids is not None)
    sampling |= {"sampling_seed" if name == "seed" else name: v for name, v in fields.items()}
    if options.grammar is not None:
        sampling |= options.grammar.fields("sglang")["sampling_params"]
    body: dict[str, Any] = {"text": prompt.text} if ids is None else {"input_ids": list(ids)}
    if options.logprobs is not None:
        body |= {"return_logprob": True, "return_text_in_logprobs": True}
        body["top_logprobs_num"] = options.logprobs
    if options.routed_experts:
        body["return_routed_experts"] = True
    return joined({**body, "sampling_params": sampling, "stream": True}, options.extra)


class _SglangProgress:
    """The progress of one completion.

    Each event has all text, ids and log-probabilities so far or only the new ones, depending on how
    the server was started (`--incremental-streaming-output`). The number of tokens so far, which it
    has too, shows which.
    """

    def __init__(self, prompt: int = 0, experts: bool | int = False) -> None:
        """`prompt` is its number of tokens; `experts` says whether experts are asked for, or how
        many for each token."""
        self._prompt = prompt
        self._experts = experts
        self._text = 0
        self._ids = 0
        self._logprobs = 0
        self._versions: list[WeightsSpan] = []

    def chunk(self, event: JsonObject) -> Chunk:
        meta = event.get("meta_info") or {}
        total = read_number(meta.get("completion_tokens"))
        text = event.get("text") or ""
        before, output = self._ids, event.get("output_ids")
        if isinstance(output, list) and total is not None and len(output) < total:
            self._text = 0  # the event has only new text
        new, self._text = text[self._text :], max(self._text, len(text))
        ids, logprobs = self._new_ids(output, total), self._new_logprobs(meta, total)
        check_count(logprobs, ids)
        self._note_version(meta, before)
        reason = meta.get("finish_reason")
        reason = reason if isinstance(reason, dict) and reason.get("type") else {"type": reason}
        return Chunk(
            text=new,
            ids=ids,
            logprobs=logprobs or (),
            finish=read_finish(reason["type"], reason.get("message")),
            stop_string=read_text(reason.get("matched")),
            counts=Counts(
                read_number(meta.get("prompt_tokens")),
                read_number(meta.get("cached_tokens")),
                total,
            ),
            experts=self._read_experts(meta),
            weights=tuple(self._versions) if reason["type"] else (),
        )

    def _note_version(self, meta: JsonObject, before: int) -> None:
        """Notes which weights sampled the new tokens. The last event may have the spans of all
        weights, which replace these because they are exact."""
        spans, version = meta.get("weight_versions"), meta.get("weight_version")
        if isinstance(spans, list):
            self._versions = read_spans(spans)
        elif isinstance(version, (str, int)) and self._ids > before:
            self._versions.append(WeightsSpan(version, before, self._ids))

    def _read_experts(self, meta: JsonObject) -> RoutedExperts | None:
        value = meta.get("routed_experts")
        if not isinstance(value, str) or not self._experts:
            return None
        # With images, the prompt has more tokens than ids.
        prompt = read_number(meta.get("prompt_tokens")) or self._prompt
        # `True` is not a number of experts.
        per_token = None if self._experts is True else self._experts
        try:
            return experts_of_int32(value, prompt + self._ids - 1, per_token)
        except ValueError as error:
            raise BackendError(f"the backend's routed experts: {error}", final=True) from None

    def _new_ids(self, ids: object, total: int | None) -> list[int] | None:
        if not isinstance(ids, list):
            return None
        new = ids[self._ids :] if total is not None and len(ids) == total else ids
        self._ids += len(new)
        return new

    def _new_logprobs(self, meta: JsonObject, total: int | None) -> tuple[Logprob, ...] | None:
        """Value, id and text of each new token; None where there are no log-probabilities."""
        entries = meta.get("output_token_logprobs")
        if not isinstance(entries, list):
            return None
        tops: list[Any] = meta.get("output_top_logprobs") or [None] * len(entries)
        is_all = total is None or len(entries) == total
        first = self._logprobs if is_all else 0
        self._logprobs += len(entries) - first
        return tuple(
            Logprob(
                str(text),
                float(value),
                tuple((str(t), v) for v, _, t in top or ()),
                read_number(id),
                tuple(id for _, id, _ in top or ()),
            )
            for (value, id, text), top in list(zip(entries, tops, strict=False))[first:]
            if value is not None
        )
