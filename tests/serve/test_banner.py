"""What the server says when it starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dsv4.serve.banner import (
    ServerSummary,
    banner_text,
    playground_banner_text,
    short_clients,
    summary_of_settings,
)
from dsv4.serve.settings import Settings


def said(summary: ServerSummary, **settings: object) -> str:
    return banner_text(Settings(**settings), summary)  # type: ignore[arg-type]


SUMMARY = summary_of_settings(Settings())


def test_who_may_use_it() -> None:
    assert "loopback only, no keys" in said(SUMMARY)
    assert said(SUMMARY).endswith("More clients: dsv4 serve --clients")
    open_to_all = {"host": "0.0.0.0", "api_key_file": "keys"}
    assert "open to the network, 1 key; " in said(replace(SUMMARY, keys=1), **open_to_all)
    assert "open to the network, 2 keys; " in said(replace(SUMMARY, keys=2), **open_to_all)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "counted by this process alone\n"),
        ({"workers": 2}, "counted by all workers of this machine\n"),
        ({"limits": "redis://ann:secret@host"}, "counted for all machines, in redis://host\n"),
        ({"replay": "redis://host/3", "workers": 2}, "for all machines, in redis://host/3\n"),
    ],
)
def test_who_counts_what_keys_use(settings: dict[str, object], expected: str) -> None:
    text = said(replace(SUMMARY, keys=1), api_key_file="keys", **settings)
    assert expected in text
    assert "secret" not in text


@pytest.mark.parametrize("backend", ["demo", "chat"])
def test_turns_are_named_without_the_password_of_their_store(backend: str) -> None:
    given = {"backend": backend, "upstream": ("http://a",) if backend == "chat" else ()}
    text = said(SUMMARY, replay="redis://ann:secret@host", **given)
    assert "redis://host\n" in text
    assert "secret" not in text


def test_sessions_are_named_without_the_password_of_their_store() -> None:
    assert "sessions" not in said(SUMMARY)
    assert "/sessions/ID, kept in s.db\n" in said(SUMMARY, trajectories="s.db")
    told = said(SUMMARY, trajectories="redis://ann:secret@host", routed_experts=True)
    assert "kept in redis://host, with routed experts\n" in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("backend", "ids", "expected"),
    [
        ("vllm", True, "sent as token ids"),
        ("vllm", False, "sent as text (install the extra `tokens` for ids)"),
        ("completions", True, "sent as text\n"),
    ],
)
def test_how_prompts_go_out(backend: str, ids: bool, expected: str) -> None:
    settings = {"backend": backend, "upstream": "http://gpu"}
    assert f"prompts     {expected}" in said(replace(SUMMARY, ids=ids), **settings)


def test_healing_has_a_banner_of_its_own() -> None:
    summary = replace(SUMMARY, url="http://127.0.0.1:8003", adapted_to="the official API")
    settings = {"backend": "chat", "upstream": ("http://a", "http://b"), "replay": "sqlite:turns"}
    text = said(summary, strip_markup=True, **settings)
    assert text.startswith(
        "dsv4 heal     http://127.0.0.1:8003\n  upstream    http://a, http://b\n"
    )
    assert "  adapted to  the official API\n  turns       kept in sqlite:turns\n" in text
    assert "broken calls, calls where no tools are declared\n" in text
    assert "effort" not in text  # the upstream's
    assert text.endswith("More clients: dsv4 heal --upstream http://a --port 8003 --clients")
    assert "calls where" not in said(summary, **settings)


def test_the_playground_has_a_banner_of_its_own() -> None:
    summary = replace(SUMMARY, url="http://0.0.0.0:8004", notes=("it is slow",))
    text = playground_banner_text(Settings(playground=True, host="0.0.0.0"), summary)
    assert text.startswith("dsv4 playground  http://127.0.0.1:8004/playground/\n  Paste a request")
    assert "live view   the demo model (deepseek-v4, v4)\n" in text
    assert "open to the network, no keys\n  API         http://0.0.0.0:8004" in text
    assert "note        it is slow\n" in text
    upstream = Settings(playground=True, backend="vllm", upstream=("http://gpu",))
    assert "live view   http://gpu (" in playground_banner_text(upstream, summary)


@pytest.mark.parametrize(
    ("listening", "shown"),
    [
        ("http://0.0.0.0:80", "http://127.0.0.1:80"),
        ("http://[::]:80", "http://[::1]:80"),
        ("http://10.0.0.7:80", "http://10.0.0.7:80"),
    ],
)
def test_clients_are_given_an_address_that_they_can_reach(listening: str, shown: str) -> None:
    assert f"OPENAI_BASE_URL={shown}/v1" in short_clients(replace(SUMMARY, url=listening))


def test_what_can_be_tried_shows_its_key_where_one_is_asked_for() -> None:
    assert "x-api-key" not in short_clients(SUMMARY)
    assert "-H 'x-api-key: KEY'" in short_clients(replace(SUMMARY, keys=1))
