"""A tag, and a part that may become one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from dsv4._format import tokens
from dsv4._format.dialects import STRING_FALSE, STRING_TRUE
from dsv4._format.spellings import COMPLETION_TOKENS, NAME_ATTRIBUTES

# Kinds of tags that are one token each, and belong to no call.
TOKENS = frozenset(kind for _, kind, _ in COMPLETION_TOKENS)
CALL_TAGS = frozenset({"wrapper", "invoke", "parameter"})
# Roles (`TagRules.role`): closes of calls and their parts; kinds that end all text.
CLOSES = frozenset(f"/{kind}" for kind in CALL_TAGS)
ENDS = frozenset({"end", "eos"})
_BOOLEANS = frozenset({"true", "false"})
# The beginnings of opening and closing tags, as releases spell them.
_HEADS = f"<{tokens.DSML}", f"</{tokens.DSML}"
# Tokens that end reasoning or content.
SECTION_ENDS = frozenset({"eos", "think"})


class PartialTag(Enum):
    """The text ends inside something that may become a tag."""

    MAYBE = "nothing says yet that it is one"
    SURELY = "the DSML token is there, without a space"
    NAME = "the name of a tag without the DSML token, which may go on"
    PLAIN = "a tag without the DSML token, if it becomes one"


# The members that are looked up for every character: before Python 3.12, finding a member of an
# enumeration takes longer than three calls of a function.
MAYBE_TAG, TAG_NAME = PartialTag.MAYBE, PartialTag.NAME


@dataclass(slots=True, eq=False)
class Tag:
    """A tag, from `start` to `end` of the text.

    `kind` is "wrapper", "invoke", "parameter", "named" (perhaps as a tool or a parameter), or that
    of a token: "think", "eos", "bos", "role" or "native". For a place without a tag, when looking
    ahead, it is "end", "text", or "brace" for text that begins as JSON does; `raw` is empty.
    """

    kind: str
    start: int
    raw: str
    closing: bool = False
    label: str = ""
    marked: bool = False  # it has the DSML token
    spaced: bool = False  # with white space between it and the name
    attributes: dict[str, str] = field(default_factory=dict)
    self_closed: bool = False
    bare: bool = False  # it has no bracket before the DSML token
    broken: bool = False  # it began as a tag and is not a complete one
    mended: bool = False  # its token came twice, or its word or bracket is missing (38, 43)
    end: int = field(init=False)
    name: str | None = field(init=False)  # of the tool or parameter, which its attributes give

    def __post_init__(self) -> None:
        self.end = self.start + len(self.raw)
        self.name = None
        if attributes := self.attributes:
            self.name = attributes.get("name")
            if self.name is None:
                names = NAME_ATTRIBUTES.get(self.kind, ("name",))
                self.name = next((attributes[n] for n in names if n in attributes), None)

    @property
    def string(self) -> str | None:
        """The attribute that says whether the value is a string: "true", "false", or other text."""
        value = self.attributes.get("string")
        if value is None or value in _BOOLEANS:
            return value
        lowered = value.lower()
        return lowered if lowered in _BOOLEANS else value

    def is_spelled(self, label: str) -> bool:
        """Whether the strict grammar takes the tag as it stands, if a release calls it `label`."""
        rest = self.raw.removeprefix(f"{_HEADS[self.closing]}{label}")
        if self.closing or self.kind == "wrapper":
            return rest == ">"
        if self.kind == "invoke":  # white space before the name is free (format.md, section 8)
            return rest.lstrip() == f'name="{self.name}">'
        before = f' name="{self.name}'
        return rest == before + STRING_TRUE or rest == before + STRING_FALSE
