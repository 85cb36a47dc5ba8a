"""Rules on messages: fields that nothing reads, turns, omissions in the prompt, and texts that
spell tokens.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any

from dsv4._check.call_checks import schema_faults, tools_in_other_forms
from dsv4._check.findings import CheckedConversation, RuleFinding, closest_name, quoted_json
from dsv4._encode.encode import maybe_response_schema
from dsv4._encode.inputs import DIALECTS_WITH_IMAGES
from dsv4._encode.prompt import Prompt
from dsv4._encode.turns import NATIVE, fields_read
from dsv4._format import tokens
from dsv4._format.dialects import ROLES, V4_1
from dsv4._format.texts import UNSUPPORTED, read_table
from dsv4.api.body_reader import recognise
from dsv4.api.ignored_fields import server_fields, unread_locations, unwritten_tasks
from dsv4.api.neutral_request import TRAINING_FIELDS
from dsv4.api.own_bodies import FIELDS_READ, TEMPLATE_OPTIONS, is_sharegpt, role_of
from dsv4.errors import Location
from dsv4.schema import TYPES

# Rules on names of fields: fields that nothing reads.


_NAMES = read_table("field_names", __file__)
# Other names for the fields of a message, and for the fields of a request.
_MEANT: dict[str, str] = _NAMES["meant"]
_MEANT_OF_REQUEST: dict[str, str] = _NAMES["meant_of_request"]
_EVERY = {field for role in ROLES for field in fields_read(role, V4_1)}


def unread_fields(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    body, read = conversation.body, conversation.read
    if read is None or (isinstance(body, dict) and is_sharegpt(body)):
        return
    protocol = read.protocol or recognise(body).protocol
    fields = body if isinstance(body, dict) else {}
    if protocol == "chat" and (not fields or "messages" in fields):
        fields = {**fields, "messages": conversation.written_messages}
    prompt = conversation.prompt
    told: set[Location] = {("messages", index, field) for index, field, _ in _lost_fields(prompt)}
    told |= {finding.location for finding in tools_in_other_forms(conversation)}
    unread = [*unread_locations(fields, protocol, read.rules, prompt.dialect)]
    unread += unwritten_tasks(fields, conversation.request)
    for location in dict.fromkeys(unread):
        is_training = read.is_line and len(location) == 3 and location[-1] in TRAINING_FIELDS
        if location not in told and not (is_training and location[0] == "messages"):
            yield RuleFinding(*_unread_finding(location, fields))


def _unread_finding(location: Location, body: Any) -> tuple[str, Location, str]:
    *place, last = location
    field, problem = str(last), f"{last} is not read"
    if len(place) == 2 and field in _EVERY and place[0] == "messages":
        role = role_of(body["messages"][place[1]])
        return "unread_field", location, f"messages of role {role} have no {field}: it is not read"
    names = {0: (_MEANT_OF_REQUEST, FIELDS_READ), 2: (_MEANT, _EVERY)}.get(len(place))
    name = names and (names[0].get(field) or closest_name(field, set(names[1])))
    if name and name != field:
        return "unread_field", location, f"{problem}: did you mean {name}?"
    if place == ["chat_template_kwargs"]:
        problem += f": of these, {', '.join(TEMPLATE_OPTIONS)} are"
        return "unread_field", location, problem
    return "unknown_field", location, problem


def fields_of_servers(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    if names := server_fields(conversation.body):
        problem = f"for the server: the prompt does not depend on {', '.join(names)}"
        yield RuleFinding("not_in_prompt", (names[0],), problem)


def unread_template_options(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    body = conversation.body
    options = body.get("chat_template_kwargs") if isinstance(body, dict) else None
    if options is not None and not isinstance(options, dict):
        problem = f"found {quoted_json(options)}, expected an object: it is not read"
        yield RuleFinding("unread_field", ("chat_template_kwargs",), problem)


# The values of `type` in a response format that is not a JSON schema itself.
_FORMATS = ("text", "json_object", "json_schema", "regex", "grammar", "structural_tag")


def response_formats(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    formats: list[tuple[Location, object]] = [((), conversation.request.response_format)]
    formats += [
        (("messages", n), message.get("response_format"))
        for n, message in enumerate(conversation.messages)
    ]
    for place, value in formats:
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind not in (*_FORMATS, *TYPES):
            expected = "text, json_object, json_schema or a type of JSON Schema"
            problem = f"found {quoted_json(kind)}, expected {expected}"
            yield RuleFinding(
                "invalid_response_format", (*place, "response_format", "type"), problem
            )
    schema, location = maybe_response_schema(conversation.request.response_format) or (None, ())
    for problem in islice(schema_faults(schema) if isinstance(schema, dict) else (), 1):
        yield RuleFinding("invalid_response_format", location, problem)


def unknown_models(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for note in conversation.read.notes if conversation.read is not None else ():
        yield RuleFinding("unknown_model", ("model",), note)


FIELD_RULES = (response_formats, unknown_models)


# Rules on turns, on omissions in the prompt, and on texts that spell tokens.


# Rules on turns: their opening, their content, and their position.


_ASKING = ("user", "tool", "developer")


def systems_out_of_place(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """System messages that are not first. In a dialect without a system token, only its place marks
    a system message."""
    if conversation.prompt.dialect.system_token is not None:
        return
    for index, _ in conversation.of_role("system"):
        if not index:
            continue
        if conversation.role(index - 1) == "system":
            problem = "its text follows that of the system message before it, with nothing between"
            yield RuleFinding(
                "glued_system", ("messages", index), f"{problem}: make them one message"
            )
        else:
            problem = "a system message after the first turn has no token of its own"
            where = f"its text is written right after that of messages[{index - 1}]"
            yield RuleFinding("system_in_the_middle", ("messages", index), f"{problem}: {where}")


def developer_as_system(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """A system prompt with OpenAI's role `developer`, which here is a turn that can disappear."""
    if conversation.opens_as_developer:
        problem = "a developer message is a turn of its own in this format, not the system prompt"
        remark = "" if 0 in conversation.present else ", and is dropped before the last user turn"
        hint = 'give it the role "system"'
        yield RuleFinding(
            "developer_as_system", ("messages", 0, "role"), f"{problem}{remark}: {hint}"
        )


def turns_without_token(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Assistant turns without their token: the turn before writes it, if it asks for an answer."""
    for index, _ in conversation.of_role("assistant"):
        before = conversation.messages[index - 1] if index else {}
        if index in conversation.present and index not in conversation.opened:
            if before.get("task") is not None:
                continue
            where = f"follows a message of role {before.get('role')}" if index else "comes first"
            problem = f"the assistant turn {where}, so the token that opens it is missing"
            yield RuleFinding("turn_without_token", ("messages", index), problem)


def open_turns(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for index, message in conversation.of_role("assistant"):
        for field in NATIVE.open_turn_fields:
            if message.get(field) and index != conversation.last:
                problem = "only the last turn can be continued; here it leaves out the end of turn"
                yield RuleFinding("prefix_not_last", ("messages", index, field), problem)


def empty_messages(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for index, message in enumerate(conversation.messages):
        # An empty system message is a usual way to have none.
        vanished = message.get("role") == "developer" and index not in conversation.present
        if message.get("role") == "system":
            continue
        if not vanished and not _has_content(message):
            role = message.get("role")
            problem = f"the {role} message is empty"
            if role == "assistant" and conversation.reasoning_field(index):
                problem = "there is reasoning, but neither an answer nor a call"
            yield RuleFinding("empty_message", ("messages", index), problem)


def _has_content(message: dict[str, Any]) -> bool:
    """Whether a message has text, or something that replaces it. Tools may well return nothing."""
    if message.get("role") == "tool" or _has_text(message.get("content")):
        return True
    if message.get("role") == "assistant":
        is_open = any(message.get(field) for field in NATIVE.open_turn_fields)
        return bool(message.get("tool_calls") or is_open)
    return bool(message.get("tools") or message.get("response_format"))


def _has_text(content: object) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    if isinstance(content, (list, tuple)):
        return any(map(_block_has_text, content))
    return content is not None


def _block_has_text(block: object) -> bool:
    if isinstance(block, dict) and block.get("type") == "text":
        return _has_text(block.get("text"))
    return _has_text(block)


def nothing_to_generate(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    if conversation.prompt.ending.kind == "nothing":
        finished = conversation.role(conversation.last) == "assistant"
        how = "is finished" if finished else "asks for no answer"
        problem = f"nothing to generate: the last turn {how}"
        yield RuleFinding("nothing_to_generate", ("messages", conversation.last), problem)


def nothing_to_learn(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    if not any(piece.origin == "model" for piece in conversation.prompt.pieces):
        problem = "no message is the assistant's: there is nothing to learn from"
        yield RuleFinding("nothing_to_learn", ("messages",), problem)


TURN_RULES = (
    *(systems_out_of_place, developer_as_system, turns_without_token, open_turns),
    *(empty_messages, nothing_to_generate, nothing_to_learn),
)


# Rules on parts of the conversation that the prompt does not have.


_REASONING = {
    "old_reasoning": "reasoning before the last user turn is dropped",
    "chat_mode": "chat mode writes no reasoning",
    "task_answer": "the answer to a task has no reasoning",
}
_LOST = {
    "joined": "the message joins the turn before it, and its {field} is lost",
    "not_asked": "what follows is no answer, so the {field} is not written",
    "unread": "messages of role {role} write no {field}",
}


def _lost_fields(prompt: Prompt) -> Iterator[tuple[int, str, str]]:
    """The fields that a prompt reports as lost, each with its message and the rule."""
    for index, field, rule in prompt.dropped:
        if rule in _LOST and field in ("task", "tools", "response_format"):
            yield index, field, rule


def omissions_in_prompt(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """The parts that the prompt itself reports as left out."""
    for index, field, rule in _lost_fields(conversation.prompt):
        problem = _LOST[rule].format(field=field, role=conversation.role(index))
        yield RuleFinding(f"lost_{field}", ("messages", index, field), problem)
    for index, field, rule in conversation.prompt.dropped:
        location = ("messages", index, field)
        if rule in _REASONING:
            yield RuleFinding("dropped_reasoning", location, _REASONING[rule])
        elif rule == "vanished" and not (index == 0 and conversation.opens_as_developer):
            problem = "a developer message before the last user turn is dropped as a whole"
            yield RuleFinding("dropped_message", ("messages", index), problem)
        elif rule == "unseen_block":
            problem = "a block that is neither text nor an image is left out"
            yield RuleFinding("unsupported_content", location, problem)


def kept_reasoning(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Tools keep old reasoning in the prompt: reported once, if any would be dropped otherwise."""
    if not (conversation.request.thinking and conversation.request.drop_thinking):
        return
    # Not before results: in a round of calls, the reasoning is meant to stay.
    last = max((n for n, _ in conversation.of_role("user", "developer")), default=-1)
    places = [
        index
        for index, _ in _with_reasoning(conversation)
        if index < last and (index, "reasoning") in conversation.written
    ]
    if places:
        tools = conversation.tools
        place: Location = tools[0].location[:-1] if tools else ("messages",)
        problem = f"tools keep all reasoning in the prompt: that of {_listed(places)} as well"
        yield RuleFinding("tools_keep_reasoning", place, problem)


def _with_reasoning(conversation: CheckedConversation) -> Iterator[tuple[int, str]]:
    for index, _ in conversation.of_role("assistant"):
        field = conversation.reasoning_field(index)
        if field is not None:
            yield index, field


def unsupported_content(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    named = conversation.prompt.dialect.texts.unsupported_start
    for piece in conversation.prompt.pieces:
        if piece.origin == "template" and piece.field == "content" and piece.text == named:
            yield _only_named(conversation, conversation.location_of(piece))
    if not conversation.is_sent or UNSUPPORTED[0] in str(conversation.body):
        return
    for index, message in enumerate(conversation.messages):  # servers name them in the text
        if UNSUPPORTED[0] in str(message.get("content")):
            yield _only_named(conversation, ("messages", index, "content"))


def _only_named(conversation: CheckedConversation, location: Location) -> RuleFinding:
    problem = "the prompt only says that a block is unsupported: its content is lost"
    if not conversation.prompt.dialect.image_token:
        problem += f" (images need the dialect {DIALECTS_WITH_IMAGES})"
    return RuleFinding("unsupported_content", location, problem)


def bare_text_blocks(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Bare texts in a content list, which are not blocks: the APIs refuse them."""
    for index, message in enumerate(conversation.written_messages):
        content = message.get("content")
        for n, block in enumerate(content if isinstance(content, (list, tuple)) else ()):
            if isinstance(block, str):
                problem = 'a text by itself, expected {"type": "text", "text": …}'
                place = ("messages", index, "content", n)
                yield RuleFinding("unsupported_content", place, problem)


def _listed(indices: Sequence[int]) -> str:
    few = ", ".join(f"messages[{index}]" for index in indices[:3])
    return f"{few} and {len(indices) - 3} more" if len(indices) > 3 else few


def images_in_another_order(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Images in another order than their messages: results are sorted by their calls."""
    pieces = conversation.prompt.pieces
    order = [piece.message for piece in pieces if piece.field == "image" and piece.message]
    moved = [after for before, after in pairwise(order) if after < before]
    if moved:
        problem = (
            "results are sorted by their calls, so this image comes before one of an earlier "
            "message: the released module returns images in the order of messages, and swaps them"
        )
        yield RuleFinding("image_order", ("messages", moved[0]), problem)


OMISSION_RULES = (
    *(omissions_in_prompt, kept_reasoning, unsupported_content, images_in_another_order),
)

# Rules on the body as it was written, whose findings have places in the body.
WRITTEN_RULES = (unread_fields, fields_of_servers, unread_template_options, bare_text_blocks)


# Rules on texts that spell tokens, or cannot be encoded.


def spelled_tokens(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    prompt = conversation.prompt
    text, pieces = str(prompt), prompt.pieces
    ends = list(accumulate(len(piece.text) for piece in pieces))
    reported: set[RuleFinding] = set()
    for start, end in prompt.special_text:
        location = conversation.location_of(pieces[bisect_left(ends, end)])
        problem = f"the text spells the special token {text[start:end]}"
        finding = RuleFinding("special_token_in_text", location, problem)
        if finding not in reported:
            reported.add(finding)
            yield finding


# The bars of special tokens, in this format and in others; and the control tokens of others.
_BARS = "|" + tokens.USER[1]
_DSML = tokens.DSML[1:-1]
_LOOKALIKE = re.compile(
    rf"<[{_BARS}][^<>{_BARS}\n]{{1,40}}[{_BARS}]>"
    rf"|[{_BARS}] ?{_DSML} ?[{_BARS}]"
    r"|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"
)


def lookalike_tokens(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Tokens of other formats, and of this one with the wrong bars: they are only plain text."""
    real = set(map(str, conversation.prompt.dialect.special_tokens))
    for piece in conversation.prompt.pieces:
        if piece.special or piece.origin == "template":
            continue
        reported: set[str] = set()
        for match in _LOOKALIKE.finditer(piece.text):
            token = match[0]
            if token not in real and token not in reported and not _is_quoted(piece.text, match):
                reported.add(token)
                problem = f"{token} looks like a control token, and is plain text in this format"
                yield RuleFinding("lookalike_token", conversation.location_of(piece), problem)


_QUOTES = "`'\"“”‘’«»„"


def _is_quoted(text: str, match: re.Match[str]) -> bool:
    """Whether a token is only mentioned: it is in quotes, or in code."""
    start, end = match.span()
    if text[start - 1 : start] in _QUOTES and text[end : end + 1] in _QUOTES:
        return start > 0 and end < len(text)
    line = text.rfind("\n", 0, start) + 1
    in_code_span = text.count("`", line, start) % 2 == 1
    return in_code_span or text.count("\n```", 0, start) % 2 == 1


_HALF = re.compile("[\ud800-\udfff]")


def lone_surrogates(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for piece in conversation.prompt.pieces:
        match = _HALF.search(piece.text)
        if match:
            what = f"the text holds {quoted_half(match[0])}, half of a surrogate pair"
            problem = f"{what}: UTF-8 cannot write it, and no tokenizer accepts it"
            yield RuleFinding("lone_surrogate", conversation.location_of(piece), problem)


def quoted_half(char: str) -> str:
    return quoted_json(f"\\u{ord(char):04x}").replace("\\\\", "\\")


TEXT_RULES = (spelled_tokens, lookalike_tokens, lone_surrogates)
