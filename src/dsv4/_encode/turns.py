"""Turns: the rules that merge, sort and drop them (docs/format.md, section 3), the parts that the
format leaves out of them, and the parts that they share in every layout.

Nothing is copied or moved. A turn is a range of messages: one message, or a run of user and tool
messages that merge into one user turn. `Conventions` has one field for each point in which the
native API, the released modules and vLLM's copy differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from operator import itemgetter
from typing import Any, Literal

from dsv4._encode.inputs import (
    IMAGE_TYPES,
    MessageFields,
    image_record,
    is_nonempty,
    maybe_dict,
    maybe_list,
    read_block,
    text_of,
    type_of,
)
from dsv4._encode.prompt import (
    BETWEEN_CALLS,
    BETWEEN_ITEMS,
    BETWEEN_MODEL_ITEMS,
    DialectFragments,
    Omission,
    OmissionRule,
    RawTurn,
)
from dsv4._encode.tools import (
    ParametersWriter,
    PrewrittenText,
    json_at,
    parameters_writer,
    qualified_call_name,
    schemas_text,
)
from dsv4._format.dialects import Arguments, Dialect
from dsv4._format.frozen_class import dataclass, replace
from dsv4.errors import EncodeError, Location, OptionError, mismatch


@dataclass(frozen=True)
class Conventions:
    """The conventions by which a conversation is read: one field for each difference.

    The released modules, vLLM's copy and the native API write the same bytes. They differ in a few
    field names and in the values that they refuse.
    """

    # The names of an assistant's thinking text; the first that is not empty wins.
    reasoning_fields: tuple[str, str] = ("reasoning_content", "reasoning")
    # Any of these, when true, leaves an assistant turn without its EOS.
    open_turn_fields: tuple[str, ...] = ("wo_eos", "prefix")
    # The field that gives the read_url task its URL, if there is one.
    url_field: str | None = "extracted_url"
    # The caller's name for the option of the effort.
    effort_option: str = "effort"
    # The arguments that a call may have, if the dialect does not decide that.
    arguments: Arguments | None = None
    # Roles that no release has are an error even where dropping would remove them.
    known_roles_only: bool = True
    # Every tool must have a name.
    named_tools: bool = True
    # Tools are shown. If they are not, they do not keep reasoning from being dropped either.
    shows_tools: bool = True
    # docs/format.md, section 3, last paragraph: the context is dropped once more, by itself.
    context_dropped_alone: bool = False


NATIVE = Conventions()
NATIVE_WITHOUT_TOOLS = replace(NATIVE, shows_tools=False)
RELEASED = Conventions(
    open_turn_fields=("wo_eos",),
    url_field=None,
    effort_option="reasoning_effort",
    known_roles_only=False,
    named_tools=False,
    context_dropped_alone=True,
)
VLLM = replace(RELEASED, reasoning_fields=("reasoning", "reasoning_content"), arguments="object")


# Roles whose messages stay before the last user turn when old reasoning is dropped. No release has
# the last of them, but the released function keeps it, and then has no way to write it.
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
    """The end of the turn that begins at `start`.

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
    """The index at which the last turn begins."""
    start = run = len(messages) - 1
    while run >= 0 and messages[run]["role"] in _MERGING:
        start, run = run, run - 1
    while (stop := turn_stop(messages, start)) < len(messages):
        start = stop
    return start


# Step 2, sorting.


def call_places(calls: Sequence[Any]) -> dict[Any, int]:
    """Call id -> place. A repeated id has its last place, an empty id does not count."""
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
    """The place of a result. One whose call is unknown counts as the first call's."""
    return places.get(id, 0) if isinstance(id, (str, int)) else 0


_RESULT_PLACE = itemgetter(0)


def sort_results(blocks: list[Any]) -> None:
    """Puts the results among the blocks in order, and leaves all other blocks where they are.

    The first item of a block is its rank among the results, None if it is not a result.
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
    """The index of *last*, taken at its last message. -1 if there is none.

    `first` says whether the messages begin the conversation: the first system turn asks in no
    dialect.
    """
    index = len(messages) - 1
    while index >= 0:
        message = messages[index]
        if message["role"] in _MERGING and not (dialect.results_ask or _says(message)):
            index, asking = _asking_in_run(messages, index)
            if asking is not None:
                return asking
        elif _asks(message, dialect, first and not index):
            break
        index -= 1
    return index


def _asks(message: MessageFields, dialect: Dialect, is_first: bool) -> bool:
    role = message["role"]
    if role != "system":
        return role in _MERGING or (role == "developer" and role in dialect.roles)
    if is_first or dialect.systems_ask != "later":
        return False
    return dialect.results_ask or _says(message) is not False


def _asking_in_run(messages: Sequence[MessageFields], end: int) -> tuple[int, int | None]:
    """The start of the run of user turns that ends at `end`, and the last message of the last turn
    in it that asks even though mere results do not (section 14)."""
    begin, asking = end, None
    while begin and messages[begin - 1]["role"] in _MERGING:
        begin -= 1
    start = begin
    while start <= end:
        stop = turn_stop(messages, start)
        if turn_says(messages[start:stop]):
            asking = stop - 1
        start = stop
    return begin, asking


def turn_says(turn: Sequence[MessageFields]) -> bool:
    """Whether a user turn has a text, an image, or no block at all, and so asks in any dialect."""
    said = [_says(message) for message in turn]
    return True in said or False not in said


def _says(message: MessageFields) -> bool | None:
    """Whether a message has a text or an image, and not only results and other blocks. None if it
    has no block at all."""
    if message["role"] == "tool":
        return False
    listed = maybe_list(message.get(block_field(message)))
    if listed is None:
        return True
    return any(type_of(block) in SPOKEN_TYPES for block in listed) if listed else None


SPOKEN_TYPES = ("text", *IMAGE_TYPES)


def block_field(message: MessageFields) -> Literal["content", "content_blocks"]:
    """The field whose blocks are read, if lists are blocks (section 12.1). Empty `content_blocks`
    do not replace a list."""
    blocks = message.get("content_blocks")
    if blocks is None or (_is_empty_list(blocks) and maybe_list(message.get("content"))):
        return "content"
    return "content_blocks"


def _is_empty_list(value: object) -> bool:
    listed = maybe_list(value)
    return listed is not None and not listed


def are_plain(messages: Sequence[Any]) -> bool:
    """Whether all messages are dicts, and none has tools, as in most conversations."""
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
    """Whether a turn has tools after merging, which takes them off messages that join a turn, and
    in most dialects off user turns."""
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
    messages: Sequence[MessageFields],
    context: Sequence[MessageFields],
    dialect: Dialect,
    vanishing_before: int,
) -> int:
    """The number of messages that the released function skips, with dropping on and a context.

    It counts the messages that dropping the context by itself would leave. Those at or after the
    context's own *last* that are dropped all the same are counted too: as many turns disappear of
    those that are left. With the context [developer], [developer, assistant, user] loses its
    assistant too.
    """
    last = max(last_asking_index(context, dialect, first=True), 0)
    turns = sum(not survives_dropping(message) for message in context[last:])
    start = 0
    while turns and start < len(messages):
        if start >= vanishing_before or survives_dropping(messages[start]):
            turns -= 1
        start = turn_stop(messages, start)
    return start


# Parts that the format leaves out of a prompt, and the rules for them (docs/encoding.md).


# Role -> fields that are read besides its content. No text is lost with ids: they order results.
_READ: dict[str, tuple[str, ...]] = {
    "system": ("tools", "response_format", "task"),
    "developer": ("tools", "response_format", "task"),
    "user": ("task",),
    "assistant": ("tool_calls", "task"),
    "tool": ("tool_call_id",),
    "latest_reminder": ("task",),
}
_ANSWERING = ("assistant", "latest_reminder")
# V3.2 reads neither tasks nor fields that leave a turn open, and ignores ids.
_READ_V32: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("system", "developer"), ("tools", "response_format")),
    "assistant": ("tool_calls", "reasoning_content", "reasoning"),
    "tool": ("tool_call_id",),
}


def fields_read(role: object, dialect: Dialect) -> frozenset[str]:
    """The fields that the encoder reads of a message, if everything about it fits."""
    named = role if isinstance(role, str) else ""
    if dialect.layout == "v3.2":
        return frozenset({"role", "content", *_READ_V32.get(named, ())})
    read = {"role", "content", *_READ.get(named, ())}
    if named == "assistant":
        read.update(NATIVE.reasoning_fields, NATIVE.open_turn_fields)
    if named == "user":
        read.add(str(NATIVE.url_field))
    return frozenset((*read, "content_blocks") if dialect.lists_are_blocks else read)


def omissions(
    messages: Sequence[MessageFields],
    dialect: Dialect,
    rules: Conventions,
    shown_from: float,
    vanishing_before: int,
    task_before: object,
) -> tuple[Omission, ...]:
    """Everything that was left out, in the order of the messages."""
    left_out: list[Omission] = []
    task, start = task_before, 0
    while start < len(messages):
        first, stop = messages[start], turn_stop(messages, start)
        if start < vanishing_before and not survives_dropping(first):
            left_out.append(Omission(start, "message", "vanished"))
            start = stop
            continue
        if first["role"] == "assistant":
            hidden = _reasoning_rule(task, start, shown_from)
            if hidden:
                left_out += (
                    Omission(start, name, hidden)
                    for name in rules.reasoning_fields
                    if is_nonempty(first.get(name))
                )
        begin = start if _has_no_blocks(messages[start:stop]) else None
        for index in range(start, stop):
            left_out += _of_message(messages[index], index, index > start, dialect, rules, begin)
        task = first.get("task") if first["role"] != "tool" else None
        if task is not None and stop < len(messages) and messages[stop]["role"] not in _ANSWERING:
            left_out.append(Omission(start, "task", "not_asked"))
        start = stop
    return tuple(left_out)


def omissions_v32(
    messages: Sequence[MessageFields], rules: Conventions, shown_from: float, vanished: Set[int]
) -> tuple[Omission, ...]:
    """The same for V3.2's layout."""
    results: list[Omission] = []
    for index, message in enumerate(messages):
        if index in vanished:
            results.append(Omission(index, "message", "vanished"))
            continue
        read = {"role", "content", *_READ_V32.get(message["role"], ())}
        hidden = _reasoning_rule(None, index, shown_from)
        for field in filter(lambda field: is_nonempty(message[field]), message):
            if field in rules.reasoning_fields and message["role"] == "assistant" and hidden:
                results.append(Omission(index, field, hidden))
            elif field == "tools" and not rules.shows_tools and field in read:
                results.append(Omission(index, field, "tool_choice"))
            elif field not in read:
                results.append(Omission(index, field, "unread"))
    return tuple(results)


def _reasoning_rule(task: object, index: int, shown_from: float) -> OmissionRule | None:
    if task is not None:
        return "task_answer"
    if shown_from == float("inf"):
        return "chat_mode"
    return "old_reasoning" if index <= shown_from else None


def _of_message(
    message: MessageFields,
    index: int,
    joined: bool,
    dialect: Dialect,
    rules: Conventions,
    first: int | None,
) -> Iterator[Omission]:
    """The fields of a message that were left out. `first` is the index of the message whose text is
    written though it has blocks."""
    role = message["role"]
    read = {"role", "content", *_READ.get(role, ())}
    if role == "assistant":
        read.update(rules.reasoning_fields, rules.open_turn_fields)
    task = message.get("task")
    if role == "user" and isinstance(task, str) and task == "read_url" and rules.url_field:
        read.add(rules.url_field)
    blocks = dialect.lists_are_blocks and block_field(message) == "content_blocks"
    # Beside a text, another role's blocks are not written.
    if blocks and (role == "user" or not isinstance(message.get("content"), str)):
        read.add("content_blocks")
        if role == "user" and is_nonempty(message.get("content")) and index != first:
            yield Omission(index, "content", "unread")
    for field, value in message.items():
        if not is_nonempty(value):
            continue
        if field == "tools" and not rules.shows_tools and "tools" in read:
            yield Omission(index, "tools", "tool_choice")
        elif joined and field not in ("role", "content", "content_blocks", "tool_call_id"):
            yield Omission(index, field, "joined")
        elif field not in read:
            yield Omission(index, field, "unread")
    named = role == "user" or (role == "tool" and dialect.result_blocks_named)
    if dialect.lists_are_blocks and not named:
        yield from _unseen_blocks(
            message, index, "content_blocks" if "content_blocks" in read else "content"
        )


def _unseen_blocks(message: MessageFields, index: int, field: str) -> Iterator[Omission]:
    """Omissions for blocks that the prompt does not even name."""
    for item in maybe_list(message.get(field)) or ():
        if type_of(item) not in ("text", *IMAGE_TYPES):
            yield Omission(index, field, "unseen_block")


def _has_no_blocks(turn: Sequence[MessageFields]) -> bool:
    """Whether a user turn brings no block, where lists are blocks (section 12.1)."""
    return all(
        message["role"] == "user"
        and block_field(message) == "content_blocks"
        and not maybe_list(message["content_blocks"])
        for message in turn
    )


def text_without_blocks(message: MessageFields) -> str:
    """The text that such a turn writes: that of its first message."""
    content = message.get("content")
    return str.__str__(content) if isinstance(content, str) else ""


# The parts that turns share in every layout: content, tools, reasoning, calls.


class TurnWriter:
    """Writes parts of turns to `flat`, and the images among them to `images`.

    Indices are those of the caller's messages.
    """

    # Few conversations have these, so they are only set where there are some.
    images: list[MessageFields] | None = None
    # Turns that a tokenizer places as they were sampled, by message.
    sampled: dict[int, RawTurn] | None = None
    # The calls that results may answer.
    _last_calls: Sequence[Any] | None = None
    # The writer of the calls' parameters, looked up for the first of them.
    _parameters_writer: ParametersWriter | None = None

    def __init__(
        self, messages: Sequence[MessageFields], dialect: Dialect, rules: Conventions
    ) -> None:
        self.messages = messages
        self.dialect = dialect
        self.rules = rules
        self.words = dialect.made[DialectFragments]
        self.flat: list[str] = []

    def omissions(self) -> tuple[Omission, ...]:
        """The parts that were left out of the prompt."""
        raise NotImplementedError

    def _add_image(self, block: MessageFields, location: Location) -> None:
        if self.images is None:
            self.images = []
        self.images.append(image_record(block, location))

    def _add_sampled(self, index: int, turn: RawTurn) -> None:
        if turn.sampled.ids is not None:
            self.sampled = self.sampled or {}
            self.sampled[index] = turn

    def _extras(self, message: MessageFields, location: Location) -> None:
        """Writes tools and response format of a message, or of the request."""
        tools, response_format = message.get("tools"), message.get("response_format")
        # The request's tools are written already, and never empty.
        has_tools = type(tools) is PrewrittenText or is_nonempty(tools)
        if has_tools and self.rules.shows_tools:
            place, words = (*location, "tools"), self.words
            schemas = schemas_text(tools, self.rules.named_tools, self.dialect.namespace_end, place)
            self.flat += words.tools_start, schemas, words.tools_end
        if response_format is not None and is_nonempty(response_format):
            if type(response_format) is PrewrittenText:
                schema = str.__str__(response_format)
            else:
                schema = json_at(response_format, (*location, "response_format"))
            self.flat += self.words.response_format, schema

    def _content(self, content: object, index: int, between: str = BETWEEN_ITEMS) -> None:
        """Writes content that may be a list of texts, and of images if the dialect has them."""
        location = ("messages", index, "content")
        listed = maybe_list(content) if self.dialect.lists_are_blocks else None
        if listed is None:
            self.flat.append(text_of(content, location))
            return
        words = self.words
        image = words.model_image if between is BETWEEN_MODEL_ITEMS else words.image
        is_first = True
        for n, item in enumerate(listed):
            block = maybe_dict(item) or {}
            kind = type_of(block)
            if kind in IMAGE_TYPES:
                self._add_image(block, (*location, n))
                text: str = image
            elif kind == "text":
                text = read_block(block, (*location, n)).content
            else:
                continue
            if not is_first:
                self.flat.append(between)
            self.flat.append(text)
            is_first = False

    def _reasoning(self, message: MessageFields, index: int) -> str:
        field, other = self.rules.reasoning_fields
        text = message.get(field)
        if type(text) is str and text:
            return text
        if text is None or not is_nonempty(text):
            field, text = other, message.get(other)
            if text is None:
                return ""
        return text if type(text) is str else text_of(text, ("messages", index, field))

    def _calls(self, calls: object, index: int) -> None:
        listed = calls if type(calls) is list else _call_list(calls, index)
        if not listed:
            return
        self._last_calls = listed
        writer = self._parameters_writer or self._look_up_writer()
        words, namespace_end = self.words, self.dialect.namespace_end
        flat, opening, name_end = self.flat, words.block_open, words.name_end
        for n, call in enumerate(listed):
            if call.__class__ is not dict or call.get("function").__class__ is not dict:
                call = _plain_call(call, ("messages", index, "tool_calls", n))
            function = call["function"]
            name = function.get("name")
            if name.__class__ is not str:
                name = _exact_name(name, ("messages", index, "tool_calls", n, "function", "name"))
            if namespace_end and (
                namespace_end in name or "namespace" in call or "namespace" in function
            ):
                place = ("messages", index, "tool_calls", n)
                name = qualified_call_name(call, function, place, namespace_end)
            arguments = function.get("arguments")
            text = writer.cache.texts.get(arguments) if arguments.__class__ is str else None
            parameters = self._parameters(writer, function, index, n) if text is None else text
            flat += opening, words.invoke_open, name, name_end, parameters, words.invoke_close
            opening = BETWEEN_CALLS
        flat.append(words.block_close)

    def _parameters(
        self, writer: ParametersWriter, function: MessageFields, index: int, n: int
    ) -> str:
        if "arguments" not in function:
            return ""
        try:
            return writer.write(function["arguments"])
        except (EncodeError, OptionError) as error:
            place = ("messages", index, "tool_calls", n, "function", "arguments", *error.location)
            raise EncodeError(place, error.problem) from None

    def _look_up_writer(self) -> ParametersWriter:
        rule = self.rules.arguments or self.dialect.arguments
        self._parameters_writer = parameters_writer(self.dialect.tags, rule)
        return self._parameters_writer


def _call_list(calls: object, index: int) -> Sequence[Any]:
    listed = () if calls is None else maybe_list(calls)
    if listed is None:
        raise EncodeError(("messages", index, "tool_calls"), mismatch(calls, "a list of calls"))
    return listed


def _plain_call(call: object, location: Location) -> MessageFields:
    """A call and its function object as dicts."""
    fields = maybe_dict(call)
    if fields is None:
        raise EncodeError(location, mismatch(call, "a call object"))
    function = maybe_dict(fields.get("function"))
    if function is None:
        problem = mismatch(fields.get("function"), "a function object")
        raise EncodeError((*location, "function"), problem)
    return {**fields, "function": function}


def _exact_name(name: object, location: Location) -> str:
    if not isinstance(name, str):
        raise EncodeError(location, mismatch(name, "the tool's name"))
    return str.__str__(name)
