"""What became of a completion: what a writer must know of it, whatever it writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from dsv4.api.tools import ToolName


@dataclass(slots=True)
class HeldCall:
    """A call whose end has not come."""

    id: str
    tool: ToolName
    parts: list[str] = field(default_factory=list)
    # Its place among the calls that were sent, None while nothing of it was.
    position: int | None = None
    # What stands around more of its arguments, where they are sent as they come.
    around: tuple[str, str] | None = None


@dataclass(slots=True)
class Outcome:
    """One choice so far: its calls, and how it ended."""

    open: dict[int, HeldCall] = field(default_factory=dict)
    sent: int = 0
    complete: int = 0
    cut: list[HeldCall] = field(default_factory=list)
    repeats_keys: bool = False
    finish: str = "stop"
    stop: str | None = None

    def reason(self, said: str | None) -> str:
        """Why it ended: "tool_calls", "content_filter", "length", "stop_string" or "stop".

        Complete calls count most, because clients run none of them after "length". Then a cut, of
        which the engine (`said`) or the parser knows.
        """
        if self.complete:
            return "tool_calls"
        if said == "content_filter":
            return said
        if said == "length" or self.finish == "length":
            return "length"
        return "stop" if self.stop is None else "stop_string"
