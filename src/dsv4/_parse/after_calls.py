"""After a block, or a call without one (recovery.md, rules 9, 17, 21, 24, 28, 29 and 34): closing
tags are removed, and white space before the next call; and it is decided whether the calls were
quoted, and whether those in doubt are made.
"""

from __future__ import annotations

from dsv4._completion.events import Diagnostic, DiagnosticKind
from dsv4._completion.limits import LONGEST_SPACE
from dsv4._completion.patterns import pattern
from dsv4._format import tokens
from dsv4._format.spellings import PLAIN_CLOSES
from dsv4._parse.reading import PROSE, ParserState, Quotation, Reading, Refused
from dsv4._parse.tag import CALL_TAGS, ENDS, SECTION_ENDS, Tag
from dsv4._parse.tag_rules import is_plain_wrapper
from dsv4._parse.text_buffer import Steps

_UNMARKED_LINE = pattern(r"\n(?![ \t]*(?:[-*+]|\d{1,3}[.)])?[ \t]*>)(?!\s*\Z)")
_OUTDENTED_LINE = pattern(r"\n(?!\t| {4}|[ \t]*(?:\n|\Z))")
# After these the calls are not as they should be: where a quotation is open, nothing is implied.
_UNCLEAN: frozenset[DiagnosticKind] = frozenset({"implied_close", "unexpected_text", "cut_short"})


def read_after(reading: Reading, unwrapped: bool = False) -> Steps[None]:
    """Reads what follows calls. `unwrapped`: it was one without a wrapper, whose close may come."""
    reading.enter(ParserState.AFTER)
    rules, lacks_opening = reading.rules, unwrapped
    while True:
        ahead = yield from rules.look_ahead(reading.pos)
        if ahead.kind == "eos" and (reading.refuses or reading.doubt is not None):
            # Closing tags in a turn that the model made up are surplus too (rule 21).
            end, behind = yield from rules.after_eos(ahead)
            if behind.kind != "end" and (yield from rules.closes_later(end)):
                reading.note_surplus(ahead.end)
        if not _is_closer(reading, ahead):
            break
        role = rules.role(ahead)
        is_expected = lacks_opening and role in ("/invoke", "/wrapper")
        lacks_opening = lacks_opening and role == "/invoke"
        if ahead.marked and not is_expected:
            reading.note_surplus(ahead.end)
        reading.report("orphan_closer", ahead.start, ahead.raw)
        reading.prose.plain_wrapper = False
        reading.advance(ahead.end)
    is_plain = (yield from rules.opens_json_calls(ahead)) or rules.is_plain_invoke(ahead)
    yield from _leave(reading, ahead, unwrapped, is_plain)


def _is_closer(reading: Reading, tag: Tag) -> bool:
    if tag.marked or not tag.closing:  # one without its bracket too (rule 43)
        return tag.closing
    is_wrapper = reading.prose.plain_wrapper and is_plain_wrapper(tag.label)
    return is_wrapper or tag.label in PLAIN_CLOSES  # rule 34


def _leave(reading: Reading, ahead: Tag, unwrapped: bool, is_plain: bool) -> Steps[None]:
    begins = reading.rules.role(ahead) in ("wrapper", "invoke")
    ends = ahead.kind in ENDS | SECTION_ENDS
    if not begins:
        reading.settle()
    yield from settle_quotations(reading, ahead, is_last=not (begins or is_plain))
    if begins or is_plain:
        reading.advance(ahead.start)
    elif not ends:
        reading.report("text_after_block", reading.pos, "")
    if ends and unwrapped and reading.buffer.at(reading.pos) == "\n":
        reading.advance(reading.pos + 1)  # the newline of the call itself
    reading.prose.quoting.begin_line(is_begun=not (ends or begins or is_plain))
    reading.prose.at = reading.pos
    reading.enter(PROSE)


def settle_quotations(reading: Reading, ahead: Tag, is_last: bool = True) -> Steps[None]:
    """Calls are over, or what is removed like them: what follows may say that they were quoted.

    While others follow, only a block quote's mark says so: indentation and a quote directly before
    the first are judged behind the last (rule 46: two indented blocks, and prose behind them).
    """
    if reading.quotations:
        _look_inside(reading)
    for quotation in reading.quotations:
        if not quotation.is_over and (is_last or quotation.is_marked is not None):
            yield from _settle_quotation(reading, quotation, ahead)
    check_quotations(reading)


def _look_inside(reading: Reading) -> None:
    """Whether a close stands inside calls that are not as they should be, behind the last tag."""
    quoting, start = reading.prose.quoting, _last_tag_end(reading, reading.prose.at)
    if start == reading.prose.at and (
        all(one.is_over for one in reading.quotations)
        or not any(isinstance(e, Diagnostic) and e.kind in _UNCLEAN for e in reading.events)
    ):
        return
    inside = reading.buffer.slice(start, reading.pos)
    for end in (tokens.THINK_END, tokens.EOS):  # which end the search
        inside = inside.partition(end)[0]
    quoting.begin_line(is_begun=True)  # the newline behind a tag is no blank line
    quoting.follow(inside, start)
    check_quotations(reading, "\n")


def _settle_quotation(reading: Reading, quotation: Quotation, ahead: Tag) -> Steps[None]:
    """Whether what follows the calls says that they were quoted (rules 24 and 29)."""
    buffer = reading.buffer
    quotation.is_over = True
    at = yield from buffer.past_space(reading.pos, LONGEST_SPACE)
    block, behind = buffer.slice(quotation.start, reading.pos), buffer.at(at)
    closes = bool(behind) and behind == quotation.direct and at - reading.pos <= LONGEST_SPACE
    ended = ahead.kind == "think" and reading.prose.reasoning
    follows = not (ended or ahead.kind in ENDS)
    is_marked = quotation.is_marked or (quotation.is_marked is False and follows)
    is_marked = is_marked and _UNMARKED_LINE.search(block) is None
    prose_follows = bool(behind) and ahead.kind in ("text", "brace")
    is_indented = quotation.is_indented and _OUTDENTED_LINE.search(block) is None
    if closes or is_marked or (is_indented and prose_follows):
        raise Refused(quotation.level, reading.pos)


def _last_tag_end(reading: Reading, start: int) -> int:
    """Where the last tag of calls ends that were read from `start` on."""
    at = end = start
    while at < reading.pos:
        at = reading.buffer.next_mark(at)
        tag = reading.buffer.tag_at(at) if at < reading.pos else None
        at += 1
        if isinstance(tag, Tag) and tag.marked and reading.rules.kind(tag) in CALL_TAGS:
            at = end = tag.end
    return min(end, reading.pos)


def end_quotations(reading: Reading, is_cut: bool = False) -> None:
    """Reasoning, content or all text ends: no quotation is open any more.

    Where the text was cut, it might still have been closed behind prose (rule 29).
    """
    check_quotations(reading, "\n")
    for quotation in reading.quotations:
        if is_cut and quotation.is_behind:
            raise Refused(quotation.level, reading.buffer.end)
    reading.quotations = ()


def check_quotations(reading: Reading, following: str | None = None) -> None:
    """Whether a quotation was closed that was open where calls began; or can be no more.

    `following` is the character behind what has come, if it is known.
    """
    quoting, quotations = reading.prose.quoting, reading.quotations
    if not quotations:
        return
    quoting.check(following)
    for quotation in quotations:
        for place in quotation.places:
            if place in quoting.closed:
                raise Refused(quotation.level, quoting.closed[place])
    quoting.closed.clear()  # none of them counts
    still = {opening.place for opening in quoting.open}
    reading.quotations = tuple(q for q in quotations if not q.is_over or still & {*q.places})
    if not reading.quotations:
        quoting.watched = frozenset()
