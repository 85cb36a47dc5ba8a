"""The way to a server: directly or through a proxy, and the certificates that are trusted.

Without a setting, the variables apply that other programs read too: `HTTPS_PROXY`, `HTTP_PROXY`,
`ALL_PROXY` and `NO_PROXY`, and for certificates OpenSSL's own, `SSL_CERT_FILE` and `SSL_CERT_DIR`.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from dsv4.serve.settings import SettingError, Settings, is_url, without_password

_PORTS = {"http": 80, "https": 443}
# No proxy's answer has a head this large.
_MAX_HEAD = 64 * 1024

ProtocolT = TypeVar("ProtocolT", bound=asyncio.Protocol)


class ProxyError(OSError):
    """A proxy refuses the connection."""


class NetworkPath:
    """The way to one server."""

    def __init__(self, url: str, settings: Settings) -> None:
        """Raises a `SettingError` for a proxy or a file of certificates that cannot be used."""
        self._server = urlsplit(url)
        proxy = proxy_of(url, settings)
        self._proxy = None if proxy is None else urlsplit(proxy)
        is_secure = self._server.scheme == "https"
        self._tls = _trust(settings.upstream_ca) if is_secure else None

    @property
    def target(self) -> str:
        """The part before the path in a request: a proxy needs the server's address there."""
        if self._proxy is None or self._tls is not None:
            return ""
        return f"http://{_authority(self._server)}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers for a proxy that reads the requests."""
        return self._authorization if self.target else {}

    @property
    def _authorization(self) -> dict[str, str]:
        if self._proxy is None or self._proxy.username is None:
            return {}
        return {"proxy-authorization": basic_authorization(self._proxy)}

    async def connected(self, kind: type[ProtocolT]) -> ProtocolT:
        """A new connection."""
        loop = asyncio.get_running_loop()
        nearest = self._proxy or self._server
        host, port = nearest.hostname or "", nearest.port or _PORTS[nearest.scheme]
        if self._proxy is None or self._tls is None:
            tls = None if self._proxy is not None else self._tls
            _, connection = await loop.create_connection(kind, host, port, ssl=tls)
            return connection
        transport, tunnel = await loop.create_connection(_Tunnel, host, port)
        try:
            await tunnel.open(_authority(self._server), self._authorization)
            connection = kind()
            name = self._server.hostname
            inner = await loop.start_tls(transport, connection, self._tls, server_hostname=name)
        except BaseException:
            transport.abort()
            raise
        assert inner is not None
        connection.connection_made(inner)
        return connection


class _Tunnel(asyncio.Protocol):
    """A connection to a proxy, until it leads to the server behind it."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._head = b""
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def open(self, authority: str, headers: dict[str, str]) -> None:
        """Asks the proxy for a connection to a server. Raises a `ProxyError` if it refuses."""
        lines = [f"CONNECT {authority} HTTP/1.1", f"host: {authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._transport.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        answer = await self._answer
        if not answer.partition(" ")[2].startswith("2"):
            raise ProxyError(f"the proxy answers {answer[:200]!r}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._head += data
        if (b"\r\n\r\n" in self._head or len(self._head) > _MAX_HEAD) and not self._answer.done():
            self._answer.set_result(self._head.partition(b"\r\n")[0].decode("latin-1"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(ProxyError("the proxy closed the connection"))


def _authority(server: SplitResult) -> str:
    host = server.hostname or ""
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{server.port or _PORTS[server.scheme]}"


def basic_authorization(parts: SplitResult) -> str:
    """The user and the password of a URL, as the value of a header."""
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def proxy_of(url: str, settings: Settings) -> str | None:
    """The URL of the proxy to a server; None where there is none. This machine is reached without
    one, unless the settings name it. Raises a `SettingError`."""
    setting = settings.upstream_proxy
    proxy = setting or _proxy_of_environment(urlsplit(url))
    if proxy in (None, "none"):
        return None
    whole = proxy if "://" in proxy else f"http://{proxy}"
    if not is_url(whole, "http"):
        problem = f"found {without_password(proxy)!r}" + ("" if setting else " in the environment")
        raise SettingError("upstream_proxy", f"{problem}, expected http://HOST:PORT, or none")
    return whole


def _proxy_of_environment(server: SplitResult) -> str | None:
    host = server.hostname or ""
    if host == "localhost" or is_loopback(host) or proxy_bypass(_authority(server)):
        return None
    proxies = getproxies_environment()
    return proxies.get(server.scheme) or proxies.get("all") or None


def is_loopback(address: str) -> bool:
    """Whether an IP address is one of this machine's own."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _trust(file: str | None) -> ssl.SSLContext:
    """A TLS context: servers must show a certificate of the system's authorities, or of the
    file's."""
    context = ssl.create_default_context()
    try:
        if file is not None:
            context.load_verify_locations(file)
    except (OSError, ssl.SSLError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise SettingError("upstream_ca", f"{file}: {problem}, expected certificates") from None
    return context
