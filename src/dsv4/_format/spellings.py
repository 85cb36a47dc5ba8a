"""Models' misspellings of the markup of tool calls (docs/recovery.md, rules 1 and 13).

Facts only: the parser decides what is treated as markup where.
"""

from __future__ import annotations

from dsv4._format import tokens

# The word inside the DSML token, and characters that pass for the bars around it.
WORD = "DSML"
BAR = str(tokens.DSML)[0]
BARS = "｜|‖│¦∣︱ǀ￨❘┃║⏐丨"
# Invisible characters, among the bars.
HIDING_MARK = "\U000f0001"  # of our own: see `_parse/respelling.py`
ZERO_WIDTH = f"\u200b\u200c\u200d\u2060\ufeff{HIDING_MARK}"
# Brackets that open and close a tag: ASCII, or full-width.
BRACKET, WIDE_BRACKET = "<", "＜"
OPENING_BRACKETS = BRACKET + WIDE_BRACKET
CLOSING_BRACKETS = ">＞"
SLASHES = "/／"
# First characters of tags: a bracket, or that of a DSML token that lost its bracket.
MARKS = (*OPENING_BRACKETS, BAR)
EQUALS = "=＝"
# Ends of the names of tags around all parameters of a call.
PARAMETER_CONTAINERS = ("args", "arguments", "input", "params", "parameters")
# Ends of the names of wrappers: other tags that begin like them may be parameters.
WRAPPER_ENDS = ("call", "calls")

# First letters of a tag's name, and the kind of the tag.
PARAMETER_PREFIX = "par"
TAG_PREFIXES: tuple[tuple[str, str], ...] = (
    ("tool", "wrapper"),
    ("func", "wrapper"),
    ("call", "wrapper"),
    ("inv", "invoke"),
    (PARAMETER_PREFIX, "parameter"),
)

# Tags without the DSML token. `tool_call` with a name is a call; without one it may hold JSON.
PLAIN_INVOKES = frozenset({"invoke", "tool_call"})
PLAIN_WRAPPER_PREFIXES = ("tool", "func")
PLAIN_WRAPPER_END = "calls"
# Closing tags without the DSML token that models write once more behind a block.
PLAIN_CLOSES = frozenset({"invoke", "parameter", "tool_call", "tool_calls", "function_calls"})
JSON_WRAPPERS = frozenset({"tool", "tool_call", "tool_calls", "function_call", "function_calls"})

# Characters around a name by mistake: one more quote, or the end of the tag inside the quotes.
AROUND_NAMES = "\"'“”‘’`\\=<>/ \t\r\n"
# Attributes that hold the name of a tool or a parameter, the usual one first.
NAME_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "invoke": ("name", "invoke", "tool", "function"),
    "parameter": ("name", "parameter", "param"),
}
# Attributes of an invoke that are never arguments, though a tool may declare such keys.
NEVER_ARGUMENTS = frozenset({"name", "tool", "string"})
# Keys under which calls written as JSON have their arguments.
JSON_ARGUMENTS = ("arguments", "parameters", "input")
# Keys that have nothing to do with arguments.
JSON_FRAME = frozenset({"name", "id", "type", "index"})
# Attributes that an element named as a parameter may have.
ELEMENT_ATTRIBUTES = frozenset({"string", "type", "value"})
# A lone parameter of one of these names may hold all arguments.
HOLDS_ALL = ("arguments", "input")
# Beginnings of the names in the prompt's own examples of calls: V4, V3.2.
EXAMPLE_NAMES = ("$TOOL_NAME", "$FUNCTION_NAME")

# Tag names of releases: V4 and its revisions, V4.1, V3.2.
RELEASED_NAMES = (
    *("tool_calls", "invoke", "parameter"),
    *(" calls", " invoke", " parameter"),
    "function_calls",
)
RELEASED_LABELS = frozenset(name.strip() for name in RELEASED_NAMES)
RELEASED_TAGS = frozenset(
    f"{slash}{tokens.DSML}{name}" for name in RELEASED_NAMES for slash in ("<", "</")
)

# Tokens with a meaning in a completion, their kinds, and whether they close. A role token after EOS
# begins a turn that the model made up.
_TOKENS: tuple[tuple[str, str, bool], ...] = (
    (str(tokens.EOS), "eos", False),
    (str(tokens.BOS), "bos", False),
    (str(tokens.THINK_START), "think", False),
    (str(tokens.THINK_END), "think", True),
    *((str(token), "role", False) for token in (tokens.USER, tokens.SYSTEM)),
    *((str(token), "role", False) for token in (tokens.ASSISTANT, tokens.LATEST_REMINDER)),
    ("<｜tool▁calls▁begin｜>", "native", False),
    ("<｜tool▁call▁begin｜>", "native", False),
    ("<｜tool▁calls▁end｜>", "native", True),
)
# Those that are in the vocabulary: if ordinary tokens spell one of them, it is text.
VOCABULARY_TOKENS = frozenset(spelling for spelling, _, _ in _TOKENS)
COMPLETION_TOKENS: tuple[tuple[str, str, bool], ...] = (
    *_TOKENS,
    # With ASCII bars, as some servers write them.
    ("<|end▁of▁sentence|>", "eos", False),
    ("<|tool▁calls▁begin|>", "native", False),
    ("<|tool▁call▁begin|>", "native", False),
    ("<|tool▁calls▁end|>", "native", True),
)
ECHO = str(tokens.ASSISTANT)
# Reasoning's end with spaces in it.
SPACED_THINK_END = r"(?i:<[ \t]{0,4}/[ \t]{0,4}think[ \t]{0,4}>)"

# The native calls of V3 and V3.1.
NATIVE_CALLS_END = r"<[｜|]tool▁calls▁end[｜|]>\s*\Z"
NATIVE_TYPE = "function"  # stands before the name in V3, with a separator between
NATIVE_SEP_LENGTH = len("<｜tool▁sep｜>")
NATIVE_HEAD = (
    rf"\s*<[｜|]tool▁call▁begin[｜|]>(?:{NATIVE_TYPE}<[｜|]tool▁sep[｜|]>)?([^\n<]{{1,512}}?)"
    r"\s*(?:<[｜|]tool▁sep[｜|]>|\n)\s*"
    r"(?:```(?:json)?\s*)?"
)
NATIVE_CALL = NATIVE_HEAD + r"(\{.*?\})\s*(?:```)?\s*(?:<[｜|]tool▁call▁end[｜|]>|\Z)"
NATIVE_OPENING = r"<[｜|]tool▁calls▁begin[｜|]>"

CDATA = ("<![CDATA[", "]]>")
FENCES = "`~"
FENCE_LENGTH = 3
