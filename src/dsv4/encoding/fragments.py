"""The format's own words, labelled: what the renderers write around the texts they are given.

The fields here are the ones that `Prompt.pieces` shows; docs/encoding.md lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dsv4.encoding.pieces import REMEMBERED, Fragment, Label, Openings
from dsv4.format import tokens
from dsv4.format.dialects import (
    DEVELOPER_MESSAGE,
    NAME_END,
    RESPONSE_FORMAT,
    UNSUPPORTED,
    Dialect,
)
from dsv4.format.endings import Ending

BLANK_LINE = "\n\n"

_HEADER: Label = ("template", "header")
_TASK: Label = ("template", "task")
_RESULT: Label = ("template", "tool_result")
_CONTENT: Label = ("caller", "content")
_TOOLS: Label = ("template", "tools")
REASONING_LABEL: Label = ("model", "reasoning")
ANSWER_LABEL: Label = ("model", "content")
CALLS: Label = ("model", "tool_calls")

BOS = Fragment(tokens.BOS, ("template", "bos"), message=None)

# What opens a message. An empty one stands where the format writes nothing. Those for what the
# model writes are for answers without a header, and where a header alone does not tell.
SYSTEM = Openings("", _HEADER, _CONTENT)
LATER_SYSTEM = Openings(tokens.SYSTEM, _HEADER, _CONTENT)
USER = Openings(tokens.USER, _HEADER, _CONTENT)
REMINDER = Openings(tokens.LATEST_REMINDER, _HEADER, _CONTENT)
REASONING = Openings("", REASONING_LABEL, begins="reasoning")
ANSWER = Openings("", ANSWER_LABEL, begins="answer")
# Opens the prompt, before a system turn or the effort, where the dialect has the token.
SYSTEM_OPENING = Openings(tokens.SYSTEM, _HEADER)

# What the model writes to end its reasoning, and its turn.
REASONING_END = Fragment(tokens.THINK_END, REASONING_LABEL, ANSWER_LABEL)
ANSWER_END = Fragment(tokens.EOS, ("model", "eos"))

# What asks for an answer: with the model's thinking first, or without. It opens the message that
# answers, or none where none does.
ASK_THINKING = Openings(
    tokens.ASSISTANT + tokens.THINK_START,
    _HEADER,
    REASONING_LABEL,
    begins="reasoning",
    ending=Ending("think", thinking=True),
)
ASK_ANSWER = Openings(
    tokens.ASSISTANT + tokens.THINK_END,
    _HEADER,
    ANSWER_LABEL,
    begins="answer",
    ending=Ending("answer"),
)
# What asks for a task of the message that it opens.
ASK_TASK = {
    task: Openings(token, _TASK, ending=Ending("task", task=task))
    for task, token in tokens.TASK_TOKENS.items()
}
URL = Openings(tokens.EXTRACTED_URL, _TASK, ("caller", "extracted_url"))

# Parts of a user turn. Those between blocks, and before a first one, open the block's message.
BETWEEN = Openings(BLANK_LINE, ("template", "separator"), _CONTENT)
FIRST = Openings("", _CONTENT)
RESULT_START = Fragment(tokens.RESULT_START, _RESULT, _CONTENT)
RESULT_END = Fragment(tokens.RESULT_END, _RESULT)

# Parts of a content that is a list.
ITEM_BETWEEN = Fragment(BLANK_LINE, ("template", "separator"), _CONTENT)
MODEL_ITEM_BETWEEN = Fragment(BLANK_LINE, ANSWER_LABEL)
UNSUPPORTED_START = Fragment(UNSUPPORTED[0], ("template", "content"), _CONTENT)
UNSUPPORTED_END = Fragment(UNSUPPORTED[1], ("template", "content"), _CONTENT)
IMAGE = Fragment(tokens.IMAGE, ("template", "image"), _CONTENT)
MODEL_IMAGE = Fragment(tokens.IMAGE, ("template", "image"), ANSWER_LABEL)

# V3.2's own (docs/format.md, section 11.4). What asks after results has no assistant token.
DEVELOPER_TEXT = Fragment(DEVELOPER_MESSAGE, _HEADER, _CONTENT)
RESULTS_START = Openings(tokens.RESULTS_START, _RESULT)
RESULTS_END = Fragment(tokens.RESULTS_END, _RESULT)
ONE_RESULT_START = Openings(tokens.ONE_RESULT_START, _RESULT, _CONTENT)
ONE_RESULT_END = Fragment(tokens.ONE_RESULT_END, _RESULT)
THINK_AFTER_RESULTS = Openings(
    tokens.THINK_START,
    _HEADER,
    REASONING_LABEL,
    begins="reasoning",
    ending=Ending("think", thinking=True),
)
ANSWER_AFTER_RESULTS = Openings(
    tokens.THINK_END, _HEADER, ANSWER_LABEL, begins="answer", ending=Ending("answer")
)

RESPONSE_FORMAT_START = Fragment(
    BLANK_LINE + RESPONSE_FORMAT, ("template", "response_format"), ("caller", "response_format")
)

# Parts of a block of calls.
CALL_NAME_END = Fragment(NAME_END, CALLS)
CALL_BETWEEN = Fragment("\n", CALLS)


# The three that are needed for nearly every message, as lists: to find something in a list takes a
# third of the time.
_HOT = (USER, ASK_THINKING, ASK_ANSWER)
_hot_lists: tuple[list[Fragment], ...] = ([], [], [])


def hot_openings(count: int) -> Sequence[list[Fragment] | Openings]:
    """USER, ASK_THINKING and ASK_ANSWER for this many messages."""
    global _hot_lists
    known = _hot_lists
    if count <= len(known[0]):
        return known
    if count > REMEMBERED:
        return _HOT
    size = min(2 * count, REMEMBERED)
    # Another thread may do the same: then one of the results is forgotten.
    _hot_lists = known = tuple([openings[n] for n in range(size)] for openings in _HOT)
    return known


class DialectFragments:
    """What differs from dialect to dialect."""

    def __init__(self, dialect: Dialect) -> None:
        tags = dialect.tags
        self.tools_start = Fragment(BLANK_LINE + dialect.tools_open, _TOOLS, ("caller", "tools"))
        self.tools_end = Fragment(dialect.tools_close, _TOOLS)
        self.block_open = Fragment(tags.block_open, CALLS)
        self.block_close = Fragment(tags.block_close, CALLS)
        self.invoke_open = Fragment(tags.invoke_open, CALLS)
        self.invoke_close = Fragment(tags.invoke_close, CALLS)


fragments_of = lru_cache(DialectFragments)


@lru_cache
def effort_fragment(effort: str) -> Fragment:
    return Fragment(effort, ("template", "effort"), message=None)


def forced_call(dialect: Dialect, name: str | None) -> Fragment:
    """The opening of a block of calls that the prompt writes for the model; with a name, of a call.

    The prompt supplies it, so it is the template's, as a header is.
    """
    tags = dialect.tags
    opening = list(tags.block_open.parts)
    if name is not None:
        opening += [*tags.invoke_open.parts, name, NAME_END]
    return Fragment(tokens.Markup(opening), ("template", "tool_calls"), CALLS)
