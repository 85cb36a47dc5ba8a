"""A call that is open: its parameters so far, and its end (recovery.md, rules 8 to 11, 14,
28 and 30).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dsv4._completion.events import AbortReason, DiagnosticKind
from dsv4._completion.json_text import is_item, json_string, members_of, object_in, typed_json
from dsv4._completion.limits import MOST_PARAMETERS
from dsv4._completion.patterns import pattern
from dsv4._format import tokens
from dsv4._format.spellings import BARS, CLOSING_BRACKETS, NEVER_ARGUMENTS
from dsv4._parse.reading import Reading
from dsv4._parse.tag import Tag
from dsv4._parse.tag_rules import IN_CALL, is_argument
from dsv4._parse.text_buffer import ANYWHERE, NOWHERE

# The name under which arguments are given that are not a JSON object.
RAW_PARAMETER = "arguments"
# Text that gives a key (rule 30): before a colon or an equals sign, in an attribute, or as an
# element.
_GIVES_KEY = (
    r"(?<![A-Za-z0-9_./-])[\"'`*_-]*{0}[\"'`*_]*\s*[:=：＝]|name\s*=\s*[\"']?{0}\b|>\s*{0}\s*</"
)
_GIVES_ANY = pattern(r"name\s*=\s*[\"']?[\w.-]+")
_GIVES_NAME = pattern(r"name=\"([^\"\n]+)\"")
# The type of a value with something behind it, and attributes in which a sign lost its place.
_TYPE_AND_MORE = pattern(r"(?:true|false)\s*\S")
# A key with more of its tag in it, as of `=" namepath"`, whose signs changed places, or of
# `name="path string="true">name="x" string="true">`, where the value looks like attributes.
_HOLDS_MORE = pattern(r"\A\s+name|=\"")
_ENDS_IN_VALUE = pattern(rf"(?:[{re.escape(BARS)}]|[\"'][\"'])\s*\Z")
_TYPES_AS_NAMES = frozenset({"stringtrue", "stringfalse"})


def _swallows_value(tag: Tag) -> bool:
    """Whether a parameter's tag lost a quote or its bracket, and has some of the value in it.

    In `string="true>a = "b">` the quote is missing, in `string="truels">` the value came too early,
    in `string="true"/` the bracket may be missing, and the slash may be the value; so may a bar or
    one more quote.
    """
    if tag.raw[-1] not in CLOSING_BRACKETS and (tag.self_closed or _ENDS_IN_VALUE.search(tag.raw)):
        return True
    given = tag.attributes.get("string", "")
    goes_on = given not in ("true", "false") and _TYPE_AND_MORE.match(given) is not None
    return goes_on or not _TYPES_AS_NAMES.isdisjoint(tag.attributes)


class GivenValue(NamedTuple):
    """A value that a call has: its place, and its text."""

    start: int
    raw: str
    json_text: str | None = None  # None: the value is `raw`, as a string

    @property
    def holds_markup(self) -> bool:
        """Whether the DSML token is in it, or a bracket of a tag is left at one of its ends."""
        text = self.raw if self.json_text is None else self.json_text
        is_cut = self.raw.startswith((">", '">')) or self.raw.endswith("</")
        return is_cut or tokens.DSML in text

    @property
    def as_json(self) -> str:
        return json_string(self.raw) if self.json_text is None else self.json_text


class Body(NamedTuple):
    """Arguments that came as one JSON object, and their place."""

    text: str
    start: int
    raw: str
    is_json: bool = True  # else they are given as one raw text
    # The parameter that holds them, and its JSON (rule 8): `arguments`, `{"city": "Paris"}`.
    lone: tuple[str, str] | None = None


class Call:
    """An open call: one object for all of its parameters.

    A call that is not allowed, or cannot be read, is read on without events; its text is recorded,
    and ends up in a diagnostic.
    """

    def __init__(
        self, reading: Reading, tag: Tag | None, name: str | None, hidden: DiagnosticKind | None
    ) -> None:
        self.reading = reading
        self.name = name or ""
        self.hidden: DiagnosticKind | None = hidden
        self._opening = None if tag is None else tag.raw.rstrip(CLOSING_BRACKETS)
        self._remarks: list[str] = []  # text that was not understood
        self.remarked_to = NOWHERE  # the end of the last of it
        self.body: Body | None = None
        self.given: dict[str, GivenValue] = {}  # the last value of each parameter
        self.is_plain = tag is not None and not tag.marked
        self.closed = tag is not None and tag.self_closed
        self.was_cut = False
        self.has_lost_value = False  # a parameter's close stands in it, and nothing is open
        if hidden is not None or reading.settings.whole_calls:
            reading.unseen_from = reading.pos
        if tag is not None and self._is_checked:
            reading.check_spelling(tag, padded=name != tag.name and tag.name is not None)
            reading.check_declared(self.name, tag.start, tag.raw)
        self.writer = reading.begin_call(self.name, visible=hidden is None)
        if tag is not None:
            reading.advance(tag.end)
            self._read_attributes(tag)

    def _read_attributes(self, tag: Tag) -> None:
        """Arguments in the tag itself (rule 14)."""
        reading = self.reading
        if self.name not in reading.tools.declared or tag.attributes.keys() <= NEVER_ARGUMENTS:
            return
        keys = reading.tools.keys(self.name)
        by_name = {} if "name" in tag.attributes else {"invoke": tag.name}  # `<D invoke="bash">`
        values = {
            attribute: value
            for attribute, value in tag.attributes.items()
            if is_argument(attribute, keys) and by_name.get(attribute) != value
        }
        if not values:
            return
        reading.report("argument_in_tag", tag.start, tag.raw)
        for attribute, value in values.items():
            types = reading.tools.types_of(self.name, attribute)
            members = [(attribute, typed_json(value, None, types))]
            if attribute == RAW_PARAMETER not in keys and (inside := object_in(value)) is not None:
                members = members_of(inside.text)
            for key, json_text in members:
                self.give(key, tag.start, tag.raw, json_text)

    @property
    def _is_checked(self) -> bool:
        """Whether the spelling of its tags is checked."""
        return self.hidden in (None, "forbidden_call")

    # Parameters.

    @property
    def may_have_body(self) -> bool:
        return not self.writer.keys and self.body is None

    @property
    def is_bare(self) -> bool:
        """Whether only the opening has come, and the tool has parameters (rule 33)."""
        is_untouched = self.may_have_body and not self._remarks
        return is_untouched and bool(self.reading.tools.keys(self.name))

    def is_opened_by(self, tag: Tag) -> bool:
        """Whether a tag is the call's own opening once more, with its bracket or without."""
        return tag.raw.rstrip(CLOSING_BRACKETS) == self._opening

    @property
    def lacks_arguments(self) -> bool:
        """Whether no argument has come, and the tool must have some (rule 42).

        Where the schema does not say which are required, it is enough that it declares any. A model
        writes `<D invoke name="bash">`, and then another call.
        """
        tools = self.reading.tools
        required = tools.requires(self.name)
        return self.may_have_body and bool(tools.keys(self.name) if required is None else required)

    def meaning(self, tag: Tag) -> str:
        """The meaning of a tag between parameters: a word of the table, or "container"."""
        rules = self.reading.rules
        if rules.is_container(tag, self.name):
            return "container"
        if self._is_parameter(tag):
            return "parameter"
        if self.is_plain and self.reading.block is not None and rules.is_plain_invoke(tag):
            return "next"  # call (rule 31)
        word = rules.meaning(tag, IN_CALL, self.name)
        closes = tag.closing and tag.label == self.name and not tag.broken
        return "close" if closes and word != "over" else word

    def _is_parameter(self, tag: Tag) -> bool:
        rules = self.reading.rules
        if tag.closing or tag.broken:
            return False
        valued = "string" in tag.attributes or "value" in tag.attributes
        if tag.self_closed and "name" in tag.attributes and valued:
            return tag.marked or self.name in self.reading.tools.declared
        if tag.marked:
            return rules.kind(tag, self.name) == "parameter"
        return rules.is_plain_argument(tag, self.name)

    def prepare_parameter(self, tag: Tag) -> str:
        """Begins a parameter, and returns its key."""
        reading, writer, rules = self.reading, self.writer, self.reading.rules
        key = rules.key(tag, self.name) if tag.marked or tag.name else tag.label
        self._spread_body()
        if key is None or (key not in reading.tools.keys(self.name) and _HOLDS_MORE.search(key)):
            self.drop("unreadable")
            key = key or ""
        elif key in writer.keys and self.hidden is None:
            self._report_again(key, tag)
        if _swallows_value(tag):
            self.drop("unreadable")
        if len(writer.keys) >= MOST_PARAMETERS and writer.visible:
            reading.report("limit", tag.start, tag.raw)
            self.drop("limit")
        if self._is_checked and tag.string not in ("true", "false") and not tag.self_closed:
            reading.report("untyped_parameter", tag.start, tag.raw)
        elif self._is_checked:
            padded = tag.name is not None and rules.key(tag, self.name) != tag.name
            reading.check_spelling(tag, padded)
        reading.advance(tag.end)
        return key

    def _report_again(self, key: str, tag: Tag) -> None:
        """Reports a key that is given again.

        Quotes its earlier value, which may be lost, unless that is in the prompt.
        """
        before = self.given.get(key)
        if before is None or before.start < 0:
            before = GivenValue(tag.start, tag.raw)
        self.reading.report("duplicate_parameter", before.start, before.raw)

    def may_list(self, key: str) -> bool:
        """Whether one more value of a parameter may make a list of all of them (rule 28): `paths`
        with `a.py`, and `paths` with `b.py`."""
        return key in self.given and "array" in self.reading.tools.types_of(self.name, key)

    def give(self, key: str, start: int, raw: str, json_text: str) -> None:
        """Writes a value. Those of a declared array make a list, if they come one by one."""
        before = self.given[key] if self.may_list(key) else None
        first = "{" if before is None else before.as_json
        if is_item(first) and is_item(json_text):
            self.writer.add_item(key, first, json_text)
        else:
            self.writer.add(key, json_text)
        self.given[key] = GivenValue(start, raw, json_text)

    def own_value(self, tag: Tag, key: str) -> str:
        """The value of a parameter that has it in an attribute (rules 7, 14 and 30): in
        `<D parameter name="city" string="Paris" />`, or `value="Paris"`."""
        types = self.reading.tools.types_of(self.name, key)
        if "value" in tag.attributes:
            return typed_json(tag.attributes["value"], tag.string, types)
        return typed_json(tag.attributes.get("string", ""), None, types)

    # A body, and remarks.

    def take_body(self, body: Body) -> None:
        """Takes arguments that came as JSON, or text in its place. They join parameters before."""
        joins = not self.may_have_body
        self._spread_body()
        keys, members = self.reading.tools.keys(self.name), members_of(body.text)
        fits = all((k in keys or not keys) and k not in self.writer.keys for k, _ in members)
        # Behind a body that was not JSON, the call is given up: a second one is not a part of it.
        is_lost = self.hidden == "dropped_call"
        if joins and (is_lost or not (fits and body.is_json)):
            self.remark(body.start, body.raw)
            self.drop("unreadable")
        else:
            self.body = body
            if joins:
                self._spread_body()

    def _spread_body(self) -> None:
        """Turns arguments that came as JSON into parameters, because others stand beside them."""
        if (body := self.body) is None:
            return
        for key, json_text in members_of(body.text) if body.lone is None else [body.lone]:
            self.give(key, body.start, body.raw, json_text)
        self.body = None
        if not body.is_json:
            self.drop("unreadable")

    def remark(self, start: int, raw: str) -> None:
        self._remarks.append(raw)
        if any(map(str.isalnum, raw)):
            self.remarked_to = start + len(raw)
        if self.hidden is None or start < self.reading.unseen_from:  # else the call is quoted whole
            self.reading.report("unexpected_text", start, raw)
        is_value = self.has_lost_value and self.remarked_to == start + len(raw)
        if is_value or (tokens.DSML in raw and "=" in raw):  # the rest of a parameter (rule 38)
            self.drop("unreadable")

    @property
    def _is_understood(self) -> bool:
        """Whether no argument stands in a remark (rules 11 and 30): `where: id = 7` has one."""
        if not self._remarks or self.may_have_body:
            return not self._remarks
        keys = self.reading.tools.keys(self.name)
        members = () if self.body is None else dict(members_of(self.body.text))
        for remark in self._remarks:
            if not keys and _GIVES_ANY.search(remark):
                return False
            for key in keys:
                lacks = key in remark and key not in self.writer.keys and key not in members
                if lacks and re.search(_GIVES_KEY.format(re.escape(key)), remark, re.MULTILINE):
                    return False
        return True

    @property
    def _breaks_schema(self) -> bool:
        """Whether markup is in a value, and the call breaks the tool's schema (rule 37).

        Then a tag was taken for a part of the value: the path `b.py</`, the DSML token and another
        call, without the content that has to be there; or a color `>red`. Or that other call's own
        `limit` came behind it: a number, where this tool's `limit` is a text.
        """
        if not any(value.holds_markup for value in self.given.values()):
            return False
        values = {key: (one.raw, one.as_json) for key, one in self.given.items()}
        opened = {name for raw, _ in values.values() for name in _GIVES_NAME.findall(raw)}
        tools = self.reading.tools
        return tools.breaks_schema(self.name, values) or any(
            tools.is_of_others(self.name, key, json_text, opened)
            for key, (_, json_text) in values.items()
        )

    # The end.

    def drop(self, reason: AbortReason, rest: str = "") -> None:
        """Gives up the call: it has no more events. `rest` is a member that was not written."""
        reading = self.reading
        self._spread_body()
        self.writer.abort(reason, rest)
        reading.unseen_from = min(reading.unseen_from, reading.pos)
        self.hidden = self.hidden or "dropped_call"

    def skip(self, tag: Tag) -> None:
        if self.hidden is None:
            self.reading.report("unexpected_tag", tag.start, tag.raw)
        self.reading.advance(tag.end)

    def close(self, tag: Tag) -> None:
        if self._is_checked:
            self.reading.check_spelling(tag)
        self.reading.advance(tag.end)
        self.complete()

    def complete_implied(self) -> None:
        if self.lacks_arguments:  # only an opening (rule 42)
            self.drop("unreadable")
        if self.hidden is None:
            self.reading.report("implied_close", self.reading.pos, "")
        self.complete()

    def complete(self) -> None:
        reading = self.reading
        is_lost = self.has_lost_value and self.lacks_arguments
        if self.hidden is None and (is_lost or not self._is_understood or self._breaks_schema):
            self.drop("unreadable")  # never run a call without the arguments it came with
        if self.hidden is None:
            self._end_complete()
        else:
            reading.report_span(self.hidden, reading.unseen_from, reading.pos)
        reading.unseen_from = ANYWHERE
        reading.call = None

    def _end_complete(self) -> None:
        reading, body = self.reading, self.body
        reading.close_call(self.writer, None if body is None else body.text)
        if body is not None and body.lone is not None:
            reading.report("unwrapped_arguments", reading.pos, "")
        keys = self.writer.keys if body is None else dict(members_of(body.text)).keys()
        reading.check_required(self.name, keys)

    def end(self) -> None:
        """The text ends inside the call (rule 10)."""
        reading, buffer = self.reading, self.reading.buffer
        reading.end_inside()
        if not buffer.stopped or self.is_bare:
            return self.cut()
        if reading.breaks_off(reading.pos):  # a parameter may be lost (rule 11)
            self.drop("unreadable")
            reading.advance(buffer.end)
        elif reading.pos < buffer.end:
            reading.report_cut(reading.pos)
        return self.complete_implied()

    def cut(self, rest: str = "") -> None:
        """Gives the call up where the text ends. `rest` is a member that was not written."""
        reading, buffer = self.reading, self.reading.buffer
        self._spread_body()
        self.writer.abort("cut_short", rest)
        if (start := reading.unseen_from) <= reading.pos:
            reading.advance(buffer.end)
            if self.hidden is None:
                reading.report_cut(start)
            else:
                reading.report_span(self.hidden, start, buffer.end)
        reading.unseen_from = ANYWHERE
        if reading.pos < buffer.end or not reading.tally.cut:
            reading.report_cut(reading.pos)
        reading.tally.cut = True  # even if the model ended the text: a quotation in it never ended
        self.was_cut = True
        reading.call = reading.block = None
