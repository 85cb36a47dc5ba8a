"""Who may use the gateway, and how much: API keys and their limits (requests and tokens in a
minute, streams at once, models, until when), what slows down whoever guesses keys, a guard against
other sites' pages, and a bounded queue for streams.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import stat
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timezone
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dsv4.api import ApiError
from dsv4.api.api_request import ProtocolName
from dsv4.api.protocols import protocol_of_client
from dsv4.errors import short_repr
from dsv4.serve.asgi import AsgiApp, Receive, Scope, Send, headers_of, send_json
from dsv4.serve.settings import SettingError, Settings

T = TypeVar("T")

# Limits are by the minute, which begins with its first request.
_WINDOW = 60.0


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What a key may use. None is no limit; no models are all of them."""

    requests: int | None = None
    tokens: int | None = None
    streams: int | None = None
    models: tuple[str, ...] = ()
    expires: datetime | None = None

    @property
    def counts(self) -> bool:
        """Whether anything must be counted."""
        return any(limit is not None for limit in (self.requests, self.tokens, self.streams))

    def check_model(self, model: object) -> None:
        """Raises an `ApiError` for a model that requests may not use."""
        if self.models and model not in self.models:
            expected = f"expected a model of this key: {', '.join(self.models)}"
            message = f"found {short_repr(model)}, {expected}"
            raise ApiError(message, path="model", status=403, code="model_not_allowed")


UNLIMITED = KeyLimits()


def read_limits(words: list[str]) -> KeyLimits:
    """The limits that a line of the key file gives: `requests=60 tokens=100000 streams=4
    models=a,b expires=2027-01-31`. Raises a `ValueError` that says what is wrong."""
    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _READERS or not equals:
            known = ", ".join(f"{each}=" for each in _READERS)
            raise ValueError(f"found {short_repr(word)}, expected one of {known}")
        if name in given:
            raise ValueError(f"found {name} twice")
        given[name] = _READERS[name](value)
    return KeyLimits(**given)


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"found {short_repr(value)}, expected a number of 1 or more")
    return int(value)


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name for name in value.split(",") if name)
    if not names:
        raise ValueError("found no model, expected their names with commas between")
    return names


def _moment(value: str) -> datetime:
    """A day, whose end is meant, or a moment; without a zone it is UTC's."""
    try:
        if len(value) == len("2027-01-31"):
            day = date.fromisoformat(value)
            return datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=timezone.utc)
        found = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        example = "2027-01-31 or 2027-01-31T12:00:00Z"
        raise ValueError(f"found {short_repr(value)}, expected a date: {example}") from None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


_READERS: dict[str, Callable[[str], Any]] = {
    "requests": _count,
    "tokens": _count,
    "streams": _count,
    "models": _names,
    "expires": _moment,
}


# Counting.


@dataclass(slots=True)
class KeyUsage:
    """What a key has used in the minute that began at `since`, and its streams by process."""

    since: float = 0.0
    requests: int = 0
    tokens: int = 0
    streams: dict[str, int] = field(default_factory=dict)

    def roll(self, now: float) -> None:
        """Begins a new minute where the last one is over."""
        if not 0 <= now - self.since < _WINDOW:
            self.since, self.requests, self.tokens = now, 0, 0


class UsageTable:
    """What all keys have used, in this process."""

    def __init__(self) -> None:
        self._usage: dict[str, KeyUsage] = {}

    def change(self, name: str, change: Callable[[KeyUsage], T]) -> T:
        return change(self._usage.setdefault(name, KeyUsage()))


class SharedUsageTable:
    """The same for the workers of one machine: a file for each key, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def change(self, name: str, change: Callable[[KeyUsage], T]) -> T:
        import fcntl  # which only systems with several workers need

        file = self._folder / f"key-{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
        with open(file, "a+", encoding="utf-8") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            opened.seek(0)
            usage = _usage_in(opened.read())
            result = change(usage)
            opened.seek(0)
            opened.truncate()
            opened.write(json.dumps(asdict(usage)))
        return result


def _usage_in(text: str) -> KeyUsage:
    usage = KeyUsage(**json.loads(text)) if text else KeyUsage()
    usage.streams = {pid: n for pid, n in usage.streams.items() if n and _is_alive(int(pid))}
    return usage


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


class KeyMeter:
    """Lets requests in as far as their keys' limits go."""

    def __init__(self, table: UsageTable | SharedUsageTable) -> None:
        self._table = table

    @contextmanager
    def admitted(self, name: str, limits: KeyLimits) -> Iterator[None]:
        """A place for a request. Raises an `ApiError` with status 429 where there is none."""
        if not limits.counts:
            yield
            return
        self._table.change(name, lambda usage: _admit(usage, limits))
        try:
            yield
        finally:
            self._table.change(name, _leave)

    def count_tokens(self, name: str, limits: KeyLimits, tokens: int) -> None:
        """Notes what a request has taken, which only its end tells."""
        if limits.tokens is not None:
            self._table.change(name, lambda usage: _add_tokens(usage, tokens))


class KeyLimitReached(ApiError):
    """A key has used what it may. `retry_after` is how long to wait, in seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, status=429, code="rate_limit_exceeded")
        self.retry_after = retry_after


def _admit(usage: KeyUsage, limits: KeyLimits) -> None:
    now = time.time()
    usage.roll(now)
    left = max(usage.since + _WINDOW - now, 1.0)
    streams = sum(usage.streams.values())
    if limits.streams is not None and streams >= limits.streams:
        raise KeyLimitReached(f"This key may have {limits.streams} streams at once.", 1.0)
    if limits.requests is not None and usage.requests >= limits.requests:
        raise KeyLimitReached(f"This key may make {limits.requests} requests a minute.", left)
    if limits.tokens is not None and usage.tokens >= limits.tokens:
        raise KeyLimitReached(f"This key may use {limits.tokens} tokens a minute.", left)
    usage.requests += 1
    own = str(os.getpid())
    usage.streams[own] = usage.streams.get(own, 0) + 1


def _leave(usage: KeyUsage) -> None:
    own = str(os.getpid())
    usage.streams[own] = max(usage.streams.get(own, 0) - 1, 0)


def _add_tokens(usage: KeyUsage, tokens: int) -> None:
    usage.roll(time.time())
    usage.tokens += tokens


# Wrong keys.


# So many wrong keys in a minute from one address are somebody's mistake. After that each takes
# twice as long as the one before, up to the longest pause.
_FREE_GUESSES = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
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
        if now - since > _WINDOW:
            since, guesses = now, 0
        self._guesses[address] = since, guesses + 1
        while len(self._guesses) > _MOST_ADDRESSES:
            with suppress(KeyError):
                self._guesses.popitem(last=False)
        doubled = min(guesses - _FREE_GUESSES, 16)
        return 0.0 if doubled < 0 else min(_FIRST_PAUSE * 2**doubled, _LONGEST_PAUSE)


# API keys.


# The owner of everything where no keys are asked for.
ANONYMOUS = "-"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the file: its owner's name, the secret, whether it may administer the server, and
    what it may use."""

    name: str
    secret: bytes
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
        found = [
            key
            for given in _shown_keys(headers)
            for key in self._keys
            if hmac.compare_digest(key.secret, given)
        ]
        return found[0] if found else None


def _shown_keys(headers: Mapping[str, str]) -> list[bytes]:
    """The keys that a client shows. Some show two, and only one of them is for us."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [
        key.encode("utf-8", "surrogateescape") for key in (bearer, headers.get("x-api-key", ""))
    ]


def read_keys(path: str) -> Keyring:
    """The keys of a file, one per line: `key`, `name:key` or `admin name:key`, with limits after
    it; `#` is a comment."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError("api_key_file", f"{path}: {error}") from None
    keys: dict[str, Key] = {}
    for number, line in enumerate(lines, 1):
        if not _has_key(line):
            continue
        key = _key(line.strip(), number, path)
        if key.name in keys:
            problem = f"found the name {key.name!r} again, expected every name once"
            raise SettingError("api_key_file", f"{path}, line {number}: {problem}")
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


def _has_key(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _key(line: str, number: int, path: str) -> Key:
    admin, said = False, line
    if said.startswith("admin "):
        admin, said = True, said[len("admin ") :].strip()
    named, *words = said.split() or [""]
    name, colon, secret = named.rpartition(":")
    if not secret:
        raise _bad_line(path, number, "expected `key`, `name:key` or `admin name:key`")
    try:
        limits = read_limits(words)
    except ValueError as error:
        raise _bad_line(path, number, str(error)) from None
    return Key(name if colon else _unnamed(secret), secret.encode(), admin, limits)


def _bad_line(path: str, number: int, problem: str) -> SettingError:
    return SettingError("api_key_file", f"{path}, line {number}: {problem}")


def _unnamed(secret: str) -> str:
    """The name of a key that has none. It says whose the stored turns are, so it must stay the
    same, and go to no other key, when the lines of the file change."""
    return f"key-{hashlib.sha256(secret.encode()).hexdigest()[:16]}"


# The guard against other sites' pages.


LOOPBACK = ("localhost", "127.0.0.1", "::1")
# To listen on these is to listen on every address of the machine.
_EVERYWHERE = ("0.0.0.0", "::")
# What browsers say of a request that their user made, or the server's own page.
_OWN_SITES = (None, "none", "same-origin")


class SiteGuard:
    """Refuses requests of other sites' pages, where no keys are asked for.

    A browser lets every page send requests to this machine. A simple one (a form's, or text) is
    sent without a preflight request, so it would generate; and a page whose own name is made to
    resolve to this machine (DNS rebinding) could read the answers as well. So requests are
    answered only under the server's own names, and never for a foreign page. Programs are not
    browsers: they send neither `Origin` nor `Sec-Fetch-Site`.
    """

    def __init__(self, settings: Settings, origins: tuple[str, ...] = ()) -> None:
        """`origins` are those of other pages that may ask; with "*" all may."""
        self._names = {*LOOPBACK, settings.host.lower(), *map(str.lower, settings.allowed_hosts)}
        self._is_everywhere = settings.host in _EVERYWHERE
        self._origins = origins

    def check(self, scope: Scope) -> None:
        """Raises an `ApiError` for a request that somebody else's page may have made."""
        headers = headers_of(scope)
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise ApiError("found several hosts, expected one", status=400)
        host = headers.get("host", "")
        if not self._is_own(_name(host), scope):
            expected = "localhost, the address it listens on, or one of `allowed_hosts`"
            raise ApiError(f"found the host {host!r}, expected {expected}", status=421)
        origin = headers.get("origin")
        if origin is None:
            self._check_site(scope, headers)
        elif not self._may_ask(origin, host):
            expected = "the page's own, or one of `cors_origins`"
            raise ApiError(f"found the origin {origin!r}, expected {expected}", status=403)

    def _is_own(self, name: str, scope: Scope) -> bool:
        if name in self._names:
            return True
        # Only pages of this machine are reached by an address that leads here.
        reached = (scope.get("server") or ("",))[0]
        return self._is_everywhere and _address(name) is not None and _same(name, reached)

    def _may_ask(self, origin: str, host: str) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        try:
            return urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            return False

    def _check_site(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Browsers leave the origin out of some requests, but newer ones say whose they are."""
        site = headers.get("sec-fetch-site")
        follows_link = (
            headers.get("sec-fetch-dest") == "document"
            and headers.get("sec-fetch-mode") == "navigate"
            and scope["method"] in ("GET", "HEAD")
        )
        if site not in _OWN_SITES and not follows_link:
            problem = f"found a request of another site's page ({site})"
            raise ApiError(f"{problem}, expected one of the page's own", status=403)


class GuardedApp:
    """An app behind a guard."""

    def __init__(self, app: AsgiApp, guard: SiteGuard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._guard.check(scope)
            except ApiError as error:
                spoken: ProtocolName = "messages" if "/messages" in scope["path"] else "chat"
                status, body = protocol_of_client(headers_of(scope), spoken).error(error)
                await send_json(send, status, body)
                return
        await self._app(scope, receive, send)


def _name(host: str) -> str:
    """A host without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower().removesuffix(".")
    except ValueError:
        return ""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _same(name: str, reached: str) -> bool:
    return _address(name) == _address(reached)


# Limits.


class Busy(Exception):
    """No stream is free, and the queue is full."""


class StreamGate:
    """Lets up to `streams` run at the same time; up to `queue` wait, first come first served."""

    def __init__(
        self, streams: int, queue: int, changed: Callable[[int, int], None] = lambda *_: None
    ) -> None:
        """`changed` is called with how many run and how many wait, each time that changes."""
        self._streams = streams
        self._queue = queue
        self._changed = changed
        self._waiting: deque[asyncio.Event] = deque()
        self.running = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @contextmanager
    def place(self) -> Iterator[asyncio.Event]:
        """A place among the streams or in the queue, with the event that its turn has come.

        Raises `Busy` where there is none.
        """
        turn = asyncio.Event()
        self._take(turn)
        self._changed(self.running, self.waiting)
        try:
            yield turn
        finally:
            self._leave(turn)
            self._changed(self.running, self.waiting)

    def _take(self, turn: asyncio.Event) -> None:
        if self.running < self._streams:
            self.running += 1
            turn.set()
        elif self.waiting < self._queue:
            self._waiting.append(turn)
        else:
            raise Busy

    def _leave(self, turn: asyncio.Event) -> None:
        if not turn.is_set():
            self._waiting.remove(turn)
        elif self._waiting:
            self._waiting.popleft().set()  # a stream that is taken over goes on running
        else:
            self.running -= 1


class AccessControl:
    """The keys of a gateway, and what has been used with each."""

    def __init__(self, settings: Settings, shared: Path | None) -> None:
        """`shared` is the folder of workers that count together. Raises a `SettingError`."""
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
        self.meter = KeyMeter(UsageTable() if shared is None else SharedUsageTable(shared))
        self._wrong_keys = WrongKeys()

    async def authenticated(self, scope: Scope) -> Key:
        """Whose request it is. Raises an `ApiError`; a wrong key takes longer each time."""
        key = self.keys.owner(headers_of(scope))
        if key is None:
            await self._wrong_keys.slow_down((scope.get("client") or ("",))[0])
            raise ApiError("The API key is missing or not known here.", status=401)
        if key.has_expired:
            raise ApiError("The API key has expired.", status=401)
        return key

    def may_administer(self, key: Key) -> bool:
        """Whether a request may change the gateway: without keys, those of this machine may."""
        return key.admin if self.keys.asks else self._settings.is_loopback

    def reload(self) -> bool:
        """Reads the file of keys again. False where there is none. Raises a `SettingError`, and
        keeps the old ones, where it cannot be used."""
        path = self._settings.api_key_file
        if path:
            refuse_open_file("api_key_file", path, self._settings)
            self.keys = read_keys(path)
        return bool(path)
