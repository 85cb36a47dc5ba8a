"""vLLM, by its `/v1/completions`: ids in, ids out; and by its `/inference/v1/generate` where a
prompt has images, or where experts are asked for, which it reports at the end of a stream. Other
servers with OpenAI's forms are read with its functions.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from dsv4._encode.encode import encode
from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import THINK_END
from dsv4.api.request_fields import JsonObject
from dsv4.grammar import Grammar
from dsv4.serve.backend import (
    BackendError,
    Chunk,
    Chunks,
    Counts,
    Form,
    ImageSupport,
    Logprob,
    LogprobsMode,
    Options,
    read_digits,
    read_finish,
    read_text,
    usual_case,
)
from dsv4.serve.backends import engine_fields
from dsv4.serve.backends.engine_fields import joined
from dsv4.serve.backends.http_backend import EngineAnswer, HttpBackend
from dsv4.serve.images.sent_images import image_urls, large_body
from dsv4.serve.settings import Settings
from dsv4.tokens import Tokenizer
from dsv4.trajectories.recorded_calls import WeightsSpan
from dsv4.trajectories.routed_experts import RoutedExperts, experts_of_npy
from dsv4.types import UserMessageParam

# The tokens that the server applies a grammar to: all of them, or only those after the reasoning. A
# vLLM that was started with `--reasoning-parser` lets reasoning pass, and applies structured
# outputs only after it, in `/v1/completions` too. A grammar that begins with the reasoning would
# then be applied to the text after it, and destroy that. No route tells how a server was started,
# so it is asked to write one word where a model would think.


# The part of a completion that a grammar is applied to, as `dsv4.grammar.for_request` names it: all
# of it ("grammar"), or what the server leaves it ("server"), which is the part after the reasoning.
# None is for a server that applies grammars nowhere, or in an unknown place, as none should.
GrammarScope: TypeAlias = Literal["grammar", "server"] | None
# Asks the server: takes a prompt, and the grammar among the options.
AskWord: TypeAlias = Callable[[Prompt, Options], Chunks]

# No model begins a thought, or an answer to this question, with this word.
_QUESTION: list[UserMessageParam] = [{"role": "user", "content": "Is seven a prime number?"}]
_WORD = "zebra"
_OPTIONS = Options(
    # As many tokens as it takes to spell the word letter by letter.
    max_tokens=len(_WORD),
    temperature=0.0,
    grammar=Grammar(f'root ::= "{_WORD}"', "xgrammar"),
)


class GrammarProbe:
    """Finds the scope of grammars in one server. It asks again when the server may have been
    restarted."""

    def __init__(self, settings: Settings, ask: AskWord, starts: Callable[[], int]) -> None:
        """`starts` returns another number when the server may be another process than before."""
        setting = settings.upstream_reasoning
        self._setting: GrammarScope = None if setting == "probe" else setting
        self.has_failed = False  # whether the server was asked, and applies no grammars
        self._ask = ask
        self._answer: EngineAnswer[GrammarScope] = EngineAnswer(self._probed, starts)

    async def scope(self) -> GrammarScope:
        """The part that the server applies a grammar to. Raises a `BackendError` if it does not
        answer."""
        return await self._answer.get() if self._setting is None else self._setting

    async def fitting(self, prompt: Prompt, options: Options) -> Grammar | None:
        """The grammar to send with a prompt, if any. Raises a `BackendError` where none fits."""
        if options.grammar is None or not _thinks(prompt):
            return options.grammar
        scope = await self.scope()
        if scope == "grammar":
            return options.grammar
        if scope is None or options.grammar_after_reasoning is None:
            raise BackendError("the backend does not apply grammars while the model thinks", 400)
        # A hundred tools take a quarter of a second, in which other streams must go on.
        return await asyncio.to_thread(options.grammar_after_reasoning)

    async def _probed(self) -> GrammarScope:
        self.has_failed = False
        if await self._obeys(thinking=True):
            return "grammar"
        # A server that ignores the field altogether obeys in neither case.
        self.has_failed = not await self._obeys(thinking=False)
        return None if self.has_failed else "server"

    async def _obeys(self, thinking: bool) -> bool:
        text = ""
        try:
            async for chunk in self._ask(encode(_QUESTION, thinking=thinking), _OPTIONS):
                text += chunk.text
        except BackendError as error:
            if error.status == 400:  # it supports no grammars, or not this form
                return False
            raise
        return bool(text) and _WORD.startswith(text)


def _thinks(prompt: Prompt) -> bool:
    """Whether the model's first token belongs to its reasoning."""
    ending = prompt.ending
    return ending.thinking and THINK_END not in ending.open


class VllmBackend(HttpBackend):
    """A vLLM server."""

    grammar_form: Form | None = "xgrammar"
    fields = engine_fields.VLLM
    usual_logprobs: LogprobsMode | None = "raw"

    def __init__(self, settings: Settings, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(settings, tokenizer)
        self._probe = GrammarProbe(settings, self._probed, lambda: self._upstream.starts)

    async def _image_support(self) -> ImageSupport:
        """Whether the server has the route that takes images, as its list of routes says."""
        try:
            openapi = await self._upstream.ask("/openapi.json")
        except BackendError as error:
            if not error.final:
                raise
            return ImageSupport(False, "vLLM shows no /openapi.json, which lists its routes")
        if takes_images(openapi):
            return ImageSupport(True, by_address=True)
        return ImageSupport(False, f"vLLM has no {_GENERATE}: start it with --enable-scale-out")

    async def check_grammars(self) -> GrammarScope:
        """The part that the server applies grammars to, asked with a probe unless it is known."""
        scope = await self._probe.scope()
        self._note_grammars()
        return scope

    def _note_grammars(self) -> None:
        self.grammar_form = None if self._probe.has_failed else "xgrammar"

    def stream(self, prompt: Prompt, ids: Sequence[int] | None, options: Options) -> Chunks:
        by_ids = bool(options.routed_experts or prompt.images) and ids is not None

        async def make_body() -> dict[str, Any] | bytes:
            try:
                grammar = await self._probe.fitting(prompt, options)
            finally:
                self._note_grammars()
            if not by_ids or ids is None:
                return await self._body(prompt, ids, options, grammar)
            body = generate_body(await self._name(), ids, options, grammar)
            return body if not prompt.images else await self._with_images(body, prompt, ids)

        if by_ids:
            return self._upstream.chunks(_GENERATE, make_body, read_generated)
        read_event = _read_numbers if options.logprobs == 0 else read_completion
        return self._upstream.chunks("/v1/completions", make_body, read_event, by_form=True)

    async def _with_images(self, body: dict[str, Any], prompt: Prompt, ids: Sequence[int]) -> bytes:
        urls = image_urls(prompt, ids, await self.check_images())
        parts = [{"type": "image_url", "url": url} for url in urls]
        return await large_body({**body, "content_parts": parts})

    def _probed(self, prompt: Prompt, options: Options) -> Chunks:
        body = partial(self._body, prompt, None, options, options.grammar)
        return self._upstream.chunks("/v1/completions", body, read_completion)

    async def _body(
        self, prompt: Prompt, ids: Sequence[int] | None, options: Options, grammar: Grammar | None
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": await self._name(),
            "prompt": prompt.text if ids is None else list(ids),
            "stream": True,
            "stream_options": {"include_usage": True},
            # vLLM's default is 16.
            "max_tokens": options.max_tokens,
            # Without these, markup would be missing from the text, or split by spaces.
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            # The prompt has its BOS already.
            "add_special_tokens": False,
            "return_token_ids": True,
        }
        if options.logprobs is not None and ids is not None:
            # A part of a character has an id but no text.
            body["return_tokens_as_token_ids"] = True
        if grammar is not None:
            body |= grammar.fields("vllm")
        return joined(body | sampling_fields(options, by_id=ids is not None), options.extra)


def sampling_fields(options: Options, *, by_id: bool = False) -> dict[str, Any]:
    """The options that were given, under the names that most servers use; `by_id` says that stop
    tokens are sent as ids."""
    by_id = by_id and bool(options.stop_tokens)
    names = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty")
    fields: dict[str, Any] = {name: getattr(options, name) for name in (*names, "seed", "logprobs")}
    fields["stop"] = [*options.stop, *([] if by_id else options.stop_tokens)] or None
    fields["stop_token_ids"] = list(options.stop_tokens.values()) if by_id else None
    if options.logit_bias is not None:  # in OpenAI's form: by ids as text
        fields["logit_bias"] = {str(id): logit for id, logit in options.logit_bias}
    return {name: value for name, value in fields.items() if value is not None}


def read_completion(event: JsonObject, *, numbers: bool = False) -> Chunk:
    """Reads an event of `/v1/completions`. With `numbers`, the log-probabilities of ids are bare
    numbers: more is not known where no other tokens were asked for."""
    choice = choice_of(event)
    text, ids, logprobs = choice.get("text"), choice.get("token_ids"), choice.get("logprobs")
    if text is None and (choice.get("delta") or choice.get("message")):
        raise ValueError("a form of chat")
    ids = ids if isinstance(ids, list) else None
    entries: Sequence[Logprob | float] = ()
    if isinstance(logprobs, dict):
        values = logprobs.get("token_logprobs")
        if numbers and ids and values and len(values) == len(ids) and None not in values:
            entries = array("d", values)  # raises a `TypeError` unless all are numbers
        else:
            check_count(values, ids)
            entries = _logprobs(logprobs)
    # Nearly all events have nothing more to read.
    return with_end(Chunk(text or "", ids, entries), choice, event)


_read_numbers = partial(read_completion, numbers=True)


def choice_of(event: JsonObject) -> JsonObject:
    """The choice that was asked for: there is only one, whatever else a server sends."""
    choices: list[JsonObject] = event.get("choices") or [{}]
    choice = choices[0]
    if not choice.get("index"):
        return choice
    return next((choice for choice in choices if not choice.get("index")), {})


def with_end(chunk: Chunk, choice: JsonObject, event: JsonObject) -> Chunk:
    """A piece with the finish reason and the counts of an event in OpenAI's form."""
    reason, usage = choice.get("finish_reason"), event.get("usage")
    if reason is not None:
        chunk.finish, chunk.stop_string = read_finish(reason), read_text(choice.get("stop_reason"))
        usage = usage or choice.get("usage")  # Moonshot's place for it
    if usage is None and isinstance(event.get("x_groq"), dict):
        usage = event["x_groq"].get("usage")
    if usage is not None:
        chunk.counts = read_counts(usage)
    return chunk


def check_count(entries: object, ids: Sequence[int] | None) -> None:
    """Raises a `BackendError` if there is not one log-probability for each token."""
    if isinstance(entries, (list, tuple)) and ids is not None and len(entries) != len(ids):
        some = f"{len(entries)} log-probabilities for {len(ids)} tokens"
        raise BackendError(f"the backend gave {some}", final=True)


# `/inference/v1/generate`.


_GENERATE = "/inference/v1/generate"


def takes_images(openapi: JsonObject) -> bool:
    """Whether a server's list of its routes has the one that takes images."""
    schemas = (openapi.get("components") or {}).get("schemas") or {}
    fields = (schemas.get("GenerateRequest") or {}).get("properties") or {}
    return _GENERATE in (openapi.get("paths") or {}) and "content_parts" in fields


def generate_body(
    model: str, ids: Sequence[int], options: Options, grammar: Grammar | None
) -> dict[str, Any]:
    """A request whose answer has only ids, and the experts of each token."""
    extra = {_GENERATE_NAMES.get(name, name): value for name, value in options.extra.items()}
    outside = {name: extra.pop(name) for name in _OUTSIDE_SAMPLING if name in extra}
    sampling = {
        **sampling_fields(options, by_id=True),
        "max_tokens": options.max_tokens,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        **({} if grammar is None else grammar.fields("vllm")),
    }
    body = {
        "model": model,
        "token_ids": list(ids),
        "sampling_params": joined(sampling, extra),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return joined(body, outside)


# Fields of a request that are not for sampling, and those that have another name there.
_OUTSIDE_SAMPLING = (
    *("priority", "cache_salt", "session_id", "kv_transfer_params", "ec_transfer_params"),
)
_GENERATE_NAMES = {"vllm_xargs": "extra_args"}


def read_generated(event: JsonObject) -> Chunk:
    """Reads an event of `/inference/v1/generate`. The last has experts and versions of the
    weights."""
    choice = choice_of(event)
    ids, logprobs = choice.get("token_ids"), choice.get("logprobs")
    ids = ids if isinstance(ids, list) else []
    entries = logprobs.get("content") if isinstance(logprobs, dict) else None
    check_count(entries, ids)
    chunk = Chunk("", ids, tuple(map(_generated_logprob, entries or ())))
    chunk.experts = _experts(choice.get("routed_experts"))
    chunk.weights = tuple(read_spans(choice.get("weight_versions")))
    return with_end(chunk, choice, event)


def _generated_logprob(entry: JsonObject) -> Logprob:
    tops = [(top["token_id"], top["logprob"]) for top in entry.get("top_logprobs") or ()]
    return Logprob(
        "",
        entry["logprob"],
        tuple(("", value) for _, value in tops),
        entry["token_id"],
        tuple(id for id, _ in tops),
    )


def _experts(value: object) -> RoutedExperts | None:
    if not isinstance(value, str):
        return None
    try:
        return experts_of_npy(value)
    except ValueError as error:
        raise BackendError(f"the backend's routed experts: {error}", final=True) from None


def read_spans(value: object) -> list[WeightsSpan]:
    """The versions of weights over the output, as vLLM and SGLang report them."""
    spans = value if isinstance(value, list) else []
    return [
        WeightsSpan(span.get("version"), int(span["start"]), int(span["end"]))
        for span in spans
        if isinstance(span, dict) and isinstance(span.get("start"), int)
    ]


def read_counts(usage: object) -> Counts | None:
    """The counts of an answer in OpenAI's form."""
    if not isinstance(usage, dict):
        return None
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    names = _COUNT_NAMES[0]
    if not any(name in usage for name in names):
        usage = {usual_case(name): value for name, value in usage.items()}
        names = next((pair for pair in _COUNT_NAMES if any(map(usage.get, pair))), names)
    return Counts(
        read_digits(usage.get(names[0])),
        # DeepSeek's own API has another name for it.
        cached if cached is not None else read_digits(usage.get("prompt_cache_hit_tokens")),
        read_digits(usage.get(names[1])),
        _detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


# Names of the counts for the prompt and for the output: OpenAI's; those of proxies before a server
# of Messages or Gemini; Ollama's.
_COUNT_NAMES = (
    ("prompt_tokens", "completion_tokens"),
    ("input_tokens", "output_tokens"),
    ("prompt_token_count", "candidates_token_count"),
    ("input_token_count", "output_token_count"),
    ("prompt_eval_count", "eval_count"),
)


def has_counts(value: object) -> bool:
    """Whether a value has counts of a prompt and of an output."""
    names = set(map(usual_case, value)) if isinstance(value, dict) else set()
    return any(names.issuperset(pair) for pair in _COUNT_NAMES)


def _detail(usage: JsonObject, details: str, name: str) -> int | None:
    fields = usage.get(details)
    return read_digits(fields.get(name)) if isinstance(fields, dict) else None


def _logprobs(fields: JsonObject) -> tuple[Logprob, ...]:
    tokens, values = fields.get("tokens") or (), fields.get("token_logprobs") or ()
    tops = fields.get("top_logprobs") or [None] * len(tokens)
    return tuple(
        [
            _logprob(token, float(value), top or {})
            for token, value, top in zip(tokens, values, tops, strict=False)
            if value is not None
        ]
    )


def _logprob(token: str, logprob: float, top: Mapping[str, float]) -> Logprob:
    ids = [_token_id(other) for other in top]
    numbers = [each for each in ids if each is not None]
    # If only some tokens have ids, the server does not know the ids of all.
    top_ids = tuple(numbers) if len(numbers) == len(ids) else ()
    return Logprob(token, logprob, tuple(top.items()), _token_id(token), top_ids)


# vLLM's prefix for a token that is named by its id.
_TOKEN_ID = "token_id:"
_NUMBER = slice(len(_TOKEN_ID), None)


def _token_id(token: str) -> int | None:
    if not token.startswith(_TOKEN_ID):
        return None
    number = token[_NUMBER]
    return int(number) if number.isdecimal() else None
