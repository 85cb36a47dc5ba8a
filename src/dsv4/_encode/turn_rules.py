"""The rules for turns: merging, sorting and dropping (docs/format.md, section 3).

Nothing is copied or moved. A turn is a range of messages: one message, or a run of user and tool
messages that merge into one user turn. `Conventions` has one field for each point in which the
native API, the released modules and vLLM's copy differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from dsv4._encode.inputs import MessageFields, is_nonempty, maybe_dict, maybe_list
from dsv4._format.dialects import Arguments, Dialect


class Conventions(NamedTuple):
    """Whose rules a conversation is read by: one field for each difference.

    The released modules, vLLM's copy and the native API write the same bytes. They differ in a few
    field names and in what they refuse.
    """

    # The names of an assistant's thinking text; the first that is not empty wins.
    reasoning_fields: tuple[str, str] = ("reasoning_content", "reasoning")
    # Any of these, when true, leaves an assistant turn without its EOS.
    open_turn_fields: tuple[str, ...] = ("wo_eos", "prefix")
    # The field that gives the read_url task its URL, where there is one.
    url_field: str | None = "extracted_url"
    # What the caller knows the option for the effort as.
    effort_option: str = "effort"
    # What arguments may be, where that is not for the dialect to say.
    arguments: Arguments | None = None
    # Roles that no release has are an error even where dropping would remove them.
    known_roles_only: bool = True
    # Every tool must have a name.
    named_tools: bool = True
    # Tools are shown. Where they are not, they do not keep reasoning from being dropped either.
    shows_tools: bool = True
    # docs/format.md, section 3, last paragraph: the context is dropped once more, by itself.
    context_dropped_alone: bool = False


NATIVE = Conventions()
NATIVE_WITHOUT_TOOLS = NATIVE._replace(shows_tools=False)
RELEASED = Conventions(
    open_turn_fields=("wo_eos",),
    url_field=None,
    effort_option="reasoning_effort",
    known_roles_only=False,
    named_tools=False,
    context_dropped_alone=True,
)
VLLM = RELEASED._replace(reasoning_fields=("reasoning", "reasoning_content"), arguments="object")


# What stays before the last user turn when old reasoning is dropped. The last of them is no role of
# any release, but the released function keeps it, and then has no way to write it.
SURVIVING_ROLES = (
    *("system", "user", "assistant", "tool", "latest_reminder"),
    "direct_search_results",
)
_MERGING = ("user", "tool")


def survives_dropping(message: MessageFields) -> bool:
    """Whether a message stays when it comes before *last*. It may lose its reasoning."""
    return message["role"] in SURVIVING_ROLES


# Step 1, merging.


def turn_stop(messages: Sequence[MessageFields], start: int) -> int:
    """Where the turn that begins at `start` ends.

    A user message joins a user turn unless that carries a task; a tool result always does.
    """
    message = messages[start]
    if message["role"] not in _MERGING:
        return start + 1
    tasked = message["role"] == "user" and message.get("task") is not None
    joining = ("tool",) if tasked else _MERGING
    stop = start + 1
    while stop < len(messages) and messages[stop]["role"] in joining:
        stop += 1
    return stop


def last_turn_start(messages: Sequence[MessageFields]) -> int:
    """Where the last turn begins."""
    start = run = len(messages) - 1
    while run >= 0 and messages[run]["role"] in _MERGING:
        start, run = run, run - 1
    while (stop := turn_stop(messages, start)) < len(messages):
        start = stop
    return start


# Step 2, sorting.


def call_places(calls: Sequence[Any]) -> dict[Any, int]:
    """Call id -> place. A repeated id takes its last, an empty id is none."""
    places: dict[Any, int] = {}
    for place, call in enumerate(calls):
        fields = call if call.__class__ is dict else maybe_dict(call) or {}
        id = fields.get("id")
        if not isinstance(id, (str, int)) or not id:
            id = (maybe_dict(fields.get("function")) or {}).get("id")
        if isinstance(id, (str, int)) and id:
            places[id] = place
    return places


def result_place(id: object, places: dict[Any, int]) -> int:
    """Where a result belongs. One whose call is unknown counts as the first call's."""
    return places.get(id, 0) if isinstance(id, (str, int)) else 0


_RESULT_PLACE = itemgetter(0)


def sort_results(blocks: list[Any]) -> None:
    """Puts the results among the blocks in order, and leaves all else where it is.

    The first item of a block is where it belongs among the results, None if it is none.
    """
    try:
        blocks[:] = sorted(blocks, key=_RESULT_PLACE)
    except TypeError:  # there are not only results
        slots = [n for n, block in enumerate(blocks) if block[0] is not None]
        results = sorted((blocks[slot] for slot in slots), key=_RESULT_PLACE)
        for slot, block in zip(slots, results, strict=True):
            blocks[slot] = block


def last_calls(context: Sequence[MessageFields]) -> Sequence[Any] | None:
    """The calls of a context that results after it may answer."""
    for message in reversed(context):
        if message["role"] == "assistant" and (calls := maybe_list(message.get("tool_calls"))):
            return calls
    return None


# Step 3, dropping.


def last_asking_index(messages: Sequence[MessageFields], dialect: Dialect, first: bool) -> int:
    """The index of *last*, taken at its last message. -1 for none.

    `first` says whether the messages begin the conversation: a system turn that is the first asks
    in no dialect.
    """
    index = len(messages) - 1
    while index >= 0:
        role = messages[index]["role"]
        if role == "user" or role == "tool":
            break
        if role == "developer" and role in dialect.roles:
            break
        if role == "system" and dialect.systems_ask == "later" and (index or not first):
            break
        index -= 1
    return index


def are_plain(messages: Sequence[Any]) -> bool:
    """Whether all messages are dicts, and none has tools: most conversations, seen in one walk."""
    for message in messages:  # noqa: SIM110  (a generator takes twice as long)
        if message.__class__ is not dict or "tools" in message:
            return False
    return True


def any_tools(messages: Sequence[MessageFields], users_keep_tools: bool) -> bool:
    """Whether a turn has tools, which switches dropping off."""
    for message in messages:
        if "tools" in message and is_nonempty(message["tools"]):
            return _tools_after_merging(messages, users_keep_tools)
    return False


def _tools_after_merging(messages: Sequence[MessageFields], users_keep_tools: bool) -> bool:
    """Merging takes tools off whatever joins a turn, and in most dialects off user turns."""
    losing = ("tool",) if users_keep_tools else _MERGING
    start = 0
    while start < len(messages):
        if is_nonempty(messages[start].get("tools")) and messages[start]["role"] not in losing:
            return True
        start = turn_stop(messages, start)
    return False


def first_surviving_index(messages: Sequence[MessageFields], last: int) -> int:
    index = 0
    while index < last and not survives_dropping(messages[index]):
        index += 1
    return index


def last_task(context: Sequence[MessageFields], dropped: bool) -> Any:
    """The task of the context's last turn that stays."""
    end = len(context)
    while dropped and end and not survives_dropping(context[end - 1]):
        end -= 1
    if not end:
        return None
    last = context[last_turn_start(context[:end])]
    return last.get("task") if last["role"] != "tool" else None


def count_skipped_by_release(
    messages: Sequence[MessageFields], context: Sequence[MessageFields], dialect: Dialect
) -> int:
    """How many messages the released function passes over, with dropping on and a context.

    It counts what dropping the context by itself would leave. What stands at or after the context's
    own *last*, and yet is dropped, is counted too much: as many turns disappear.
    """
    last = max(last_asking_index(context, dialect, first=True), 0)
    turns = sum(not survives_dropping(message) for message in context[last:])
    start = 0
    while turns and start < len(messages):
        turns -= 1
        start = turn_stop(messages, start)
    return start
