"""The way to a backend: certificates of an own authority, and proxies, all of them real."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from gateway import gateway, run

from dsv4.serve.backend import BackendError
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.upstreams.network_path import proxy_of
from dsv4.serve.upstreams.upstream import Upstream

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl is not installed"
)
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, *(name.upper() for name in VARIABLES), "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)


class Certificates:
    """An authority of our own, and the certificate of a server that it has signed."""

    def __init__(self, folder: Path) -> None:
        self.ca, ca_key = folder / "ca.pem", folder / "ca.key"
        self.cert, self.key = folder / "server.pem", folder / "server.key"
        request, names = folder / "server.csr", folder / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self._run("req", "-x509", *new, "-days", "2", "-subj", "/CN=Our own", "-keyout", ca_key,
                  "-out", self.ca)  # fmt: skip
        self._run("req", *new, "-subj", "/CN=engine", "-keyout", self.key, "-out", request)
        self._run("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", ca_key, "-days", "2",
                  "-CAcreateserial", "-extfile", names, "-out", self.cert)  # fmt: skip

    def _run(self, *arguments: Any) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    @property
    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.cert, self.key)
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


MODELS = json.dumps({"data": [{"id": "deepseek-v4"}]}).encode()


class Listener(ABC):
    """A server on this machine, with or without TLS. `heads` are the requests' heads."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.heads: list[str] = []

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers on a connection."""

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.append(writer)
        with suppress(asyncio.CancelledError):
            await self._serve(reader, writer)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, ssl=self._tls)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for writer in self._writers:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()


class Engine(Listener):
    """A server of models."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        async with self.listening() as place:
            yield f"http{'s' if self._tls else ''}://{place}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                writer.write(f"{head}content-length: {len(MODELS)}\r\n\r\n".encode() + MODELS)
                await writer.drain()


class Proxy(Listener):
    """A proxy for HTTP, and for anything by CONNECT, which may ask for a password."""

    def __init__(self, authorization: str | None = None) -> None:
        super().__init__()
        self._authorization = authorization

    def running(self) -> AbstractAsyncContextManager[str]:
        return self.listening()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        method, target, _ = head.partition("\r\n")[0].split(" ")
        if self._authorization and f"proxy-authorization: {self._authorization}" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            writer.close()
            return
        where = urlsplit(target if "://" in target else f"//{target}")
        there, back = await asyncio.open_connection(where.hostname, where.port)
        self._writers.append(back)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\nvia: us\r\n\r\n")
        else:
            back.write(head.replace(target, where.path, 1).encode())
        await asyncio.gather(_copy(reader, back), _copy(there, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def models_of(url: str, **settings: Any) -> Any:
    upstream = Upstream(Settings(backend="vllm", upstream=(url,), **settings))
    try:
        first = await upstream.ask("/v1/models")
        assert await upstream.ask("/v1/models") == first  # on the same connection
        return first["data"][0]["id"]
    finally:
        await upstream.aclose()


@needs_openssl
def test_a_certificate_of_an_own_authority_is_trusted_where_a_file_names_it(
    certificates: Certificates,
) -> None:
    async def scenario() -> None:
        async with Engine(certificates.context).running() as url:
            with pytest.raises(BackendError, match=r"certificate is not trusted: .*--upstream-ca"):
                await models_of(url)
            assert await models_of(url, upstream_ca=str(certificates.ca)) == "deepseek-v4"

    run(scenario())


@needs_openssl
def test_openssls_own_variable_names_authorities_too(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))

    async def scenario() -> None:
        async with Engine(certificates.context).running() as url:
            assert await models_of(url) == "deepseek-v4"

    run(scenario())


@needs_openssl
def test_a_certificate_for_another_name_is_not_taken(certificates: Certificates) -> None:
    async def scenario() -> None:
        async with Engine(certificates.context).running() as url:
            other = url.replace("127.0.0.1", "127.0.0.2")
            with pytest.raises(BackendError):
                await models_of(other, upstream_ca=str(certificates.ca))

    run(scenario())


@pytest.mark.parametrize(("text", "problem"), [(None, "No such file"), ("no PEM", "expected")])
def test_a_file_without_certificates_is_refused(
    text: str | None, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SettingError, match=f"upstream_ca: .*{problem}"):
        Upstream(Settings(backend="vllm", upstream=("https://a",), upstream_ca=str(file)))


def test_a_proxy_reads_where_a_request_goes() -> None:
    async def scenario() -> None:
        engine, proxy = Engine(), Proxy()
        async with engine.running() as url, proxy.running() as address:
            assert await models_of(url, upstream_proxy=f"http://{address}") == "deepseek-v4"
        assert proxy.heads[0].startswith(f"GET {url}/v1/models HTTP/1.1\r\n")
        assert engine.heads[0].startswith("GET /v1/models HTTP/1.1\r\n")
        assert f"host: {url.removeprefix('http://')}\r\n" in engine.heads[0]

    run(scenario())


@needs_openssl
def test_tls_goes_through_a_proxy_unread(certificates: Certificates) -> None:
    async def scenario() -> None:
        engine, proxy = Engine(certificates.context), Proxy()
        async with engine.running() as url, proxy.running() as address:
            given = {"upstream_proxy": f"http://{address}", "upstream_ca": str(certificates.ca)}
            assert await models_of(url, **given) == "deepseek-v4"
            with pytest.raises(BackendError, match="not trusted"):
                await models_of(url, upstream_proxy=f"http://{address}")
        host = url.removeprefix("https://")
        assert proxy.heads[0] == f"CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n\r\n"
        assert "proxy-authorization" not in engine.heads[0]

    run(scenario())


@needs_openssl
@pytest.mark.parametrize("secure", [False, True])
def test_a_proxy_with_a_password(secure: bool, certificates: Certificates) -> None:
    async def scenario() -> None:
        engine = Engine(certificates.context if secure else None)
        proxy = Proxy("Basic YW5uOnNlY3JldEA=")
        async with engine.running() as url, proxy.running() as address:
            given = {"upstream_ca": str(certificates.ca)}
            good = f"http://ann:secret%40@{address}"
            assert await models_of(url, upstream_proxy=good, **given) == "deepseek-v4"
            with pytest.raises(BackendError, match="407") as caught:
                await models_of(url, upstream_proxy=f"http://ann:wrong@{address}", **given)
            assert "wrong" not in str(caught.value)

    run(scenario())


@pytest.mark.parametrize(
    ("url", "variables", "expected"),
    [
        ("https://gpu", {}, None),
        ("https://gpu", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://gpu", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://gpu", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://gpu", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("http://gpu", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("http://gpu", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "gpu"}, None),
        ("http://a.gpu.net", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "x,.gpu.net"}, None),
        ("http://gpu", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("http://gpu:8001", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "gpu:8001"}, None),
        ("http://127.0.0.1:8001", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://[::1]:8001", {"ALL_PROXY": "http://p:1"}, None),
        ("http://localhost", {"ALL_PROXY": "http://p:1"}, None),
    ],
)
def test_variables_that_name_a_proxy(
    url: str,
    variables: dict[str, str],
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(url, Settings()) == expected
    assert proxy_of(url, Settings(upstream_proxy="none")) is None
    assert proxy_of(url, Settings(upstream_proxy="http://own:2")) == "http://own:2"


@pytest.mark.parametrize("proxy", ["socks5://ann:secret@p:1", "http://", "http://p:x"])
def test_a_proxy_that_cannot_be_used_is_refused(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingError, match=r"upstream_proxy: found .*, expected http://") as caught:
        proxy_of("https://gpu", Settings(upstream_proxy=proxy))
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(SettingError, match="in the environment, expected http://"):
        proxy_of("https://gpu", Settings())


def test_a_proxy_that_hangs_up_is_said() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(BackendError, match="the proxy closed the connection"):
            await models_of("https://gpu.invalid", upstream_proxy=address)
        server.close()

    run(scenario())


@needs_openssl
def test_a_gateway_streams_from_an_engine_behind_a_proxy_and_tls(
    certificates: Certificates,
) -> None:
    """The engine is a gateway with TLS, and its demo model."""
    body = {"messages": [{"role": "user", "content": "Hi"}]}

    async def scenario() -> None:
        proxy = Proxy()
        async with gateway() as engine, proxy.running() as address:
            tls = await asyncio.start_server(
                lambda r, w: _forward(r, w, engine.url), "127.0.0.1", 0, ssl=certificates.context
            )
            url = f"https://127.0.0.1:{tls.sockets[0].getsockname()[1]}"
            given = {"upstream_proxy": f"http://{address}", "upstream_ca": str(certificates.ca)}
            async with gateway(settings_backend="chat", upstream=(url,), **given) as g:
                events = await g.stream("/v1/chat/completions", body)
                assert events[-1] == "[DONE]"
                reasons = [e["choices"][0]["finish_reason"] for e in events[:-1] if e["choices"]]
                assert "stop" in reasons
            tls.close()
        assert all(head.startswith("CONNECT ") for head in proxy.heads)

    run(scenario())


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: str) -> None:
    where = urlsplit(url)
    there, back = await asyncio.open_connection(where.hostname, where.port)
    await asyncio.gather(_copy(reader, back), _copy(there, writer))
