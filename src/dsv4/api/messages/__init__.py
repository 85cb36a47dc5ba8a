"""Anthropic's Messages."""

from dsv4.api.messages.reading import read
from dsv4.api.messages.writing import Writer, error, fold, frames, whole

__all__ = ["Writer", "error", "fold", "frames", "read", "whole"]
