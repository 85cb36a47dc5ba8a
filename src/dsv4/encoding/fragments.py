"""The format's own words, labelled: what the renderer writes around the texts it is given.

The field names here are the ones that `Prompt.pieces` shows; docs/encoding.md lists them.
"""

from __future__ import annotations

from functools import lru_cache

from dsv4.encoding.prompt import Fragment, Label
from dsv4.format import tokens
from dsv4.format.dialects import NAME_END, RESPONSE_FORMAT, UNSUPPORTED, Dialect

BLANK_LINE = "\n\n"

_HEADER: Label = ("template", "header")
_TASK: Label = ("template", "task")
_RESULT: Label = ("template", "tool_result")
_CONTENT: Label = ("caller", "content")
_REASONING: Label = ("model", "reasoning")
_ANSWER: Label = ("model", "content")
CALLS: Label = ("model", "tool_calls")

BOS = Fragment(tokens.BOS, ("template", "bos"))

# What opens a message. An empty one stands where the format writes nothing.
SYSTEM = Fragment("", _HEADER, _CONTENT, opens=True)
LATER_SYSTEM = Fragment(tokens.SYSTEM, _HEADER, _CONTENT, opens=True)
USER = Fragment(tokens.USER, _HEADER, _CONTENT, opens=True)
REMINDER = Fragment(tokens.LATEST_REMINDER, _HEADER, _CONTENT, opens=True)
REASONING = Fragment("", _REASONING, opens=True)
ANSWER = Fragment("", _ANSWER, opens=True)
# A user turn whose messages are announced one by one.
USER_TURN = Fragment(tokens.USER, _HEADER)

# What the model writes to end its reasoning, and its turn.
REASONING_END = Fragment(tokens.THINK_END, _REASONING, _ANSWER)
ANSWER_END = Fragment(tokens.EOS, ("model", "eos"))

# What asks for an answer: with the model's thinking first, or without.
ASK_THINKING = Fragment(tokens.ASSISTANT + tokens.THINK_START, _HEADER, asks=True)
ASK_ANSWER = Fragment(tokens.ASSISTANT + tokens.THINK_END, _HEADER, asks=True)
ASK_TASK = {task: Fragment(token, _TASK) for task, token in tokens.TASK_TOKENS.items()}
URL = Fragment(tokens.EXTRACTED_URL, _TASK, ("caller", "extracted_url"))

# Parts of a user turn.
BETWEEN = Fragment(BLANK_LINE, ("template", "separator"), _CONTENT)
TEXT = Fragment("", _CONTENT)
RESULT_START = Fragment(tokens.RESULT_START, _RESULT, _CONTENT)
RESULT_END = Fragment(tokens.RESULT_END, _RESULT)
UNSUPPORTED_START = Fragment(UNSUPPORTED[0], ("template", "content"), _CONTENT)
UNSUPPORTED_END = Fragment(UNSUPPORTED[1], ("template", "content"), _CONTENT)
IMAGE = Fragment(tokens.IMAGE, ("template", "image"), _CONTENT)

RESPONSE_FORMAT_START = Fragment(
    BLANK_LINE + RESPONSE_FORMAT, ("template", "response_format"), ("caller", "response_format")
)

# Parts of a block of calls.
CALL_NAME_END = Fragment(NAME_END, CALLS)
CALL_BETWEEN = Fragment("\n", CALLS)


class DialectFragments:
    """What differs from dialect to dialect."""

    def __init__(self, dialect: Dialect) -> None:
        tags, tools = dialect.tags, ("template", "tools")
        self.tools_start = Fragment(BLANK_LINE + dialect.tools_open, tools, ("caller", "tools"))
        self.tools_end = Fragment(dialect.tools_close, tools)
        self.block_open = Fragment(tags.block_open, CALLS)
        self.block_close = Fragment(tags.block_close, CALLS)
        self.invoke_open = Fragment(tags.invoke_open, CALLS)
        self.invoke_close = Fragment(tags.invoke_close, CALLS)


fragments_of = lru_cache(DialectFragments)


@lru_cache
def effort_fragment(effort: str) -> Fragment:
    return Fragment(effort, ("template", "effort"))


# Before the first turn of the conversation, where the dialect has the token.
SYSTEM_OPENING = Fragment(tokens.SYSTEM, _HEADER)
