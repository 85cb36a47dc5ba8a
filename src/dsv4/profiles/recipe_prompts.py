"""The two prompts that deepseek-recipe writes from a conversation: V4 and V4.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from dsv4._encode.tools import to_json
from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, Dialect
from dsv4._format.texts import RECIPE_JSON_OBJECT, RESPONSE_FORMAT
from dsv4.profiles import recipe_request, rust_json
from dsv4.profiles.markup_texts import JsonWriter, calls_block, parameters, tools_section
from dsv4.profiles.recipe_request import RecipeCall, RecipeConversation, RecipeMessage
from dsv4.profiles.server_requests import BLANK_LINE, OFFICIAL_DIALECTS, Object, served_dialect


def _extras(conversation: RecipeConversation, dialect: Dialect, json: JsonWriter) -> list[str]:
    """The parts after the system text: the tools, and the format of the answer."""
    extras = []
    if conversation.schemas:
        extras.append(tools_section(conversation.schemas, dialect, json))
    if conversation.json_object:
        any_object = RESPONSE_FORMAT + json({"type": "json_object"})
        extras.append(any_object if dialect.system_token else RECIPE_JSON_OBJECT)
    elif conversation.format is not None:
        extras.append(RESPONSE_FORMAT + json(conversation.format))
    return extras


def _ending(conversation: RecipeConversation, dialect: Dialect) -> str:
    if conversation.continued:
        return ""
    opening = tokens.THINK_START if conversation.thinking else tokens.THINK_END
    forced = dialect.tags.block_open if conversation.forced else ""
    return tokens.ASSISTANT + opening + forced


def _arguments(call: RecipeCall) -> Object:
    arguments = rust_json.read_object(call.arguments)
    return {"arguments": call.arguments} if arguments is None else arguments


def _users_joined(messages: Sequence[RecipeMessage], keep_empty: bool) -> Iterator[RecipeMessage]:
    for role, run in groupby(messages, key=lambda message: message.role):
        if role != "user":
            yield from run
            continue
        texts = [message.text for message in run]
        yield RecipeMessage("user", BLANK_LINE.join(t for t in texts if t or keep_empty))


def _asked(message: RecipeMessage, before: str) -> Iterator[str]:
    """The text of a user, a tool or a reminder, after a message of the role `before`."""
    if message.role == "latest_reminder":
        yield tokens.LATEST_REMINDER + message.text
        return
    yield BLANK_LINE if before in ("user", "tool") else tokens.USER
    is_result = message.role == "tool"
    yield tokens.RESULT_START + message.text + tokens.RESULT_END if is_result else message.text


def _answer(
    message: RecipeMessage, shows_reasoning: bool, calls: Callable[[Sequence[RecipeCall]], str]
) -> Iterator[str]:
    """An answer, whose calls are written by `calls`."""
    yield tokens.ASSISTANT
    if shows_reasoning:
        yield f"{tokens.THINK_START}{message.reasoning}"
    if not (shows_reasoning and message.prefix and not message.text):
        yield tokens.THINK_END
    yield message.text
    if message.calls:
        yield calls(message.calls)
    if not message.prefix:
        yield tokens.EOS


# V4: all system texts first, calls and results in the order of their ids.


def v4_prompt(conversation: RecipeConversation) -> str:
    dialect = served_dialect("v4")
    systems = [m.text for m in conversation.messages if m.role == "system"]
    extras = _extras(conversation, dialect, rust_json.v4_json)
    front = BLANK_LINE.join([*(systems or ([""] if extras else [])), *extras])
    effort = dialect.efforts[conversation.effort] if conversation.thinking else ""
    others = [m for m in conversation.messages if m.role != "system"]
    turns = _v4_turns(list(_users_joined(others, keep_empty=False)), conversation)
    return "".join([tokens.BOS, effort, front, *turns, _ending(conversation, dialect)])


def _v4_turns(messages: Sequence[RecipeMessage], conversation: RecipeConversation) -> Iterator[str]:
    before = ""
    for message in _by_id(messages):
        if message.role == "assistant":
            shows = message.reasoning is not None and (message.prefix or conversation.schemas)
            yield from _answer(message, bool(shows), _v4_calls)
        else:
            yield from _asked(message, before)
        before = message.role


def _by_id(messages: Sequence[RecipeMessage]) -> Iterator[RecipeMessage]:
    """The messages, with each answer's calls, and the results after it, in the order of ids."""
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        yield replace(message, calls=tuple(sorted(message.calls, key=lambda call: call.id)))
        results = messages[index : index + len(message.calls)]
        yield from sorted(results, key=lambda result: result.call_id)
        index += len(results)


def _v4_calls(calls: Sequence[RecipeCall]) -> str:
    """The block of calls. A call without parameters has no line for them."""
    tags = served_dialect("v4").tags
    texts = [str(tags.block_open)]
    for call in calls:
        texts += tags.invoke_open, call.name, NAME_END
        written = parameters(_arguments(call), tags, rust_json.v4_json)
        texts += (f"{parameter}\n" for parameter in written)
        texts += tags.invoke_close.lstrip("\n"), "\n"
    return "".join([*texts, tags.block_close.lstrip("\n")])


# V4.1: system texts in place, calls as given, results in the order of their calls.


def v4_1_prompt(conversation: RecipeConversation, name: str = "v4.1") -> str:
    dialect = served_dialect(name, OFFICIAL_DIALECTS)
    messages = _with_extras(_v4_1_messages(conversation), _extras(conversation, dialect, to_json))
    # The effort is written with the first turn, so not without a turn.
    shows_effort = conversation.thinking and messages
    effort = dialect.efforts[conversation.effort] if shows_effort else ""
    opens = effort or (messages and messages[0].role == "system")
    start = (tokens.SYSTEM if opens else "") + effort
    turns = _v4_1_turns(messages, conversation, dialect)
    return "".join([tokens.BOS, start, *turns, _ending(conversation, dialect)])


def _v4_1_messages(conversation: RecipeConversation) -> list[RecipeMessage]:
    joined = _users_joined(conversation.messages, keep_empty=True)
    return _results_sorted(list(_reminders_thinned(joined)))


def _reminders_thinned(messages: Iterator[RecipeMessage]) -> Iterator[RecipeMessage]:
    before = ""
    for message in messages:
        if not message.role == before == "latest_reminder":
            yield message
        before = message.role


def _results_sorted(messages: list[RecipeMessage]) -> list[RecipeMessage]:
    """Results directly follow their calls, so that only runs of results are sorted."""
    done: list[RecipeMessage] = []
    order: dict[str, int] = {}
    for is_result, run in groupby(messages, key=lambda message: message.role == "tool"):
        listed = list(run)
        if is_result:
            listed.sort(key=lambda result: order.get(result.call_id, 0))
        else:
            order = {call.id: n for n, call in enumerate(listed[-1].calls)}
        done += listed
    return done


def _with_extras(messages: list[RecipeMessage], extras: list[str]) -> list[RecipeMessage]:
    if not extras:
        return messages
    first, rest = RecipeMessage("system", ""), messages
    if messages and messages[0].role == "system":
        first, rest = messages[0], messages[1:]
    return [replace(first, text=BLANK_LINE.join([first.text, *extras])), *rest]


def _v4_1_turns(
    messages: Sequence[RecipeMessage], conversation: RecipeConversation, dialect: Dialect
) -> Iterator[str]:
    before = ""
    asks = "user", *(("tool",) if dialect.results_ask else ())
    last = max((n for n, message in enumerate(messages) if message.role in asks), default=0)
    in_loop = not dialect.results_ask and any(message.calls for message in messages[last:])
    for index, message in enumerate(messages):
        role = message.role
        if role == "system":
            yield (tokens.SYSTEM if index else "") + message.text
        elif role == "assistant":
            # The newest release keeps the reasoning of a loop that is still running.
            kept = conversation.schemas or message.prefix or (in_loop and index > last)
            shows = bool(conversation.thinking and index and kept)
            yield from _answer(message, shows, partial(_v4_1_calls, dialect))
        else:
            yield from _asked(message, before)
        before = role


def _v4_1_calls(dialect: Dialect, calls: Sequence[RecipeCall]) -> str:
    listed = [(call.name, _arguments(call)) for call in calls]
    return calls_block(listed, dialect.tags, to_json)


PROMPTS: dict[str, Callable[[RecipeConversation], str]] = {
    **dict.fromkeys(("v4", "v4-0731"), v4_prompt),
    "v4.1": v4_1_prompt,
    "v4.1-1017": partial(v4_1_prompt, name="v4.1-1017"),
}


def has_images(dialect: str) -> bool:
    """Whether models of a dialect see images."""
    return served_dialect(dialect, OFFICIAL_DIALECTS).image_token is not None


def render(body: Object, dialect: str) -> str:
    conversation = recipe_request.read_recipe_request(body, has_images(dialect))
    recipe_request.check_sampling(body)
    return PROMPTS[dialect](conversation)
