"""A profile: one release of one server, as a value. The next release is another value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dsv4.errors import short_repr
from dsv4.profiles import (
    llama_cpp_prompts,
    recipe_prompts,
    recipe_request,
    sglang_prompts,
    verl_prompts,
    vllm_prompts,
)
from dsv4.profiles.server_requests import (
    SERVED_DIALECTS,
    Object,
    RequestBody,
    ThinkingMode,
    as_object,
    served_dialect,
    server_refusal,
)


@dataclass(frozen=True)
class Profile:
    """How a server writes prompts.

    `server` is what people call it. `verified` says whether its prompts were compared with those of
    the server itself. `dialects` are the ones that it can write.
    """

    name: str
    server: str
    write: Callable[[Object, str], str]
    mode: Callable[[Object, str], ThinkingMode]
    verified: bool = True
    dialects: tuple[str, ...] = tuple(SERVED_DIALECTS)


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("vllm-0.32", "vLLM 0.32", vllm_prompts.render, vllm_prompts.mode),
        Profile("sglang-0.5.23", "SGLang 0.5.23", sglang_prompts.render, sglang_prompts.mode),
        Profile(
            "recipe-0.2.0", "deepseek-recipe 0.2.0", recipe_prompts.render, recipe_request.mode
        ),
        Profile(
            "llama.cpp",
            "llama.cpp (unverified)",
            llama_cpp_prompts.render,
            llama_cpp_prompts.mode,
            verified=False,
            dialects=("v4",),
        ),
        Profile(
            "verl-0.9.1", "verl 0.9.1", verl_prompts.render, verl_prompts.mode, dialects=("v4",)
        ),
    )
}
# The official API is built on deepseek-recipe.
ALIASES = {"deepseek-api": "recipe-0.2.0"}


def profile_named(name: str) -> Profile:
    """The profile of a name or an alias. Raises `EncodeError` for a name that is neither."""
    found = PROFILES.get(ALIASES.get(name, name)) if isinstance(name, str) else None
    if found is None:
        expected = ", ".join((*PROFILES, *ALIASES))
        raise server_refusal("profile", f"found {short_repr(name)}, expected one of {expected}")
    return found


def render(body: RequestBody, name: str, *, dialect: str = "v4") -> str:
    """The prompt that a server writes for a Chat Completions request.

    `body` is the request, or only its messages; it is not changed. `name` is a key of `PROFILES`,
    or "deepseek-api". `dialect` is the model's: "v4", which every server writes with the effort
    texts of 31 July, or "v4.1".

    Returns the prompt as text. Raises `EncodeError` where the server refuses the request, or where
    the profile does not cover it: a dialect that the server cannot write, images on vLLM.
    """
    profile = profile_named(name)
    served_dialect(dialect)
    if dialect not in profile.dialects:
        expected = " or ".join(profile.dialects)
        raise server_refusal("dialect", f"found {dialect}, expected {expected} on {profile.server}")
    try:
        return profile.write(as_object(body), dialect)
    except RecursionError:
        raise server_refusal(
            "request", "found values nested too deep, expected fewer levels"
        ) from None
