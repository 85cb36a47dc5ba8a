"""API keys: the file that has them, whose a request shows, and what slows down whoever guesses."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import stat
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from dsv4.serve.access.key_limits import UNLIMITED, KeyLimits, read_limits
from dsv4.serve.access.key_usage import KeyLimitReached
from dsv4.serve.settings import SettingError, Settings

# The owner of everything where no keys are asked for.
ANONYMOUS = "-"
# What stands before the hash of a key, in the file.
_HASHED = "sha256:"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the file: its owner's name, the secret's SHA-256, whether it may administer the
    server, and what it may use."""

    name: str
    digest: bytes
    admin: bool = False
    limits: KeyLimits = UNLIMITED

    @property
    def has_expired(self) -> bool:
        expires = self.limits.expires
        return expires is not None and datetime.now(timezone.utc) > expires


class Keyring:
    """The keys of a file. One without keys lets everybody in."""

    def __init__(self, keys: tuple[Key, ...] = ()) -> None:
        self._keys = keys

    @property
    def asks(self) -> bool:
        return bool(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def owner(self, headers: Mapping[str, str]) -> Key | None:
        """Whose key the request shows. None if it shows none that fits, where one is asked for."""
        if not self._keys:
            return Key(ANONYMOUS, b"")
        # Every key is compared, so that the time says nothing about which of them fits.
        owners = [
            key
            for digest in _shown_digests(headers)
            for key in self._keys
            if hmac.compare_digest(key.digest, digest)
        ]
        return owners[0] if owners else None


def _shown_digests(headers: Mapping[str, str]) -> list[bytes]:
    """The keys that a client shows. Some show two, and only one of them is for us."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [_digest(key) for key in (bearer, headers.get("x-api-key", "")) if key]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def hashed_key(secret: str) -> str:
    """A key as the file may have it in place of the secret."""
    return f"{_HASHED}{_digest(secret).hex()}"


def read_keys(path: str) -> Keyring:
    """The keys of a file, one per line: `key`, `name:key` or `admin name:key`, with limits after
    it; a key may be given by its hash, `sha256:HEX`; `#` is a comment."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError("api_key_file", f"{path}: {error}") from None
    keys: dict[str, Key] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key = _key(line.strip(), number, path)
        if key.name in keys:
            problem = f"found the name {key.name!r} again, expected every name once"
            raise _bad_line(path, number, problem)
        keys[key.name] = key
    if not keys:
        raise SettingError("api_key_file", f"{path}: found no key, expected one per line")
    return Keyring(tuple(keys.values()))


def refuse_open_file(name: str, path: str, settings: Settings) -> None:
    """Raises a `SettingError` for a secret file that every user of the machine can read."""
    if settings.open_key_files or os.name == "nt":
        return
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # whoever reads it says what is wrong
    if stat.S_ISREG(mode) and mode & (stat.S_IROTH | stat.S_IWOTH):
        problem = f"{path}: found a file that every user can read (mode {stat.S_IMODE(mode):o})"
        raise SettingError(name, f"{problem}, expected one like 600, or --open-key-files")


def _key(line: str, number: int, path: str) -> Key:
    admin, rest = False, line
    if rest.startswith("admin "):
        admin, rest = True, rest[len("admin ") :].strip()
    first, *words = rest.split() or [""]
    name, secret = _split_name(first)
    if not secret:
        raise _bad_line(path, number, "expected `key`, `name:key` or `admin name:key`")
    try:
        limits = read_limits(words)
    except ValueError as error:
        raise _bad_line(path, number, str(error)) from None
    digest = _digest(secret)
    if secret.startswith(_HASHED):
        if not re.fullmatch("[0-9a-f]{64}", secret.removeprefix(_HASHED)):
            raise _bad_line(path, number, "expected 64 hexadecimal digits after `sha256:`")
        digest = bytes.fromhex(secret.removeprefix(_HASHED))
    # The name says whose the stored turns are. So that of a key without one must stay the same, and
    # go to no other key, when the lines of the file change.
    return Key(f"key-{digest.hex()[:16]}" if name is None else name, digest, admin, limits)


def _split_name(text: str) -> tuple[str | None, str]:
    """The name of a key and its secret, which may have colons in it."""
    name, colon, secret = text.partition(":")
    return (None, text) if not colon or text.startswith(_HASHED) else (name, secret)


def _bad_line(path: str, number: int, problem: str) -> SettingError:
    return SettingError("api_key_file", f"{path}, line {number}: {problem}")


# Wrong keys.


# So many wrong keys in a minute from one address are somebody's mistake. After that each takes
# twice as long as the one before, up to the longest pause.
_FREE_GUESSES = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# Guesses are forgotten after a minute.
_GUESSING_SECONDS = 60.0
# How many addresses are remembered, and how many guessers wait at once.
_MOST_ADDRESSES, _MOST_WAITING = 4096, 256


class WrongKeys:
    """Slows down whoever guesses keys. Right keys never wait."""

    def __init__(self) -> None:
        self._guesses: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._waiting = 0

    async def slow_down(self, address: str) -> None:
        """Waits, longer with each wrong key. Raises an `ApiError` where too many wait already."""
        pause = self.next_pause(address)
        if self._waiting >= _MOST_WAITING:
            raise KeyLimitReached("Too many wrong keys.", _LONGEST_PAUSE)
        self._waiting += 1
        try:
            await asyncio.sleep(pause)
        finally:
            self._waiting -= 1

    def next_pause(self, address: str) -> float:
        """How long this wrong key takes, in seconds."""
        now = time.monotonic()
        since, guesses = self._guesses.pop(address, (now, 0))
        if now - since > _GUESSING_SECONDS:
            since, guesses = now, 0
        self._guesses[address] = since, guesses + 1
        while len(self._guesses) > _MOST_ADDRESSES:
            self._guesses.popitem(last=False)
        doublings = min(guesses - _FREE_GUESSES, 16)
        return 0.0 if doublings < 0 else min(_FIRST_PAUSE * 2**doublings, _LONGEST_PAUSE)
