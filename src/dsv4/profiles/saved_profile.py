"""A server as `dsv4 verify` found it, saved as a profile: ids of faults and options, no code."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

from dsv4.profiles.profile import Profile, profile_named
from dsv4.profiles.server_faults import FaultVariant, fault_named, ordered
from dsv4.profiles.server_requests import list_at, object_at, server_refusal, text_at, unexpected

VERSION = 1
MOST_BYTES = 1_000_000
MOST_FAULTS = 16


def saved(base: str, dialect: str, faults: tuple[FaultVariant, ...], name: str = "") -> str:
    """The text of a file that `load` reads."""
    value = {
        "dsv4_server": VERSION,
        "name": name,
        "profile": base,
        "dialect": dialect,
        "faults": [str(fault) for fault in faults],
    }
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def load(path: str | os.PathLike[str]) -> Profile:
    """The server that `dsv4 verify --save` wrote to a file, as a profile.

    `path` is the file. `render`, `compare` and `traps` take the profile in place of a name. Raises
    `EncodeError` if the file is not such a server, and `OSError` if it cannot be read.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise server_refusal("profile", f"found more than {MOST_BYTES:,} characters in the file")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise server_refusal("profile", "found a file that is no JSON") from None
    return _checked(value, os.path.basename(os.fspath(path)))


def _checked(value: Any, file: str) -> Profile:
    fields = object_at(value, "profile")
    if fields.get("dsv4_server") != VERSION:
        raise unexpected(fields.get("dsv4_server"), str(VERSION), "profile.dsv4_server")
    base = profile_named(text_at(fields.get("profile"), "profile.profile"))
    dialect = text_at(fields.get("dialect"), "profile.dialect")
    if dialect not in base.dialects:
        expected = ", ".join(base.dialects)
        raise server_refusal("profile.dialect", f"found {dialect}, expected one of {expected}")
    named = list_at(fields.get("faults"), "profile.faults")
    if len(named) > MOST_FAULTS:
        raise server_refusal(
            "profile.faults", f"found {len(named)}, expected {MOST_FAULTS} at most"
        )
    faults = ordered(map(fault_named, named))
    return replace(
        base,
        name=file,
        server=f"{file} ({base.server})",
        faults=faults,
        base=base.name,
        dialects=(dialect,),
    )
