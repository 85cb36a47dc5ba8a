"""The backends, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dsv4.serve.backend import AnyBackend
from dsv4.serve.backends.demo_model import DemoBackend
from dsv4.serve.backends.llamacpp import LlamacppBackend
from dsv4.serve.backends.openai_compatible import ChatServerBackend, CompletionsBackend
from dsv4.serve.backends.sglang import SglangBackend
from dsv4.serve.backends.vllm import VllmBackend
from dsv4.serve.settings import BackendName, Settings
from dsv4.serve.upstreams.engine_load import LoadProbe
from dsv4.serve.upstreams.engine_pool import Engine
from dsv4.serve.upstreams.upstream import Upstream
from dsv4.tokens import Tokenizer


def engines_of(settings: Settings, tokenizer: Tokenizer | None) -> list[Engine]:
    """An engine for each server that the settings name."""
    alone = [replace(settings, upstream=(url,)) for url in settings.upstream] or [settings]
    return [engine_of(each, tokenizer) for each in alone]


def engine_of(settings: Settings, tokenizer: Tokenizer | None) -> Engine:
    """The engine of settings that name one server."""
    name = settings.first_upstream or settings.backend
    probe = LoadProbe(Upstream(settings)) if settings.upstream else None
    return Engine(name, backend_named(settings, tokenizer), probe)


def backend_named(settings: Settings, tokenizer: Tokenizer | None) -> AnyBackend:
    """The backend that the settings name."""
    if settings.backend == "demo":
        return DemoBackend(tokenizer, settings.pace)
    return _SERVERS[settings.backend](settings, tokenizer)


_SERVERS: dict[BackendName, Callable[[Settings, Tokenizer | None], AnyBackend]] = {
    "vllm": VllmBackend,
    "sglang": SglangBackend,
    "llamacpp": LlamacppBackend,
    "completions": CompletionsBackend,
    "chat": ChatServerBackend,
}
