"""How much of a prompt an earlier one had: what a prefix cache saves."""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence

from dsv4.serve.observe.inspector import common_prefix_length

_OWNERS = 256
_PER_OWNER = 8


class SeenPrefixes:
    """The last token sequences of each owner, prompts with what was sampled after them: how much
    of a new prompt they share is what a prefix cache saves."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, deque[bytes]] = OrderedDict()

    def shared(self, owner: str, ids: Sequence[int]) -> int:
        """How many tokens a prompt shares with the best of the owner's last sequences."""
        packed = _packed_ids(ids)
        return max(
            (common_prefix_length(packed, k, _WIDTH) for k in self._last.get(owner, ())), default=0
        )

    def note(self, owner: str, ids: Sequence[int]) -> None:
        """Remembers a sequence; one that it continues goes."""
        known = self._last.setdefault(owner, deque(maxlen=_PER_OWNER))
        self._last.move_to_end(owner)
        packed = _packed_ids(ids)
        for earlier in [k for k in known if packed.startswith(k)]:
            known.remove(earlier)
        known.append(packed)
        while len(self._last) > _OWNERS:
            self._last.popitem(last=False)


def _packed_ids(ids: Sequence[int]) -> bytes:
    return array("I", ids).tobytes()


_WIDTH = array("I").itemsize
