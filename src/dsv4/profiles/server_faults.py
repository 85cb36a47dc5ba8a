"""Faults of servers and proxies as values: variants, their order, their names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from dsv4.errors import EncodeError
from dsv4.profiles.fault_table import FAULTS, HIGHEST_LIMIT, FaultChange, ServerFault
from dsv4.profiles.server_requests import Object, unexpected


class FaultVariant(NamedTuple):
    """A fault with the number of its variant, or with its limit. Written as `id`, or `id/2` for a
    later variant."""

    id: str
    variant: int = 0

    def __str__(self) -> str:
        return f"{self.id}/{self.variant}" if self.variant else self.id

    @property
    def fault(self) -> ServerFault:
        return FAULTS[self.id]

    @property
    def change(self) -> FaultChange:
        fault = self.fault
        if fault.family is not None:
            return FaultChange(request=fault.family(self.variant))
        return fault.variants[self.variant] if fault.variants else FaultChange()

    def touches(self, body: Object) -> bool:
        """Whether a fault that changes requests may change this `body`."""
        change = self.change.request
        try:
            return change is not None and change(body) is not body
        except EncodeError:  # the fault refuses it
            return True


# Faults that proxies are known to have together: litellm for `hosted_vllm`, twice for `deepseek`.
KNOWN_TOGETHER = (
    (
        *(FaultVariant("developer-as-system"), FaultVariant("thinking-as-effort")),
        FaultVariant("additional-properties-lost"),
    ),
    *(
        (FaultVariant("developer-as-system"), efforts, FaultVariant("parts-joined-by-nothing"))
        for efforts in (FaultVariant("effort-none-as-high", 1), FaultVariant("effort-ignored", 1))
    ),
)

_ORDER = {id: n for n, id in enumerate(FAULTS)}


def ordered(faults: Iterable[FaultVariant]) -> tuple[FaultVariant, ...]:
    """Faults in the order in which they apply, which is that of the table."""
    return tuple(sorted(faults, key=lambda each: (_ORDER[each.id], each.variant)))


@cache
def variants() -> tuple[FaultVariant, ...]:
    """Every variant of every fault that changes prompts."""
    return tuple(
        FaultVariant(id, n)
        for id, fault in FAULTS.items()
        for n in (fault.usual or range(len(fault.variants)))
    )


def fault_named(name: object) -> FaultVariant:
    """The variant that a text names, in the form that `str` gives. Raises `EncodeError`."""
    id, _, number = name.partition("/") if isinstance(name, str) else ("", "", "")
    fault = FAULTS.get(id)
    if fault is None or (number and not (number.isdecimal() and len(number) < 9)):
        raise unexpected(name, "the id of a fault", "faults")
    variant = int(number or 0)
    allowed = range(1, HIGHEST_LIMIT) if fault.family else range(len(fault.variants) or 1)
    if variant not in allowed:
        raise unexpected(name, f"a number in {allowed.start}..{allowed.stop}", "faults")
    return FaultVariant(id, variant)
