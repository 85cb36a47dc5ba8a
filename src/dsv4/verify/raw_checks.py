"""Raw completions: what a server makes of a prompt that is sent as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dsv4._format.dialects import V4
from dsv4._format.tokens import BOS
from dsv4.verify.answers import value_at
from dsv4.verify.check_findings import check_finding
from dsv4.verify.probes import SPELLED
from dsv4.verify.report import Post, ServerFinding
from dsv4.verify.server_client import Reply
from dsv4.verify.token_counts import PromptCounter
from dsv4.verify.usage_fields import counted_tokens

ROUTE = "/completions"
# Tells at once whether special tokens act, and whether a BOS is added to one that is there.
WITH_BOS = f"{BOS}{SPELLED}"
WITHOUT_BOS, ITS_TOKENS = "Hi", 1


def raw_findings(post: Post, counter: PromptCounter, *, full: bool) -> Iterator[ServerFinding]:
    """Whether special tokens in a raw prompt act, and whether a BOS is added to it. With `full`
    also what becomes of a prompt without BOS, and whether `echo` gives it back."""
    count = counted_tokens(_completed(post, WITH_BOS))
    if count is None:
        yield check_finding("raw-none")
        return
    acting = counter.count(WITH_BOS, V4, frozenset())
    plain = len(counter.tokenizer.encode_text(WITH_BOS))
    yield _tokens_finding(count, acting, plain)
    if count == acting + 1:
        yield check_finding("raw-bos-twice")
    bare = None
    if full:
        reply, echoed = _echoed(post)
        bare = counted_tokens(reply)
        yield echoed
    if count == acting or (bare is not None and count != acting + 1):
        yield _bos_finding(bare)


def _tokens_finding(count: int, acting: int, plain: int) -> ServerFinding:
    acts = {acting: ":acting", acting + 1: ":acting", plain: ":plain", plain + 1: ":plain"}
    key = f"raw-tokens{acts.get(count, '')}"
    return check_finding(key, seen=f"{count:,} tokens", acting=acting, plain=plain)


def _bos_finding(bare: int | None) -> ServerFinding:
    kinds = {None: ":no-second", ITS_TOKENS: ":none", ITS_TOKENS + 1: ":added"}
    count_text = "" if bare in kinds else f"{bare:,} tokens"
    return check_finding(f"raw-bos{kinds.get(bare, '')}", seen=count_text)


def _echoed(post: Post) -> tuple[Reply, ServerFinding]:
    """The reply to a prompt without BOS, and whether it has the prompt."""
    reply = _completed(post, WITHOUT_BOS, echo=True)
    if counted_tokens(reply) is None:
        return _completed(post, WITHOUT_BOS), check_finding("raw-echo:refused")
    text = value_at(reply.body, "choices", 0, "text")
    if isinstance(text, str) and text.startswith(WITHOUT_BOS):
        return reply, check_finding("raw-echo")
    return reply, check_finding("raw-echo:ignored")


def _completed(post: Post, prompt: str, **fields: Any) -> Reply:
    body: Mapping[str, Any] = {"prompt": prompt, "max_tokens": 1, "temperature": 0, **fields}
    return post(ROUTE, body)
