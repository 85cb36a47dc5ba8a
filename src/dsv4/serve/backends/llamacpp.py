"""llama.cpp's server, by its `/completion`: ids in, ids out. A prompt with images is sent as text,
with the server's own marker in place of each.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, cast

from dsv4._completion.reasons import Reason
from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import BOS
from dsv4.api.request_fields import JsonObject
from dsv4.serve import backend
from dsv4.serve.backend import ImageSupport
from dsv4.serve.backends import engine_fields
from dsv4.serve.backends.http_backend import HttpBackend
from dsv4.serve.images.sent_images import image_urls, large_body
from dsv4.tokens import Tokenizer

# A prompt with images is sent as text. The server finds special tokens and markers wherever a text
# spells them, so an invisible character is put into those in a caller's text.


# The bar of special tokens, which is not ASCII's.
_BAR = str(BOS)[1]
# WORD JOINER: it has no width, and no word or line breaks there.
_INSIDE = "\u2060"


@dataclass(frozen=True, slots=True)
class MediaSupport(ImageSupport):
    """A server's answer about images: whether it takes any, the `marker` for one, and whether it
    writes the BOS before every text."""

    marker: str = ""
    writes_bos: bool = False

    def text_of(self, prompt: Prompt, special: Iterable[str]) -> str:
        """The text of a prompt. `special` are special tokens that the server knows beside the
        dialect's."""
        names = frozenset((*map(str, prompt.dialect.special_tokens), *special))
        spelling = _spelling(names, self.marker)
        image, parts = prompt.dialect.image_token, []
        for n, (run, token) in enumerate(prompt.runs()):
            parts.append(spelling.sub(rf"\g<0>{_INSIDE}", run))
            if token is None or (n == 0 and token == BOS and self.writes_bos):
                continue
            parts.append(self.marker if token == image else str(token))
        return "".join(parts)


# The form of nearly all special tokens. Any text of this form is treated like one.
_USUAL = re.compile(f"<[|{_BAR}][^<>]{{1,48}}[|{_BAR}]>")


@lru_cache(maxsize=4)
def _spelling(special: frozenset[str], marker: str) -> re.Pattern[str]:
    """A pattern for the first character of each special token or marker in a text, also of those
    that overlap others."""
    others = {name for name in special if not _USUAL.fullmatch(name)} | {marker}
    rests = [(_USUAL.pattern[0], _USUAL.pattern[1:])]
    rests += [(re.escape(name[0]), re.escape(name[1:])) for name in sorted(others)]
    return re.compile("|".join(f"{first}(?={rest})" for first, rest in rests))


class LlamacppBackend(HttpBackend):
    """A llama.cpp server."""

    grammar_form: backend.Form | None = "gbnf"
    fields = engine_fields.LLAMACPP
    usual_logprobs: backend.LogprobsMode | None = "raw"

    async def _image_support(self) -> MediaSupport:
        """Whether the server was started with image support for its model."""
        properties = await self._upstream.ask("/props")
        modalities = properties.get("modalities")
        if not isinstance(modalities, dict) or modalities.get("vision") is not True:
            return MediaSupport(False, "llama.cpp was started without --mmproj")
        marker = properties.get("media_marker")
        if not isinstance(marker, str) or not marker:
            return MediaSupport(False, "llama.cpp does not say its media marker")
        # The tokens of an empty text are those that it writes before every text.
        empty = await self._upstream.ask("/tokenize", {"content": "", "add_special": True})
        return MediaSupport(True, marker=marker, writes_bos=bool(empty.get("tokens")))

    async def _body_with_images(
        self, prompt: Prompt, ids: Sequence[int] | None, options: backend.Options
    ) -> bytes:
        support = cast(MediaSupport, await self.check_images())
        urls = image_urls(prompt, ids, support)
        special = self._tokenizer.vocabulary.added if self._tokenizer is not None else ()
        body = await _body(prompt, ids, options)
        body["prompt"] = {
            "prompt_string": await asyncio.to_thread(support.text_of, prompt, special),
            "multimodal_data": [url.partition(",")[2] for url in urls],
        }
        return await large_body(body)

    def stream(
        self, prompt: Prompt, ids: Sequence[int] | None, options: backend.Options
    ) -> backend.Chunks:
        # Control tokens come as empty text, so the text is made from the ids.
        decoder = None if self._tokenizer is None else _SampledIds(self._tokenizer)

        def read(event: JsonObject) -> backend.Chunk:
            return _chunk(event, None if decoder is None else decoder.of(event))

        body = partial(self._body_with_images if prompt.images else _body, prompt, ids, options)
        return self._upstream.chunks("/completion", body, read)

    async def models(self) -> list[backend.Model]:
        answer = await self._upstream.ask("/v1/models")
        properties = await self._upstream.ask("/props")
        settings = properties.get("default_generation_settings") or {}
        context = backend.read_number(settings.get("n_ctx"))
        checkpoints = backend.read_names(properties.get("model_path"))
        return [
            backend.Model(str(model.get("id")), context, checkpoints)
            for model in answer.get("data") or ()
        ]


class _SampledIds:
    """The ids of one completion.

    While a character is incomplete the server sends nothing. Then it sends the text of all tokens
    since then, with only the id of the last: the other ids are found from the text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = set(tokenizer.vocabulary.added.values())
        self._count = 0

    def of(self, event: JsonObject) -> list[int] | None:
        """The ids that belong to an event; None where it has none."""
        ids, text = event.get("tokens"), event.get("content") or ""
        if not isinstance(ids, list):
            return None
        total = backend.read_number(event.get("tokens_predicted"))
        new = len(ids) if total is None else total - self._count
        self._count += new
        if new <= len(ids) or not text:
            return ids
        # A special token is never made from text.
        special = [id for id in ids if id in self._special]
        rest = text.removesuffix(self._tokenizer.decode(special))
        return [*self._tokenizer.encode_text(rest), *special]


def _chunk(event: JsonObject, ids: Sequence[int] | None) -> backend.Chunk:
    chunk = backend.Chunk(
        text=event.get("content") or "",
        ids=ids,
        logprobs=tuple(
            _logprob(entry)
            for entry in event.get("completion_probabilities") or ()
            if isinstance(entry.get("logprob"), (int, float))
        ),
    )
    if event.get("stop") is True:
        cached = (event.get("timings") or {}).get("cache_n", event.get("tokens_cached"))
        counts = (event.get("tokens_evaluated"), cached, event.get("tokens_predicted"))
        chunk.counts = backend.Counts(*map(backend.read_number, counts))
        chunk.finish = _finish(event)
        chunk.stop_string = backend.read_text(event.get("stopping_word")) or None
    return chunk


def _logprob(entry: JsonObject) -> backend.Logprob:
    tops = entry.get("top_logprobs") or ()
    top = tuple((str(t.get("token")), float(t.get("logprob") or 0)) for t in tops)
    ids = [id for t in tops if (id := backend.read_number(t.get("id"))) is not None]
    return backend.Logprob(
        str(entry.get("token")),
        float(entry["logprob"]),
        top,
        backend.read_number(entry.get("id")),
        tuple(ids) if len(ids) == len(top) else (),
    )


# The server's reasons for the end, and the usual words for them.
_STOP_TYPES = {"eos": "eos", "word": "stop", "limit": "length"}


def _finish(event: JsonObject) -> Reason | None:
    kind = event.get("stop_type")
    if kind is None:  # the form of servers of 2024
        kind = next((name for name in _STOP_TYPES if event.get(f"stopped_{name}") is True), "word")
    return backend.read_finish(_STOP_TYPES.get(kind, kind) if isinstance(kind, str) else kind)


async def _body(
    prompt: Prompt, ids: Sequence[int] | None, options: backend.Options
) -> dict[str, Any]:
    body: dict[str, Any] = {
        # Text might make the server add a second BOS.
        "prompt": prompt.text if ids is None else list(ids),
        "n_predict": options.max_tokens,
        "stream": True,
        "return_tokens": True,
        # The server's defaults are not neutral.
        "top_k": options.top_k or 0,
        "top_p": 1.0 if options.top_p is None else options.top_p,
        "temperature": 1.0 if options.temperature is None else options.temperature,
    }
    options_set = {
        "presence_penalty": options.presence_penalty,
        "frequency_penalty": options.frequency_penalty,
        "seed": options.seed,
        "logit_bias": None if options.logit_bias is None else list(map(list, options.logit_bias)),
        "stop": list(options.stop) or None,
        # If it is asked for no others, the server does not report the token's own probability
        # either.
        "n_probs": None if options.logprobs is None else max(options.logprobs, 1),
    }
    body |= {name: value for name, value in options_set.items() if value is not None}
    if options.grammar is not None:
        body |= options.grammar.fields("llamacpp")
    neutral = {"cache_prompt": True, "min_p": options.min_p or 0.0, "repeat_penalty": 1.0}
    return {**neutral, **options.extra, **body}
