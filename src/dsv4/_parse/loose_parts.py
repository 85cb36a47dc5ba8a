"""Closes and parameters that stand in prose, in no call: where they end, and whether they go
(recovery.md, rules 5, 9, 17 and 34).
"""

from __future__ import annotations

from dsv4._completion.limits import LONGEST_ORPHANS, LONGEST_SPACE, LONGEST_TAG
from dsv4._parse.reading import Reading
from dsv4._parse.tag import CLOSES, ENDS, SECTION_ENDS, Tag
from dsv4._parse.text_buffer import Steps

# What a parameter without a call may stand before, if it goes.
_BEHIND_STRAY = ENDS | {"parameter", "/invoke", "/wrapper", "/think"}


def end_of_orphans(reading: Reading, tag: Tag) -> Steps[tuple[int, bool]]:
    """Where a run of closing tags ends, and whether it goes.

    It goes at the end of reasoning or content, before a tag with the DSML token, and wherever
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
    """A parameter on a line of its own, with no call around it: it goes with its value.

    That is, if its close comes soon, and after it more markup or the end of reasoning or
    content; where prose goes on it is talked about.
    """
    rules = reading.rules
    close = yield from reading.buffer.next_marked(tag.end, tag.end + LONGEST_TAG, SECTION_ENDS)
    if close is None or rules.role(close) != "/parameter":
        return tag.end, False
    ahead = yield from rules.look_ahead(close.end)
    goes = rules.role(ahead) in _BEHIND_STRAY
    return close.end if goes else tag.end, goes


def end_of_lost(reading: Reading, tag: Tag) -> Steps[tuple[int, bool]]:
    """Parameters in the middle of a line whose call has lost its opening (rule 34).

    They go, with their closes, if the closes of a call and then the end follow: "I call it:",
    a parameter "command" with "ls", its close, the call's and the block's.
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
