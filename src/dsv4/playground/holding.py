"""Why a parser holds text back: what is waited for, and the rule that says so.

The kinds are those of the table "When they come" in docs/parsing.md; the numbers are the rules of
docs/recovery.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsv4.parsing.source import MARKS
from dsv4.parsing.states import State

# How much of a held text says why it is held: more than an ordinary tag.
HEAD = 160


@dataclass(frozen=True, slots=True)
class Hold:
    """A reason: the rules behind it, what is waited for, and how much can wait."""

    words: str
    rules: tuple[int, ...] = ()
    most: str = ""


NOTHING = "nothing"
HOLDS: dict[str, Hold] = {
    NOTHING: Hold("Nothing is held."),
    "tag": Hold("This may still become a tag.", (1, 18), "1024 characters"),
    "space": Hold("White space between tags: what follows decides.", (2, 4), "256 characters"),
    "blank_line": Hold("A line break, which goes if a block follows.", (17,), "2 characters"),
    "line_break": Hold(
        "A line break in a string: it goes if the string ends here unclosed.",
        (3,),
        "257 characters",
    ),
    "loose": Hold(
        "A tag in prose: what follows decides what it does.",
        (2, 17),
        "256 characters and the next tag",
    ),
    "next": Hold("A tag that acts only if what follows it fits.", (2, 4), "the next tag"),
    "close": Hold(
        "A tag in a string: what follows decides whether it ends the string.",
        (4, 11, 13),
        "256 characters and the tags after it",
    ),
    "remark": Hold("Text where only tags may stand.", (11,), "256 characters"),
    "closers": Hold(
        "Closing tags in prose: they go if nothing follows them.", (17,), "all of them"
    ),
    "value": Hold("A value whose type is known only from the whole of it.", (7, 8), "the value"),
    "json": Hold("JSON is passed on once it is whole.", (7, 8, 14), "the JSON"),
    "plain": Hold("A call without the DSML token, until it closes.", (1, 13), "the call"),
    "native": Hold("Calls as older models write them, until they close.", (13,), "the calls"),
    "fence": Hold(
        "A block in a code fence: an example while it reads strictly.", (15,), "the block"
    ),
    "stray": Hold("A parameter outside a call, until it is clear what it is.", (9,), "it"),
    "broken": Hold("After a tag that breaks off: the next tag decides.", (11,), "the next tag"),
    "invented": Hold("A turn that the model made up: all of it goes.", (17,), "the rest"),
    "stop": Hold("This may be the start of a stop string.", (), "one character less than it"),
}

# States in which everything waits for the same reason.
_BY_STATE: dict[State, str] = {
    State.ORPHANS: "closers",
    State.STRAY: "stray",
    State.FENCED: "fence",
    State.JUNK: "remark",
    State.REMARK: "remark",
    State.BROKEN: "broken",
    State.JSON: "json",
    State.PLAIN: "plain",
    State.NATIVE: "native",
    State.INVENTED: "invented",
}
# In the others it depends on what is held: white space alone, a tag that has not come to its end, a
# whole tag, something that begins as JSON does, or other text.
_BY_TEXT: dict[State, tuple[str, str, str, str, str]] = {
    State.PROSE: ("blank_line", "tag", "loose", "stop", "stop"),
    State.AFTER: ("space", "tag", "next", "space", "space"),
    State.BLOCK: ("space", "tag", "next", "json", "remark"),
    State.INVOKE: ("space", "tag", "next", "json", "remark"),
    State.VALUE: ("line_break", "tag", "close", "value", "value"),
    State.HALTED: (NOTHING,) * 5,
}


def why(state: State, head: str) -> str:
    """The reason, a key of `HOLDS`. `head` is the start of what is held, `HEAD` characters of it.

    The parser itself only waits; this looks at where it stands and at what waits.
    """
    if not head:
        return NOTHING
    known = _BY_STATE.get(state)
    if known is not None:
        return known
    by_space, by_tag, by_whole_tag, by_json, by_text = _BY_TEXT[state]
    text = head.lstrip()
    if not text:
        return by_space
    if text[0] in MARKS:
        return by_whole_tag if ">" in text else by_tag
    return by_json if text[0] in "{[" else by_text
