"""What a fault of a server is: a value, with the changes that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dsv4.profiles.prompt_changes import PromptChange
from dsv4.profiles.request_changes import RequestChange

FaultGroup: TypeAlias = Literal[
    "prompt", "system", "thinking", "effort", "tools", "history", "content", "counting", "safety"
]


FaultFamily: TypeAlias = Callable[[int], RequestChange]


@dataclass(frozen=True)
class FaultChange:
    """One way in which a fault comes about: a change of the request, or of the prompt."""

    request: RequestChange | None = None
    prompt: PromptChange | None = None


@dataclass(frozen=True)
class ServerFault:
    """Something that a server does wrong.

    `message` says what it does, `effect` what that does to the answers, and `mend` what helps.
    `variants` are the ways in which it comes about; a fault of counting has none. Where
    `any_length` is true, a text of unknown length is added: the variants have an example of it.
    A fault with a limit has a `family` of changes, one for each number, and the `usual` numbers.
    One that `replaces_prompt` writes another format altogether; one that `refuses` takes no such
    request.
    """

    id: str
    group: FaultGroup
    message: str
    effect: str
    mend: str
    variants: tuple[FaultChange, ...] = ()
    any_length: bool = False
    family: FaultFamily | None = None
    usual: tuple[int, ...] = ()
    replaces_prompt: bool = False
    refuses: bool = False

    @property
    def changes_prompts(self) -> bool:
        """Whether prompts show it; counts alone show what is wrong with counting."""
        return bool(self.variants or self.family)
