"""The playground's routes over real sockets: what they send, and to whom."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from gateway import gateway, key_file, run

from dsv4 import _playground
from dsv4._playground import page_functions
from dsv4._playground.page_examples import example_sources
from dsv4.profiles.saved_profile import saved
from dsv4.serve import playground_routes
from dsv4.serve.settings import SettingError
from rows import each_row

PAGE = Path(_playground.__file__).parent / "page"
VENDOR = PAGE / "vendor"
SOURCE = example_sources()[0]["source"]
JSON = {"content-type": "application/json"}


async def call(g: Any, name: str, body: Any, **headers: str) -> tuple[int, Any]:
    status, _, answer = await g.post(f"/playground/api/{name}", body, **{**JSON, **headers})
    return status, answer


def test_without_the_setting_there_is_none() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            assert (await g.get("/playground/"))[0] == 404
            assert (await call(g, "settings", {}))[0] == 404

    run(scenario())


def test_every_file_of_the_page_is_sent_with_its_kind_and_a_strict_policy() -> None:
    async def scenario() -> None:
        async with gateway(playground=True) as g:
            files = [
                path for path in PAGE.rglob("*.*") if path.suffix in playground_routes.CONTENT_TYPES
            ]
            names = [path.relative_to(PAGE).as_posix() for path in files]
            for name in ["", "view.css", *names]:
                async with g.client.get(f"{g.url}/playground/{name}") as response:
                    assert response.status == 200, name
                    policy = response.headers["content-security-policy"]
                    assert "default-src 'none'" in policy
                    assert "unsafe" not in policy
                    assert response.headers["x-content-type-options"] == "nosniff"
                    assert response.headers["referrer-policy"] == "no-referrer"
                    assert "octet" not in response.headers["content-type"]
                    tag = {"if-none-match": response.headers["etag"]}
                async with g.client.get(f"{g.url}/playground/{name}", headers=tag) as again:
                    assert again.status == 304
            assert (PAGE.parent / "page_request.py").is_file()
            outside = ("../page_request.py", "%2e%2e/page_request.py")
            for name in (*outside, "views", "nothing.js"):
                assert (await g.get(f"/playground/{name}"))[0] == 404

    run(scenario())


def test_the_page_refers_to_nothing_that_is_not_there() -> None:
    """It loads no file but its own, and the only address in it is for commands to copy."""
    harmless = ("http://www.w3.org/2000/svg", '"http://127.0.0.1:8004";')
    for path in (each for each in PAGE.rglob("*.*") if VENDOR not in each.parents):
        text = path.read_text("utf-8") if path.suffix != ".woff" else ""
        assert "innerHTML" not in text
        assert "eval(" not in text
        found = [word for word in text.split() if "://" in word]
        assert all(any(known in word for known in harmless) for word in found), (path, found)


def test_a_browser_that_opens_the_address_of_the_server_is_sent_to_the_page() -> None:
    async def scenario() -> None:
        async with gateway(playground=True) as g:
            accepts = {"accept": "text/html,*/*;q=0.8"}
            async with g.client.get(f"{g.url}/", headers=accepts) as response:
                assert response.url.path == "/playground/"
            assert (await g.get("/"))[1]["name"] == "dsv4"
        async with gateway() as g, g.client.get(f"{g.url}/", headers=accepts) as response:
            assert response.url.path == "/"

    run(scenario())


def test_a_bare_path_leads_to_the_page() -> None:
    async def scenario() -> None:
        async with (
            gateway(playground=True) as g,
            g.client.get(f"{g.url}/playground") as response,
        ):
            assert response.status == 200
            assert response.url.path == "/playground/"

    run(scenario())


@each_row(
    "headers, status",
    [
        ({}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "LOCALHOST:8000"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "gpu.example"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost.evil.example:8000"}, 421),
        ({"host": "["}, 421),
        ({"host": "localhost:1", "origin": "http://localhost:1"}, 200),
        ({"host": "localhost:1", "origin": "http://localhost:2"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_pages_of_others_are_refused(headers: dict[str, str], status: int) -> None:
    async def scenario() -> None:
        async with gateway(playground=True, allowed_hosts=("gpu.example",)) as g:
            assert (await call(g, "settings", {}, **headers))[0] == status
            if "content-type" not in headers:
                assert (await g.get("/playground/", **headers))[0] == status

    run(scenario())


def test_functions_ask_for_a_key_where_the_server_has_keys(tmp_path: Path) -> None:
    keys = key_file(tmp_path, "ada:secret\n")

    async def scenario() -> None:
        async with gateway(playground=True, api_key_file=str(keys)) as g:
            assert (await g.get("/playground/"))[0] == 200
            assert (await call(g, "settings", {}))[0] == 401
            status, answer = await call(g, "settings", {}, authorization="Bearer secret")
            assert (status, answer["asks_for_key"]) == (200, True)

    run(scenario())


@pytest.mark.parametrize(
    ("body", "line", "column"),
    [(b"", 1, 1), (b'{"source": "x",\n oops}', 2, 2), (b"[]", None, None), (b"\xff", None, None)],
)
def test_a_body_that_is_no_object_is_refused_at_its_line(
    body: bytes, line: int | None, column: int | None
) -> None:
    async def scenario() -> None:
        async with gateway(playground=True) as g:
            status, answer = await call(g, "prompt", body)
            error = answer["error"]
            assert (status, error["line"], error["column"]) == (400, line, column)
            assert error["message"]

    run(scenario())


def test_an_error_of_the_request_has_its_place() -> None:
    async def scenario() -> None:
        async with gateway(playground=True) as g:
            source = '{"messages": [\n  {"role": "nobody", "content": ""}]}'
            status, answer = await call(g, "prompt", {"source": source})
            error = answer["error"]
            assert status == 400
            assert error["location"] == ["messages", 0, "role"]
            assert (error["line"], error["column"]) == (2, 12)
            assert source[error["start"] : error["end"]] == '"nobody"'

    run(scenario())


def test_a_body_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playground_routes, "MAX_BODY", 1_000)

    async def scenario() -> None:
        async with gateway(playground=True) as g:
            assert (await call(g, "prompt", {"source": "x" * 2_000}))[0] == 413

    run(scenario())


def test_half_characters_are_sent_as_escapes() -> None:
    async def scenario() -> None:
        async with gateway(playground=True) as g:
            source = '[{"role": "user", "content": "\\ud800"}]'
            status, answer = await call(g, "text", {"source": source})
            assert status == 200
            assert "\ud800" in answer["prompt"]

    run(scenario())


def test_streams_do_not_wait_for_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(body: Any, bench: Any) -> Any:
        begun.set()
        return {"slow": may_end.wait(60)}

    monkeypatch.setitem(page_functions.PAGE_FUNCTIONS, "slow", slow)

    async def scenario() -> None:
        async with gateway(playground=True) as g:
            waiting = asyncio.create_task(call(g, "slow", {}))
            await asyncio.to_thread(begun.wait, 60)
            assert (await g.get("/health"))[0] == 200
            assert not waiting.done()
            may_end.set()
            assert await waiting == (200, {"slow": True})

    run(scenario())


def test_what_nobody_waits_for_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    may_end = threading.Event()

    def slow(body: Any, bench: Any) -> Any:
        begun.append(body["n"])
        may_end.wait(60)
        return {}

    monkeypatch.setitem(page_functions.PAGE_FUNCTIONS, "slow", slow)

    async def scenario() -> None:
        async with gateway(playground=True) as g:
            calls = []
            for n in range(6):
                calls.append(asyncio.create_task(call(g, "slow", {"n": n})))
                await asyncio.sleep(0.02)
            while not begun:
                await asyncio.sleep(0.01)
            for task in calls[1:-1]:
                task.cancel()
            await asyncio.sleep(0.2)  # until the server has seen that nobody waits
            may_end.set()
            await asyncio.gather(calls[0], calls[-1])
            assert begun == [0, 5]

    run(scenario())


def test_curl_as_it_is_copied() -> None:
    async def scenario() -> None:
        async with gateway(playground=True) as g:
            body = {"source": SOURCE, "thinking": False, "form": "curl", "view": "prompt"}
            _, copied = await call(g, "copy", {**body, "url": g.url})
            done = await asyncio.to_thread(
                subprocess.run, ["sh", "-c", copied["text"]], capture_output=True, check=True
            )
            _, shown = await call(g, "text", {"source": SOURCE, "thinking": False})
            assert json.loads(done.stdout) == shown

    run(scenario())


def test_saved_servers_are_known_by_the_names_of_their_files(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    path.write_text(saved("vllm-0.32", "v4", ()), "utf-8")

    async def scenario() -> None:
        async with gateway(playground=True, profile=(str(path),)) as g:
            _, settings = await call(g, "settings", {})
            assert "server.json" in [each["name"] for each in settings["profiles"]]
            body = {"source": SOURCE, "shown": "profile:server.json"}
            assert (await call(g, "text", body))[0] == 200
            body["shown"] = f"profile:{path}"
            assert (await call(g, "text", body))[0] == 400

    run(scenario())


@pytest.mark.parametrize(("text", "words"), [("{}", "dsv4_server"), (None, "No such file")])
def test_a_file_that_is_no_saved_server_is_named(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "server.json"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(SettingError, match=words):
        playground_routes.saved_servers([str(path)])
    path.write_text(saved("dsv4", "v4", ()), "utf-8")
    with pytest.raises(SettingError, match=r"found a second server\.json, expected one"):
        playground_routes.saved_servers([str(path), str(path)])
