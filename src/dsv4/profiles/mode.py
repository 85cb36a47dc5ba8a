"""Whether a model thinks, and what is written about how hard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """What a server makes of the options for thinking. `effort` is the text that it writes."""

    thinking: bool
    effort: str
