"""The releases of the format, each a value: one field for each difference that can be seen.

format.md, section 9 is the table; `V4_0731` and `V4_1` say only where they differ from `V4`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace

from dsv4.errors import EncodeError, UnknownModel, shown
from dsv4.format import tokens
from dsv4.format.tokens import Markup, Special, markup


def _fragment(name: str) -> str:
    path = os.path.join(os.path.dirname(__file__), name)
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


@dataclass(frozen=True, eq=False)
class Tags:
    """The markup of tool calls: tag names, and every fragment that is written with them."""

    calls: str
    invoke: str
    parameter: str

    # Written by the encoder, section 4.
    block_open: Markup = field(init=False)
    block_close: Markup = field(init=False)
    invoke_open: Markup = field(init=False)
    invoke_close: Markup = field(init=False)
    parameter_open: Markup = field(init=False)
    parameter_close: Markup = field(init=False)

    def __post_init__(self) -> None:
        dsml = tokens.DSML
        fragments = {
            "block_open": f"\n\n<{dsml}{self.calls}>\n",
            "block_close": f"\n</{dsml}{self.calls}>",
            "invoke_open": f'<{dsml}{self.invoke} name="',
            "invoke_close": f"\n</{dsml}{self.invoke}>",
            "parameter_open": f'<{dsml}{self.parameter} name="',
            "parameter_close": f"</{dsml}{self.parameter}>",
        }
        for name, text in fragments.items():
            object.__setattr__(self, name, markup(text))

    def label_of(self, kind: str) -> str | None:
        """What a tag of this kind is called."""
        labels = {"wrapper": self.calls, "invoke": self.invoke, "parameter": self.parameter}
        return labels.get(kind)

    def spelled_in(self, text: str) -> str:
        """The same text with these tag names in place of V4's."""
        dsml = tokens.DSML
        return (
            text.replace(f"{dsml}tool_calls", f"{dsml}{self.calls}")
            .replace(f"{dsml}invoke", f"{dsml}{self.invoke}")
            .replace(f"{dsml}parameter", f"{dsml}{self.parameter}")
        )


# What stands between a tool's name and its parameters, and around a parameter's key and type.
NAME_END = '">\n'
STRING_TRUE = '" string="true">'
STRING_FALSE = '" string="false">'

RESPONSE_FORMAT = (
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
)
UNSUPPORTED = ("[Unsupported ", "]")

_TOOLS_SECTION = _fragment("tools_section.txt")
_EFFORT_MAX = _fragment("effort_max.txt")
_EFFORT_0731_MAX = _fragment("effort_0731_max.txt")


@dataclass(frozen=True, eq=False)
class Dialect:
    """One release of the format."""

    name: str
    tags: Tags
    # Effort as the caller names it -> what is written before the first turn in thinking mode.
    efforts: dict[str | int | None, str]
    efforts_described: str
    special_tokens: tuple[Special, ...] = tokens.V4_TOKENS
    # Opens the prompt and every later system turn, which then also asks for an answer.
    system_token: Special | None = None
    # Stands for an image; a dialect without it has no images.
    image_token: Special | None = None
    # Whether each item of a user's content list is a block of the turn.
    lists_are_blocks: bool = False
    # Whether tools on a user message stay there, and so keep reasoning from being dropped.
    users_keep_tools: bool = False
    tools_open: Markup = field(init=False)
    tools_close: Markup = field(init=False)

    def __post_init__(self) -> None:
        opening, closing = self.tags.spelled_in(_TOOLS_SECTION).split("{schemas}")
        object.__setattr__(self, "tools_open", markup(opening))
        object.__setattr__(self, "tools_close", markup(closing))

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str | tuple[object, ...]:
        return dialect_named, (self.name,)


def _numbered(effort: int) -> str:
    scale = "(range 1-100, the higher the value, the more thorough the reasoning)"
    return f"Reasoning Effort: {effort} {scale}\n\n"


V4 = Dialect(
    name="v4",
    tags=Tags("tool_calls", "invoke", "parameter"),
    efforts={None: "", "high": "", "max": _EFFORT_MAX},
    efforts_described='None, "high" or "max"',
)
V4_0731 = replace(
    V4,
    name="v4-0731",
    efforts={None: "", "low": "", "high": _EFFORT_MAX, "max": _EFFORT_0731_MAX},
    efforts_described='None, "low", "high" or "max"',
)
V4_1 = replace(
    V4,
    name="v4.1",
    tags=Tags(" calls", " invoke", " parameter"),
    efforts={
        **{number: _numbered(number) for number in range(1, 101)},
        **{None: _numbered(75), "low": _numbered(50), "high": _numbered(75)},
        **{"xhigh": _numbered(75), "max": _numbered(100)},
    },
    efforts_described='None, "low", "high", "xhigh", "max" or a whole number from 1 to 100',
    special_tokens=tokens.V4_1_TOKENS,
    system_token=tokens.SYSTEM,
    image_token=tokens.IMAGE,
    lists_are_blocks=True,
    users_keep_tools=True,
)

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (V4, V4_0731, V4_1)}
"""Every release of the format that is known, by its name."""

# Model names, most particular first. A checkpoint's name may carry an owner before it and a size,
# a date or a quantisation behind it.
_MODEL_NAMES: tuple[tuple[str, Dialect], ...] = (
    (r"v4[._]1(?![0-9])", V4_1),
    (r"v4(?![0-9._]).*(?<![0-9])0731(?![0-9])", V4_0731),
    (r"v4(?![0-9]|[._][0-9])(?!.*(?<![0-9])[01][0-9][0-3][0-9](?![0-9]))", V4),
)


def dialect_for(model: str) -> Dialect:
    """The dialect that a model was trained on, from its name."""
    if isinstance(model, str):
        for pattern, dialect in _MODEL_NAMES:
            if re.search(r"deepseek[-_ ]?" + pattern, model, re.IGNORECASE):
                return dialect
    raise UnknownModel(
        f"no dialect is known for the model {shown(model)}: its name should hold DeepSeek-V4, "
        f"DeepSeek-V4…-0731 or DeepSeek-V4.1; else give one of {', '.join(DIALECTS)}"
    )


def dialect_named(name: str | Dialect) -> Dialect:
    """The dialect itself, where a caller may give its name."""
    if isinstance(name, Dialect):
        return name
    found = DIALECTS.get(name) if isinstance(name, str) else None
    if found is None:
        raise EncodeError("dialect", f"found {shown(name)}, expected one of {', '.join(DIALECTS)}")
    return found
