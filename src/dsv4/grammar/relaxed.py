"""Keywords of a schema that a grammar does not enforce."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4.errors import Location, path_of, refusal


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One keyword that the grammar does not enforce, or not in full.

    `location` is the way to it in the caller's data, `path` the same as text
    (`tools[0].function.parameters.properties.email.format`), `keyword` its last step, and `reason`
    says what is let pass, or why.
    """

    location: Location
    reason: str

    @property
    def path(self) -> str:
        """The location as people write it."""
        return path_of(self.location)

    @property
    def keyword(self) -> str:
        """The keyword's name."""
        return str(self.location[-1])

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Relaxations:
    """What one grammar relaxes, each place once, in the order in which it was found.

    Where the caller wants an exact grammar, the first one is an error.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._found: dict[Location, Relaxation] = {}

    def note(self, location: Location, reason: str) -> None:
        if self._exact:
            raise refusal(location, f"cannot be enforced: {reason}; expected none with exact=True")
        self._found.setdefault(location, Relaxation(location, reason))

    def found(self) -> tuple[Relaxation, ...]:
        return tuple(self._found.values())
