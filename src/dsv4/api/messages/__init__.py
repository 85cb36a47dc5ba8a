"""Anthropic's Messages."""

from dsv4.api.messages.reading import read

__all__ = ["read"]
