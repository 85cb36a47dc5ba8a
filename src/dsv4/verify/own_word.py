"""A server's own statements: its models, its version, its fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dsv4.profiles.profile import PROFILES
from dsv4.verify.answers import value_at

OWN_WORD_REQUESTS = 2
MOST_NAMES = 1_000
_LONGEST = 200
# The names of servers, as owners of models or in fingerprints, and their profiles.
_NAMES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "llama.cpp": "llama.cpp",
    "deepseek": "recipe",
    "dsv4": "dsv4",
    "dynamo": "dynamo",
}


@dataclass(frozen=True)
class OwnWord:
    """A server's statements about itself, as far as there are any. `model` is the one to ask."""

    model: str = ""
    owner: str = ""
    version: str = ""
    fingerprint: str = ""

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles that fit. A version without an owner means vLLM: no other has that route."""
        words = f"{self.owner} {self.fingerprint}".lower()
        if self.version and not self.owner:
            words += " vllm"
        kinds = tuple(kind for name, kind in _NAMES.items() if name in words)
        return tuple(name for name in (*PROFILES, "dsv4") if kinds and name.startswith(kinds))

    def __str__(self) -> str:
        facts = {
            "owner of the model": self.owner,
            "version": self.version,
            "fingerprint": self.fingerprint,
        }
        return ", ".join(f"{name} {value}" for name, value in facts.items() if value)


def own_word(get: Callable[[str], Any], model: str) -> OwnWord:
    """A server's statements at `/v1/models` and `/version`. Either may be missing. `get` requests
    them; `model` is the one to ask, if it is known."""
    listed = [each for each in _listed(get("/models")) if each[0]]
    named = [each for each in listed if each[0] == model]
    ours = [each for each in listed if "deepseek" in each[0].lower() or "v4" in each[0].lower()]
    model, owner = next(iter((*named, *ours, *listed)), ("", ""))
    version = value_at(get("/../version"), "version")
    return OwnWord(model, owner, version[:_LONGEST] if isinstance(version, str) else "")


def _listed(models: Any) -> Iterator[tuple[str, str]]:
    data = value_at(models, "data")
    for each in data[:MOST_NAMES] if isinstance(data, list) else ():
        id, owner = value_at(each, "id"), value_at(each, "owned_by")
        if isinstance(id, str):
            yield id, owner[:_LONGEST] if isinstance(owner, str) else ""
