"""How much of a prompt an earlier one of the same client had already: what a prefix cache saves."""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence

_OWNERS = 256
_REMEMBERED = 8


class Prefixes:
    """The last sequences of each owner, prompts with what was sampled after them."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, deque[bytes]] = OrderedDict()

    def shared(self, owner: str, ids: Sequence[int]) -> int:
        """How many tokens a prompt shares with the best of the owner's last sequences."""
        packed = _packed(ids)
        return max((_shared(packed, known) for known in self._last.get(owner, ())), default=0)

    def note(self, owner: str, ids: Sequence[int]) -> None:
        """Remembers a sequence; one that it continues goes."""
        known = self._last.setdefault(owner, deque(maxlen=_REMEMBERED))
        self._last.move_to_end(owner)
        packed = _packed(ids)
        for earlier in [k for k in known if packed.startswith(k)]:
            known.remove(earlier)
        known.append(packed)
        while len(self._last) > _OWNERS:
            self._last.popitem(last=False)


def _packed(ids: Sequence[int]) -> bytes:
    return array("I", ids).tobytes()


_WIDTH = array("I").itemsize


def _shared(a: bytes, b: bytes) -> int:
    """The length of the common start, in tokens: comparing halves is comparing memory."""
    low, high = 0, min(len(a), len(b)) // _WIDTH
    while low < high:
        middle = (low + high + 1) // 2
        if a[low * _WIDTH : middle * _WIDTH] == b[low * _WIDTH : middle * _WIDTH]:
            low = middle
        else:
            high = middle - 1
    return low
