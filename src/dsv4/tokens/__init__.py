"""Prompts to ids, masks and counts; ids to events; sessions. Needs the extra `tokens`."""

from dsv4.tokens.coder import IdParser
from dsv4.tokens.masks import Span
from dsv4.tokens.prefix_difference import Difference, why_not_prefix
from dsv4.tokens.session import Sample, Session
from dsv4.tokens.tokenizer import Example, Fitted, Tokenizer
from dsv4.tokens.vocabulary import VocabularyError

__all__ = [
    "Difference",
    "Example",
    "Fitted",
    "IdParser",
    "Sample",
    "Session",
    "Span",
    "Tokenizer",
    "VocabularyError",
    "why_not_prefix",
]
