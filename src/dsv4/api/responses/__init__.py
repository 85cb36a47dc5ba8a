"""OpenAI's Responses."""

from dsv4.api.responses.reading import read

__all__ = ["read"]
