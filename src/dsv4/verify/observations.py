"""Observations: the facts in a server's answer that tell something about the prompt."""

from __future__ import annotations

from dataclasses import dataclass, field

from dsv4.profiles.server_requests import Object
from dsv4.verify.probes import PROBES


@dataclass(frozen=True)
class Observation:
    """One request and its outcome.

    - `probe`: the id of a built-in probe, or any other name, with the `request` then given.
    - `count`: the tokens of the prompt, as the server says; None where it was refused.
    - `refused`: the server answered with an error.
    - `completion_tokens`: those of the answer. `cached`: how many of the prompt were cached.
    - `ids`, `prompt`: the prompt itself, where the server shows it.
    - `note`: why there is no count, in words. `refusal`: why it was refused, in the server's
      words; `failed`: it was refused with a status that servers also give when they fail.
    """

    probe: str
    count: int | None = None
    refused: bool = False
    completion_tokens: int = 0
    cached: int | None = None
    ids: tuple[int, ...] | None = None
    prompt: str | None = None
    request: Object | None = field(default=None, hash=False)
    note: str = ""
    refusal: str = field(default="", compare=False)
    failed: bool = field(default=False, compare=False)

    @property
    def body(self) -> Object | None:
        """The request: its own, or that of the probe with this name."""
        if self.request is not None:
            return self.request
        return PROBES[self.probe].request if self.probe in PROBES else None

    @property
    def shows_prompt(self) -> bool:
        """Whether the server shows the prompt itself."""
        return self.ids is not None or self.prompt is not None

    @property
    def tells(self) -> bool:
        """Whether it tells anything about the prompt."""
        return self.refused or self.count is not None
