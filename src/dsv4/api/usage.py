"""How many tokens a request took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the prompt (`cached` of them were in a cache) and of the completion (`reasoning`
    of them were thinking)."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """Prompt and completion."""
        return self.prompt + self.completion
