"""API keys: the file of keys, the key that a request shows, the use of each key, and a brake on
guesses.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from dsv4.api import ApiError
from dsv4.serve.access.key_usage import (
    UNLIMITED,
    KeyLimitReached,
    KeyLimits,
    KeyMeter,
    MachineUsage,
    ProcessUsage,
    UsageTable,
    read_limits,
)
from dsv4.serve.asgi import Scope, headers_of
from dsv4.serve.settings import SettingError, Settings

# The owner of everything where no keys are asked for.
ANONYMOUS = "-"
# The prefix of a key's hash in the file.
_HASHED = "sha256:"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the file: its owner's name, the secret's SHA-256, whether it may administer the
    server, and its limits."""

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
        """The key that the request shows. None if it shows no known key, where one is required."""
        if not self._keys:
            return Key(ANONYMOUS, b"")
        # Every key is compared, so that the time does not reveal which of them fits.
        owners = [
            key
            for digest in _shown_digests(headers)
            for key in self._keys
            if hmac.compare_digest(key.digest, digest)
        ]
        return owners[0] if owners else None


def _shown_digests(headers: Mapping[str, str]) -> list[bytes]:
    """The keys that a client shows. Some clients show two, of which only one is for this server."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [_digest(key) for key in (bearer, headers.get("x-api-key", "")) if key]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def hashed_key(secret: str) -> str:
    """A key in the form that the file may have in place of the secret."""
    return f"{_HASHED}{_digest(secret).hex()}"


def read_keys(path: str) -> Keyring:
    """The keys of a file, one per line: `key`, `name:key` or `admin name:key`, with limits after
    it. A key may be given by its hash, `sha256:HEX`; `#` begins a comment."""
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
        return  # reading it later reports the problem
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
        raise _bad_line(
            path, number, "found no key, expected `key`, `name:key` or `admin name:key`"
        )
    try:
        limits = read_limits(words)
    except ValueError as error:
        raise _bad_line(path, number, str(error)) from None
    digest = _digest(secret)
    if secret.startswith(_HASHED):
        if not re.fullmatch("[0-9a-f]{64}", secret.removeprefix(_HASHED)):
            raise _bad_line(path, number, "expected 64 hexadecimal digits after `sha256:`")
        digest = bytes.fromhex(secret.removeprefix(_HASHED))
    # Stored turns belong to a key's name. So the name of a key without one must stay the same, and
    # must not pass to another key, when the lines of the file change.
    return Key(f"key-{digest.hex()[:16]}" if name is None else name, digest, admin, limits)


def _split_name(text: str) -> tuple[str | None, str]:
    """The name of a key and its secret, which may have colons in it."""
    name, colon, secret = text.partition(":")
    return (None, text) if not colon or text.startswith(_HASHED) else (name, secret)


def _bad_line(path: str, number: int, problem: str) -> SettingError:
    return SettingError("api_key_file", f"{path}, line {number}: {problem}")


# Protection from guesses.


# So many wrong keys in a minute from one address count as mistakes. After that, each takes twice as
# long as the one before, up to the longest pause.
_FREE_GUESSES = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# Guesses are forgotten after a minute.
_GUESSING_SECONDS = 60.0
# The most addresses that are remembered, and the most guessers that wait at the same time.
_MOST_ADDRESSES, _MOST_WAITING = 4096, 256


class WrongKeys:
    """Slows down clients that guess keys. Right keys never wait."""

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
        """The pause for this wrong key, in seconds."""
        now = time.monotonic()
        since, guesses = self._guesses.pop(address, (now, 0))
        if now - since > _GUESSING_SECONDS:
            since, guesses = now, 0
        self._guesses[address] = since, guesses + 1
        while len(self._guesses) > _MOST_ADDRESSES:
            self._guesses.popitem(last=False)
        doublings = min(guesses - _FREE_GUESSES, 16)
        return 0.0 if doublings < 0 else min(_FIRST_PAUSE * 2**doublings, _LONGEST_PAUSE)


# The access control of one gateway.


class AccessControl:
    """The keys of a gateway, and the use of each."""

    def __init__(
        self,
        settings: Settings,
        folder: Path | None,
        on_change: Callable[[bool], None] = lambda is_up: None,
    ) -> None:
        """`folder` is the folder of workers that count together. `on_change` is called after each
        access to the Redis that counts for all machines, with whether it is there. Raises a
        `SettingError`."""
        if not (settings.is_loopback or settings.api_key_file or settings.no_auth):
            problem = (
                f"found none while listening on {settings.host}: expected a file of keys, "
                "or --no-auth to let everybody in"
            )
            raise SettingError("api_key_file", problem)
        for name in ("api_key_file", "seal_key_file", "upstream_key_file", "tls_key"):
            if path := getattr(settings, name):
                refuse_open_file(name, path, settings)
        self._settings = settings
        self.keys = read_keys(settings.api_key_file) if settings.api_key_file else Keyring()
        self.meter: KeyMeter = KeyMeter(_usage_table(settings, folder, on_change))
        self.wrong_keys: WrongKeys = WrongKeys()

    async def authenticated(self, scope: Scope) -> Key:
        """The key of a request. Raises an `ApiError`; a wrong key takes longer each time."""
        names = [name for name, _ in scope["headers"]]
        if names.count(b"authorization") > 1 or names.count(b"x-api-key") > 1:
            # A proxy in front may have checked the other one.
            raise ApiError("found the same header of a key twice, expected it once", status=400)
        key = self.keys.owner(headers_of(scope))
        if key is None:
            await self.wrong_keys.slow_down((scope.get("client") or ("",))[0])
            raise ApiError("The API key is missing or not known here.", status=401)
        if key.has_expired:
            raise ApiError("The API key has expired.", status=401)
        return key

    def check_admin(self, key: Key) -> None:
        """Raises an `ApiError` where there are keys, and this is not an administrator's."""
        if self.keys.asks and not key.admin:
            problem = "found a key without `admin` before its name in the file of keys"
            raise ApiError(f"{problem}, expected an `admin` key", status=403)

    def check_administrator(self, key: Key) -> None:
        """The same; and without keys, only this machine may change the gateway."""
        self.check_admin(key)
        if not (self.keys.asks or self._settings.is_loopback):
            problem = "found a server without keys that listens beyond loopback"
            raise ApiError(f"{problem}, expected an `admin` key", status=403)

    def reload(self) -> bool:
        """Reads the file of keys again. Returns False where there is none. Raises a `SettingError`
        and keeps the old keys where the file cannot be used."""
        path = self._settings.api_key_file
        if path:
            refuse_open_file("api_key_file", path, self._settings)
            self.keys = read_keys(path)
        return bool(path)


def _usage_table(
    settings: Settings, folder: Path | None, on_change: Callable[[bool], None]
) -> UsageTable:
    """The table that counts the use of keys, for as many processes as possible."""
    if url := settings.limits_redis:
        from dsv4.serve.access.redis_usage import RedisUsage

        table = RedisUsage(url, on_change)
        on_change(True)  # until an access fails
        return table
    return ProcessUsage() if folder is None else MachineUsage(folder)
