"""OpenAI's Chat Completions."""

from dsv4.api.chat.reading import read
from dsv4.api.chat.writing import Writer, fold, frames, whole
from dsv4.api.openai_errors import error

__all__ = ["Writer", "error", "fold", "frames", "read", "whole"]
