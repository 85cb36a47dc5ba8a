"""The gateway: three protocols over any backend of DeepSeek-V4 models. Extra `serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsv4.serve.backend import (
    AnyBackend,
    Backend,
    BackendError,
    Chunk,
    Counts,
    Logprob,
    Model,
    Options,
)
from dsv4.serve.settings import SettingError, Settings

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = [
    "Backend",
    "BackendError",
    "Chunk",
    "Counts",
    "Logprob",
    "Model",
    "Options",
    "SettingError",
    "Settings",
    "app",
]


def app(settings: Settings | None = None, backend: AnyBackend | None = None) -> Starlette:
    """The gateway as an ASGI app, to be served or mounted.

    `settings` are the defaults if not given; `backend` is the one that they name, or any object
    with the methods of `Backend`. Returns the app. Raises a `SettingError` for settings that cannot
    be used, and an `ImportError` where the extra `serve` is not installed.
    """
    # Only here: settings and their flags are there without the extra.
    from dsv4.serve.asgi_app import build_app

    return build_app(settings, backend)
