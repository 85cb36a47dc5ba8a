"""A profile: one release of one server, as a value. The next release is another value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from dsv4._format.dialects import DIALECTS, Dialect, dialect_named
from dsv4.profiles import (
    dynamo_prompts,
    gateway_prompts,
    llama_cpp_prompts,
    llama_cpp_request,
    official_api,
    official_request,
    recipe_prompts,
    recipe_request,
    server_requests,
    sglang_prompts,
    vllm_prompts,
)
from dsv4.profiles.server_faults import FaultVariant
from dsv4.profiles.text_shields import shielded, unshielded


@dataclass(frozen=True)
class Profile:
    """A server's way of writing prompts.

    `server` is its usual name. `verified` says whether its prompts were compared with those of the
    server itself; docs/servers.md has the results. `dialects` are the ones that it can write, and
    `served` has them as this server writes them; `writes_as` names, for a dialect, an older profile
    that writes the same. `special_text_acts` says whether special tokens that a caller's text
    spells become control tokens. `faults` are those that were found on a server of your own, which
    otherwise is like `base`. `dialect_of_body` tells the dialect by the model of a request, if the
    server's names are known.
    """

    name: str
    server: str
    write: Callable[[server_requests.Object, str], str]
    mode: Callable[[server_requests.Object, str], server_requests.ThinkingMode]
    verified: bool = True
    dialects: tuple[str, ...] = tuple(server_requests.SERVED_DIALECTS)
    served: server_requests.ServedDialects = field(
        default_factory=lambda: server_requests.SERVED_DIALECTS, repr=False
    )
    writes_as: Mapping[str, str] = field(default_factory=dict)
    special_text_acts: bool = True
    faults: tuple[FaultVariant, ...] = ()
    base: str = ""
    dialect_of_body: Callable[[server_requests.Object], str | None] | None = None

    def release(self, dialect: str) -> Dialect:
        """The `dialect` as this server writes it."""
        if self.base_name == GATEWAY_NAME:
            return dialect_named(dialect)
        return server_requests.served_dialect(dialect, self.served)

    def own_dialect(
        self, dialect: str | None, body: server_requests.RequestBody | None = None
    ) -> str:
        """The dialect of a saved server, which is known; otherwise the given `dialect`, under this
        server's name for it; otherwise that of the model in a `body`; otherwise V4's."""
        if self.base:
            return self.dialects[0]
        if dialect is None and isinstance(body, dict) and self.dialect_of_body is not None:
            dialect = self.dialect_of_body(body)
        dialect = "v4" if dialect is None else dialect
        return dialect if dialect in self.dialects else server_requests.served_name(dialect)

    @property
    def base_name(self) -> str:
        """The name of the profile that it is based on, or its own."""
        return self.base or self.name

    @property
    def family(self) -> str:
        """The name of the server without its version."""
        return self.base_name.partition("-")[0]


GATEWAY_NAME = "dsv4"

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("vllm-0.32", "vLLM 0.32", vllm_prompts.render, vllm_prompts.mode),
        Profile(
            "vllm-0.33",
            "vLLM 0.33",
            partial(vllm_prompts.render, served=server_requests.VLLM_0_33_DIALECTS),
            vllm_prompts.mode,
            served=server_requests.VLLM_0_33_DIALECTS,
            writes_as={"v4": "vllm-0.32"},
        ),
        Profile("sglang-0.5.23", "SGLang 0.5.23", sglang_prompts.render, sglang_prompts.mode),
        Profile(
            "recipe-0.2.0", "deepseek-recipe 0.2.0", recipe_prompts.render, recipe_request.mode
        ),
        Profile(
            "llama.cpp",
            "llama.cpp of August 2026",
            partial(llama_cpp_prompts.render, llama_cpp_request.AUGUST_2026),
            llama_cpp_prompts.mode,
            dialects=("v4",),
        ),
        Profile(
            "llama.cpp-2026.10",
            "llama.cpp of October 2026",
            partial(llama_cpp_prompts.render, llama_cpp_request.OCTOBER_2026),
            llama_cpp_prompts.mode,
            dialects=("v4",),
        ),
        Profile("dynamo-1.6", "Dynamo 1.6", dynamo_prompts.render, dynamo_prompts.mode),
    )
}
# This project's own gateway. It has no column in the comparison: it writes prompts as released.
GATEWAY = Profile(
    GATEWAY_NAME,
    "dsv4 serve",
    gateway_prompts.render,
    gateway_prompts.mode,
    dialects=tuple(DIALECTS),
    special_text_acts=False,
)
# DeepSeek's own API, which is built on deepseek-recipe and whose model names are known. It has no
# column either.
OFFICIAL_API = Profile(
    official_api.PROFILE_NAME,
    "the official API",
    official_request.render,
    official_request.mode,
    dialects=tuple(server_requests.OFFICIAL_DIALECTS),
    served=server_requests.OFFICIAL_DIALECTS,
    special_text_acts=False,
    dialect_of_body=official_request.dialect_of_body,
)


def profile_named(name: str | Profile) -> Profile:
    """The profile with a name; a profile is returned as it is. Raises `EncodeError` for an unknown
    name. A name is never a path: a profile in a file is loaded with `load`."""
    if isinstance(name, Profile):
        return name
    profiles = {**PROFILES, GATEWAY_NAME: GATEWAY, OFFICIAL_API.name: OFFICIAL_API}
    profile = profiles.get(name) if isinstance(name, str) else None
    profile = profile or _newest(name)
    if profile is None:
        expected = ", ".join(profiles)
        raise server_requests.unexpected(name, f"one of {expected}", "profile")
    return profile


def _newest(server: object) -> Profile | None:
    """The profile of a server that is named without its version: the last one listed."""
    versions = [profile for profile in PROFILES.values() if profile.family == server]
    return versions[-1] if versions else None


def render(
    body: server_requests.RequestBody, name: str | Profile, *, dialect: str | None = None
) -> str:
    """The prompt that a server writes for a Chat Completions request.

    `body` is the request, or only its messages; it is not changed. `name` is a key of `PROFILES`,
    "deepseek-api", or "dsv4" for this project's own gateway; or a profile, as `load` gives one.
    `dialect` is the model's: "v4", which every server writes with the effort texts of 31 July, or
    "v4.1". None is "v4", except on "deepseek-api", where the request's `model` tells it.

    Returns the prompt as text. Raises `EncodeError` if the server refuses the request, or if the
    profile does not cover it: a dialect that the server cannot write, images on vLLM.
    """
    profile = profile_named(name)
    dialect = profile.own_dialect(dialect, body)
    if dialect not in profile.dialects:
        server_requests.served_dialect(dialect)
        expected = " or ".join(profile.dialects)
        raise server_requests.server_refusal(
            "dialect", f"found {dialect}, expected {expected} on {profile.server}"
        )
    if not profile.faults:
        return written_prompt(server_requests.as_object(body), profile, dialect)
    return unshielded(shielded_prompt(shielded(server_requests.as_object(body)), profile, dialect))


PromptWriter: TypeAlias = Callable[[server_requests.Object, "Profile", str], str]


def shielded_prompt(
    body: server_requests.Object,
    profile: Profile,
    dialect: str,
    faults: Sequence[FaultVariant] = (),
    write: PromptWriter | None = None,
) -> str:
    """The prompt of a server with `faults` besides its own, for a body in which special tokens that
    callers spelled are marked. The marks stay. `write` stands in for `written_prompt`."""
    changes = [each.change for each in (*profile.faults, *faults)]
    for change in changes:
        if change.request is not None:
            body = change.request(body)
    prompt = (write or written_prompt)(body, profile, dialect)
    release = profile.release(dialect)
    for change in changes:
        if change.prompt is not None:
            prompt = change.prompt(prompt, body, release)
    return prompt


def written_prompt(body: server_requests.Object, profile: Profile, dialect: str) -> str:
    """The prompt that a server without faults writes for a body that was already changed for it."""
    try:
        return profile.write(body, dialect)
    except RecursionError:
        raise server_requests.server_refusal(
            "request", "found values nested too deep, expected fewer levels"
        ) from None
