"""OpenAI's Responses."""

from dsv4.api.openai_errors import error
from dsv4.api.responses.reading import read
from dsv4.api.responses.writing import Writer, fold, frames, whole

__all__ = ["Writer", "error", "fold", "frames", "read", "whole"]
