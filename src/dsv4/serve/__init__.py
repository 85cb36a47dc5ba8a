"""The gateway: three protocols over any backend of DeepSeek-V4 models. Extra `serve`."""

from dsv4.serve.app import app
from dsv4.serve.backend import (
    Backend,
    BackendError,
    Chunk,
    Counts,
    Logprob,
    Model,
    Options,
)
from dsv4.serve.settings import SettingError, Settings

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
