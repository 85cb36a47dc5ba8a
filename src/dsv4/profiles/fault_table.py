"""The table of faults: what each does, what that does to the answers, and what fixes it.

Its rows are in fault_table.json. A fault is a change of the request before the server reads it
(profiles/request_changes.py), or of the prompt that it writes (profiles/prompt_changes.py). A row
has the name of the change; or a function that makes such a change, with its parameters. Some faults
come in several variants, which have the same name, effect and fix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any, Literal, TypeAlias

from dsv4._format.texts import read_table
from dsv4.profiles import prompt_changes, request_changes
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
    `variants` are the ways in which it comes about; a fault of counting has none. If `any_length`
    is true, a text of unknown length is added, of which the variants have an example. A fault with
    a limit has a `family` of changes, one for each number, and the `usual` numbers. A fault that
    `replaces_prompt` writes another format altogether; one that `refuses` is a refusal of certain
    requests.
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
        """Whether prompts show it. Faults of counting show only in counts."""
        return bool(self.variants or self.family)


# The rows.

HIGHEST_LIMIT = 10_000_000

EFFORT_NAMES = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
# One name for each text that an effort can write, and for thinking that is off.
EFFORT_TARGETS = ("none", "low", "high", "max")


def _faults() -> Iterator[ServerFault]:
    table = read_table("fault_table", __file__)
    mends = table["mends"]
    for row in table["faults"]:
        row["mend"] = mends.get(row["mend"], row["mend"])
        yield from _swapped_efforts(row) if "{source}" in row["id"] else [_fault(**row)]


def _fault(
    request: Sequence[Any] = (),
    prompt: Sequence[Any] = (),
    family: str = "",
    usual: Sequence[int] = (),
    **texts: Any,
) -> ServerFault:
    variants = (
        *(FaultChange(request=_change(request_changes, each)) for each in request),
        *(FaultChange(prompt=_change(prompt_changes, each)) for each in prompt),
    )
    limits = getattr(request_changes, family) if family else None
    return ServerFault(**texts, variants=variants, family=limits, usual=tuple(usual))


def _change(module: ModuleType, row: str | Mapping[str, Any]) -> Any:
    """The change with a name, or the one that the function of that name makes of parameters."""
    if isinstance(row, str):
        return getattr(module, row)
    ((name, parameters),) = row.items()
    function = getattr(module, name)
    return function(**parameters) if isinstance(parameters, dict) else function(*parameters)


def _swapped_efforts(row: Mapping[str, Any]) -> Iterator[ServerFault]:
    """The rows for every effort that arrives as another one."""
    for source in EFFORT_NAMES:
        for target in EFFORT_TARGETS:
            if source != target:
                words = {"source": source, "target": target, "effect": _effect(source, target)}
                texts = {name: text.format(**words) for name, text in row.items()}
                changes: list[Any] = [{"effort_as": [source, target]}]
                if (source, target) == ("none", "high"):
                    changes.append("no_effort_as_switch")
                yield _fault(**texts, request=changes)


def _effect(source: str, target: str) -> str:
    if target == "none":
        return "the model does not think at all"
    is_less = EFFORT_NAMES.index(target) < EFFORT_NAMES.index(source)
    return f"the model thinks {'less' if is_less else 'more'} than you asked for"


FAULTS: Mapping[str, ServerFault] = MappingProxyType({fault.id: fault for fault in _faults()})
"""Every known fault, by its id."""
