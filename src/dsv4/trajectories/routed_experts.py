"""The experts of a mixture that were chosen for each token: packed numbers, as engines send them,
and one row of them for each token of a sequence.

A row has the choices that the model made when it read the token. So a call that is given P tokens
and samples O has P + O - 1 rows: the last token is read with the next call, which gives its row.
"""

from __future__ import annotations

import ast
import base64
import binascii
from array import array
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# The types of numbers that engines send -> the bytes of each.
_TYPES = {"|u1": 1, "|i1": 1, "<u2": 2, "<i2": 2, "<i4": 4, "<u4": 4}
_TYPE_CODES = {1: "B", 2: "H", 4: "I"}
_NPY_MAGIC = b"\x93NUMPY"


class RoutedExperts(NamedTuple):
    """Rows of `layers` times `per_token` numbers of `size` bytes, for the tokens of a sequence from
    `start` on. Without rows, they were requested but did not come."""

    layers: int
    per_token: int
    size: int
    data: bytes
    start: int = 0

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return self.layers * self.per_token * self.size

    @property
    def end(self) -> int:
        """The index of the first token after them."""
        return self.start + (len(self.data) // self.width if self.width else 0)

    def between(self, start: int, end: int) -> RoutedExperts:
        """The rows of the tokens from `start` to `end`, which must be among these."""
        low, high = ((at - self.start) * self.width for at in (start, end))
        return self._replace(data=self.data[low:high], start=start)

    def lists(self) -> list[list[list[int]]]:
        """Lists of the numbers: by token, by layer."""
        numbers = array(_TYPE_CODES[self.size], self.data).tolist()
        k, row = self.per_token, self.layers * self.per_token
        return [
            [numbers[at + n * k : at + (n + 1) * k] for n in range(self.layers)]
            for at in range(0, len(numbers), row)
        ]

    def to_json(self) -> dict[str, Any]:
        """The packed rows as a value for JSON: `data` is base64, of the given shape and type."""
        return {
            "shape": [self.end - self.start, self.layers, self.per_token],
            "dtype": f"uint{8 * self.size}",
            "data": base64.b64encode(self.data).decode(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RoutedExperts:
        """The experts in a `value` that `to_json` gave."""
        _, layers, per_token = value["shape"]
        size = int(value["dtype"].removeprefix("uint")) // 8
        return cls(layers, per_token, size, base64.b64decode(value["data"]))


NO_EXPERTS = RoutedExperts(0, 0, 1, b"")


def experts_of_npy(text: str) -> RoutedExperts:
    """The experts in the bytes of a `.npy` file, as base64: vLLM's form. Raises `ValueError`."""
    data = _decoded(text)
    if data[:6] != _NPY_MAGIC or len(data) < 12:
        raise ValueError("found no .npy file")
    wide = data[6] > 1  # later versions have longer headers
    begin = 12 if wide else 10
    end = begin + int.from_bytes(data[8:begin], "little")
    try:
        header = ast.literal_eval(data[begin:end].decode("latin-1"))
        layers, per_token = header["shape"][1:]
        size = _TYPES[header["descr"]]
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"found a .npy file that cannot be read: {error!r}") from None
    experts = RoutedExperts(layers, per_token, size, data[end:])
    length = header["shape"][0] * experts.width
    if header.get("fortran_order") or not experts.width or len(experts.data) != length:
        raise ValueError("found a .npy file of another order or length than its header says")
    return experts


def experts_of_int32(text: str, tokens: int, per_token: int | None) -> RoutedExperts:
    """The experts of so many `tokens` in plain numbers of 32 bits, as base64: SGLang's form, which
    does not tell its shape. If `per_token` is not given, a row is one layer."""
    data = _decoded(text)
    width, rest = divmod(len(data) // 4, tokens) if tokens else (0, 1)
    if rest or len(data) % 4 or width % (per_token or 1):
        each = f" of {per_token} experts" if per_token else ""
        raise ValueError(f"found {len(data)} bytes, expected rows of {tokens} tokens{each}")
    layers = width // per_token if per_token else 1
    return RoutedExperts(layers, per_token or width, 4, data)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("found no base64") from None


def joined_experts(parts: Iterable[RoutedExperts], length: int) -> RoutedExperts | None:
    """The rows of the first `length` tokens, joined from parts in the given order: a token has the
    row with which it was sampled or first read. None if a row is missing."""
    shape, rows, end = None, bytearray(), 0
    for part in parts:
        if not part.width or part.start > end:
            continue
        if shape is not None and part[:3] != shape:
            return None
        shape = part[:3]
        if part.end > end:
            rows += part.between(end, part.end).data
            end = part.end
    if shape is None or end < length:
        return None
    whole = RoutedExperts(*shape, bytes(rows))
    return whole.between(0, length)
