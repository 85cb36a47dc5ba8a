"""The text after a block, or after a call without one (recovery.md, rules 9, 17, 21, 28 and 34).

Closing tags are removed, and white space before the next call. Here it is decided whether calls in
doubt are made.
"""

from __future__ import annotations

from dsv4._format.spellings import PLAIN_CLOSES
from dsv4._parse import quotations
from dsv4._parse.reading import PROSE, ParserState, Reading
from dsv4._parse.tag import ENDS, SECTION_ENDS, Tag
from dsv4._parse.tag_rules import is_plain_label, is_plain_wrapper
from dsv4._parse.text_buffer import Steps


def read_after(reading: Reading, unwrapped: bool = False) -> Steps[None]:
    """Reads the text behind calls. `unwrapped`: a call without a wrapper, whose close may come."""
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


def _may_call(tag: Tag) -> bool:
    """Whether calls without the DSML token may follow, or those of older models."""
    is_plain = is_plain_label(tag.label) and not (tag.marked or tag.closing)
    return tag.kind == "native" or is_plain


def _leave(reading: Reading, ahead: Tag, unwrapped: bool, is_plain: bool) -> Steps[None]:
    begins = reading.rules.role(ahead) in ("wrapper", "invoke")
    ends = ahead.kind in ENDS | SECTION_ENDS
    if not begins:
        reading.settle()
    yield from quotations.settle(reading, ahead, is_last=not (begins or _may_call(ahead)))
    if begins or is_plain:
        reading.advance(ahead.start)
    elif not ends:
        reading.report("text_after_block", reading.pos, "")
    if ends and unwrapped and reading.buffer.at(reading.pos) == "\n":
        reading.advance(reading.pos + 1)  # the newline of the call itself
    reading.prose.quoting.begin_line(is_begun=not (ends or begins or is_plain))
    reading.prose.at = reading.pos
    reading.enter(PROSE)
