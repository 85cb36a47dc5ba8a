"""DeepSeek's own API: the release that it serves under each name, and its words for a request that
breaks a rule.

All of it is data, in official_api.json. docs/official-api.md is generated from it and from the
rules with their sources, which are in docs/official_api_rules.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dsv4._format.texts import read_table
from dsv4.errors import EncodeError
from dsv4.profiles.server_requests import server_refusal

PROFILE_NAME = "deepseek-api"
_TABLE: Mapping[str, Any] = read_table("official_api", __file__)
RULES: Mapping[str, Mapping[str, Any]] = {row["id"]: row for row in _TABLE["rules"]}
CONTEXT: int = _TABLE["context"]
# Settings that DeepSeek's own page gives for Claude Code.
CLIENT_SETUP: Mapping[str, str] = _TABLE["setup"]


@dataclass(frozen=True)
class ServedRelease:
    """The release of the weights that the API serves under a name for some time, and the dialect
    that it was trained on. Of a withdrawn name only the end is known."""

    name: str
    release: str | None
    dialect: str | None
    since: str | None
    until: str | None
    source: str


RELEASES = tuple(ServedRelease(**row) for row in _TABLE["models"])
_SERVED = {row.name: row for row in RELEASES if row.until is None}
# The names in a list of models: one for each release. The others are older names for them.
LISTED_NAMES = tuple({row.release: row.name for row in reversed(_SERVED.values())}.values())
_LONG_CONTEXT_MARK = "[1m]"  # added by Claude Code, not part of a name
# Names as providers spell the API's names: `~deepseek/deepseek-flash-latest`, `…:free`.
_PROVIDERS_NAME = r"(?:.*/)?(deepseek-[\w.-]+?)(?:-latest)?(?:[:@\[].*)?"
_SHORT_NAMES = {"deepseek-pro": "deepseek-v4-pro"}  # which only providers use
_CLAUDE = {"claude-opus": "deepseek-v4-pro", "claude": "deepseek-flash"}


def served_release(model: object) -> ServedRelease | None:
    """The release that the API serves today under a name; None if it refuses the name."""
    name = model.removesuffix(_LONG_CONTEXT_MARK) if isinstance(model, str) else ""
    return _SERVED.get(name)


def mapped_name(model: str) -> str:
    """The API's name for a client's: names of Claude are mapped to its own."""
    name = model.removesuffix(_LONG_CONTEXT_MARK)
    return next((own for start, own in _CLAUDE.items() if name.startswith(start)), name)


def own_name(model: str) -> str:
    """The API's name for a provider's. The API itself refuses the provider's."""
    spelled = re.fullmatch(_PROVIDERS_NAME, model)
    name = spelled[1] if spelled else model
    name = _SHORT_NAMES.get(name, name)
    return name if name in _SERVED else model


def meant_name(model: str) -> str:
    """The API's name for a client's name of any kind."""
    return own_name(mapped_name(model))


def is_official_host(url: str) -> bool:
    """Whether an address is the API's own."""
    host = urlsplit(url).hostname or ""
    return host == "deepseek.com" or host.endswith(".deepseek.com")


def dialect_at(urls: Iterable[str], model: object) -> str | None:
    """The dialect of one of the API's models; None unless one of the addresses is the API's."""
    release = served_release(model) if any(map(is_official_host, urls)) else None
    return None if release is None else release.dialect


def words(rule: str, protocol: str = "chat", **values: object) -> str:
    """The API's words for a request that breaks a rule."""
    text = RULES[rule]["words"]
    text = text if isinstance(text, str) else text.get(protocol) or text["chat"]
    return text.format(**values) if values else str(text)


def refusal(rule: str, path: str, protocol: str = "chat", **values: object) -> EncodeError:
    """The refusal of a request that breaks a rule at a path."""
    return server_refusal(path, words(rule, protocol, **values))


def known_release(model: object) -> ServedRelease:
    """The release that the API serves under a name. Raises for a name that it refuses."""
    release = served_release(model)
    if release is None:
        names = ", ".join(LISTED_NAMES)
        raise refusal("model", "model", names=names, model=model if model is not None else "")
    return release
