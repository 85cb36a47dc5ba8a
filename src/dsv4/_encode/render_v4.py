"""The renderer of the V4 layout (docs/format.md, section 4), and a fast path for plain chats.

The fast path writes exactly what the renderer would write for a conversation of texts: an optional
system message, then users and assistants in turn, ending with a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from dsv4._encode.inputs import (
    IMAGE_TYPES,
    ContentBlock,
    MessageFields,
    SampledMessage,
    is_nonempty,
    maybe_dict,
    maybe_list,
    read_block,
    text_of,
    unknown_role,
)
from dsv4._encode.prompt import (
    ANSWER,
    BETWEEN_BLOCKS,
    BETWEEN_ITEMS,
    BETWEEN_MODEL_ITEMS,
    FIRST_BLOCK,
    REASONING,
    SYSTEM,
    DialectFragments,
    Fragment,
    Omission,
    Openings,
    RawTurn,
    effort_fragment,
)
from dsv4._encode.turns import (
    NATIVE,
    Conventions,
    TurnWriter,
    block_field,
    call_places,
    omissions,
    result_place,
    sort_results,
    survives_dropping,
    text_without_blocks,
    turn_stop,
)
from dsv4._format.dialects import ROLES, Dialect
from dsv4.errors import EncodeError, Location, mismatch

# A part of a user turn: its rank among the results, None for all other parts; the index of its
# message, its type, its content, its place in the message.
_UserTurnBlock: TypeAlias = tuple[int | None, int, str, Any, Location]
_CONTENT: Location = ("content",)

# As a renderer's `shown_from`: after every message.
NEVER_SHOWN = float("inf")


class RendererV4(TurnWriter):
    """Writes messages to `flat`, and the images among them to `images`.

    These must be known beforehand (section 3):

    - `shown_from`: turns at or after this index show their reasoning;
    - `vanishing_before`: messages before this index are dropped if their role does not
      survive dropping;
    - `first`: the first turn of the whole conversation that stays, None if that is in a context or
      is not a message of the caller's;
    - `calls_before`, `task_before`: the calls that results may answer before there are any here,
      and the task of the turn before the first one here, whose question is in the prompt already.

    Indices are those of the caller's messages.
    """

    # State that a turn leaves for the next. Whether it asks for reasoning, or for an answer without
    # it; None if it asks for nothing.
    _asks: bool | None = None
    # The message that carries the task, None if the context has asked already.
    _tasked: int | None = None

    def __init__(
        self,
        messages: Sequence[MessageFields],
        dialect: Dialect,
        rules: Conventions,
        shown_from: float = -1,
        vanishing_before: int = -1,
        first: int | None = 0,
        calls_before: Sequence[Any] | None = None,
        task_before: object = None,
    ) -> None:
        super().__init__(messages, dialect, rules)
        self.shown_from = shown_from
        self.vanishing_before = vanishing_before
        self.first = first
        self.task_before = task_before
        self._task = task_before
        self._last_calls = calls_before

    def start(self, bos: bool, effort: str = "", preamble: MessageFields | None = None) -> None:
        """Writes the text before the first turn of the whole conversation.

        `preamble` holds the request's own tools and response format, if no system message can take
        them: they are a system turn without a text.
        """
        flat, first = self.flat, self.first
        if bos:
            flat.append(self.words.bos)
        if self.dialect.system_token is not None:
            opening = self.words.system_opening
            if preamble is not None:
                flat.append(opening[None])
            elif self.messages and first is not None and self.messages[first]["role"] == "system":
                flat.append(opening[first])
            elif effort and self.messages:
                flat.append(opening[None])
        if effort and self.messages:
            flat.append(effort_fragment(effort))
        if preamble is not None:
            self._extras(preamble, ())

    def render(self, start: int = 0, ends_asking: bool = True) -> None:
        """Writes every turn from the message `start` on, and the transitions between turns.

        This loop is the hot path: turns of one plain text of a user or a tool are written here.
        `ends_asking` says whether the last turn's transition is written: it is not before a turn
        that answers nothing.
        """
        flat, messages, lists = self.flat, self.messages, self.dialect.lists_are_blocks
        count, index, shown_from = len(messages), start, self.shown_from
        words = self.words
        users = words.user.first(count)
        self._transitions = words.ask_answer.first(count), words.ask_thinking.first(count)
        while index < count:
            message = messages[index]
            role, content = message["role"], message.get("content")
            if lists and "content_blocks" in message:
                content = _blocks_given(message, content)
            if role == "assistant":
                self._answer(content, message, index)
            elif role == "user" or role == "tool":
                stop = index + 1
                if (
                    type(content) is not str
                    or "task" in message
                    or (stop < count and messages[stop]["role"] in ("user", "tool"))
                ):
                    index = self._merged_turn(message, index)
                    continue
                flat.append(users[index])
                if role == "user":
                    flat.append(content)
                else:
                    flat += words.result_start, content, words.result_end
                self._task, self._asks = None, index >= shown_from
            elif role == "system":
                self._system(content, message, index)
            elif index >= self.vanishing_before or survives_dropping(message):
                self._other(role, content, message, index)
            elif self.rules.known_roles_only and role not in ROLES:
                raise unknown_role(role, ("messages", index, "role"))
            index += 1
        if ends_asking:
            self._transition(None)

    def _transition(self, answer: int | None) -> None:
        """Writes the text between the turn before and the message `answer`, or the prompt's end."""
        if self._task is not None:
            self._write_task(self._task, self._tasked, answer)
        elif self._asks is not None:
            self.flat.append(self._header(self._asks, answer))

    # Turns of assistants and the system: plain text is written here, all else by the methods below.
    # Appending twice takes less time than adding a pair.

    def _answer(self, content: object, message: MessageFields, index: int) -> None:
        """Writes a turn of the assistant, and the transition before it."""
        flat, asks, task = self.flat, self._asks, self._task
        if task is not None:
            self._write_task(task, self._tasked, index)
        elif asks is not None:
            flat.append(self._transitions[asks][index])
        thinks = index > self.shown_from and task is None
        if type(message) is not SampledMessage or not self._sampled_turn(message, index, thinks):
            if asks is None or task is not None:
                flat.append(REASONING[index] if thinks else ANSWER[index])
            if thinks:
                reasoning = message.get(self.rules.reasoning_fields[0])
                if type(reasoning) is not str or not reasoning:
                    reasoning = self._reasoning(message, index)
                flat.append(reasoning)
                flat.append(self.words.reasoning_end)
            if type(content) is str:
                flat.append(content)
            else:
                self._content(content, index, BETWEEN_MODEL_ITEMS)
            if "tool_calls" in message:
                self._calls(message["tool_calls"], index)
            if ("wo_eos" not in message and "prefix" not in message) or self._closes(message):
                flat.append(self.words.answer_end)
        self._asks = None
        if "task" in message:
            self._task, self._tasked = message["task"], index
        elif task is not None:
            self._task = None

    def _system(self, content: object, message: MessageFields, index: int) -> None:
        """Writes a turn of the system."""
        if self.dialect.systems_ask == "never" and self.dialect.system_token is None:
            self.flat.append(SYSTEM[index])
            self._asks = None
        else:
            self._asks = self._system_opening(index)
        if type(content) is str:
            self.flat.append(content)
        else:
            self._content(content, index)
        if "tools" in message or "response_format" in message:
            self._extras(message, ("messages", index))
        self._task, self._tasked = message.get("task"), index

    def omissions(self) -> tuple[Omission, ...]:
        """The parts that were left out of the prompt."""
        return omissions(
            self.messages,
            self.dialect,
            self.rules,
            self.shown_from,
            self.vanishing_before,
            self.task_before,
        )

    # Turns of the system, of developers, reminders, and of roles that the format does not know.

    def _system_opening(self, index: int) -> bool | None:
        """Opens a system turn. Returns whether it asks for reasoning, None if it does not ask."""
        dialect, is_first = self.dialect, index == self.first
        plain = dialect.system_token is None or is_first
        opening = SYSTEM if plain else self.words.later_system
        self.flat.append(opening[index])
        if dialect.systems_ask == "never" or (is_first and dialect.systems_ask == "later"):
            return None
        return index >= self.shown_from

    def _other(self, role: str, content: object, message: MessageFields, index: int) -> None:
        """Writes a turn of a developer, or a reminder, which stands behind the transition."""
        if role not in ("latest_reminder", "developer") or role not in self.dialect.roles:
            raise unknown_role(role, ("messages", index, "role"), self.dialect.roles)
        if role == "latest_reminder":
            self._transition(None)
            self.flat.append(self.words.reminder[index])
            self._content(content, index)
            self._asks = None
        else:
            self._developer_turn(content, message, index)
            self._asks = index >= self.shown_from
        self._task, self._tasked = message.get("task"), index

    def _developer_turn(self, content: object, message: MessageFields, index: int) -> None:
        self.flat.append(self.words.user[index])
        before = len(self.flat)
        self._content(content, index)
        if not any(self.flat[before:]):
            problem = "found nothing, expected the text of a developer turn"
            raise EncodeError(("messages", index, "content"), problem)
        self._extras(message, ("messages", index))

    # Tasks.

    def _write_task(self, task: object, tasked: int | None, answer: int | None) -> None:
        """Writes the question of a task (section 7): `tasked` carries it, `answer` answers it."""
        if tasked is None:
            return
        tasks = self.words.ask_task
        token = tasks.get(task) if isinstance(task, str) else None
        if token is None:
            problem = mismatch(task, f"one of {', '.join(tasks)}")
            raise EncodeError(("messages", tasked, "task"), problem)
        if task == "action":
            self.flat.append(self._header(self.shown_from != NEVER_SHOWN, answer))
        if task == "read_url" and self.rules.url_field is not None:
            self._url(tasked, self.rules.url_field)
        self.flat.append(token[tasked])

    def _url(self, index: int, field: str) -> None:
        url = self.messages[index].get(field)
        if url is None:
            return
        if not isinstance(url, str) or not url:
            raise EncodeError(("messages", index, field), mismatch(url, "the URL as text"))
        self.flat += self.words.url[index], str.__str__(url)

    # User turns.

    def _merged_turn(self, message: MessageFields, start: int) -> int:
        """Writes a turn of users and tools, from its first message on. Returns the next's start."""
        stop = turn_stop(self.messages, start)
        self._task = message.get("task") if message["role"] == "user" else None
        self._tasked = start
        self._user_turn(start, stop)
        self._asks = stop > self.shown_from
        return stop

    def _user_turn(self, start: int, stop: int) -> None:
        """Writes a user turn of the messages from `start` to `stop`."""
        flat, words, is_first = self.flat, self.words, True
        flat.append(words.user[start])
        blocks = self._sorted_blocks(start, stop)
        if not blocks:  # `content_blocks` are empty: the release then writes the text beside them
            flat.append(text_without_blocks(self.messages[start]))
        for _, index, kind, content, place in blocks:
            if not is_first:
                flat.append(BETWEEN_BLOCKS[index])
            elif index != start:
                flat.append(FIRST_BLOCK[index])
            is_first = False
            if kind == "tool_result":
                if content.__class__ is str:
                    flat += words.result_start, content, words.result_end
                else:
                    flat.append(words.result_start)
                    self._result(content, index, place)
                    flat.append(words.result_end)
            elif kind != "text":
                self._other_block(kind, content, ("messages", index, *place))
            elif content.__class__ is str:
                flat.append(content)
            else:
                flat.append(text_of(content, ("messages", index, *place)))

    def _sorted_blocks(self, start: int, stop: int) -> list[_UserTurnBlock]:
        """The blocks of a user turn, results in the order of their calls (section 3, step 2)."""
        blocks: list[_UserTurnBlock] = []
        calls, lists = self._last_calls, self.dialect.lists_are_blocks
        # A single call puts nothing in order: unknown ids have the same place.
        places = call_places(calls) if calls is not None and len(calls) > 1 else {}
        for index in range(start, stop):
            message = self.messages[index]
            if message["role"] == "tool":
                id, content = message.get("tool_call_id"), message.get("content")
                wanted = places.get(id, 0) if id.__class__ is str else result_place(id, places)
                if lists and "content_blocks" in message:
                    content = _blocks_given(message, content)
                blocks.append((wanted, index, "tool_result", content, _CONTENT))
            elif lists:
                blocks += _listed_blocks(message, index, places)
            else:
                blocks.append((None, index, "text", message.get("content"), _CONTENT))
        if places:
            sort_results(blocks)
        return blocks

    def _result(self, content: object, index: int, place: Location) -> None:
        """Writes a tool's result that is not simply text."""
        location = ("messages", index, *place)
        if len(place) > 1:  # a block of a user's list: its content is inside
            location = (*location, "content")
        elif self.dialect.lists_are_blocks and not self.dialect.result_blocks_named:
            self._content(content, index)
            return
        listed = maybe_list(content)
        if listed is None:
            self.flat.append(text_of(content, location))
            return
        for n, item in enumerate(listed):
            if n:
                self.flat.append(BETWEEN_ITEMS)
            block = read_block(item, (*location, n))
            if block.kind == "text":
                self.flat.append(block.content)
            else:
                self._other_block(block.kind, block.content, (*location, n))

    def _other_block(self, kind: str, block: MessageFields, location: Location) -> None:
        if kind in IMAGE_TYPES and self.dialect.image_token is not None:
            self._add_image(block, location)
            self.flat.append(self.words.image)
        else:
            self.flat += self.words.unsupported_start, kind, self.words.unsupported_end

    # Parts of assistant turns.

    def _closes(self, message: MessageFields) -> bool:
        """Whether an assistant turn ends with EOS."""
        return not any(is_nonempty(message.get(field)) for field in self.rules.open_turn_fields)

    # Turns as they were sampled.

    def _sampled_turn(self, message: SampledMessage, index: int, thinks: bool) -> bool:
        """Writes a turn as the model wrote it. False if its text does not say what to show: then it
        is written like any other, from the message as it was read."""
        field, other = self.rules.reasoning_fields
        reasoned = is_nonempty(message.get(field)) or is_nonempty(message.get(other))
        closes, own = self._closes(message), self.dialect.tokens
        turn = RawTurn(message.sampled, reasoned, thinks, closes, own)
        self._add_sampled(index, turn)
        if turn.text is None:
            return False
        self.flat += turn.entries(index, self.dialect)
        if is_nonempty(message.get("tool_calls")):
            self._last_calls = maybe_list(message["tool_calls"])
        return True

    def _header(self, thinks: bool, answer: int | None) -> str:
        return (self.words.ask_thinking if thinks else self.words.ask_answer)[answer]


def _blocks_given(message: MessageFields, content: object) -> Any:
    """The content of a message that has `content_blocks` (section 12.1).

    They replace a user's content, and a list on any role; beside the text of another role they are
    not written.
    """
    if isinstance(content, str) and message["role"] != "user":
        return content
    return message.get(block_field(message))


def _listed_blocks(
    message: MessageFields, index: int, places: dict[Any, int]
) -> Iterator[_UserTurnBlock]:
    """The blocks of a user message, if lists are blocks in the dialect."""
    field = block_field(message)
    content = message.get(field)
    listed = maybe_list(content)
    if listed is None:
        yield None, index, "text", content, (field,)
        return
    for n, item in enumerate(listed):
        block = _user_block(item, ("messages", index, field, n))
        wanted = result_place(block.call_id, places) if block.kind == "tool_result" else None
        yield wanted, index, block.kind, block.content, (field, n)


def _user_block(item: object, location: Location) -> ContentBlock:
    """An item of a user's list, if lists are blocks: it has to be a block."""
    if isinstance(item, str):
        raise EncodeError(location, mismatch(item, 'a block such as {"type": "text"}'))
    block = read_block(item, location)
    if block.kind == "text" and (maybe_dict(item) or {}).get("text") is None:
        raise EncodeError((*location, "text"), "found None, expected text")
    return block


def maybe_plain_chat(  # noqa: C901, PLR0912 - one walk, on the hot path
    messages: Sequence[Any], dialect: Dialect, thinking: bool, bos: bool, effort: str
) -> list[str] | None:
    """The pieces of a plain chat whose old reasoning is not shown. None for anything else.

    A plain chat is an optional system message, then users and assistants in turn, a user last.
    Every message is a dict with `role` and `content`, which is text; an assistant's may also have
    `reasoning_content`, which is dropped. This takes half the time of the renderer.
    """
    words = dialect.made[DialectFragments].chat
    if words is None:
        return None
    bos_word, user, asking, answer_end, endings = words
    count = len(messages)
    users: list[Fragment] | Openings = user.listed
    answers: list[Fragment] | Openings = asking.listed
    if len(users) < count or len(answers) < count:
        users, answers = user.first(count), asking.first(count)
    flat: list[str] = [bos_word] if bos else []
    if effort and thinking:
        flat.append(effort_fragment(effort))
    before = None
    try:
        for index, message in enumerate(messages):
            if message.__class__ is not dict:
                return None
            role, content = message["role"], message["content"]
            if content.__class__ is not str:
                return None
            if role == "user":
                if before == role or len(message) != 2:
                    return None
                flat.append(users[index])
                flat.append(content)
            elif role == "assistant":
                if before != "user" or len(message) != 2 + ("reasoning_content" in message):
                    return None
                flat.append(answers[index])
                flat.append(content)
                flat.append(answer_end)
            elif role == "system" and before is None and len(message) == 2:
                flat.append(SYSTEM[index])
                flat.append(content)
            else:
                return None
            before = role
    except Exception:  # no role, no content, or one that cannot be compared: the renderer says so
        return None
    if before != "user":
        return None
    flat.append(endings[thinking])
    return flat


def plain_chat_omissions(
    messages: Sequence[Any], dialect: Dialect, thinking: bool
) -> tuple[Omission, ...]:
    """The reasoning, which the prompt of a plain chat does not show."""
    last = len(messages) - 1
    return omissions(messages, dialect, NATIVE, last if thinking else NEVER_SHOWN, last, None)
