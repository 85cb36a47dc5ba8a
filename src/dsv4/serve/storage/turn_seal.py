"""The seal of turns that travel with the client, compressed and signed with a key of the server's.

Raw text may hold control tokens, so only what a server with this key has sealed is ever taken back.
The client can read it; it holds nothing that the client did not receive.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import zlib

from dsv4.serve.settings import SettingError

_TAG_BYTES = 16
# Nothing that a model writes is longer; a blob that says so was made to fill memory.
MAX_SEALED = 16 * 1024 * 1024


class TurnSeal:
    """Signs turns that travel with the client, and takes back only those that it signed."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def close(self, owner: str, value: bytes) -> str:
        """A value as text that only this key, and for this owner, opens again."""
        packed = zlib.compress(value, 6)
        return base64.urlsafe_b64encode(self._tag(owner, packed) + packed).decode().rstrip("=")

    def open(self, owner: str, sealed: str) -> bytes | None:
        """The value of a sealed text. None if it was not sealed with this key for this owner."""
        try:
            raw = base64.b64decode(sealed + "=" * (-len(sealed) % 4), b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        tag, packed = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(owner, packed)):
            return None
        unpacking = zlib.decompressobj()
        value = unpacking.decompress(packed, MAX_SEALED)
        return None if unpacking.unconsumed_tail else value

    def _tag(self, owner: str, packed: bytes) -> bytes:
        name = hashlib.sha256(owner.encode("utf-8", "surrogateescape")).digest()
        return hmac.new(self._key, name + packed, hashlib.sha256).digest()[:_TAG_BYTES]


def read_seal(path: str) -> TurnSeal:
    """The seal with the key of a file: at least 16 bytes, white space at the ends aside."""
    try:
        with open(path, "rb") as file:
            key = file.read().strip()
    except OSError as error:
        raise SettingError("seal_key_file", f"{path}: {error.strerror}") from None
    if len(key) < 16:
        raise SettingError("seal_key_file", f"{path}: found {len(key)} bytes, expected 16 or more")
    return TurnSeal(key)
