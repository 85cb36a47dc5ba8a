"""How much of a prompt an earlier one had: what a prefix cache saves."""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence

from dsv4.tokens.coder import common_prefix_length

_OWNERS = 256
_PER_OWNER = 8


class SeenPrefixes:
    """The last token sequences of each owner, prompts with what was sampled after them: how much
    of a new prompt they share is what a prefix cache saves."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, deque[array[int]]] = OrderedDict()

    def shared(self, owner: str, ids: Sequence[int]) -> int:
        """How many tokens a prompt shares with the best of the owner's last sequences."""
        prompt, sequences = array("I", ids), self._last.get(owner, ())
        return max((common_prefix_length(prompt, earlier) for earlier in sequences), default=0)

    def note(self, owner: str, ids: Sequence[int]) -> None:
        """Remembers a sequence; one that it continues goes."""
        sequences = self._last.setdefault(owner, deque(maxlen=_PER_OWNER))
        self._last.move_to_end(owner)
        new = array("I", ids)
        for earlier in [each for each in sequences if new[: len(each)] == each]:
            sequences.remove(earlier)
        sequences.append(new)
        while len(self._last) > _OWNERS:
            self._last.popitem(last=False)
