"""Values: text, or JSON, up to the markup that ends it (recovery.md, rules 3 and 4)."""

from __future__ import annotations

import re

from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.invokes import keep_in_value, keep_newline
from dsv4.parsing.machine import BAR, Machine, Value, Verdict
from dsv4.parsing.marks import next_mark
from dsv4.parsing.states import State
from dsv4.parsing.tags import Partial, Tag, read_tag
from dsv4.parsing.verdicts import open_quote

# What counts in JSON: outside its strings, and inside.
_JSON_MARK = re.compile(f'["<{BAR}]')
_JSON_STRING_MARK = re.compile(r'["\\\n]')


def read_value(m: Machine) -> bool:
    value = m.value
    assert value is not None
    at, bracket = m.pos, -1
    while True:
        at, bracket = next_mark(m.text, at, bracket)
        if at == len(m.text):
            _take(m, value, at)
            return False
        going_on = _pass_tag(m, value, at)
        if isinstance(going_on, bool):
            return going_on
        at = going_on


def _pass_tag(m: Machine, value: Value, at: int) -> int | bool:
    """Where the value goes on behind what stands at `at`; or whether there is something to do."""
    tag = read_tag(m.text, at, plain=True)
    if tag is None:
        return at + 1
    if isinstance(tag, Partial):
        _take(m, value, at)
        return m.end_in_markup()
    verdict = value.judge(m, tag)
    if verdict is Verdict.TEXT:
        return tag.end
    _take(m, value, at)
    if verdict is Verdict.WAIT:
        return False
    if verdict is Verdict.QUOTE:
        open_quote(m, value, tag)
        return tag.end
    if verdict is Verdict.SPELLED:
        if value.streams:  # held values are looked at when they end
            m.report(kinds.QUOTED_MARKUP, at, tag.end)
        return tag.end
    _end(m, value, tag, verdict)
    return True


def _end(m: Machine, value: Value, tag: Tag, verdict: Verdict) -> None:
    if verdict is Verdict.IMPLIED:
        value.newline = ""
        m.report(kinds.IMPLIED_CLOSE, tag.start, tag.start)
    else:
        keep_newline(m, value)
    if verdict is Verdict.CLOSE:
        m.check_spelling(tag)
        m.advance(tag.end)
    value.end(m, value)


def _take(m: Machine, value: Value, to: int) -> None:
    """Takes text up to `to` into the value, but for one newline at its end."""
    if to == m.pos:
        return
    text = m.text[m.pos : to]
    m.advance(to)
    take_text(m, value, text)


def take_text(m: Machine, value: Value, text: str) -> None:
    if value.newline:
        text = value.newline + text
    value.newline = _newline_at_end(text)
    keep_in_value(m, value, text[: len(text) - len(value.newline)])


def _newline_at_end(text: str) -> str:
    """The newline that a text ends with, or the first half of one."""
    if text[-1] == "\n":
        return "\r\n" if text[-2:-1] == "\r" else "\n"
    return "\r" if text[-1] == "\r" else ""


# JSON is held until it ends, with an eye on its strings.


def read_json(m: Machine) -> bool:
    value = m.value
    assert value is not None
    text, at = m.text, m.pos
    while mark := (_JSON_STRING_MARK if value.in_string else _JSON_MARK).search(text, at):
        at = mark.start()
        if mark[0] == '"':
            value.in_string = not value.in_string
            at += 1
        elif mark[0] == "\n":
            return _read_again(m, value)
        elif mark[0] == "\\":
            if at + 1 == len(text):
                break
            at += 2
        else:
            going_on = _pass_tag(m, value, at)
            if isinstance(going_on, bool):
                return going_on
            at = going_on
    _take(m, value, len(text) if mark is None else at)
    return m.final and value.in_string and _read_again(m, value)


def _read_again(m: Machine, value: Value) -> bool:
    """The JSON is broken: its quotes mean nothing, and the first closer that fits ends it."""
    keep_newline(m, value)
    held = value.raw
    value.held = []
    value.quotes = []
    value.in_string = False
    if m.recorded is not None:
        m.recorded = ["".join(m.recorded)[: -len(held) or None]]
    m.base += m.pos - len(held)
    m.text = held + m.rest
    m.pos = 0
    m.state = State.VALUE
    return True
