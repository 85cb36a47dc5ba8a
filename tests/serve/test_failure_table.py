"""The table of docs/gateway-operations.md that says what a client sees of each failure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from gateway import gateway, gateway_before, key_file, run
from standins import ChatServer

from dsv4 import serve

ROOT = Path(__file__).parents[2]
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
PATH = "/v1/chat/completions"
# What only those see who run the gateway: of routes that need an `admin` key.
FOR_OPERATORS = {507}
# A reader's `status=`, or a second argument of an error.
STATUS = re.compile(r"(?:status=|[\"'}], )([45]\d\d)\b")


def table() -> dict[int, set[str]]:
    """What is said of trying again, by the status: yes or no."""
    text = (ROOT / "docs" / "gateway-operations.md").read_text("utf-8")
    _, _, section = text.partition("## What a client sees of a failure")
    rows = re.findall(r"^\| .* \| (\d{3}) \| (.*) \|$", section.partition("\n## ")[0], re.MULTILINE)
    said: dict[int, set[str]] = {}
    for status, again in rows:
        said.setdefault(int(status), set()).add("false" if again == "no" else "true")
    return said


def test_every_status_is_in_the_table() -> None:
    folder = Path(serve.__file__).parent
    texts = [file.read_text("utf-8") for file in sorted(folder.rglob("*.py"))]
    found = {int(status) for text in texts for status in STATUS.findall(text)}
    assert found >= {400, 401, 403, 404, 408, 413, 415, 429, 431, 503}
    assert found - FOR_OPERATORS <= table().keys()


def is_in_table(status: int, headers: Any) -> bool:
    again = headers["x-should-retry"]
    waits = status in (429, 503)
    return again in table().get(status, ()) and ("retry-after" in headers) == waits


REFUSED: dict[str, tuple[int, str, Any, dict[str, str]]] = {
    "wrong": (400, PATH, {"messages": 5}, {"x-api-key": "k"}),
    "no key": (401, PATH, CHAT, {}),
    "expired": (401, PATH, CHAT, {"x-api-key": "old"}),
    "model of a key": (403, PATH, CHAT, {"x-api-key": "one"}),
    "no admin": (403, "/admin/restart", {}, {"x-api-key": "k"}),
    "model": (404, PATH, CHAT, {"x-api-key": "k"}),
    "route": (404, "/v1/nowhere", CHAT, {"x-api-key": "k"}),
    "method": (405, "/v1/models", CHAT, {"x-api-key": "k"}),
    "not restarted": (409, "/admin/restart", {}, {"x-api-key": "ops"}),
    "large": (413, PATH, {"a": "b" * 30_000}, {"x-api-key": "k"}),
    "packed": (415, PATH, CHAT, {"x-api-key": "k", "content-encoding": "br"}),
    "head": (431, PATH, CHAT, {"x-api-key": "k", "x-much": "b" * 6_000}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_gateway_refuses_is_in_the_table(name: str, tmp_path: Path) -> None:
    lines = ["admin ops:ops", "ann:k", "one:one models=other", "old:old expires=2020-01-01"]
    keys = key_file(tmp_path, "\n".join(lines))
    expected, path, body, headers = REFUSED[name]

    async def scenario() -> None:
        limits = {"max_body": 20_000, "max_header": 4_096, "strict_models": True}
        async with gateway(api_key_file=keys, open_key_files=True, **limits) as g:
            status, given, _ = await g.post(path, body, **headers)
            assert status == expected
            assert is_in_table(status, given)

    run(scenario())


@pytest.mark.parametrize(("expected", "header"), [(403, "origin"), (421, "host")])
def test_pages_of_other_sites_are_in_the_table(expected: int, header: str) -> None:
    async def scenario() -> None:
        async with gateway() as g:
            value = "evil.example" if header == "host" else "http://evil.example"
            status, given, _ = await g.post(PATH, CHAT, **{header: value})
            assert status == expected
            assert is_in_table(status, given)

    run(scenario())


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        *((400, 400), (401, 502), (402, 402), (403, 502), (404, 502), (429, 429), (500, 502)),
        *((502, 502), (503, 503), (529, 503)),
    ],
)
def test_what_an_upstream_answers_is_in_the_table(theirs: int, expected: int) -> None:
    async def scenario() -> None:
        upstream = ChatServer(None, "[]")  # type: ignore[arg-type]
        upstream.fault = lambda request, number: web.Response(status=theirs, text="{}")
        async with gateway_before(upstream.running()) as g:
            status, given, _ = await g.post(PATH, CHAT)
            assert status == expected
            assert is_in_table(status, given)

    run(scenario())
