"""How models spell the markup of tool calls when they get it wrong (recovery.md, rule 1)."""

from __future__ import annotations

from dsv4.format import tokens

# The word inside the DSML token, and what passes for the bars around it.
WORD = "DSML"
BARS = "｜|‖"
QUOTES = "\"'“”‘’"
SMART_QUOTES = "“”‘’"

# What a tag is, by the first letters of its name.
TAG_PREFIXES: tuple[tuple[str, str], ...] = (
    ("tool", "wrapper"),
    ("func", "wrapper"),
    ("call", "wrapper"),
    ("inv", "invoke"),
    ("par", "parameter"),
)

# Tags without the DSML token. `tool_call` with a name is a call.
PLAIN_INVOKES = frozenset({"invoke", "tool_call"})
PLAIN_WRAPPERS = frozenset({"tool_calls", "function_calls", "tool_call", "invokes"})

# Tag names of releases: V4 and its revision, V4.1, V3.2.
_RELEASED = (
    *("tool_calls", "invoke", "parameter"),
    *(" calls", " invoke", " parameter"),
    "function_calls",
)
RELEASED_LABELS = frozenset(name.strip() for name in _RELEASED)
RELEASED_TAGS = frozenset(
    f"{slash}{tokens.DSML}{name}" for name in _RELEASED for slash in ("<", "</")
)

CDATA = ("<![CDATA[", "]]>")
FENCE = "```"
