"""Closes and parameters in prose, outside of any call: their ends, and whether they are dropped
(recovery.md, rules 5, 9, 17 and 34).
"""

from __future__ import annotations

from dsv4._completion.limits import LONGEST_ORPHANS, LONGEST_SPACE, LONGEST_TAG
from dsv4._parse.reading import Reading
from dsv4._parse.tag import CLOSES, ENDS, SECTION_ENDS, Tag
from dsv4._parse.text_buffer import Steps

# Roles of tags before which a parameter without a call is dropped.
_BEHIND_STRAY = ENDS | {"parameter", "/invoke", "/wrapper", "/think"}


def end_of_orphans(reading: Reading, tag: Tag) -> Steps[tuple[int, bool]]:
    """The end of a run of closing tags, and whether it is dropped.

    It is dropped at the end of reasoning or content, before a tag with the DSML token, and wherever
    it has its lines to itself.
    """
    to = tag.end
    ahead = yield from reading.rules.look_ahead(to)
    while reading.rules.role(ahead) in CLOSES and not ahead.bare:
        to = ahead.end
        ahead = yield from reading.rules.look_ahead(to)
    after = yield from reading.buffer.past_space(to, LONGEST_SPACE)
    space = reading.buffer.slice(to, after)
    alone = reading.prose.is_blank and ("\n" in space or len(space) > LONGEST_SPACE)
    acts = ahead.marked or ahead.kind in ("end", "eos", "bos", "think")
    return to, acts or alone


def end_of_stray(reading: Reading, tag: Tag) -> Steps[tuple[int, bool]]:
    """The end of a parameter on a line of its own without a call, and whether it is dropped.

    It is dropped with its value if its close comes soon, and more markup or the end of reasoning or
    content comes after that. If prose goes on, the parameter is only talked about.
    """
    rules = reading.rules
    close = yield from reading.buffer.next_marked(tag.end, tag.end + LONGEST_TAG, SECTION_ENDS)
    if close is None or rules.role(close) != "/parameter":
        return tag.end, False
    ahead = yield from rules.look_ahead(close.end)
    goes = rules.role(ahead) in _BEHIND_STRAY
    return close.end if goes else tag.end, goes


def end_of_lost(reading: Reading, tag: Tag) -> Steps[tuple[int, bool]]:
    """The end of parameters in the middle of a line, and whether they are dropped (rule 34).

    Their call has lost its opening. They are dropped, with their closes, if the closes of a call
    and then the end follow: "I call it:", a parameter "command" with "ls", its close, the call's
    and the block's.
    """
    rules, limit, at, ahead = reading.rules, tag.start + LONGEST_ORPHANS, tag.end, tag
    has_close = False
    while rules.role(ahead) == "parameter" and tag.start >= reading.prose.left_to:
        close = yield from reading.buffer.next_marked(at, limit)
        if close is None or rules.role(close) != "/parameter":
            break
        ahead = yield from rules.look_ahead(close.end)
        at = ahead.end if ahead.raw else close.end
    while rules.role(ahead) in ("/invoke", "/wrapper"):
        has_close, at = True, ahead.end
        ahead = yield from rules.look_ahead(at)
    goes = has_close and ahead.kind in ENDS and at <= limit
    if not goes:
        reading.prose.left_to = max(reading.prose.left_to, at)
    return at if goes else tag.end, goes
