"""Sealed turns: what comes back is what was sealed, for whom it was sealed, or nothing."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4.serve.settings import SettingError
from dsv4.serve.storage.stored_turns import MAX_SEALED, TurnSeal, read_seal

SEAL = TurnSeal(b"a key of sixteen+")


@given(st.binary(max_size=2000), st.text(max_size=10))
def test_what_was_sealed_comes_back(value: bytes, owner: str) -> None:
    assert SEAL.open(owner, SEAL.close(owner, value)) == value


def test_it_opens_for_its_owner_and_key_alone() -> None:
    sealed = SEAL.close("ann", b"value")
    assert SEAL.open("bob", sealed) is None
    assert TurnSeal(b"another key of 16").open("ann", sealed) is None


@given(st.data())
def test_no_change_goes_unseen(data: st.DataObject) -> None:
    sealed = SEAL.close("ann", b"some value")
    at = data.draw(st.integers(0, len(sealed) - 1))
    other = data.draw(st.sampled_from("ABab01-_"))
    changed = sealed[:at] + other + sealed[at + 1 :]
    opened = SEAL.open("ann", changed)
    # The last letter holds bits that no byte uses.
    assert (
        opened is None or (at == len(sealed) - 1 and opened == b"some value") or changed == sealed
    )


@given(st.text(max_size=50))
def test_other_text_is_nothing(text: str) -> None:
    assert SEAL.open("ann", text) is None


def test_a_bomb_is_not_unpacked() -> None:
    packed = zlib.compress(bytes(MAX_SEALED + 1))
    import base64

    tag = SEAL._tag("ann", packed)
    bomb = base64.urlsafe_b64encode(tag + packed).decode()
    assert SEAL.open("ann", bomb) is None


def test_the_key_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"0123456789abcdef\n")
    assert (
        read_seal(str(tmp_path / "key")).open("a", TurnSeal(b"0123456789abcdef").close("a", b"v"))
        == b"v"
    )
    (tmp_path / "short").write_bytes(b"short")
    with pytest.raises(SettingError, match="found 5 bytes, expected 16 or more"):
        read_seal(str(tmp_path / "short"))
    with pytest.raises(SettingError, match="seal_key_file"):
        read_seal(str(tmp_path / "none"))
