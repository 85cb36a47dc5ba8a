"""Parameters inside of a parameter, in place of an object or a list (recovery.md, rule 32)."""

from __future__ import annotations

from dsv4._parse import events as kinds
from dsv4._parse.blocks import GivenValue, ParameterOpening
from dsv4._parse.call_arguments import json_string, list_text, object_text, read_json, typed_json
from dsv4._parse.machine import Machine, Move, ParserState
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.tag_rules import CALL_TAGS


class NestedParametersReader:
    """The value of a parameter that begins with a tag, and should be an object or a list.

    If it holds nothing but parameters that the tool does not have, and they are closed, they are
    its members. Anything else makes the call incomplete, and the value is read as any other.
    """

    def __init__(self, machine: Machine, opening: ParameterOpening) -> None:
        self._machine = machine
        self._source = machine.source
        self._opening = opening
        self._at = machine.source.pos
        self._member: Tag | None = None  # that is open
        self._members: dict[str, str] = {}

    def read(self) -> Move | None:
        while True:
            tag = self._next_tag()
            if tag is None:
                self._source.set_aside(self._at)
                return None
            move = self._read_tag(tag) if isinstance(tag, Tag) else self._leave()
            if move is not None:
                return move

    def _next_tag(self) -> Tag | bool | None:
        """The next tag, False where something else stands, None to wait."""
        source = self._source
        if self._member is not None:
            while True:
                self._at, tag = source.next_tag(self._at)
                if tag is None or tag.marked or tag.kind == "eos":
                    return tag
                self._at += 1
        self._at = source.past_all_space(self._at)
        if self._at == source.end:
            return None
        found = source.tag_at(self._at) if source.is_mark(self._at) else None
        return None if isinstance(found, PartialTag) else found or False

    def _read_tag(self, tag: Tag) -> Move | None:
        kind = self._machine.rules.kind(tag)
        if self._member is not None:
            if not tag.closing or kind != "parameter":
                if kind in CALL_TAGS or tag.kind == "eos":
                    return self._leave()
            else:
                self._add(self._member, tag)
        elif tag.marked and tag.closing and kind in ("parameter", "invoke") and self._members:
            return self._close(tag, is_own=kind == "parameter")
        elif self._begins_member(tag, kind):
            self._member = tag
        else:
            return self._leave()
        self._at = tag.end
        return None

    def _begins_member(self, tag: Tag, kind: str | None) -> bool:
        keys = self._machine.tools.keys(self._opening.invoke.name)
        name = tag.name
        if kind != "parameter" or not tag.marked or tag.closing or tag.broken or tag.self_closed:
            return False
        return name is not None and name not in self._members and name not in keys

    def _add(self, opening: Tag, close: Tag) -> None:
        source = self._source
        text = source.peek_aside() + source.slice(source.pos, close.start)
        raw = text[opening.end - (close.start - len(text)) :]
        found = read_json(raw) if opening.string == "false" else None
        value = json_string(raw) if found is None else found.text
        if opening.string not in ("true", "false"):
            value = typed_json(raw, frozenset())
        self._members[opening.name or ""] = value
        self._member = None

    def _close(self, tag: Tag, is_own: bool) -> Move:
        machine, source, (invoke, key, _, _) = self._machine, self._source, self._opening
        source.set_aside(tag.start)
        start, raw = source.aside_from, source.aside()
        value = object_text(self._members)
        types = machine.tools.types_of(invoke.name, key)
        json_text = value if "object" in types else list_text([value])
        machine.report_raw(kinds.NESTED_PARAMETERS, start, raw)
        invoke.give(key, GivenValue(start, raw, json_text))
        if is_own:
            machine.check_spelling(tag)
            source.advance(tag.end)
        else:
            machine.report_raw(kinds.IMPLIED_CLOSE, source.pos, "")
        return (ParserState.INVOKE,)

    def _leave(self) -> Move:
        """It is something else: nobody knows what it means."""
        self._source.put_back()
        self._opening.invoke.drop("unreadable")
        return (self._opening.state, self._opening)

    def end(self) -> Move | None:
        self._source.put_back()
        if self._source.stopped:
            return self._leave()
        return (self._opening.state, self._opening)
