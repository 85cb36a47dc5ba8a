"""The text of a custom tool's call, which the model writes as the one parameter of a call."""

from __future__ import annotations

import json
import re

from dsv4.api.tools import INPUT

OPENING = f'{{"{INPUT}": "'
# What is complete of a JSON string, up to its end: no quote, no half of an escape, nor the first of
# two escapes that are one character.
_HEX = "[0-9a-fA-F]"
_PAIR = rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_COMPLETE = re.compile(rf'(?:[^"\\]+|\\[^u]|{_PAIR}|\\u(?![dD][89abAB]){_HEX}{{4}})*')


def input_of(arguments: str) -> str:
    """The text in complete arguments. Where the model wrote something else, all of it."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    text = value.get(INPUT) if isinstance(value, dict) and len(value) == 1 else None
    return text if isinstance(text, str) else arguments


class InputText:
    """The same, piece by piece: for arguments that are sent as they come."""

    def __init__(self) -> None:
        self._given: list[str] = []
        self._held = ""
        self._state = "opening"

    def feed(self, text: str) -> str:
        """The raw text that a piece of arguments brings."""
        if self._state == "closed":
            return ""
        self._held += text
        if self._state == "opening" and not self._opens():
            return ""
        taken = self._taken()
        self._given.append(taken)
        return taken

    @property
    def text(self) -> str:
        """What was given so far."""
        return "".join(self._given)

    def rest(self, arguments: str) -> str:
        """What is still missing once the arguments are complete."""
        whole, given = input_of(arguments), self.text
        rest = whole[len(given) :] if whole.startswith(given) else ""
        self._given.append(rest)
        return rest

    def _opens(self) -> bool:
        if len(self._held) < len(OPENING):
            return False
        if not self._held.startswith(OPENING):
            self._state = "closed"
            return False
        self._held = self._held[len(OPENING) :]
        self._state = "open"
        return True

    def _taken(self) -> str:
        found = _COMPLETE.match(self._held)
        end = found.end() if found else 0
        escaped, self._held = self._held[:end], self._held[end:]
        if self._held[:1] == '"':
            self._state = "closed"
        return str(json.loads(f'"{escaped}"', strict=False)) if escaped else ""
