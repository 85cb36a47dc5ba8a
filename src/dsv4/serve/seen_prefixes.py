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
        packed, known = array("I", ids), self._last.get(owner, ())
        return max((common_prefix_length(packed, earlier) for earlier in known), default=0)

    def note(self, owner: str, ids: Sequence[int]) -> None:
        """Remembers a sequence; one that it continues goes."""
        known = self._last.setdefault(owner, deque(maxlen=_PER_OWNER))
        self._last.move_to_end(owner)
        packed = array("I", ids)
        for earlier in [each for each in known if packed[: len(each)] == each]:
            known.remove(earlier)
        known.append(packed)
        while len(self._last) > _OWNERS:
            self._last.popitem(last=False)
