"""Which dialects a prompt may be written in, judged by what it contains.

Plain text can contain the same signs, so the other dialects are tried where none of these fits.
"""

from __future__ import annotations

from dsv4._format import tokens
from dsv4._format.dialects import DIALECTS, V3_2, V4, V4_1, Dialect

_FAMILY = {"v4", "v4-0731", "v4-vision"}
_SYSTEM_FAMILY = {name for name, dialect in DIALECTS.items() if dialect.system_token is not None}

_OPENS_CALLS = f"<{tokens.DSML}"
_V4_CALLS = f"{_OPENS_CALLS}{V4.tags.calls}>"
_V4_1_CALLS = f"{_OPENS_CALLS}{V4_1.tags.calls}>", f"{_OPENS_CALLS}{V4_1.tags.invoke}"

_V3_2_SIGNS = (
    f"{_OPENS_CALLS}{V3_2.tags.calls}>",
    tokens.RESULTS_START + tokens.ONE_RESULT_START,
    # No turn of V4 ends with a header before another begins.
    tokens.THINK_START + tokens.USER,
    tokens.THINK_END + tokens.USER,
)
_V4_1_SYSTEMS = (tokens.BOS + tokens.SYSTEM, tokens.EOS + tokens.SYSTEM)
_V4_RESULTS = (tokens.USER + tokens.RESULT_START, f"\n\n{tokens.RESULT_START}")
_FAMILY_TOKENS = (tokens.LATEST_REMINDER, *tokens.TASK_TOKENS.values())


def dialects_of(text: str) -> tuple[Dialect, ...]:
    """The dialects that a prompt may be written in, the most usual and the oldest first."""
    names = _dialect_names(text)
    return tuple(DIALECTS[name] for name in DIALECTS if name in names)


def _dialect_names(text: str) -> set[str]:
    # Before the signs of V3.2: an open, empty answer of V4.1 looks like one of V3.2's headers.
    if text.startswith(tokens.SYSTEM) or _any_in(text, *_V4_1_SYSTEMS):
        return _SYSTEM_FAMILY
    if _any_in(text, *_V3_2_SIGNS):
        return {"v3.2"}
    if all(tag in text for tag in _V4_1_CALLS):
        return _SYSTEM_FAMILY
    if tokens.IMAGE in text:
        return {"v4-vision", *_SYSTEM_FAMILY} if _may_be_v4_1(text) else {"v4-vision"}
    effort = _effort_in_front(text)
    if effort:
        return {name for name in _FAMILY if effort in _effort_texts(name)}
    names = {*_FAMILY}
    if _may_be_v4_1(text):
        names |= _SYSTEM_FAMILY
    if not _any_in(text, *_V4_RESULTS, _V4_CALLS, *_FAMILY_TOKENS):
        names.add("v3.2")
    return names


def _any_in(text: str, *signs: str) -> bool:
    return any(sign in text for sign in signs)


def _may_be_v4_1(text: str) -> bool:
    """Its thinking prompts begin with a system token, if they begin a conversation."""
    thinks = tokens.ASSISTANT + tokens.THINK_START in text and text.startswith(tokens.BOS)
    return _V4_CALLS not in text and not thinks


def _effort_texts(name: str) -> set[str]:
    return set(DIALECTS[name].efforts.values())


def _effort_in_front(text: str) -> str | None:
    """The effort text of V4 or of its revision that opens a prompt."""
    start = len(tokens.BOS) if text.startswith(tokens.BOS) else 0
    efforts = {effort for name in _FAMILY for effort in _effort_texts(name) if effort}
    return next((effort for effort in efforts if text.startswith(effort, start)), None)
