"""OpenAI's Chat Completions."""

from dsv4.api.chat.reading import read

__all__ = ["read"]
