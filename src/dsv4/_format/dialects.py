"""The releases of the format, each a value with one field for each visible difference.

docs/format.md, sections 9 to 13, describes them; each release states only where it differs from the
one it is based on. Code asks for a field, never for a release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from dsv4._format import texts, tokens
from dsv4._format.frozen_class import cached_property, dataclass, fields_of, replace
from dsv4._format.texts import Texts
from dsv4._format.tokens import MarkupText, Special, Tokens, markup
from dsv4.errors import OptionError, UnknownModel, short_repr

T = TypeVar("T")


# The separator between a namespace and a name (section 13.3).
NAMESPACE_END = "::"


@dataclass(frozen=True)
class Tags:
    """The markup of tool calls: its token, the words in it, and every fragment that is written
    with them. Brackets, quotes and line ends are the same in all dialects."""

    # The names of tags.
    calls: str
    invoke: str
    parameter: str
    # The token that begins each of them.
    dsml: Special = tokens.DSML
    # The attributes, and the values of the second one.
    name: str = "name"
    string: str = "string"
    true: str = "true"
    false: str = "false"
    # The separator between a namespace and a name.
    namespace_end: str = NAMESPACE_END

    # Written by the encoder, section 4.

    @cached_property
    def block_open(self) -> MarkupText:
        return MarkupText(("\n\n<", self.dsml, f"{self.calls}>\n"))

    @cached_property
    def block_close(self) -> MarkupText:
        return MarkupText(("\n</", self.dsml, f"{self.calls}>"))

    @cached_property
    def invoke_open(self) -> MarkupText:
        return MarkupText(("<", self.dsml, f'{self.invoke} {self.name}="'))

    @cached_property
    def invoke_close(self) -> MarkupText:
        return MarkupText(("\n</", self.dsml, f"{self.invoke}>"))

    @cached_property
    def parameter_open(self) -> MarkupText:
        return MarkupText(("<", self.dsml, f'{self.parameter} {self.name}="'))

    @cached_property
    def parameter_close(self) -> MarkupText:
        return MarkupText(("</", self.dsml, f"{self.parameter}>"))

    # The text between a tool's name and its parameters, and around a parameter's key and type.
    name_end = '">\n'

    @cached_property
    def string_true(self) -> str:
        return f'" {self.string}="{self.true}">'

    @cached_property
    def string_false(self) -> str:
        return f'" {self.string}="{self.false}">'

    # As a key of caches, faster than by all fields.
    def __hash__(self) -> int:
        return hash((self.calls, self.invoke, self.parameter))

    @cached_property
    def labels(self) -> dict[str, str]:
        """The name of the tags of each kind."""
        return {"wrapper": self.calls, "invoke": self.invoke, "parameter": self.parameter}

    def with_label(self, text: str) -> str:
        """Text from behind the DSML token, with these tag names in place of V4's."""
        for word, own in zip(V4_LABELS, self.labels.values(), strict=True):
            if text.startswith(word):
                return own + text[len(word) :]
        return text

    def with_attributes(self, text: str) -> str:
        """The same text with these attributes in place of V4's, as the tools section has them."""
        for value in ("true|false", "true", "false"):
            own = "|".join(self.true if word == "true" else self.false for word in value.split("|"))
            text = text.replace(f'string="{value}"', f'{self.string}="{own}"')
        return text.replace(' name="$', f' {self.name}="$')


V4_LABELS = ("tool_calls", "invoke", "parameter")
_V4_TAGS = Tags(*V4_LABELS)
NAME_END, STRING_TRUE, STRING_FALSE = Tags.name_end, _V4_TAGS.string_true, _V4_TAGS.string_false
"""V4's, which every release has kept."""


# The place of the tools' schemas in the words around them.
_SCHEMAS = "{schemas}"
# The order in which turns and their parts are written. The renderers define it.
Layout: TypeAlias = Literal["v4", "v3.2"]
# The system turns that ask for an answer: none; those that are not the first, which also count as
# the last user turn does; or every one that no user turn follows.
SystemsAsk: TypeAlias = Literal["never", "later", "always"]
# The arguments that a call may have: "object", only a JSON object; "text", also a text that is not
# JSON, written as one parameter; "anything", also JSON that is not an object (13.2).
Arguments: TypeAlias = Literal["object", "text", "anything"]

ROLES = ("system", "user", "assistant", "tool", "latest_reminder", "developer")


@dataclass(frozen=True)
class ImageRule:
    """The rule by which engines cut an image into cells (docs/images.md), where releases differ."""

    # The most tokens that the rows of an image may have, and the least pixels it is scaled to.
    budget: int
    least_pixels: int
    # If rows go in pairs, they are filled up to a multiple of four tokens.
    pairs_rows: bool = False
    # The greatest ratio of an image's width to its height.
    widest: int | None = None

    @property
    def most_tokens(self) -> int:
        """The most tokens that an image takes, those before and after its cells included."""
        return self.budget + (5 if self.pairs_rows else 2)

    def cell_tokens(self, rows: int, columns: int) -> int:
        """The number of tokens of all rows: each has one more than columns, for its end."""
        if not self.pairs_rows:
            return rows * (columns + 1)
        paired = rows + rows % 2
        return -(-paired * (columns + 1) // 4) * 4

    def whole_rows(self, rows: int) -> int:
        """The greatest allowed number of rows, at most this many."""
        return rows - rows % 2 if self.pairs_rows else rows

    def padding_before(self, start: int) -> int:
        """The number of padding tokens before an image that begins at `start`."""
        return (3 - start) % 4 if self.pairs_rows else 0


@dataclass(frozen=True)
class Dialect:
    """One release of the format. Make one of your own with `dataclasses.replace`.

    A dialect is read-only, and compares and pickles by value. Everything that it spells in another
    way is a field of it, or of its `tokens`, `texts` and `tags`, which `replace` copies too. Raises
    an `OptionError` if `efforts` has no text for `None`, or if `tools_section` does not hold
    `{schemas}` once.
    """

    name: str
    tags: Tags
    # Effort as the caller names it -> the text before the first turn in thinking mode.
    efforts: Mapping[str | int | None, str]
    efforts_described: str
    # The most tokens that a prompt and its answer may have together.
    context: int = 1_048_576
    # Whether "", 0 and False count as no effort, as in the release.
    false_efforts_are_none: bool = False
    # Those of its vocabulary. The tokens that the dialect writes are added when it is created.
    special_tokens: tuple[Special, ...] = tokens.V4_TOKENS
    # The tokens that have another name in V4's vocabulary, which is otherwise the same.
    renamed_tokens: tuple[Special, ...] = ()
    layout: Layout = "v4"
    # The roles whose messages are written as turns. Others are left out, or are an error.
    roles: tuple[str, ...] = ROLES
    # Opens the prompt and every later system turn.
    system_token: Special | None = None
    systems_ask: SystemsAsk = "never"
    # Whether a turn with only tool results counts as the last user turn.
    results_ask: bool = True
    # Whether a tool's blocks that are neither text nor images are named, as a user's are.
    result_blocks_named: bool = False
    # Stands for an image; a dialect without it has no images.
    image_token: Special | None = None
    # Gives the number of an image's tokens; None if there are no images, or if it is not known.
    image_rule: ImageRule | None = None
    # Whether a text that spells the image token is refused.
    image_text_refused: bool = False
    # Whether lists of content are read as section 12.1 says: each item of a user's list is a block
    # of the turn, and `content_blocks` are accepted.
    lists_are_blocks: bool = False
    # Whether tools on a user message stay there, and so keep reasoning from being dropped.
    users_keep_tools: bool = False
    arguments: Arguments = "text"
    # Whether tools and calls may belong to a namespace (section 13.3).
    namespaces: bool = False
    # The words around the tools' schemas, with {schemas} in the middle: in V4's markup, which is
    # replaced by the dialect's own.
    tools_section: str = texts.TOOLS_SECTION
    tokens: Tokens = Tokens()
    texts: Texts = Texts()

    if TYPE_CHECKING:
        # Set with the fields: the encoder reads them for every call, and an attribute of an object
        # is found fast only if the class does not have its name.

        @property
        def namespace_end(self) -> str | None:
            """The separator between a namespace and a name; None if there are no namespaces."""

        @property
        def made(self) -> Made:
            """Values that other packages derive from the dialect: `made[kind]` is `kind(dialect)`,
            computed once."""
            ...

    def __post_init__(self) -> None:
        if None not in self.efforts:
            raise OptionError(
                "efforts", f"found {short_repr(self.efforts)}, expected None among them"
            )
        if self.tools_section.count(_SCHEMAS) != 1:
            count = f"{_SCHEMAS} {self.tools_section.count(_SCHEMAS)} times"
            raise OptionError("tools_section", f"found {count}, expected it once")
        object.__setattr__(self, "efforts", MappingProxyType(dict(self.efforts)))
        own = self.own_tokens
        listed = _with_own(self.special_tokens, own)
        object.__setattr__(self, "special_tokens", tuple(listed))
        renamed = {
            v4: token
            for v4, token in own.items()
            if token.id is not None and token not in tokens.V4_TOKENS
        }
        object.__setattr__(self, "renamed_tokens", tuple(_with_own(self.renamed_tokens, renamed)))
        between = self.tags.namespace_end if self.namespaces else None
        object.__setattr__(self, "namespace_end", between)
        object.__setattr__(self, "made", Made(self))

    @cached_property
    def own_tokens(self) -> Mapping[str, Special]:
        """The tokens that the dialect writes, by the names that V4's releases have for them."""
        written = fields_of(self.tokens)
        if "latest_reminder" not in self.roles:
            del written["latest_reminder"]
        if self.layout != "v4":  # which has no tasks
            for name in (*self.tokens.tasks, "extracted_url"):
                del written[name]
        own = {str(getattr(Tokens, name)): token for name, token in written.items()}
        own[str(tokens.DSML)] = self.tags.dsml
        further = {tokens.SYSTEM: self.system_token, tokens.IMAGE: self.image_token}
        return own | {str(v4): token for v4, token in further.items() if token is not None}

    @cached_property
    def tools_open(self) -> MarkupText:
        """The words before the tools' schemas."""
        return self._in_own_markup(self.tools_section.partition(_SCHEMAS)[0])

    @cached_property
    def tools_close(self) -> MarkupText:
        """The words behind them."""
        return self._in_own_markup(self.tools_section.partition(_SCHEMAS)[2])

    def _in_own_markup(self, words: str) -> MarkupText:
        own, tags = self.own_tokens, self.tags
        spelled = *(Special(v4, None) for v4 in own), *self.special_tokens
        parts: list[str] = []
        for part in markup(words, spelled).parts:
            if isinstance(part, Special):
                parts.append(own.get(part, part))
                continue
            is_label = bool(parts) and parts[-1] is tags.dsml
            parts.append(tags.with_attributes(tags.with_label(part) if is_label else part))
        return MarkupText(parts)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<Dialect {self.name}>"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, ({**fields_of(self), "efforts": dict(self.efforts)},)


class Made(dict[Any, Any]):
    """Values that are derived from a dialect, by the functions that derive them.

    They are looked up with every prompt, so the table is the dialect's own: a cache of a function
    takes three times as long.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    if TYPE_CHECKING:

        def __getitem__(self, make: Callable[[Dialect], T]) -> T: ...

    def __missing__(self, make: Callable[[Dialect], T]) -> T:
        made = self[make] = make(self._dialect)
        return made


def _with_own(listed: Iterable[Special], own: Mapping[str, Special]) -> list[Special]:
    """Tokens, with a dialect's own among them.

    Each replaces the token with its id or, if it is spelled in another way, with V4's name for it;
    the others are put at the end.
    """
    ids = {token.id: token for token in own.values()}
    ids.pop(None, None)
    placed = (ids.get(token.id) or own.get(token) or token for token in listed)
    return list(dict.fromkeys((*placed, *own.values())))


def _unpickled(values: dict[str, Any]) -> Dialect:
    """The dialect of these values: the release itself, if one has them."""
    dialect = Dialect(**values)
    released = DIALECTS.get(dialect.name)
    return dialect if released is None or released != dialect else released


V4 = Dialect(
    name="v4",
    tags=Tags("tool_calls", "invoke", "parameter"),
    efforts={None: "", "high": "", "max": texts.EFFORT_MAX},
    efforts_described='None, "high" or "max"',
)
V4_0731 = replace(
    V4,
    name="v4-0731",
    efforts={None: "", "low": "", "high": texts.EFFORT_MAX, "max": texts.EFFORT_0731_MAX},
    efforts_described='None, "low", "high" or "max"',
    false_efforts_are_none=True,
)
V4_VISION = replace(
    V4_0731,
    name="v4-vision",
    special_tokens=tokens.V4_VISION_TOKENS,
    renamed_tokens=(tokens.IMAGE,),
    image_token=tokens.IMAGE,
    image_rule=ImageRule(379, 384 * 384, pairs_rows=True, widest=8),
    image_text_refused=True,
    lists_are_blocks=True,
    users_keep_tools=True,
)
V4_1 = replace(
    V4_VISION,
    name="v4.1",
    tags=Tags(" calls", " invoke", " parameter"),
    efforts={
        **{number: texts.numbered_effort(number) for number in range(1, 101)},
        **{name: texts.numbered_effort(number) for name, number in texts.EFFORTS_V4_1.items()},
        None: texts.numbered_effort(texts.EFFORTS_V4_1["high"]),
    },
    efforts_described='None, "low", "high", "max" or a whole number from 1 to 100',
    false_efforts_are_none=False,
    special_tokens=tokens.V4_1_TOKENS,
    renamed_tokens=tokens.V4_1_RENAMED,
    roles=tuple(role for role in ROLES if role != "developer"),
    image_rule=ImageRule(1022, 544 * 544),
    system_token=tokens.SYSTEM,
    systems_ask="later",
    arguments="anything",
    namespaces=True,
)
V4_1_1017 = replace(V4_1, name="v4.1-1017", results_ask=False, result_blocks_named=True)

V3_2 = replace(
    V4,
    name="v3.2",
    tags=Tags("function_calls", "invoke", "parameter", tokens.V3_2_DSML),
    efforts={None: ""},
    efforts_described="None",
    special_tokens=tokens.V3_2_TOKENS,
    layout="v3.2",
    context=131_072,
    roles=tuple(role for role in ROLES if role != "latest_reminder"),
    arguments="object",
    tools_section=texts.TOOLS_SECTION_V3_2.replace(
        f"{tokens.DSML}function_calls", f"{tokens.DSML}{V4.tags.calls}"
    ),
    tokens=tokens.V3_2_WRITTEN,
)
_LINES = V3_2.tools_section.splitlines(keepends=True)
V3_2_SERVED = replace(
    V3_2, name="v3.2-served", tools_section="".join(line for line in _LINES if line != "\n")
)
"""The dialect "v3.2" as vLLM and SGLang write it: without the blank lines of the tools text."""
SERVED_AS: Mapping[Dialect, Dialect] = MappingProxyType({V3_2: V3_2_SERVED})
"""Releases for which servers have a spelling of their own that is not a release."""

_RELEASES = (V4, V4_0731, V4_VISION, V4_1, V4_1_1017, V3_2)
_BY_NAME = {release.name: release for release in _RELEASES}
DIALECTS: Mapping[str, Dialect] = MappingProxyType(_BY_NAME)
"""Every release of the format that is known, by its name."""
DEFAULT = V4
"""The dialect that is used if none is named, and that of the bundled vocabulary."""

# The names of checkpoints. A name may have owners, providers and folders before the version, and a
# size, a date or a quantisation behind it; the last version in it counts. The minor number stands
# behind a point or its substitutes (4.1, 4_1, 4p1), or by itself behind a hyphen (4-1, but not
# 4-1m, 4-4bit or 4-0731), or behind nothing (41, but not 40).
# Patterns are compiled when the first name is read: few programs read one.
_VERSION = (
    r"(?i)(?:deepseek(?:-ai)?|(?<![a-z])ds)[-_ ./:]*v"
    r"(?:(?P<short>[0-9])(?P<joined>[1-9])(?![0-9])|(?P<major>[0-9]+))"
    r"(?:[._p](?P<minor>[0-9]{1,2})(?![0-9])|-(?P<alone>[0-9])(?![0-9a-z])(?![-_ ]?bit))?"
)
# Version -> its releases, each with its first date, by the dates in names (sections 11 and 14). A
# name without a date is of the first.
_BY_VERSION: Mapping[tuple[int, int], tuple[tuple[tuple[int, int, int], Dialect], ...]] = {
    (3, 2): (((2025, 1, 1), V3_2),),
    (4, 0): (((2026, 4, 1), V4), ((2026, 7, 31), V4_0731)),
    (4, 1): (((2026, 9, 1), V4_1), ((2026, 10, 17), V4_1_1017)),
}
# V3.2-Exp had another format, and a model distilled from another is not that model.
_DISTILLED = r"(?i)distill"
_OTHER_FORMATS = {(3, 2): r"(?i)(?<![a-z])(?:exp(?![a-z])|experimental|distill)"}
_VISION = r"(?i)(?<![a-z])vision"
# 0813, 260813, 20260813, 2026-08-13.
_DATE = (
    r"(?i)(?<![0-9a-z])(?:(?P<year>(?:20)?2[0-9])[-_.]?)?"
    r"(?P<month>0[1-9]|1[0-2])[-_.]?(?P<day>0[1-9]|[12][0-9]|3[01])(?![0-9a-z])"
)
# Names of the official API without a version, and the releases it serves under them today.
# OpenRouter's end in `-latest`. Providers put their own names in front, and behind it what they do
# with a model.
_SERVED_TODAY: Mapping[str, Dialect] = {"flash": V4_1_1017, "pro": V4_0731}
_OFFICIAL_NAME = r"(?i)(?:.*/)?deepseek-(flash|pro)(?:-latest)?(?:[:@\[].*)?"


def dialect_served_as(model: str) -> Dialect | None:
    """The dialect that the official API serves today under a name without a version."""
    name = re.fullmatch(_OFFICIAL_NAME, model)
    return None if name is None else _SERVED_TODAY[name[1].lower()]


def dialect_for(model: str) -> Dialect:
    """The dialect that a model was trained on, from its name.

    `model` is a checkpoint's name, with or without its owner: "deepseek-ai/DeepSeek-V4.1". Raises
    an `UnknownModel` if the name does not tell the dialect.
    """
    dialect = _named_dialect(model) if isinstance(model, str) else None
    if dialect is None:
        problem = f"no dialect is known for the model {short_repr(model)}"
        if isinstance(model, str) and re.fullmatch(_OFFICIAL_NAME, model):
            problem += ": it is a name of the official API, whose releases change (the profile "
            problem += "deepseek-api knows them)"
        raise UnknownModel(
            "model",
            f"{problem}, expected a name that holds DeepSeek-V4, DeepSeek-V4…-0731, DeepSeek-V4.1, "
            f"DeepSeek-V4.1…-1017 or DeepSeek-V3.2; else give one of {', '.join(DIALECTS)}",
        )
    return dialect


def _named_dialect(model: str) -> Dialect | None:
    versions = list(re.finditer(_VERSION, model))
    if not versions:
        return None
    version = versions[-1]
    minor = version["joined"] or version["minor"] or version["alone"] or "0"
    number = int(version["short"] or version["major"]), int(minor)
    releases = _BY_VERSION.get(number)
    if releases is None or re.search(_OTHER_FORMATS.get(number, _DISTILLED), model):
        return None
    rest = model[version.end() :]
    if number == (4, 0) and re.search(_VISION, rest):
        return V4_VISION
    date = re.search(_DATE, rest)
    if date is None:
        return releases[0][1]
    year = int((date["year"] or "2026")[-2:]) + 2000
    when = (year, int(date["month"]), int(date["day"]))
    # A date before the first one: the name does not say its year.
    return next((release for since, release in reversed(releases) if when >= since), None)


def dialect_named(name: str | Dialect) -> Dialect:
    """The dialect that a caller has given, by itself or by its name."""
    dialect = _BY_NAME.get(name) if isinstance(name, str) else None
    if dialect is None:
        if isinstance(name, Dialect):
            return name
        expected = f"one of {', '.join(DIALECTS)}, or a Dialect"
        raise OptionError("dialect", f"found {short_repr(name)}, expected {expected}")
    return dialect
