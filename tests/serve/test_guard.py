"""Where no keys are asked for, pages of others get nothing: over real sockets, on every route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway import Gateway, gateway, key_file, run
from standins import Scripted

from dsv4._format.tokens import EOS, THINK_END
from dsv4.api import ApiError
from dsv4.serve import Settings
from dsv4.serve.access.site_guard import SiteGuard

ASKED = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}
POSTS = {
    "/v1/chat/completions": ASKED,
    "/chat/completions": ASKED,
    "/anthropic/v1/messages": ASKED,
    "/v1/responses": {"input": "Hi"},
    "/v1/messages/count_tokens": ASKED,
    "/tokenize": {"text": "Hi"},
    "/render": ASKED,
    "/parse": {"text": "Hi"},
}
GETS = ["/", "/api/hello", "/health", "/ready", "/metrics", "/v1/models", "/v1/models/demo"]
NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


async def asked(g: Gateway, path: str, **headers: str) -> int:
    if path in POSTS:
        # As a page may send it without asking first.
        status, _, _ = await g.post(path, POSTS[path], **{"content-type": "text/plain", **headers})
        return int(status)
    return (await g.get(path, **headers))[0]


FOREIGN = [
    ({"host": "evil.example"}, 421),
    ({"host": "evil.example:8000"}, 421),
    ({"host": "localhost.evil.example"}, 421),
    ({"host": "192.0.2.7:8000"}, 421),
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://["}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site"}, 403),
]


@pytest.mark.parametrize(("headers", "expected"), FOREIGN, ids=str)
def test_a_page_of_somebody_else_gets_nothing_from_any_route(
    headers: dict[str, str], expected: int
) -> None:
    async def scenario() -> None:
        backend = Scripted(f"Hm.{THINK_END}Hi{EOS}")
        async with gateway(backend) as g:
            for path in (*POSTS, *GETS):
                assert await asked(g, path, **headers) == expected, path
            assert backend.opened == 0

    run(scenario())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "LOCALHOST:1"},
        {"host": "127.0.0.1"},
        {"host": "[::1]:8000"},
        {"host": "gateway"},
        {"host": "Gateway.dsv4.svc:8000"},
        {"host": "localhost:1", "origin": "http://localhost:1", "sec-fetch-site": "same-origin"},
        {"origin": "https://chat.example", "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
    ],
    ids=str,
)
def test_programs_and_the_servers_own_names_are_answered(headers: dict[str, str]) -> None:
    async def scenario() -> None:
        names = ("gateway", "gateway.dsv4.svc")
        origins = ("https://chat.example",)
        async with gateway(allowed_hosts=names, cors_origins=origins, model="demo") as g:
            for path in (*POSTS, *GETS):
                assert await asked(g, path, **headers) == 200, path

    run(scenario())


def test_a_refusal_is_in_the_words_of_the_protocol() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            foreign = {"host": "evil.example"}
            _, _, body = await g.post("/v1/messages", ASKED, **foreign)
            assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
            _, _, body = await g.post("/v1/chat/completions", ASKED, **foreign)
            assert "`allowed_hosts`" in body["error"]["message"]
            _, _, body = await g.post("/v1/responses", ASKED, origin="https://evil.example")
            assert body["error"]["type"] == "permission_error"
            assert "`cors_origins`" in body["error"]["message"]

    run(scenario())


def test_named_origins_get_their_preflights_and_others_do_not() -> None:
    async def scenario() -> None:
        async with gateway(cors_origins=("https://chat.example",)) as g:
            for origin, expected in (("https://chat.example", 200), ("https://evil.example", 403)):
                asks = {"origin": origin, "access-control-request-method": "POST"}
                url = g.url + "/v1/chat/completions"
                async with g.client.options(url, headers=asks) as response:
                    assert response.status == expected
        async with gateway(cors_origins=("*",)) as g:
            assert await asked(g, "/v1/models", origin="https://anybody.example") == 200

    run(scenario())


def test_a_link_on_another_page_may_be_followed_but_nothing_may_be_sent_by_it() -> None:
    async def scenario() -> None:
        async with gateway(playground=True) as g:
            link = {**NAVIGATION, "sec-fetch-site": "cross-site"}
            assert (await g.get("/playground/", **link))[0] == 200
            assert await asked(g, "/v1/chat/completions", **link) == 403
            framed = {**link, "sec-fetch-dest": "iframe"}
            assert (await g.get("/playground/", **framed))[0] == 403

    run(scenario())


def test_where_keys_are_asked_for_any_name_will_do(tmp_path: Path) -> None:
    keys = key_file(tmp_path, "ann:secret-a\n")

    async def scenario() -> None:
        async with gateway(api_key_file=str(keys)) as g:
            named = {"host": "api.example", "origin": "https://chat.example"}
            assert await asked(g, "/v1/chat/completions", **named) == 401
            named["authorization"] = "Bearer secret-a"
            assert await asked(g, "/v1/chat/completions", **named) == 200
            assert await asked(g, "/health", **named) == 200

    run(scenario())


def scope(host: str, *, server: Any = ("10.0.0.5", 8000), hosts: int = 1) -> dict[str, Any]:
    headers = [(b"host", host.encode())] * hosts
    return {"type": "http", "method": "GET", "headers": headers, "server": server}


def test_a_server_on_all_addresses_goes_by_the_one_that_it_was_reached_at() -> None:
    """As probes of an orchestrator do, and clients of the same network."""
    for host, reached in (("10.0.0.5:8000", "10.0.0.5"), ("10.0.0.5", "::ffff:10.0.0.5")):
        guard = SiteGuard(Settings(host="0.0.0.0"))
        guard.check(scope(host, server=(reached, 8000)))
        with pytest.raises(ApiError, match="host"):
            guard.check(scope("10.0.0.6", server=(reached, 8000)))
        with pytest.raises(ApiError, match="host"):
            SiteGuard(Settings()).check(scope(host, server=(reached, 8000)))
    with pytest.raises(ApiError, match="host"):
        SiteGuard(Settings(host="::")).check(scope("evil.example", server=None))


def test_two_hosts_are_none() -> None:
    with pytest.raises(ApiError, match="found several hosts"):
        SiteGuard(Settings()).check(scope("localhost", hosts=2))
