"""The meaning of a tag: by the state, the text around it and the declared tools.

An odd closing tag (recovery.md, rule 13) does not properly say what it closes: it has no name or
an unknown one, no DSML token, or no slash. It closes only in a run: nothing but white space stands
between it and the close of the next outer level, odd or not, and so on to a proper close, EOS, or
the end with everything closed; or it stands before a tag that begins the next of its kind.

A method that has to know what follows a tag waits for the text (`Steps`). Its answer is final.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

from dsv4._completion.declared import DeclaredTools
from dsv4._completion.limits import LONGEST_SPACE
from dsv4._completion.patterns import pattern
from dsv4._completion.reasons import Ended
from dsv4._format import spellings, tokens
from dsv4._parse.quoting import QUOTES_CONTENT
from dsv4._parse.tag import CALL_TAGS, CLOSES, MAYBE_TAG, TOKENS, PartialTag, Tag
from dsv4._parse.text_buffer import ANYWHERE, NOWHERE, SPACE, Steps, TextBuffer

# A bracket too many, before the head of a tag.
_DOUBLED = f"<<{tokens.DSML}"
# The meaning of a tag in each state. A row is its role (`TagRules.role`), a column its place: in
# prose, in a code fence, between the calls of a block, in text there that is not a call, between
# the parameters of a call, in a value. In four columns a word, with `_read_` before it, names the
# method that reads the tag; for junk and values readers compare the words. "text": it is not a tag
# there. "-": it is decided before the table is used. The table knows nothing of the text before and
# behind the tag: the methods look at it.
_TABLE = """
                               prose    fence   block    junk    call       value
eos:                           token    token   over     ends    over       -
bos:                           token    token   over     text    over       -
role:                          token    token   over     ends    over       -
think, /think:                 think    think   over     ends    over       -
native, /native:               native   native  over     ends    over       -
wrapper:                       wrapper  fenced  wrapper  ends    over       region
/wrapper:                      parts    markup  close    ends    over       outer
invoke:                        invoke   fenced  invoke   invoke  next       region
/invoke:                       parts    markup  surplus  text    close      outer
parameter:                     parts    markup  lost     ends    parameter  next
/parameter:                    parts    markup  surplus  text    surplus    -
named:                         markup   markup  junk     text    text       text
/named:                        markup   markup  odd      text    odd        -
broken invoke:                 markup   markup  broken   ends    over       -
broken parameter:              markup   markup  broken   ends    broken     -
broken wrapper, broken named:  markup   markup  junk     text    text       -
plain wrapper:                 plain    -       wrapper  text    text       text
/plain wrapper:                -        -       close    ends    over       text
plain invoke:                  plain    -       invoke   invoke  text       text
/plain invoke:                 -        -       surplus  text    close      text
plain parameter, plain named:  plain    -       text     text    text       text
/plain parameter:              -        -       surplus  text    text       -
/plain named:                  -        -       text     text    text       text
"""
_ROWS = [row.split(":") for row in _TABLE.splitlines()[2:]]

IN_PROSE, IN_FENCE, IN_BLOCK, IN_JUNK, IN_CALL, IN_VALUE = (
    {role: words.split()[column] for roles, words in _ROWS for role in roles.split(", ")}
    for column in range(6)
)

_OUTER = {"parameter": "invoke", "invoke": "wrapper"}
# The beginning of a list of calls, or of one call.
_JSON_CALLS = pattern(rf'\[\s{{0,{LONGEST_SPACE}}}\{{|\{{\s{{0,{LONGEST_SPACE}}}"')


class TagRules:
    """Decides about tags, from the text around them and the declared tools."""

    def __init__(self, buffer: TextBuffer, tools: DeclaredTools) -> None:
        self.buffer = buffer
        self.tools = tools
        self.eos_run = (0, 0)  # the last run of EOS tokens, as far as it was followed
        self.unclosed = NOWHERE, NOWHERE  # no closing tag of a call stands between these places
        self.close_at = NOWHERE  # the place of one

    # The text that follows.

    def look_past(self, at: int) -> Steps[Tag]:
        """As `look_ahead`, but after any amount of white space: in calls, and behind EOS."""
        return self.look_ahead(at, ANYWHERE)

    def look_ahead(self, start: int, longest: int = LONGEST_SPACE) -> Steps[Tag]:
        """The tag at a place, after optional white space. "text", "brace" and "end" are kinds for
        places without a tag (see `Tag`)."""
        buffer = self.buffer
        at = min(buffer.past(SPACE, start), start + longest + 1)
        if at == buffer.end:  # else the text is there, and nothing has to be waited for
            at = yield from buffer.past_space(start, longest)
        if at - start > longest:
            return Tag("text", at, "")
        tag = buffer.tag_at(at) if buffer.at(at) in spellings.MARKS else None
        if isinstance(tag, PartialTag):
            tag = yield from buffer.tag(at)
        if tag is None or (isinstance(tag, Tag) and tag.broken):
            while isinstance(tag := self.doubled(at), PartialTag):
                yield from buffer.more()
        if isinstance(tag, Tag):
            return tag
        character = "" if tag is not None else buffer.at(at)
        return Tag("brace" if character in ("{", "[") else "text" if character else "end", at, "")

    def doubled(self, at: int) -> Tag | PartialTag | None:
        """A tag that opens something, with a bracket too many before it (rule 28)."""
        buffer = self.buffer
        rest = buffer.slice(at, at + len(_DOUBLED))
        if rest == _DOUBLED:
            tag = buffer.tag_at(at + 1)
            if isinstance(tag, Tag):
                return None if tag.broken else replace(tag, start=at, raw=rest[0] + tag.raw)
            return None if buffer.final else tag
        waits = len(rest) > 1 and _DOUBLED.startswith(rest) and not buffer.final
        return MAYBE_TAG if waits else None

    def after_eos(self, tag: Tag) -> Steps[tuple[int, Tag]]:
        """The end of the run of EOS tokens that `tag` is in, and the tag that follows it.

        The last run is remembered, for the other tokens in it.
        """
        start, end = self.eos_run
        if not start <= tag.start < end:
            start, end = tag.start, tag.end
        while (ahead := (yield from self.look_past(end))).kind == "eos":
            end = ahead.end
        self.eos_run = start, end
        return end, ahead

    def closes_later(self, at: int) -> Steps[bool]:
        """Whether a closing tag of a call follows anywhere."""
        if self.close_at >= at:
            return True
        start, to = self.unclosed
        if not start <= at <= to:
            start = to = at
        while (tag := (yield from self.buffer.next_tag(to))) is not None:
            if self.role(tag) in CLOSES:
                self.close_at = tag.start
                return True
            to = tag.end
            self.unclosed = start, to
        return False

    def ends_text(self, eos: Tag) -> Steps[bool]:
        """Whether an EOS in a value ends the text (rule 22).

        Nothing follows it but EOS and white space; or a role token begins a turn that the model
        made up, in which nothing closes the value. A file about tokens goes on: `EOS ends a turn`.
        """
        _, ahead = yield from self.after_eos(eos)
        if ahead.kind == "role":
            return not (yield from self.closes_later(ahead.end))
        return ahead.kind == "end"

    # Kinds and names of tags.

    def kind(self, tag: Tag, tool: str | None = None) -> str | None:
        """The kind of a tag, inside a call of `tool` or outside. None: it has no effect.

        A tag may be named as a declared tool, or as a parameter of the call's tool; inside a call
        one of any name is a parameter that names a key of the tool (rule 30).
        """
        if tool is not None and tag.marked and not tag.closing and self._names_key(tag, tool):
            return "parameter"
        is_named = tag.marked and tag.name is None and tag.label not in spellings.RELEASED_LABELS
        if is_named and (own := tag.label):
            if tool is not None and own in self.tools.keys(tool):
                return "parameter"
            if own in self.tools.declared:
                return "invoke"
        return None if tag.kind == "named" else tag.kind

    def _names_key(self, tag: Tag, tool: str) -> bool:
        name, keys = tag.attributes.get("name"), self.tools.keys(tool)
        if name is None or tag.broken or tag.label.lower().endswith(spellings.WRAPPER_ENDS):
            return False
        return name in keys and not self.tools.declares(name) if keys else tag.kind == "named"

    def names_tool(self, tag: Tag) -> bool:
        """Whether a wrapper's tag names a declared tool, which only an invoke's has to do."""
        return tag.name is not None and self.tools.declares(self.tool_called(tag))

    def key(self, tag: Tag, tool: str) -> str | None:
        """The name of a parameter: its attribute, or the tag's own name."""
        if tag.name is None and (own := _own_name(tag)) in self.tools.keys(tool):
            return own
        return self.tools.key_as_declared(tool, tag.name)

    def tool_called(self, tag: Tag) -> str | None:
        """The tool that an invoke calls: by its attribute, or by the tag's own name."""
        if tag.name is None and (own := _own_name(tag)) in self.tools.declared:
            return own
        return self.tools.as_declared(tag.name)

    def calls_declared(self, invoke: Tag) -> bool:
        """Whether an invoke calls a declared tool."""
        return self.tools.declares(self.tool_called(invoke))

    def is_container(self, tag: Tag, tool: str) -> bool:
        """Whether a tag holds all parameters of a call and is not one itself (rules 28 and 30)."""
        if tag.attributes or tag.broken or not tag.marked:
            return False
        is_named = tag.label.lower().endswith(spellings.PARAMETER_CONTAINERS)
        return is_named and tag.label not in self.tools.keys(tool)

    def is_example(self, name: str | None) -> bool:
        """Whether a call is the prompt's own example (rule 2): `<D invoke name="$TOOL_NAME">`."""
        return name is not None and name.startswith(spellings.EXAMPLE_NAMES)

    def role(self, tag: Tag, tool: str | None = None) -> str:
        """The role of a tag: "invoke" if it opens a call, "/invoke" if it closes one, and so on.

        A tag that does neither is "named"; one without the DSML token is "plain invoke", say.
        """
        kind = tag.kind
        if tag.marked:
            kind = self.kind(tag, tool) or kind
        elif tag.raw and kind not in TOKENS:
            kind = f"plain {kind}"
        return f"/{kind}" if tag.closing else kind

    def meaning(self, tag: Tag, column: dict[str, str], tool: str | None = None) -> str:
        """The meaning of a tag in a state, by the column of the table for it."""
        if tag.broken:
            return column[f"broken {self.kind(tag) or tag.kind}"]
        return column[self.role(tag, tool)]

    def is_plain_argument(self, ahead: Tag, tool: str) -> bool:
        """Whether an argument of a declared tool opens here without the DSML token (rule 14).

        That is an element named as one of its parameters, or a parameter's tag with a name.
        """
        if ahead.closing or ahead.marked or not ahead.raw:
            return False
        is_element = ahead.attributes.keys() <= spellings.ELEMENT_ATTRIBUTES
        if is_element and ahead.label in self.tools.keys(tool):
            return True
        return tool in self.tools.declared and ahead.kind == "parameter" and bool(ahead.name)

    def carries_arguments(self, tag: Tag) -> bool:
        """Whether an invoke has arguments among its attributes (rule 14)."""
        keys = self.tools.keys(self.tool_called(tag) or "")
        return any(is_argument(attribute, keys) for attribute in tag.attributes)

    def is_certain(self, tag: Tag, wrapped: bool) -> Steps[bool]:
        """Whether an invoke is followed by the markup that must follow (rule 2).

        "The tag `<D invoke name="bash">` calls it": that is not a call, D being the token.
        """
        tool = self.tool_called(tag) or ""
        if tag.self_closed:
            return wrapped or self.carries_arguments(tag)
        ahead = yield from (self.look_past if wrapped else self.look_ahead)(tag.end)
        if ahead.kind == "end":
            return wrapped and self.buffer.ended in (Ended.END, Ended.STOP)
        if ahead.kind == "eos":
            return wrapped
        if not ahead.raw:
            return self.buffer.at(ahead.start) == "{"
        is_plain = not (wrapped or tag.marked)
        if not ahead.marked:
            own = ahead.label == tag.label or ahead.kind == "invoke"
            return (is_plain and ahead.closing and own) or self.is_plain_argument(ahead, tool)
        # Nothing with the token stands in a plain call (rule 1).
        return not is_plain and self._goes_into(ahead, tool, wrapped)

    def _goes_into(self, ahead: Tag, tool: str, wrapped: bool) -> bool:
        """Whether a tag with the token belongs in a call, or ends one."""
        if self.is_container(ahead, tool):
            return not ahead.closing
        role = self.role(ahead, tool)
        return role in ("parameter", "/invoke") or (wrapped and role in ("invoke", "/wrapper"))

    # Odd closing tags, which close only in a run (rule 13).

    def is_odd_close(self, tag: Tag, level: str, tool: str, key: str | None = None) -> bool:
        """Whether a tag may be meant to close this level, though it does not properly say so."""
        if tag.kind in TOKENS or tag.broken or tag.self_closed:
            return False
        kind = self.kind(tag, tool)
        if not tag.marked:
            return tag.closing and (kind == level or (key is not None and tag.label == key))
        if tag.bare:
            return kind == level and self.buffer.opens_line(tag.start)
        if not tag.closing:
            return kind == level and not tag.attributes and tag.kind != "named"
        return kind not in CALL_TAGS

    def closes_in_run(self, at: int, level: str, tool: str, in_block: bool) -> Steps[bool]:
        """Whether closes follow each other from `at`, after one of `level` (rule 13).

        `ls</parameter></invoke></D tool_calls>`, say, where only the last one has the token D.
        """
        may_go_on = in_block and level == "invoke"
        is_marked = False  # the close of this level
        while True:
            ahead = yield from self.look_past(at)
            if ahead.kind == "end":  # if the model ended the text, as if EOS stood there
                return self.buffer.stopped or level == ("wrapper" if in_block else "invoke")
            if not ahead.raw:  # behind the last parameter prose may follow, but no more closes
                ends = may_go_on and level == "wrapper"
                return ends and not (yield from self.closes_later(at))
            outer = _OUTER.get(level)
            if ahead.kind == "eos" or outer is None:
                return ahead.kind == "eos" or self.role(ahead) == "/wrapper"
            if ahead.marked and not ahead.bare and self._goes_on(ahead, level, tool):
                # In `v</parameter></D>` and the invoke's close, `</D>` is the value's own.
                return not (is_marked and level == "invoke" and self.role(ahead) == "/invoke")
            if not self.is_odd_close(ahead, outer, tool):
                return False
            at, level, is_marked = ahead.end, outer, ahead.marked

    def _goes_on(self, tag: Tag, level: str, tool: str) -> bool:
        """Whether a proper tag closes an outer level, or opens the next of this one."""
        role = self.role(tag, tool)
        if role == "invoke":
            return self.tool_called(tag) is not None
        is_next = role == level == "parameter" and self.key(tag, tool) is not None
        return is_next or role in ("/invoke", "/wrapper")

    # Calls without the DSML token, and JSON calls: whether they are likely to be meant (rules 1, 13
    # and 14).

    def is_plain_invoke(self, tag: Tag) -> bool:
        """Whether a tag opens a call of a declared tool without the DSML token."""
        if tag.marked or tag.closing or tag.self_closed:
            return False
        name = self.tools.as_declared(tag.attributes.get("name"))
        return is_plain_call(tag.label) and self.tools.declares(name)

    def opens_json_calls(self, tag: Tag) -> Steps[bool]:
        """Whether a tag opens JSON calls without the DSML token (rule 13)."""
        if tag.marked or tag.closing or tag.attributes or tag.label not in spellings.JSON_WRAPPERS:
            return False
        ahead = yield from self.look_ahead(tag.end)
        return ahead.kind == "brace" and not tag.self_closed

    def begins_json_calls(self, at: int) -> Steps[bool]:
        """Whether JSON at `at` begins as calls do."""
        while not self.buffer.match(_JSON_CALLS, at):
            rest = self.buffer.slice(at + 1, at + 2 + LONGEST_SPACE)
            if len(rest) > LONGEST_SPACE or rest.strip() or not (yield from self.buffer.more()):
                return False
        return True


def _own_name(tag: Tag) -> str | None:
    """A tag's own name, if that may be a declared tool or key: not a word of the format.

    Where a tool is named `invoke`, `<D invoke nameread="">`, D being the token, does not call it.
    """
    return None if tag.marked and tag.label in spellings.RELEASED_LABELS else tag.label


def is_argument(attribute: str, keys: Collection[str]) -> bool:
    """Whether an attribute of an invoke is an argument of a tool with these keys."""
    if attribute == "arguments":
        return True
    return attribute in keys and attribute not in spellings.NEVER_ARGUMENTS


@lru_cache(256)
def is_plain_label(label: str) -> bool:
    """Whether a tag without the DSML token, by its name, may mean anything in prose."""
    return is_plain_call(label) or is_plain_wrapper(label)


@lru_cache(256)
def is_plain_call(label: str) -> bool:
    return label.rpartition(":")[2].lower() in spellings.PLAIN_INVOKES


def is_plain_wrapper(label: str) -> bool:
    label = label.rpartition(":")[2].lower()
    begins = label.startswith(spellings.PLAIN_WRAPPER_PREFIXES) or label in spellings.JSON_WRAPPERS
    wraps = begins or label.endswith(spellings.PLAIN_WRAPPER_END)
    return wraps and QUOTES_CONTENT.fullmatch(label) is None  # `<tool_example>` (rule 29)
