"""Raw completions: what a server makes of a prompt that is sent as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dsv4._format.dialects import V4
from dsv4._format.tokens import BOS
from dsv4.verify.answers import value_at
from dsv4.verify.probes import SPELLED
from dsv4.verify.report import Post, ServerFinding, Standing
from dsv4.verify.server_client import Reply
from dsv4.verify.token_counts import PromptCounter

ROUTE = "/completions"
# Tells at once whether special tokens act, and whether a BOS is added to one that is there.
WITH_BOS = f"{BOS}{SPELLED}"
WITHOUT_BOS, ITS_TOKENS = "Hi", 1
# What a full run adds: a prompt without BOS, echoed; once more where `echo` is refused.
RAW_REQUESTS = 2


def raw_findings(post: Post, counter: PromptCounter, *, full: bool) -> Iterator[ServerFinding]:
    """Whether special tokens in a raw prompt act, and whether a BOS is added to it. With `full`
    also what becomes of a prompt without BOS, and whether `echo` gives it back."""
    count = _count(_completed(post, WITH_BOS))
    if count is None:
        yield _finding("none", "not offered", "no raw completions")
        return
    acting = counter.count(WITH_BOS, V4, frozenset())
    plain = len(counter.tokenizer.encode_text(WITH_BOS))
    yield _tokens_finding(count, acting, plain)
    if count == acting + 1:
        yield _SECOND_BOS
    bare = None
    if full:
        reply, echoed = _echoed(post)
        bare = _count(reply)
        yield echoed
    if count == acting or (bare is not None and count != acting + 1):
        yield _bos_finding(bare)


def _tokens_finding(count: int, acting: int, plain: int) -> ServerFinding:
    seen = f"{count:,} tokens"
    if count in (acting, acting + 1):
        return _finding("tokens", "pass", "special tokens in a raw prompt act", seen)
    if count in (plain, plain + 1):
        return _finding("tokens", "pass", "raw prompts are plain text", seen)
    message = f"a raw prompt of {acting:,} tokens, or {plain:,} as text, has another number"
    return _finding("tokens", "inconclusive", message, seen)


_SECOND_BOS = ServerFinding(
    "raw-bos-twice",
    "raw",
    "differs",
    "BOS is added to raw prompts, also to those that have one",
    "a prompt that was rendered elsewhere begins twice; quality drops a little everywhere",
    "send it without its BOS, or with `add_special_tokens: false`",
    "raw",
)


def _bos_finding(bare: int | None) -> ServerFinding:
    if bare is None:
        return _finding("bos", "pass", "no second BOS is added to a raw prompt")
    if bare == ITS_TOKENS:
        return _finding("bos", "pass", "no BOS is added to raw prompts: they need their own")
    if bare == ITS_TOKENS + 1:
        return _finding("bos", "pass", "BOS is added to raw prompts that have none")
    message = "it was not seen whether BOS is added to raw prompts"
    return _finding("bos", "inconclusive", message, f"{bare:,} tokens")


def _echoed(post: Post) -> tuple[Reply, ServerFinding]:
    """The reply to a prompt without BOS, and whether it has the prompt."""
    reply = _completed(post, WITHOUT_BOS, echo=True)
    if _count(reply) is None:
        finding = _finding("echo", "not offered", "`echo` is refused")
        return _completed(post, WITHOUT_BOS), finding
    text = value_at(reply.body, "choices", 0, "text")
    if isinstance(text, str) and text.startswith(WITHOUT_BOS):
        return reply, _finding("echo", "pass", "`echo` gives the prompt back")
    return reply, _finding("echo", "not offered", "`echo` is ignored")


def _completed(post: Post, prompt: str, **fields: Any) -> Reply:
    body: Mapping[str, Any] = {"prompt": prompt, "max_tokens": 1, "temperature": 0, **fields}
    return post(ROUTE, body)


def _count(reply: Reply) -> int | None:
    count = value_at(reply.body, "usage", "prompt_tokens")
    return count if type(count) is int and not reply.refused else None


def _finding(name: str, verdict: Standing, message: str, seen: str = "") -> ServerFinding:
    return ServerFinding(f"raw-{name}", "raw", verdict, message, probe="raw", seen=seen)
