"""The backends, by name."""

from __future__ import annotations

from dsv4.serve.backend import AnyBackend
from dsv4.serve.settings import Settings
from dsv4.tokens import Tokenizer


def backend_named(settings: Settings, tokenizer: Tokenizer | None) -> AnyBackend:
    """The backend that the settings name."""
    if settings.backend == "demo":
        from dsv4.serve.demo.demo_model import Demo

        return Demo(tokenizer, settings.pace)
    if settings.backend == "vllm":
        from dsv4.serve.backends.vllm import Vllm

        return Vllm(settings)
    if settings.backend == "sglang":
        from dsv4.serve.backends.sglang import Sglang

        return Sglang(settings)
    if settings.backend == "llamacpp":
        from dsv4.serve.backends.llamacpp import Llamacpp

        return Llamacpp(settings, tokenizer)
    if settings.backend == "completions":
        from dsv4.serve.backends.openai_compatible import Completions

        return Completions(settings)
    from dsv4.serve.backends.openai_compatible import Chat

    return Chat(settings)
