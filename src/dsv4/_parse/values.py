"""Values of parameters, JSON in place of parameters, and JSON in place of calls (recovery.md,
rules 7, 8, 14, 19, 21, 26, 30 and 32).
"""

from __future__ import annotations

from dsv4._completion.events import DiagnosticKind
from dsv4._completion.json_text import (
    JsonReading,
    json_string,
    member_text,
    members_of,
    object_in,
    object_text,
    read_json,
    read_value,
    typed_json,
)
from dsv4._completion.limits import LONGEST_SPACE
from dsv4._completion.patterns import pattern
from dsv4._format import tokens
from dsv4._format.spellings import BAR, CDATA, JSON_ARGUMENTS, PARAMETER_PREFIX
from dsv4._parse.call import RAW_PARAMETER, Body, Call, GivenValue
from dsv4._parse.json_calls import JsonCalls, complete_calls, json_calls_in
from dsv4._parse.reading import ParserState, Reading
from dsv4._parse.tag import CALL_TAGS, Tag
from dsv4._parse.text_buffer import Steps
from dsv4._parse.value_ends import CallValue, QuotingValue
from dsv4._parse.value_reader import Value

# The end of a value whose close is damaged: a bracket, the token, or a close with a bar in it,
# which a bracket or a line end may cut in two; and closes that lack their bracket.
_PART = (
    rf"(?:(?:<|&lt;)[/\\]{{0,2}}"
    rf"|</[^<>\n]{{0,32}}{BAR}[^<>\n]{{0,32}}[<>\n]{{0,2}}[^<>\n]{{0,32}}>?[ \w]{{0,32}}"
    rf"|{tokens.DSML}[ \w]{{0,32}}(?:</)?>?|</(?:invoke|tool_calls|calls)?>|parameter>)"
    r"\s{0,8}\Z"
)
_PART_OF_CLOSE = pattern(_PART)
_LONGEST_PART = 128
_LONGEST_END = 8
# The vocabulary has `></` and `}</` as one token each. If such a token changed places with the DSML
# token, its bracket is left behind that; if it was lost, a tag, an attribute or a brace stays open.
_TOKEN_AT_END = pattern(rf"{tokens.DSML}\W{{0,8}}\Z")
_PART_OR_OPEN_TAG = pattern(rf"<[^\s<>][^<>\n]{{0,96}}\Z|=\"[^\"<>\n]{{0,96}}\Z|{_PART}")
_OUTER_CLOSES = tuple(f"</{tokens.DSML}{gap}invoke>" for gap in ("", " "))
_UNENDED_CLOSES = tuple(f"</{tokens.DSML}{gap}parameter" for gap in ("", " "))


class ParameterValue(QuotingValue):
    """The value of a parameter.

    Strings are written as they come; values that are not strings, or may not be, are held.
    """

    ends_itself = False

    def __init__(self, reading: Reading, call: Call, key: str, tag: Tag) -> None:
        super().__init__(reading, call, key, tag)
        self.types = reading.tools.types_of(call.name, key)
        self.may_hold_all = lone = not call.writer.keys and reading.tools.may_unwrap(call.name, key)
        self.own_starts = [n[:2].lower() for n in (PARAMETER_PREFIX, key, tag.label) if n]
        untyped = tag.string not in ("true", "false")
        # A text without a type may still be unwrapped, so its start decides whether it streams.
        self._undecided = untyped and self.types == {"string"} and not lone
        is_held = lone or "value" in tag.attributes or call.may_list(key)
        if tag.string == "true" and not is_held:
            self._begin_string()

    def read_nested(self) -> Steps[bool]:
        """Reads parameters in the value of a parameter as an object (rule 32). False: it has none.

        A value that begins so and is anything else makes the call incomplete. For `filter`, say,
        `<D parameter name="lang" string="true">en</D parameter>` is `{"lang": "en"}`.
        """
        reading, rules, tool = self.reading, self.rules, self.call.name
        may_nest = self.types & {"array", "object"} and "string" not in self.types
        if not may_nest or self.tag.string == "true":
            return False
        ahead = yield from rules.look_past(self.start)
        if not ahead.marked or ahead.closing:
            return False
        reading.enter(ParserState.NESTED)
        members, ahead = yield from self._nested_members(ahead)
        is_closed = rules.role(ahead, tool) == "/parameter"
        if not is_closed and rules.role(ahead, tool) != "/invoke":
            self.call.drop("unreadable", rest=self.as_member)  # so that its key is shown
            return False
        self.end, text = ahead.start, object_text(members)
        text = text if "object" in self.types else f"[{text}]"
        reading.report("nested_parameters", self.start, self.raw)
        self.call.give(self.key, self.start, self.raw, text)
        self._leave(ahead.end if is_closed else ahead.start, ahead if is_closed else None)
        return True

    def _nested_members(self, ahead: Tag) -> Steps[tuple[dict[str, str], Tag]]:
        """Closed parameters whose keys the tool does not have, and the tag that follows them."""
        rules, tool = self.rules, self.call.name
        members, declared = dict[str, str](), self.reading.tools.keys(tool)
        while ahead.marked and not ahead.closing and ahead.kind == "parameter":
            key, close = rules.key(ahead, tool), (yield from self.buffer.next_marked(ahead.end))
            if key is None or key in members or key in declared:
                break
            if close is None or rules.role(close) != "/parameter":
                break
            text = self.buffer.slice(ahead.end, close.start)
            members[key] = typed_json(text, ahead.string, frozenset())
            ahead = yield from rules.look_past(close.end)
        return members, ahead

    def _begin_string(self) -> None:
        self.streams = True
        self.call.writer.open_string(self.key)

    @property
    def is_idle(self) -> bool:
        """Whether text in which no tag begins may be written as it comes."""
        return self.streams and self.call.writer.streams

    def take(self, to: int, is_rest: bool = False) -> None:
        reading, self.end = self.reading, to
        self._undecided = self._undecided and not is_rest
        if to <= reading.pos:
            return
        if self._undecided and not self._decide(reading.buffer.slice(reading.pos, to)):
            return
        if self.streams:
            text, reading.pos = reading.buffer.slice(reading.pos, to), to
            self.written.append(text)
            self.call.writer.write_string(text)

    def _decide(self, text: str) -> bool:
        """Whether it is decided now if the text is unwrapped (rule 7): `<![CDATA[7]]>`."""
        start, opening = text.lstrip(), CDATA[0]
        if len(text) <= LONGEST_SPACE and len(start) < len(opening) and opening.startswith(start):
            return False
        self._undecided = False
        if not start.startswith(opening):
            self._begin_string()
        return True

    def may_end(self, tag: Tag, own: bool) -> Steps[bool]:
        """Whether the value ends here. If that is doubtful, so are this call and those behind it.

        `cat <<E`, an invoke's close, another call, `E`: a here document that quotes calls (rule
        21).
        """
        reading, implied = self.reading, not own and tag.kind != "eos"
        if self.reads_strictly:
            return True
        returns = implied and self.reopens
        if returns and not reading.refuses and reading.doubt is None:
            yield from self._try_closed(tag)
            return False
        if implied or self.is_remarked or self.holds_tags:
            rest = "" if self.streams else self.as_member
            reading.begin_doubt(self.call.writer, rest, drops_if_cut=returns)
        return True

    def _try_closed(self, tag: Tag) -> Steps[None]:
        """Another call or block follows: reads on as if the value had ended, until it is clear.

        If closes are left over, it had not ended: they were quoted, and so was this tag.
        """

        def assume(twin: Reading, level: int) -> None:
            value, twin.value, twin.refuses = twin.value, None, level
            assert isinstance(value, ParameterValue)
            value.close(tag.start)

        refused = yield assume
        assert refused is not None
        reading = self.reading
        reading.quoted_to = max(reading.quoted_to, refused.to)
        self.quoted = True
        reading.report("quoted_markup", tag.start, tag.raw)

    def close(self, to: int, tag: Tag | None = None) -> None:
        raw = "".join(self.written) if self.streams else self.raw
        if self.streams:
            self.call.writer.close_string()
            self.call.given[self.key] = GivenValue(self.start, raw)
        else:
            self._give(raw)
        self._leave(to, tag)
        if self._ends_in_close(raw, tag) or self._is_json_with_tags(raw):
            self.call.drop("unreadable")

    def _is_json_with_tags(self, raw: str) -> bool:
        """Whether the value should be JSON, is not, and has tags in it or parts of them at its ends
        (rule 37): `null</D>`, a line end and `parameter<D parameter name="w"`, D being the token;
        `{">{}`, `{}</}`, where a bracket came twice."""
        if self.tag.string != "false":
            return False
        is_doubled = '">' in raw[:_LONGEST_END] or "</" in raw[-_LONGEST_END:]
        return (is_doubled or tokens.DSML in raw) and read_value(raw) is None

    def _leave(self, to: int, tag: Tag | None) -> None:
        self.reading.advance(max(to, self.reading.pos))
        if tag is not None:
            self.reading.check_spelling(tag)
            return
        self.reading.report("implied_close", to, "")
        if self.holds_close:  # it is unknown how much of it is quoted (rule 30)
            self.call.drop("unreadable")

    def _ends_in_close(self, raw: str, tag: Tag | None) -> bool:
        """Whether a value ends in a remainder of its close (rule 38), at `tag` or by implication.

        With D for the token: `ls</parameter D>` before the close of the call, or before an odd one
        such as `</D>`; `lsD` before a close without the token; `ls</D parameter` before its own.
        """
        if tag is not None and tag.raw == self.reading.tags.parameter_close:
            # Where the block is read strictly, this is the close that it had.
            is_lost = self.precedes_call and not self.reads_strictly
            has_outer = is_lost and raw.rstrip().endswith(_OUTER_CLOSES)
            return has_outer or raw.endswith(_UNENDED_CLOSES)
        last = max(len(raw) - _LONGEST_PART, 0)
        if tag is not None and not tag.marked:
            return _TOKEN_AT_END.search(raw, last) is not None
        if tag is not None and tag.bare and raw.count("{") > raw.count("}"):
            return True
        ends = _PART_OF_CLOSE if tag is None or not tag.bare else _PART_OR_OPEN_TAG
        return ends.search(raw, last) is not None

    def _give(self, raw: str) -> None:
        reading, block = self.reading, self.reading.block
        close = reading.tags.parameter_close[:-1]
        if close in raw and close in reading.buffer.acting(self.start, self.end):
            if block is not None:
                block.strict, block.reads_strictly = None, False
            if self.tag.string != "true":
                reading.report("quoted_markup", self.start, raw)
        json_text = self._typed(raw)
        body = object_in(raw) if self.may_hold_all else None
        if body is None:
            self.call.give(self.key, self.start, raw, json_text)
        else:
            self.call.body = Body(body.text, self.start, raw, lone=(self.key, json_text))

    def _typed(self, raw: str) -> str:
        """A parameter's text as JSON (rule 7)."""
        if not raw.strip() and "value" in self.tag.attributes:  # that is the value (rule 30)
            return self.call.own_value(self.tag, self.key)
        if self.tag.string != "false":
            return typed_json(raw, self.tag.string, self.types)
        reading = _read_and_report(self)
        return json_string(raw) if reading is None else reading.text

    def cut(self) -> None:
        if not self.streams:
            self.reading.advance(max(self.end, self.reading.pos))
        self.call.cut(rest="" if self.streams else self.as_member)

    @property
    def is_cut(self) -> bool:
        if self.streams:
            return False
        is_json = self.tag.string == "false" or (self.types and "string" not in self.types)
        looks = self.types != {"string"} and self.raw.lstrip()[:1] in ("{", "[")
        return bool(is_json or looks) and read_value(self.raw) is None


def _read_and_report(value: Value) -> JsonReading | None:
    reading = read_value(value.raw)
    if reading is None:
        value.reading.report("invalid_json", value.start, value.raw)
    elif reading.repaired:
        value.reading.report("repaired_json", value.start, value.raw)
    return reading


class JsonBody(CallValue):
    """A JSON object that stands in place of parameters (rules 8, 11 and 14)."""

    def __init__(self, reading: Reading, call: Call) -> None:
        super().__init__(reading, call, "")
        reading.report("json_body", self.start, "")

    @property
    def as_member(self) -> str:
        return member_text(RAW_PARAMETER, json_string(self.raw))

    def ends_at(self, tag: Tag) -> Steps[bool]:
        rules, kind = self.rules, self.rules.kind(tag, self.call.name)
        if tag.kind == "eos":
            return (yield from rules.ends_text(tag))
        if tag.broken or not tag.marked or tag.bare or kind not in CALL_TAGS:
            return False
        if kind == "parameter":  # behind text that is not JSON (rule 30)
            self.holds_tags = True
            return not tag.closing and self.lets_act(tag)
        if tag.closing:
            return (yield from self.ends_at_outer_close(tag, kind))
        if kind == "wrapper" or not self.buffer.opens_line(tag.start):
            return False
        return (yield from rules.is_certain(tag, self.reading.block is not None))

    def close(self, to: int, tag: Tag | None = None) -> None:
        self.reading.advance(max(to, self.reading.pos))
        reading = _read_and_report(self)
        text = object_text({RAW_PARAMETER: json_string(self.raw.rstrip())})
        arguments = text if reading is None else self._unwrapped(reading)
        self.call.take_body(Body(arguments, self.start, self.raw, is_json=reading is not None))
        if reading is None and self.holds_tags:
            self.call.drop("unreadable")  # parameters are part of text that is not JSON (rule 30)

    def _unwrapped(self, reading: JsonReading) -> str:
        """The arguments, unwrapped if they stand one level deeper than they should."""
        tool, tools = self.call.name, self.reading.tools
        assert isinstance(reading.value, dict)
        members = dict(members_of(reading.text))
        key = next(iter(members), "")
        unwraps = len(members) == 1 and tools.may_unwrap(tool, key)
        if len(members) == 2 and reading.value.get("name") == tool:
            key = next((k for k in JSON_ARGUMENTS if k in members), "")
            unwraps = bool(key) and not {"name", key} & tools.keys(tool).keys()
        inner = object_in(members[key]) if unwraps else None
        if inner is None:
            return reading.text.strip()
        self.reading.report("unwrapped_arguments", self.reading.pos, "")
        return inner.text.strip()

    @property
    def is_cut(self) -> bool:
        return read_json(self.raw) is None

    def cut(self) -> None:
        self.reading.advance(max(self.end, self.reading.pos))
        if not self.call.may_have_body:  # it stands behind parameters
            self.call.remark(self.start, self.raw)
            self.call.cut()
            return
        reading = read_json(self.raw)
        if reading is not None:
            self.call.body = Body(reading.text.strip(), self.start, self.raw)
        self.call.cut(rest=self.as_member if reading is None else "")


class JsonCallList(Value):
    """Calls written as JSON in a wrapper (rules 5 and 14)."""

    def ends_at(self, tag: Tag) -> Steps[bool]:
        """Whether a tag ends the list: only the wrapper's close and EOS do."""
        if tag.kind == "eos":
            return (yield from self.reading.rules.ends_text(tag))
        return self.reading.rules.role(tag) == "/wrapper"

    def close(self, to: int, tag: Tag | None = None) -> None:
        # An object in a wrapper is meant as a call, a list of anything else is not.
        self.reading.advance(max(to, self.reading.pos))
        self._make("dropped_call" if "{" in self.raw else "unexpected_text")

    def _make(self, otherwise: DiagnosticKind) -> None:
        """Makes the calls that can be read, even beside one that cannot (rule 9)."""
        reading, raw = self.reading, self.raw
        calls = json_calls_in(raw)
        if not calls.read:
            calls = JsonCalls(complete_calls(raw), calls.unread)
        if not calls.read:
            reading.report(otherwise, self.start, raw)
            reading.tally.cut = reading.tally.cut or otherwise == "cut_short"
            return
        forbidden = reading.settings.forbidden
        reading.report("forbidden_call" if forbidden else "json_calls", self.start, raw)
        for name, arguments in calls.read:
            reading.whole_call(name, arguments, reading.pos)
        if calls.unread and otherwise == "dropped_call":
            reading.report("dropped_call", reading.pos, "")

    def cut(self) -> None:
        """The text ends inside the list. Calls complete before the cut stay calls (rule 16)."""
        self.reading.advance(max(self.end, self.reading.pos))
        self._make("cut_short")
