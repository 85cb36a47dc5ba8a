"""Detects the dialects that a prompt may be written in, by signs that it contains.

Plain text can contain the same signs, so the other dialects are tried if none of these fits.
"""

from __future__ import annotations

from collections.abc import Collection

from dsv4._format.dialects import DIALECTS, Dialect

# The releases by the signs in their prompts: a token for systems, another layout, or neither.
_V4_LAYOUT = tuple(dialect for dialect in DIALECTS.values() if dialect.layout == "v4")
_WITH_SYSTEMS = tuple(dialect for dialect in _V4_LAYOUT if dialect.system_token is not None)
_BARE = tuple(dialect for dialect in _V4_LAYOUT if dialect.system_token is None)
_OTHER_LAYOUT = tuple(dialect for dialect in DIALECTS.values() if dialect.layout != "v4")


def _system_signs(dialect: Dialect) -> tuple[str, ...]:
    """The openings of a system turn, in a dialect that has a token for it."""
    own, system = dialect.tokens, str(dialect.system_token)
    return own.bos + system, own.eos + system


def _call_tags(dialect: Dialect) -> tuple[str, str]:
    tags = dialect.tags
    return f"<{tags.dsml}{tags.calls}>", f"<{tags.dsml}{tags.invoke}"


def _v32_signs(dialect: Dialect) -> tuple[str, ...]:
    own, words = dialect.tokens, dialect.texts
    return (
        _call_tags(dialect)[0],
        words.results_start + words.one_result_start,
        # No turn of V4 ends with a header before another begins.
        own.think_start + own.user,
        own.think_end + own.user,
    )


def _v4_signs(dialect: Dialect) -> tuple[str, ...]:
    own, result = dialect.tokens, dialect.texts.result_start
    results = own.user + result, f"\n\n{result}"
    return *results, _call_tags(dialect)[0], own.latest_reminder, *own.tasks.values()


def dialects_of(text: str) -> tuple[Dialect, ...]:
    """The dialects that a prompt may be written in, the most usual and the oldest first."""
    found = _dialects(text)
    return tuple(dialect for dialect in DIALECTS.values() if dialect in found)


def _dialects(text: str) -> Collection[Dialect]:
    # Before the signs of V3.2: an open, empty answer of V4.1 looks like one of V3.2's headers.
    for dialect in _WITH_SYSTEMS:
        opens = text.startswith(str(dialect.system_token))
        if opens or _any_in(text, _system_signs(dialect)):
            return _WITH_SYSTEMS
    if any(_any_in(text, _v32_signs(dialect)) for dialect in _OTHER_LAYOUT):
        return _OTHER_LAYOUT
    if any(all(tag in text for tag in _call_tags(dialect)) for dialect in _WITH_SYSTEMS):
        return _WITH_SYSTEMS
    with_systems = _WITH_SYSTEMS if _may_have_systems(text) else ()
    pictured = [dialect for dialect in _BARE if dialect.image_token]
    if any(str(dialect.image_token) in text for dialect in pictured):
        return (*pictured, *with_systems)
    effort = _effort_in_front(text)
    if effort:
        return [dialect for dialect in _BARE if effort in dialect.efforts.values()]
    bare_alone = any(_any_in(text, _v4_signs(dialect)) for dialect in _BARE)
    return (*_BARE, *with_systems, *(() if bare_alone else _OTHER_LAYOUT))


def _any_in(text: str, signs: Collection[str]) -> bool:
    return any(sign in text for sign in signs)


def _may_have_systems(text: str) -> bool:
    """Whether a prompt without the system token may be of a dialect that has one.

    A thinking prompt of such a dialect begins with the token, if it begins a conversation.
    """
    thinks = any(
        text.startswith(own.bos) and own.assistant + own.think_start in text
        for own in (dialect.tokens for dialect in _WITH_SYSTEMS)
    )
    return not thinks and not any(_call_tags(dialect)[0] in text for dialect in _BARE)


def _effort_in_front(text: str) -> str | None:
    """The effort text with which a prompt opens, of a dialect without a system token."""
    efforts = {
        (dialect.tokens.bos, effort) for dialect in _BARE for effort in dialect.efforts.values()
    }
    return next((e for bos, e in efforts if e and text.removeprefix(bos).startswith(e)), None)
