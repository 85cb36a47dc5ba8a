"""What a tag means where it stands: odd closing tags (recovery.md, rule 13), and calls without the
DSML token (rules 1, 13 and 14).

An odd closing tag does not properly say what it closes: it has no name or an unknown one, no DSML
token, or no slash. It closes only in a run: nothing but white space stands between it and the
close of the next outer level, odd or not, and so on to a proper close, EOS, or the end with
everything closed; or it stands before what begins the next of its kind.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from dsv4._format import tokens
from dsv4._format.spellings import (
    ELEMENT_ATTRIBUTES,
    EXAMPLE_NAMES,
    JSON_WRAPPERS,
    NEVER_ARGUMENTS,
    PARAMETER_CONTAINERS,
    PLAIN_INVOKES,
    PLAIN_WRAPPER_END,
    PLAIN_WRAPPER_PREFIXES,
    RELEASED_LABELS,
    TAG_PREFIXES,
    WRAPPER_ENDS,
)
from dsv4._parse.declared import DeclaredTools
from dsv4._parse.lexer import HEAD
from dsv4._parse.limits import LONGEST_SPACE
from dsv4._parse.patterns import pattern
from dsv4._parse.reasons import Ended
from dsv4._parse.source import MARKS, TextSource
from dsv4._parse.tag import TOKENS, PartialTag, Tag

# A bracket too many, before the head of a tag.
_DOUBLED = f"<<{tokens.DSML}"


# How the name of a tag begins.
_LABEL_START = pattern(r"[^\s<>=/]+")
_PREFIXES = tuple(prefix for prefix, _ in TAG_PREFIXES)


class Lookahead(Enum):
    """What stands ahead, where it is no tag."""

    MORE = "more text must come first"
    END = "the end of the text"
    TEXT = "text"
    BRACE = "text that begins as JSON objects and lists do"


class TagRules:
    """Answers questions about tags, from the text around them and the declared tools."""

    __slots__ = ("_doubled", "_inner", "source", "tools")

    def __init__(self, source: TextSource, tools: DeclaredTools) -> None:
        self.source = source
        self.tools = tools
        # The last tag that was found behind a bracket too many, and both as one.
        self._inner: Tag | None = None
        self._doubled: Tag | None = None

    def look_ahead(self, at: int) -> Tag | Lookahead:
        """What stands at `at`, after optional white space."""
        after = self.source.past_space(at)
        if after - at > LONGEST_SPACE:
            return Lookahead.TEXT
        ahead = self._look_at(after)
        doubled = self.doubled(after) if ahead is Lookahead.TEXT else None
        if doubled is None:
            return ahead
        return Lookahead.MORE if isinstance(doubled, PartialTag) else doubled

    def look_past(self, at: int) -> Tag | Lookahead:
        """What stands at `at`, after any amount of white space: in calls, and behind EOS."""
        return self._look_at(self.source.past_all_space(at))

    def _look_at(self, at: int) -> Tag | Lookahead:
        source = self.source
        if at == source.end:
            return Lookahead.END if source.final else Lookahead.MORE
        character = source.text[at - source.base]
        if character in "{[":
            return Lookahead.BRACE
        if character not in MARKS:
            return Lookahead.TEXT
        tag = source.tag_at(at)
        if isinstance(tag, PartialTag):
            return Lookahead.END if source.final else Lookahead.MORE
        return Lookahead.TEXT if tag is None or tag.broken else tag

    def doubled(self, at: int) -> Tag | PartialTag | None:
        """A tag that opens something, with a bracket too many before it (rule 28)."""
        source = self.source
        rest = source.slice(at, at + len(_DOUBLED))
        if rest == _DOUBLED:
            found = source.tag_at(at + 1)
            if isinstance(found, Tag):
                if found.broken:
                    return None
                if found is not self._inner:  # it is asked for again and again
                    self._inner, self._doubled = found, found.with_bracket(rest[0])
                return self._doubled
            return None if source.final else found
        waits = len(rest) > 1 and _DOUBLED.startswith(rest) and not source.final
        return PartialTag.MAYBE if waits else None

    def may_become_call(self, at: int) -> bool:
        """Whether the tag in which the text ends, and which begins at `at`, may be a call's.

        The token alone says nothing where the caller knows how the text ended, but for a length
        (rule 33).
        """
        head = self.source.match(HEAD, at)
        if head is None:
            return False
        label = _LABEL_START.match(self.source.text, head.end())
        begun = label[0].lower() if label is not None else ""
        if not begun:
            rest = self.source.slice(self.source.place(head.end()), self.source.end)
            return not rest and self.source.ended in (None, Ended.LENGTH)
        is_whole = self.source.place(head.end()) + len(begun) < self.source.end
        if begun.startswith(_PREFIXES):
            return True
        if is_whole:
            return begun in map(str.lower, self.tools.parameters)
        names = (*_PREFIXES, *map(str.lower, self.tools.parameters))
        return any(name.startswith(begun) for name in names)

    def is_end(self, ahead: Tag | Lookahead) -> bool:
        """Whether the text ends here, or EOS stands here."""
        return ahead is Lookahead.END or (isinstance(ahead, Tag) and ahead.kind == "eos")

    def kind(self, tag: Tag, tool: str | None = None) -> str | None:
        """What a tag is, inside a call of `tool` or outside. None: nothing that acts.

        A tag may be named as a declared tool, or as a parameter of the call's tool.
        """
        if not tag.marked or not tag.label or tag.label in RELEASED_LABELS or tag.name is not None:
            if tag.kind != "named":
                return tag.kind
            typed = tool is not None and tag.attributes and self._is_typed_key(tag, tool)
            return "parameter" if typed else None
        if tool is not None and tag.label in self.tools.keys(tool):
            return "parameter"
        if tag.label in self.tools.parameters:
            return "invoke"
        return None if tag.kind == "named" else tag.kind

    def _is_typed_key(self, tag: Tag, tool: str) -> bool:
        """Whether a tag of another name says all that a parameter's does (rule 14)."""
        return tag.marked and tag.string is not None and tag.name in self.tools.keys(tool)

    def names_tool(self, tag: Tag) -> bool:
        """Whether a wrapper's tag names a declared tool, as only an invoke's has to."""
        return tag.name is not None and self.tools.declares(self.tool_called(tag) or "")

    def key(self, tag: Tag, tool: str) -> str | None:
        """The name of a parameter: its attribute, or the tag's own name."""
        if tag.name is None and tag.label in self.tools.keys(tool):
            return tag.label
        return self.tools.key_as_declared(tool, tag.name)

    def tool_called(self, tag: Tag) -> str | None:
        """The tool that an invoke calls: by its attribute, or by the tag's own name."""
        if tag.name is None and tag.label in self.tools.parameters:
            return tag.label
        return self.tools.as_declared(tag.name)

    def is_container(self, ahead: Tag | Lookahead, tool: str) -> bool:
        """Whether a tag holds all parameters of a call, and is none itself (rules 28 and 30)."""
        if not isinstance(ahead, Tag) or not ahead.marked or ahead.attributes:
            return False
        is_named = ahead.label.lower().endswith(PARAMETER_CONTAINERS)
        return is_named and ahead.label not in self.tools.keys(tool)

    def gives_argument(self, ahead: Tag | Lookahead, tool: str) -> bool:
        """Whether a tag of any name gives an argument, in a call and outside a value (rule 30)."""
        if not isinstance(ahead, Tag) or not ahead.marked or ahead.closing or ahead.broken:
            return False
        if ahead.attributes.get("name") is None or ahead.label.lower().endswith(WRAPPER_ENDS):
            return False
        keys = self.tools.keys(tool)
        if not keys:
            return ahead.kind == "named"
        key = self.key(ahead, tool)
        return key in keys and not self.tools.declares(key)

    def is_example(self, name: str | None) -> bool:
        """Whether a call is the prompt's own example (rule 2)."""
        return name is not None and name.startswith(EXAMPLE_NAMES)

    def opens(self, ahead: Tag | Lookahead, kind: str, tool: str | None = None) -> bool:
        """Whether a tag with the DSML token opens something."""
        if not isinstance(ahead, Tag) or ahead.closing or not ahead.marked:
            return False
        return self.kind(ahead, tool) == kind

    def closes(self, ahead: Tag | Lookahead, kind: str, tool: str | None = None) -> bool:
        if not isinstance(ahead, Tag) or not ahead.closing or not ahead.marked:
            return False
        return self.kind(ahead, tool) == kind

    def is_element(self, ahead: Tag | Lookahead, tool: str) -> bool:
        """Whether an element named as a parameter of the tool opens here (rule 14)."""
        if not isinstance(ahead, Tag) or ahead.closing or ahead.marked:
            return False
        return (
            ahead.label in self.tools.keys(tool) and ahead.attributes.keys() <= ELEMENT_ATTRIBUTES
        )

    def is_plain_parameter(self, ahead: Tag | Lookahead, tool: str) -> bool:
        """Whether a parameter without the DSML token opens here (rule 14)."""
        if not isinstance(ahead, Tag) or ahead.closing or ahead.marked:
            return False
        return tool in self.tools.parameters and ahead.kind == "parameter" and bool(ahead.name)

    def carries_arguments(self, tag: Tag) -> bool:
        """Whether an invoke has arguments among its attributes (rule 14)."""
        keys = self.tools.keys(self.tool_called(tag) or "")
        return any(is_argument(attribute, keys) for attribute in tag.attributes)

    def is_certain(self, tag: Tag, wrapped: bool) -> bool | None:
        """Whether an invoke is followed by what must follow (rule 2). None: nothing follows yet."""
        tool = self.tool_called(tag) or ""
        if tag.self_closed:
            return wrapped or self.carries_arguments(tag)
        ahead = self.look_past(tag.end) if wrapped else self.look_ahead(tag.end)
        if ahead is Lookahead.MORE:
            return None
        if not isinstance(ahead, Tag):
            if ahead is Lookahead.END:
                return wrapped and self.source.ended in (Ended.END, Ended.STOP)
            at = self.source.past_all_space(tag.end)
            return ahead is Lookahead.BRACE and self.source.at(at) == "{"
        if ahead.kind == "eos":
            return wrapped
        if not ahead.marked:
            return self.is_element(ahead, tool) or self.is_plain_parameter(ahead, tool)
        kind = self.kind(ahead, tool)
        if kind == "parameter":
            return not ahead.closing
        if self.gives_argument(ahead, tool) or (
            self.is_container(ahead, tool) and not ahead.closing
        ):
            return True
        if kind == "invoke":
            return ahead.closing or wrapped
        return kind == "wrapper" and ahead.closing and wrapped


def is_argument(attribute: str, keys: Collection[str]) -> bool:
    """Whether an attribute of an invoke is an argument of a tool with these keys."""
    if attribute == "arguments":
        return True
    return attribute in keys and attribute not in NEVER_ARGUMENTS


# Odd closing tags, which close only in a run (rule 13).


CALL_TAGS = frozenset({"wrapper", "invoke", "parameter"})
_OUTER = {"parameter": "invoke", "invoke": "wrapper"}


def is_odd_close(rules: TagRules, tag: Tag, level: str, tool: str, key: str | None = None) -> bool:
    """Whether a tag may be meant to close this level, though it does not properly say so."""
    if tag.kind in TOKENS or tag.broken or tag.self_closed:
        return False
    kind = rules.kind(tag, tool)
    if not tag.marked:
        return tag.closing and (kind == level or (key is not None and tag.label == key))
    if tag.bare:
        return kind == level and rules.source.opens_line(tag.start)
    if not tag.closing:
        return kind == level and not tag.attributes and tag.kind != "named"
    return kind not in CALL_TAGS


def closes_in_run(rules: TagRules, at: int, level: str, tool: str, in_block: bool) -> bool | None:
    """Whether closes follow each other from `at`, after one of `level`. None: not known yet."""
    ahead = rules.look_past(at)
    if not isinstance(ahead, Tag):
        if ahead is not Lookahead.END:
            return None if ahead is Lookahead.MORE else False
        # Where the model ended the text, as if EOS stood there.
        return rules.source.stopped or level == ("wrapper" if in_block else "invoke")
    if ahead.kind == "eos":
        return True
    outer = _OUTER.get(level)
    if outer is None:
        return False
    if ahead.marked and not ahead.bare and _goes_on(rules, ahead, level, tool):
        return True
    if not is_odd_close(rules, ahead, outer, tool):
        return False
    return closes_in_run(rules, ahead.end, outer, tool, in_block)


def _goes_on(rules: TagRules, tag: Tag, level: str, tool: str) -> bool:
    """Whether a proper tag closes an outer level, or opens the next of this one."""
    kind = rules.kind(tag, tool)
    if tag.closing:
        return kind in ("invoke", "wrapper")
    if kind == "invoke":
        return rules.tool_called(tag) is not None
    return level == kind == "parameter" and rules.key(tag, tool) is not None


# Calls without the DSML token, and JSON calls: whether they are likely to be meant (rules 1, 13 and
# 14).


# How a list of calls begins, or one call.
_JSON_CALLS = pattern(rf'\[\s{{0,{LONGEST_SPACE}}}\{{|\{{\s{{0,{LONGEST_SPACE}}}"')


def is_plain_label(label: str) -> bool:
    """Whether a tag without the DSML token may mean anything in prose."""
    return label.rpartition(":")[2] in PLAIN_INVOKES or is_plain_wrapper(label)


def is_plain_wrapper(label: str) -> bool:
    label = label.rpartition(":")[2].lower()
    return label.startswith(PLAIN_WRAPPER_PREFIXES) or label.endswith(PLAIN_WRAPPER_END)


def is_plain_invoke(rules: TagRules, tag: Tag) -> bool:
    """Whether a tag opens a call of a declared tool without the DSML token."""
    opens = not tag.marked and not tag.closing and not tag.self_closed
    if not opens or tag.label.rpartition(":")[2] not in PLAIN_INVOKES:
        return False
    name = rules.tools.as_declared(tag.attributes.get("name"))
    return name is not None and rules.tools.declares(name)


def opens_json_calls(rules: TagRules, tag: Tag) -> bool | None:
    """Whether a tag opens JSON calls without the DSML token (rule 13). None: not known yet."""
    if tag.marked or tag.closing or tag.attributes or tag.label not in JSON_WRAPPERS:
        return False
    ahead = rules.look_ahead(tag.end)
    return None if ahead is Lookahead.MORE else ahead is Lookahead.BRACE and not tag.self_closed


def plain_call_follows(rules: TagRules, tag: Tag) -> bool | None:
    """Whether what must follow a plain invoke does (rule 1). None: not known yet."""
    tool = rules.tools.as_declared(tag.attributes.get("name")) or ""
    ahead = rules.look_ahead(tag.end)
    if ahead is Lookahead.MORE:
        return None
    if ahead is Lookahead.BRACE:
        return rules.source.at(rules.source.past_space(tag.end)) == "{"
    if not isinstance(ahead, Tag) or ahead.marked:
        return False
    if ahead.closing:
        return ahead.label == tag.label or ahead.kind == "invoke"
    return rules.is_element(ahead, tool) or rules.is_plain_parameter(ahead, tool)


def begins_json_calls(rules: TagRules, at: int) -> bool | None:
    """Whether JSON at `at` begins as calls do. None: not known yet."""
    source = rules.source
    if source.match(_JSON_CALLS, at):
        return True
    rest = source.slice(at + 1, at + 2 + LONGEST_SPACE)
    waits = len(rest) <= LONGEST_SPACE and not rest.strip() and not source.final
    return None if waits else False
