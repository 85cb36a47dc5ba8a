"""Keys of clients: from a file, in either header, compared whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway import gateway, key_file, run
from multidict import CIMultiDict

from dsv4.serve.access.api_keys import ANONYMOUS, Keyring, read_keys
from dsv4.serve.settings import SettingError


@pytest.fixture
def keys(tmp_path: Path) -> Keyring:
    path = tmp_path / "keys"
    path.write_text("# ours\nann:secret-1\n\nadmin bob:secret-2\nsecret-3\r\n", encoding="utf-8")
    return read_keys(str(path))


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"authorization": "Bearer secret-1"}, "ann"),
        ({"authorization": "bearer  secret-1 "}, "ann"),
        ({"x-api-key": "secret-2"}, "bob"),
        ({"x-api-key": "secret-3"}, "key-2c7d3470d617514e"),
        ({"authorization": "Bearer other", "x-api-key": "secret-1"}, "ann"),
        ({"authorization": "Bearer secret-2", "x-api-key": "other"}, "bob"),
        ({"authorization": "Basic secret-1", "x-api-key": "secret-1"}, "ann"),
        ({"authorization": "Bearer", "x-api-key": "secret-1"}, "ann"),
    ],
)
def test_a_key_is_known_in_either_header(keys: Keyring, headers: dict[str, str], name: str) -> None:
    owner = keys.owner(headers)
    assert owner is not None
    assert owner.name == name
    assert owner.admin == (name == "bob")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer secret"},
        {"x-api-key": ""},
        {"x-api-key": "secret-1 "},
        {"authorization": "Bearer \udcff"},
        {"x-api-key": "ann:secret-1"},
    ],
)
def test_nothing_else_is(keys: Keyring, headers: dict[str, str]) -> None:
    assert keys.owner(headers) is None


def test_a_key_without_a_name_has_the_same_one_on_any_line(tmp_path: Path) -> None:
    path, names = tmp_path / "keys", []
    for lines in ("first\nsecond\n", "second\n"):
        path.write_text(lines)
        owner = read_keys(str(path)).owner({"x-api-key": "second"})
        assert owner is not None
        names.append(owner.name)
    assert names[0] == names[1]


def test_without_a_file_everybody_is_let_in() -> None:
    owner = Keyring().owner({})
    assert owner is not None
    assert owner.name == ANONYMOUS
    assert not Keyring().asks


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "found no key"),
        ("# nothing\n", "found no key"),
        ("ann:a b\n", "line 1"),
        ("ann:\n", "line 1"),
        ("ann:1\nann:2\n", "line 2: found the name .ann. again"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=problem):
        read_keys(str(path))


SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.mark.parametrize(
    ("line", "shown", "name"),
    [
        ("ann:a:b:c", "a:b:c", "ann"),
        (f"ann:sha256:{SHA}", "test", "ann"),
        (f"admin ann:sha256:{SHA} requests=5", "test", "ann"),
        (f"sha256:{SHA}", "test", f"key-{SHA[:16]}"),
        ("test", "test", f"key-{SHA[:16]}"),
    ],
)
def test_a_key_has_colons_or_is_a_hash(tmp_path: Path, line: str, shown: str, name: str) -> None:
    path = tmp_path / "keys"
    path.write_text(line + "\n")
    ring = read_keys(str(path))
    owner = ring.owner({"x-api-key": shown})
    assert owner is not None
    assert owner.name == name
    assert ring.owner({"x-api-key": SHA}) is None  # a hash opens nothing


@pytest.mark.parametrize("hash", ["", "12", SHA.upper(), SHA + "0", "g" * 64])
def test_a_hash_that_is_none_is_refused(tmp_path: Path, hash: str) -> None:
    path = tmp_path / "keys"
    path.write_text(f"ann:sha256:{hash}\n")
    with pytest.raises(SettingError, match="line 1: expected 64 hexadecimal digits"):
        read_keys(str(path))


def test_models_are_those_that_a_key_may_use(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("narrow:n models=this,that\nwide:w\n")

    async def scenario() -> None:
        async with gateway(api_key_file=str(file), model="served") as g:

            async def listed(key: str) -> list[str]:
                _, body = await g.get("/v1/models", **{"x-api-key": key})
                assert body["last_id"] == body["data"][-1]["id"]
                return [model["id"] for model in body["data"]]

            assert await listed("n") == ["this", "that"]
            assert await listed("w") == ["served"]
            for key, name, expected in (
                *(("n", "this", 200), ("n", "that", 200), ("n", "served", 404)),
                *(("w", "served", 200), ("w", "x", 404), ("w", "served/x", 404)),
            ):
                status, body = await g.get(f"/v1/models/{name}", **{"x-api-key": key})
                assert status == expected, body

    run(scenario())


def test_two_headers_of_keys_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = key_file(tmp_path, "ann:sk-ann\n")
        async with gateway(api_key_file=file, open_key_files=True) as g:
            for name in ("authorization", "x-api-key"):
                twice = CIMultiDict([(name, "Bearer sk-ann"), (name, "Bearer sk-other")])
                async with g.client.get(g.url + "/v1/models", headers=twice) as response:
                    assert response.status == 400

    run(scenario())
