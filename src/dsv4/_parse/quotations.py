"""Calls that may be quoted (recovery.md, rules 24, 29, 40, 41, 44 and 46): the quotations around
them, and the text behind them that decides.

In an open quotation calls are tried: a twin of the reading makes them. The text that follows may
refuse the attempt; then all from the calls to the quotation's close is text. Once nothing can
refuse it any more, the calls stay calls.
"""

from __future__ import annotations

import re

from dsv4._completion.events import Diagnostic, DiagnosticKind
from dsv4._completion.limits import LONGEST_SPACE
from dsv4._completion.patterns import pattern
from dsv4._format import tokens
from dsv4._parse.quoting import PAIRS, QUOTES, Quoting
from dsv4._parse.reading import PROSE, Quotation, Reading
from dsv4._parse.strict_alongside import before_eos
from dsv4._parse.tag import CALL_TAGS, ENDS, Tag
from dsv4._parse.text_buffer import Refused, Steps

_MOST_TRIED = 3  # quotations in quotations
_UNMARKED_LINE = pattern(r"\n(?![ \t]*(?:[-*+]|\d{1,3}[.)])?[ \t]*>)(?!\s*\Z)")
_OUTDENTED_LINE = pattern(r"\n(?!\t| {4}|[ \t]*\r?(?:\n|\Z))")
# Deviations in calls that are not as they should be: in an open quotation, nothing is implied.
_UNCLEAN: frozenset[DiagnosticKind] = frozenset({"implied_close", "unexpected_text", "cut_short"})


# The beginning of calls.


def may_try(reading: Reading) -> bool:
    """Whether calls may be tried here: not too many attempts are open, and no call is in doubt."""
    is_doubted = bool(reading.refuses) or reading.doubt is not None
    return not is_doubted and len(reading.quotations) <= _MOST_TRIED


def around(reading: Reading, tag: Tag) -> Quotation | None:
    """The quotation that may hold calls, or parts of them, that begin at a tag; None if there is
    none (rules 24, 29, 40 and 44).

    `<example>`, "User: Clean up.", a block, `</example>` and prose: the block is one.
    """
    quoting, lines = reading.prose.quoting, reading.prose.quoting.lines()
    if lines.fenced or not may_try(reading):
        return None
    before = reading.buffer.just_before(tag.start)
    openings = quoting.enclosing(before, tag.start)
    partners, is_indented = _partners(quoting, before, tag.start), lines.is_indented
    for tried in reading.quotations:
        if tried.start == tag.start:
            return None
        # The attempt on which this one stands assumes that nothing closes them.
        openings = [one for one in openings if one not in tried.openings]
        if not tried.is_over:
            # Signs before an earlier block are judged behind this one, for both (rule 46).
            partners, is_indented = (), False
    if not (openings or partners or is_indented) and lines.is_quoted is None:
        return None
    return Quotation(tag.start, tuple(openings), partners, lines.is_quoted, is_indented)


def _partners(quoting: Quoting, before: str, place: int) -> tuple[str, ...]:
    """The closing quotes that would quote calls if they stood directly behind them.

    The partner of a quote directly before them (rule 24), or of one that is left open in the
    paragraph before: `He answered “Let me look.`, a blank line, the calls and `”` (rule 40).
    """
    if not quoting.open and before[-1:] in QUOTES:
        return tuple(PAIRS.get(before[-1], before[-1]))
    lapsed = quoting.lapsed_before(before, place)
    return tuple(close for one in lapsed for close in one.closes)


def attempt(reading: Reading, quotation: Quotation) -> Steps[Refused]:
    """Tries calls that a quotation may hold. Returns only if they are refused: up to where."""

    def assume(twin: Reading, level: int) -> None:
        quoting = twin.prose.quoting
        quotation.level = level
        twin.state = PROSE
        for earlier in twin.quotations:
            earlier.next_tried = min(earlier.next_tried, quotation.start)
        twin.quotations = (*twin.quotations, quotation)
        quoting.watch(quotation.openings)
        if quotation.fence:
            quoting.begin_line()

    refused = yield assume
    assert refused is not None
    return refused


# Behind calls.


def settle(reading: Reading, ahead: Tag, is_last: bool = True) -> Steps[None]:
    """Calls, or parts of calls that are removed, are over. The text that follows may say that they
    were quoted.

    While others follow, only a block quote's mark says so: indentation and a quote directly before
    the first are judged behind the last (rule 46: two indented blocks, and prose behind them).
    """
    if reading.quotations:
        _look_inside(reading, is_last)
    for quotation in reading.quotations:
        if not quotation.is_over and (is_last or quotation.is_marked is not None):
            yield from _settle(reading, quotation, ahead)
    check(reading)


def _look_inside(reading: Reading, is_last: bool) -> None:
    """Looks for a quotation's close inside calls that are not as they should be, behind the last
    tag."""
    quoting, start = reading.prose.quoting, _last_tag_end(reading, reading.prose.at)
    if start == reading.prose.at and (
        all(one.is_over for one in reading.quotations) or not _are_unclean(reading)
    ):
        return
    inside = reading.buffer.slice(start, reading.pos)
    for end in (tokens.THINK_END, tokens.EOS):  # which end the search
        inside = inside.partition(end)[0]
    if not is_last:
        inside = inside.rstrip()  # a blank line before the next block ends nothing
    for quotation in reading.quotations:
        if not quotation.is_over and inside.lstrip().startswith(quotation.partners or "\0"):
            raise Refused(quotation.level, start)
    quoting.begin_line(is_begun=True)  # the newline behind a tag is not a blank line
    quoting.follow(inside, start)
    check(reading, "\n")


def _last_tag_end(reading: Reading, start: int) -> int:
    """The end of the last tag of the calls that were read from `start` on."""
    ends = [
        tag.end
        for tag in reading.buffer.marked_in(start, reading.pos)
        if tag.closing or reading.rules.kind(tag) in CALL_TAGS
    ]
    return min(max(ends, default=start), reading.pos)


def _settle(reading: Reading, quotation: Quotation, ahead: Tag) -> Steps[None]:
    """Decides by the text directly behind the calls whether they were quoted."""
    quotation.is_over = True
    block = reading.buffer.slice(quotation.start, reading.pos)
    ended = ahead.kind in ENDS or (ahead.kind == "think" and reading.prose.reasoning)
    is_marked = quotation.is_marked or (quotation.is_marked is False and not ended)
    is_quoted = is_marked and _UNMARKED_LINE.search(block) is None
    prose_follows = ahead.kind in ("text", "brace") and bool(reading.buffer.at(ahead.start))
    if not is_quoted and quotation.is_indented and prose_follows:
        is_quoted = _OUTDENTED_LINE.search(block) is None
    if is_quoted or (yield from _is_closed(reading, quotation.partners)):
        raise Refused(quotation.level, reading.pos)


def _is_closed(reading: Reading, partners: tuple[str, ...]) -> Steps[bool]:
    """Whether one of these stands directly behind the calls, white space aside."""
    if not partners:
        return False
    buffer = reading.buffer
    at = yield from buffer.past_space(reading.pos, LONGEST_SPACE)
    if at - reading.pos > LONGEST_SPACE:
        return False
    for partner in partners:
        while partner.startswith(buffer.slice(at, at + len(partner))):
            if buffer.end > at + len(partner) or not (yield from buffer.more()):
                break
        behind = buffer.at(at + len(partner))
        # A quote behind a line's end and before a word opens the next quotation.
        is_new = "\n" in buffer.slice(reading.pos, at) and behind.isalpha()
        opens = is_new and partner[0] in PAIRS
        is_whole = behind != partner[0] or len(partner) == 1
        if buffer.slice(at, at + len(partner)) == partner and is_whole and not opens:
            return True
    return False


def note_text(reading: Reading, text: str) -> None:
    """Takes note of text that is shown behind calls that are tried."""
    if text.isspace():
        return
    for quotation in reading.quotations:
        quotation.is_behind = True
        if quotation.fence:  # calls behind these are text too, even if that is not known yet
            raise Refused(quotation.level, min(quotation.next_tried, reading.pos))


def check(reading: Reading, following: str | None = None) -> None:
    """Decides attempts by quotations that were open at the start of the calls, and were closed
    since or cannot be closed any more.

    `following` is the character behind the text that has come, if it is known.
    """
    quoting, tried = reading.prose.quoting, reading.quotations
    if not tried:
        return
    quoting.check(following)
    if quoting.closed:
        openings = {one.place: (q.level, one.kind) for q in tried for one in q.openings}
        for place, end in quoting.closed.items():  # the first counts, however the text was cut
            if place in openings:
                level, kind = openings[place]
                if any(one.fence and one.level > level for one in tried):
                    # Text behind the calls in a fence refuses those: then it closes nothing here.
                    note_text(reading, reading.buffer.slice(reading.pos, reading.prose.at))
                raise Refused(level, end, is_dropped=kind == "named", closed=place)
        quoting.closed.clear()  # none of them counts
    reading.quotations = tuple(
        q for q in tried if q.fence or not q.is_over or any(map(quoting.may_close, q.openings))
    )
    if not reading.quotations:
        quoting.watched = frozenset()


# The ends of sections and of the text.


def end_section(reading: Reading, end: int) -> None:
    """Reasoning or content ends: no quotation is open any more. A fence is, if more follows it."""
    check(reading, "\n")
    for quotation in reading.quotations:
        if quotation.fence:
            raise Refused(quotation.level, end)
    reading.quotations = ()


def end_text(reading: Reading, is_cut: bool) -> None:
    """All text ends.

    Where it was cut, a quotation might still have been closed behind prose (rule 29), and more of
    an example might have followed (rule 41).
    """
    check(reading, "\n")
    for quotation in reading.quotations:
        is_broken = bool(quotation.fence) and not _are_whole(reading, quotation)
        is_open = bool(quotation.fence) or quotation.is_behind
        if is_broken or (is_cut and is_open):
            end = before_eos(reading.buffer)
            raise Refused(quotation.level, end, is_dropped=bool(quotation.fence) and is_cut)
    reading.quotations = ()


def _are_whole(reading: Reading, quotation: Quotation) -> bool:
    """Whether all calls that were tried are made; or removed, if calls are forbidden."""
    tally, forbidden = reading.tally, reading.settings.forbidden
    is_made = forbidden or tally.calls_completed > quotation.made_before
    is_cut = tally.cut or unmade(reading) != quotation.unmade_before
    if not is_made or is_cut or thought_end(reading, quotation.start) is not None:
        return False
    # A fence that closes inside calls that are not as they should be is closed.
    text = reading.buffer.slice(quotation.start, reading.buffer.end)
    closes = re.search(rf"(?m)^[ \t]*{re.escape(quotation.fence)}", text) is not None
    return not (closes and _are_unclean(reading))


def _are_unclean(reading: Reading) -> bool:
    return any(isinstance(one, Diagnostic) and one.kind in _UNCLEAN for one in reading.events)


def thought_end(reading: Reading, start: int) -> int | None:
    """The end of the reasoning, even inside a value: it ends a fence too (rule 15)."""
    if not reading.prose.reasoning:
        return None
    at = reading.buffer.acting(start, reading.buffer.end).find(tokens.THINK_END)
    return None if at < 0 else start + at


def unmade(reading: Reading) -> int:
    """The number of calls that were met so far and are not made."""
    tally = reading.tally
    completed = tally.calls_seen if reading.settings.forbidden else tally.calls_completed
    return tally.calls_seen - completed + tally.calls_unread


def in_fence(reading: Reading, tag: Tag) -> Quotation:
    """Calls in a fence that may never be closed (rule 41)."""
    made, before = reading.tally.calls_completed, unmade(reading)
    fence = reading.prose.quoting.lines().fence
    return Quotation(tag.start, fence=fence, made_before=made, unmade_before=before)
