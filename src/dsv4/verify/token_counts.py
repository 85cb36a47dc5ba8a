"""Counts the tokens of a server's prompt, in which texts may spell special tokens."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property, lru_cache

from dsv4._format.dialects import Dialect
from dsv4._format.tokens import Special, spelled
from dsv4.profiles.text_shields import SHIELDS, TextPlace, unshielded
from dsv4.tokens import Tokenizer

# The marks as they are, and as ASCII-only JSON escapes them.
_MARKS: dict[TextPlace, tuple[str, str]] = {
    place: (mark, f"\\u{ord(mark):x}") for place, mark in SHIELDS.items()
}
# Limits for the prompts of one run, in all hypotheses that are looked at.
REMEMBERED_PROMPTS = 32_768
REMEMBERED_TEXTS = 32_768


class PromptCounter:
    """Counts and ids of prompts in which special tokens spelled by callers are marked. Each prompt
    is counted once."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._own_tokenizer = tokenizer
        self._patterns: dict[str, tuple[re.Pattern[str], dict[str, Special]]] = {}
        self.count = lru_cache(REMEMBERED_PROMPTS)(self._count)
        # Prompts differ in a few places, and share the long texts between them.
        self._text_count = lru_cache(REMEMBERED_TEXTS)(self._new_text_count)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self._own_tokenizer or Tokenizer.load(engine="one-shot")

    def _count(self, prompt: str, dialect: Dialect, acting: frozenset[TextPlace]) -> int:
        """The tokens of a prompt. Special tokens that callers spelled count as one in the places
        that are `acting`, and as the text they are in all others."""
        return sum(map(self.tokens_of, self._parts(prompt, dialect, acting)))

    def _new_text_count(self, text: str) -> int:
        return len(self.tokenizer.encode_text(text))

    def ids(
        self, prompt: str, dialect: Dialect, acting: Collection[TextPlace] = ()
    ) -> list[int | None]:
        """The ids of a prompt; None for a token without an id in the vocabulary."""
        parts = self._parts(prompt, dialect, acting)
        return [id for part in parts for id in self.run_ids(part)]

    def runs(self, prompt: str, dialect: Dialect) -> list[str]:
        """A prompt as special tokens and the texts between them. Text that spells a special token
        counts as one, unless it is marked."""
        return list(self._parts(prompt, dialect, ()))

    def tokens_of(self, run: str) -> int:
        """The tokens of one of these runs."""
        return 1 if isinstance(run, Special) else self._text_count(run)

    def run_ids(self, run: str) -> list[int | None]:
        """The ids of one run."""
        return [run.id] if isinstance(run, Special) else [*self.tokenizer.encode_text(run)]

    def _parts(self, prompt: str, dialect: Dialect, acting: Collection[TextPlace]) -> Iterator[str]:
        pattern, specials = self._special_tokens(dialect)
        at = 0
        marked = bool(places_in(prompt))
        prompt = unshielded(prompt, acting)
        for match in pattern.finditer(prompt):
            if match.start() > at:
                text = prompt[at : match.start()]
                yield unshielded(text) if marked else text
            yield specials[match[0]]
            at = match.end()
        if at < len(prompt):
            yield unshielded(prompt[at:])

    def _special_tokens(self, dialect: Dialect) -> tuple[re.Pattern[str], dict[str, Special]]:
        """The tokens of the vocabulary, and those of a dialect that it lacks."""
        if dialect.name not in self._patterns:
            added = self.tokenizer.vocabulary.named_for(dialect).added
            specials = {str(token): Special(token, None) for token in dialect.special_tokens}
            specials |= {token: Special(token, id) for token, id in added.items()}
            # Placeholder tokens are many, and would slow the search for all others.
            used = [token for token in specials.values() if "holder" not in token]
            longest_first = sorted(used, key=len, reverse=True)
            self._patterns[dialect.name] = spelled(longest_first), specials
        return self._patterns[dialect.name]


def places_in(prompt: str) -> frozenset[TextPlace]:
    """The places whose texts spell special tokens in this prompt, as they are or as JSON."""
    return frozenset(
        place for place, marks in _MARKS.items() if any(mark in prompt for mark in marks)
    )
