"""What a tag means inside a value: where values end (recovery.md, rules 3 and 4)."""

from __future__ import annotations

from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.machine import Ahead, Machine, Value, Verdict
from dsv4.parsing.tags import Tag


def judge_in_value(m: Machine, tag: Tag) -> Verdict:
    """A tag in the value of a parameter."""
    value = m.value
    assert value is not None
    kind = m.kind(tag)
    if tag.kind == "eos" and not value.quotes:
        return _judge_eos(m, tag)
    if kind not in ("wrapper", "invoke", "parameter"):
        return Verdict.TEXT
    if tag.plain and not (value.tag is not None and value.tag.plain):
        return _judge_plain(m, tag, kind)
    if value.quotes and not (tag.closing and kind not in value.quotes):
        return _count_quoted(value, tag, kind)
    if tag.bare and not _opens_line(m, tag):
        return Verdict.TEXT
    if not tag.closing:
        return _OPENERS[kind](m, tag)
    return _CLOSERS[kind](m, tag)


def _opens_line(m: Machine, tag: Tag) -> bool:
    if tag.start > m.pos:
        return m.text[tag.start - 1] == "\n"
    return m.value is not None and m.value.newline[-1:] == "\n"


def _judge_eos(m: Machine, tag: Tag) -> Verdict:
    """EOS ends a value only where the text ends."""
    if tag.end < len(m.text):
        return Verdict.TEXT
    return Verdict.IMPLIED if m.final else Verdict.WAIT


def _judge_plain(m: Machine, tag: Tag, kind: str) -> Verdict:
    """A tag without the DSML token is text, but for a close with the right markup behind it."""
    if kind != "parameter" or not tag.closing:
        return Verdict.TEXT
    ahead = m.follow(tag.end)
    if ahead is Ahead.MORE:
        return Verdict.WAIT
    marked = isinstance(ahead, Tag) and not ahead.plain
    return Verdict.CLOSE if marked and _may_follow_close(m, ahead) else Verdict.TEXT


# Closing tags.


def _judge_parameter_close(m: Machine, tag: Tag) -> Verdict:
    ahead = m.follow(tag.end)
    if ahead is Ahead.MORE:
        return Verdict.WAIT
    return Verdict.CLOSE if _may_follow_close(m, ahead) else Verdict.SPELLED


def _may_follow_close(m: Machine, ahead: Tag | Ahead) -> bool:
    if not isinstance(ahead, Tag):
        return ahead is Ahead.END
    kind = m.kind(ahead)
    if kind == "parameter":
        return not ahead.closing
    if kind == "wrapper":
        return ahead.closing
    return kind in ("invoke", "eos")


def _judge_invoke_close(m: Machine, tag: Tag) -> Verdict:
    ahead = m.follow(tag.end)
    if ahead is Ahead.MORE:
        return Verdict.WAIT
    ends = _is_end(ahead) or m.opens(ahead, "invoke") or _is_wrapper(m, ahead)
    return Verdict.IMPLIED if ends else Verdict.TEXT


def _judge_wrapper_close(m: Machine, tag: Tag) -> Verdict:
    if _opens_line(m, tag):
        return Verdict.IMPLIED
    ahead = m.follow(tag.end)
    if ahead is Ahead.MORE:
        return Verdict.WAIT
    ends = _is_end(ahead) or m.opens(ahead, "wrapper") or m.closes(ahead, "think")
    return Verdict.IMPLIED if ends else Verdict.TEXT


def _is_end(ahead: Tag | Ahead) -> bool:
    return ahead is Ahead.END or (isinstance(ahead, Tag) and ahead.kind == "eos")


def _is_wrapper(m: Machine, ahead: Tag | Ahead) -> bool:
    return m.opens(ahead, "wrapper") or m.closes(ahead, "wrapper")


# Opening tags.


def _judge_parameter(m: Machine, tag: Tag) -> Verdict:
    named = m.key(tag) is not None
    return Verdict.IMPLIED if named and _opens_line(m, tag) else Verdict.TEXT


def _judge_invoke(m: Machine, tag: Tag) -> Verdict:
    name = m.called(tag)
    ends = _opens_line(m, tag)
    if name is None or (ends and not m.wrapped and not m.tools.declares(name)):
        return Verdict.TEXT
    certain = m.is_certain(tag, m.wrapped)
    if certain is None:
        return Verdict.TEXT if m.final else Verdict.WAIT
    if not certain:
        return Verdict.TEXT
    return Verdict.IMPLIED if ends else Verdict.QUOTE


def _judge_wrapper(m: Machine, tag: Tag) -> Verdict:
    ahead = m.follow(tag.end)
    if ahead is Ahead.MORE:
        return Verdict.WAIT
    return Verdict.QUOTE if m.opens(ahead, "invoke") else Verdict.TEXT


_OPENERS = {
    "parameter": _judge_parameter,
    "invoke": _judge_invoke,
    "wrapper": _judge_wrapper,
}
_CLOSERS = {
    "parameter": _judge_parameter_close,
    "invoke": _judge_invoke_close,
    "wrapper": _judge_wrapper_close,
}


# Quoted regions: their tags are counted, and are text until their own close.


def open_quote(m: Machine, value: Value, tag: Tag) -> None:
    m.report(kinds.QUOTED_MARKUP, tag.start, tag.end)
    if not tag.self_closed:
        value.quotes = [m.kind(tag) or ""]


def _count_quoted(value: Value, tag: Tag, kind: str) -> Verdict:
    if tag.bare:
        return Verdict.TEXT
    if tag.closing:
        while value.quotes.pop() != kind:
            pass
    elif not tag.self_closed:
        value.quotes.append(kind)
    return Verdict.TEXT


# JSON that stands for more than one value.


def judge_in_body(m: Machine, tag: Tag) -> Verdict:
    """A tag behind a JSON body, or inside a broken one."""
    if tag.kind == "eos":
        return _judge_eos(m, tag)
    if m.closes(tag, "invoke") or (m.closes(tag, "wrapper") and not tag.plain):
        verdict = _CLOSERS[m.kind(tag) or ""](m, tag)
        return Verdict.BEFORE if verdict is Verdict.IMPLIED else verdict
    if m.opens(tag, "invoke") and not tag.plain and _opens_line(m, tag):
        certain = m.is_certain(tag, m.wrapped)
        if certain is None and not m.final:
            return Verdict.WAIT
        return Verdict.BEFORE if certain else Verdict.TEXT
    return Verdict.TEXT


def judge_in_list(m: Machine, tag: Tag) -> Verdict:
    """A tag behind a list of calls."""
    if tag.kind == "eos":
        return _judge_eos(m, tag)
    return Verdict.BEFORE if m.closes(tag, "wrapper") and not tag.plain else Verdict.TEXT
