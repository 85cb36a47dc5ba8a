"""Prompt -> ids, masks, counts; ids -> events; growing conversations. Needs the extra `tokens`."""

from dsv4.tokens.expanding import Example
from dsv4.tokens.fitting import Fitted
from dsv4.tokens.masks import Span
from dsv4.tokens.prefix import Difference, why_not_prefix
from dsv4.tokens.session import Session
from dsv4.tokens.stream import IdParser
from dsv4.tokens.tokenizer import Tokenizer
from dsv4.tokens.vocabulary import VocabularyError

__all__ = [
    "Difference",
    "Example",
    "Fitted",
    "IdParser",
    "Session",
    "Span",
    "Tokenizer",
    "VocabularyError",
    "why_not_prefix",
]
