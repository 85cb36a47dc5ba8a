"""nginx, Caddy and Envoy in front of the gateway, set up as docs/gateway-operations.md and
deploy/envoy.yaml say: TLS outside, and streams that arrive as they are sent. Where the programs are
there."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gateway import gateway, run
from standins import THINK_END, Scripted, free_port
from test_tls import make_certificate

from dsv4.serve import Chunk

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gateway-operations.md"
BODY = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}


def documented(language: str) -> str:
    """The block of the page in this language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found
    return found[1]


@contextmanager
def nginx(folder: Path, upstream: int, port: int) -> Iterator[None]:
    cert, key = make_certificate(folder, "gateway")
    server = documented("nginx").replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    server = server.replace("/etc/ssl/gateway.pem", cert).replace("/etc/ssl/gateway.key", key)
    server = server.replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{server}}}\n"
    )
    with started(["nginx", "-c", str(config), "-e", f"{folder}/error.log"], port):
        yield


@contextmanager
def caddy(folder: Path, upstream: int, port: int) -> Iterator[None]:
    cert, key = make_certificate(folder, "gateway")
    site = documented("caddyfile").replace("gateway.example", f"https://127.0.0.1:{port}")
    site = site.replace("/etc/ssl/gateway.pem", cert).replace("/etc/ssl/gateway.key", key)
    site = site.replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")
    config = folder / "Caddyfile"
    config.write_text("{\nadmin off\nauto_https disable_redirects\n}\n" + site)
    command = ["caddy", "run", "--config", str(config), "--adapter", "caddyfile"]
    with started(command, port):
        yield


@contextmanager
def envoy(folder: Path, upstream: int, port: int, other: int | None = None) -> Iterator[None]:
    cert, key = make_certificate(folder, "gateway")
    text = (ROOT / "deploy" / "envoy.yaml").read_text("utf-8")
    for found, here in (
        ("address: 0.0.0.0, port_value: 443", f"address: 127.0.0.1, port_value: {port}"),
        ("/etc/ssl/gateway.pem", cert),
        ("/etc/ssl/gateway.key", key),
        ("port_value: 8000", f"port_value: {upstream}"),
        ("port_value: 8001", f"port_value: {other or upstream}"),
    ):
        assert found in text
        text = text.replace(found, here)
    config = folder / "envoy.yaml"
    config.write_text(text)
    id = str(port % 4096)  # several may run on one machine
    command = [program_named("envoy"), "-c", str(config), "--base-id", id, "--concurrency", "1"]
    with started(command, port):
        yield


def program_named(name: str) -> str:
    """The path of a program: one that is installed, or that pip has put beside Python."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or ""


@contextmanager
def started(command: list[str], port: int) -> Iterator[None]:
    import socket

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            assert process.poll() is None, f"{command} ended"
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(20)


def need(*programs: str) -> None:
    for program in programs:
        if not program_named(program):
            pytest.skip(f"{program} is not installed")


@asynccontextmanager
async def beside_the_loop(front: AbstractContextManager[Any]) -> AsyncIterator[None]:
    """A proxy that runs, started and ended beside the loop."""
    await asyncio.to_thread(front.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(front.__exit__, None, None, None)


@pytest.mark.parametrize("proxy", [nginx, caddy, envoy], ids=["nginx", "caddy", "envoy"])
def test_a_stream_passes_a_proxy_as_it_comes(
    proxy: object, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = request.node.callspec.id
    need(name, "openssl")

    async def scenario() -> None:
        second = asyncio.Event()
        script = (f"Hm.{THINK_END}", "first", second, Chunk(text=" second", finish="eos"))
        port = free_port()
        allowed = {"allowed_hosts": ("gateway.example",)}
        async with gateway(Scripted(*script), **allowed) as g:
            upstream = int(g.url.rpartition(":")[2])
            front = proxy(tmp_path, upstream, port)  # type: ignore[operator]
            async with beside_the_loop(front):
                trusted = ssl.create_default_context(cafile=str(tmp_path / "gateway.pem"))
                url = f"https://127.0.0.1:{port}/v1/chat/completions"
                async with g.client.post(url, data=json.dumps(BODY), ssl=trusted) as response:
                    assert response.status == 200
                    got = b""
                    while b"first" not in got:  # while the model has not gone on
                        got += await asyncio.wait_for(response.content.readany(), 20)
                    assert b"second" not in got
                    second.set()
                    got += await response.content.read()
                    assert got.endswith(b"data: [DONE]\n\n")

    run(scenario())


def test_a_broken_stream_is_broken_behind_nginx_too(tmp_path: Path) -> None:
    need("nginx", "openssl")

    async def scenario() -> None:
        port = free_port()
        backend = Scripted(f"Hm.{THINK_END}", "first", 0.05, RuntimeError("boom"))
        async with gateway(backend, allowed_hosts=("gateway.example",)) as g:
            front = nginx(tmp_path, int(g.url.rpartition(":")[2]), port)
            async with beside_the_loop(front):
                trusted = ssl.create_default_context(cafile=str(tmp_path / "gateway.pem"))
                url = f"https://127.0.0.1:{port}/v1/chat/completions"
                with pytest.raises(aiohttp.ClientError):
                    async with g.client.post(url, data=json.dumps(BODY), ssl=trusted) as response:
                        await response.read()

    run(scenario())


def test_envoy_asks_no_gateway_that_drains(tmp_path: Path) -> None:
    need("envoy", "openssl")

    async def scenario() -> None:
        port = free_port()
        script = (f"Hm.{THINK_END}", Chunk(text="Hello.", finish="eos"))
        one, two = Scripted(*script), Scripted(*script)
        given = {"allowed_hosts": ("gateway.example",)}
        async with gateway(one, **given) as first, gateway(two, **given) as second:
            ports = [int(g.url.rpartition(":")[2]) for g in (first, second)]
            front = envoy(tmp_path, ports[0], port, ports[1])
            async with beside_the_loop(front):
                trusted = ssl.create_default_context(cafile=str(tmp_path / "gateway.pem"))
                url = f"https://127.0.0.1:{port}/v1/chat/completions"

                async def status() -> int:
                    async with first.client.post(url, data=json.dumps(BODY), ssl=trusted) as got:
                        await got.read()
                        return got.status

                while not (one.opened and two.opened):
                    assert await status() == 200
                first.server.drain.begin()
                await asyncio.sleep(3)  # as long as the health of gateways takes to be noticed
                before = one.opened
                assert [await status() for _ in range(10)] == [200] * 10
                assert one.opened == before

    run(scenario())
