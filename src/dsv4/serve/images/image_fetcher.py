"""Pictures at addresses that clients name, fetched by the gateway: from public addresses only,
within bounds of bytes, time and redirects.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from urllib.parse import quote, urljoin, urlsplit

from dsv4.errors import ImageError, mismatch, short_repr
from dsv4.serve.upstreams.http_client import HttpConnection, HttpError, body_of

# A client that names an address must not reach hosts that only this machine can reach: loopback,
# the network around it, the metadata of a cloud. A name is resolved only once, and the connection
# uses the address that was checked: a second lookup could return another one.


# The most names that are resolved at the same time: a name with a slow server occupies a thread,
# and the event loop's own threads are needed for prompts.
_RESOLVERS = 8

# Networks of IPv6 addresses that hold an IPv4 address, and the number of bits after it.
_HOLDING_IPV4 = (
    (IPv6Network("::/96"), 0),  # the old form
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # translated
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
# Global by their numbers, at least for older Pythons, but not public servers.
_NOT_PUBLIC = (
    IPv4Network("192.0.0.0/24"),  # for protocols, and for the metadata of one cloud
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("168.63.129.16/32"),  # Azure's own, for virtual machines
    IPv6Network("2001::/32"),  # Teredo: its clients are behind other addresses
    IPv6Network("64:ff9b:1::/48"),  # NAT64 of a private network
    IPv6Network("fec0::/10"),  # private, in the old form
)


def is_public(address: str) -> bool:
    """Whether an IP address is public, so that the gateway may connect to it for a client."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    for network, after in _HOLDING_IPV4:
        if ip in network:
            ip = IPv4Address(int(ip) >> after & 0xFFFFFFFF)
            break
    is_special = ip.is_multicast or ip.is_reserved
    return ip.is_global and not is_special and not any(ip in each for each in _NOT_PUBLIC)


class NameResolver:
    """Resolves the names of hosts, in threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVERS, "dsv4-names")

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Every address of a host, in the order in which to try them. Raises an `OSError`."""
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        infos = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return list(dict.fromkeys(str(place[0]) for *_, place in infos))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


MAX_SECONDS = 10.0
MAX_REDIRECTS = 3
# If a connection to one of several addresses takes longer, the next one is tried.
_CONNECT_SECONDS = 3.0
_MAX_HEAD = 64 * 1024
_LONGEST_NUMBER = 15
_REDIRECTS = (301, 302, 303, 307, 308)
_PORTS = {"http": 80, "https": 443}
_ACCEPTED = ("accept: image/*", "accept-encoding: identity")
_REQUEST_LINES = (*_ACCEPTED, "user-agent: dsv4", "connection: close")
_HOST = re.compile(r"[\w.-]+|[\da-fA-F:.]+", re.ASCII)
# Characters that may stand in a path and a query unescaped.
_SAFE = "/?:@!$&'()*+,;=~%-._[]|"


@dataclass(frozen=True, slots=True)
class PictureUrl:
    """An address with http or https, in its parts. `host` has the form for name servers and TLS."""

    scheme: str
    host: str
    port: int
    target: str

    @classmethod
    def of(cls, address: str) -> PictureUrl:
        """Raises an `ImageError` for any other address, and for one with a password."""
        try:
            parts = urlsplit(address)
            scheme, host = parts.scheme.lower(), parts.hostname or ""
            port = _PORTS.get(scheme, 0) if parts.port is None else parts.port
            host = host if ":" in host else host.encode("idna").decode("ascii")
            if scheme not in _PORTS or not port or "@" in parts.netloc or not _HOST.fullmatch(host):
                raise ValueError
        except ValueError:  # its port is not a number, or its host not a name
            problem = mismatch(address, "http://… or https://…")
            raise ImageError(problem) from None
        query = f"?{parts.query}" if parts.query else ""
        return cls(scheme, host, port, quote((parts.path or "/") + query, _SAFE))

    @property
    def request(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"
        lines = (f"GET {self.target} HTTP/1.1", f"host: {place}", *_REQUEST_LINES, "", "")
        return "\r\n".join(lines).encode("ascii")


class _PictureConnection(HttpConnection):
    """A connection to an unknown server: the size of its head is limited."""

    _head_size = 0

    def data_received(self, data: bytes) -> None:
        if not self._has_head and self._head_size > _MAX_HEAD:
            self._fail("its head is too long")
            self.close()
            return
        self._head_size += len(data)
        super().data_received(data)


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class ImageFetcher:
    """Fetches pictures. Every address of every redirect is checked, and the connection uses the
    checked address."""

    def __init__(
        self,
        *,
        resolve: Resolve | None = None,
        may_ask: Callable[[str], bool] = is_public,
        seconds: float = MAX_SECONDS,
    ) -> None:
        """`resolve` returns the addresses of a host, `may_ask` says whether one may be connected
        to."""
        self._names = NameResolver()
        self._resolve = resolve or self._names.addresses
        self._may_ask = may_ask
        self._seconds = seconds

    async def fetched(self, address: str, most: int) -> bytes:
        """The bytes at an address, `most` at most. Raises an `ImageError` that reveals nothing
        about the gateway's network."""
        try:
            return await asyncio.wait_for(self._followed(address, most), self._seconds)
        except asyncio.TimeoutError:
            problem = f"found no end of it within {self._seconds:g} s"
        except (HttpError, OSError) as error:
            problem = f"it cannot be fetched: {_words(error)}"
        raise ImageError(f"{short_repr(address)}: {problem}")

    async def _followed(self, address: str, most: int) -> bytes:
        for _ in range(MAX_REDIRECTS + 1):
            url = PictureUrl.of(address)
            answer = await self._connected(url)
            try:
                await answer.ask(url.request)
                if answer.status not in _REDIRECTS:
                    return await _picture(answer, address, most)
                address = urljoin(address, answer.headers.get("location", ""))
            finally:
                answer.close()
        raise ImageError(
            f"found more than {MAX_REDIRECTS} redirects, the last to {short_repr(address)}"
        )

    async def _connected(self, url: PictureUrl) -> HttpConnection:
        addresses = await self._resolve(url.host, url.port)
        if not addresses or not all(map(self._may_ask, addresses)):
            raise ImageError(f"{url.host}: found no public address, expected nothing else")
        loop, failure = asyncio.get_running_loop(), OSError("it has no address")
        secure = url.scheme == "https"
        for address in addresses:
            try:
                making = loop.create_connection(
                    _PictureConnection,
                    address,
                    url.port,
                    ssl=self._tls if secure else None,
                    server_hostname=url.host if secure else None,
                )
                _, connection = await asyncio.wait_for(making, _CONNECT_SECONDS)
                return connection
            except asyncio.TimeoutError:
                failure = OSError("it does not answer")
            except OSError as error:
                failure = error
        raise failure

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def close(self) -> None:
        self._names.close()


async def _picture(answer: HttpConnection, address: str, most: int) -> bytes:
    """The body of an answer. Its type is read from its bytes, whatever the answer says."""
    if answer.status != 200:
        raise ImageError(f"{short_repr(address)}: found the status {answer.status}, expected 200")
    length = answer.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > _LONGEST_NUMBER or int(length) > most):
        raise _too_large(address, most)
    body, parts, size = await body_of(answer), [], 0
    while part := await body.read():
        size += len(part)
        if size > most:
            raise _too_large(address, most)
        parts.append(part)
    return b"".join(parts)


def _too_large(address: str, most: int) -> ImageError:
    return ImageError(f"{short_repr(address)}: found more than {most} bytes, expected fewer")


def _words(error: Exception) -> str:
    """The error's message, without the addresses in a connection's error."""
    if isinstance(error, HttpError):
        return str(error)
    return "its certificate is not valid" if isinstance(error, ssl.SSLError) else "no connection"
