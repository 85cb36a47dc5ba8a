"""Rules on conversations that are unfit for training: reasoning and calls in an assistant's text,
arguments that are not JSON. And advice to read before training on one.

The parser decides whether a text has markup, or only mentions it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from dsv4._check.call_checks import arguments_that_are_not_json
from dsv4._check.findings import CheckedConversation, RuleFinding
from dsv4._completion.events import DiagnosticKind
from dsv4._completion.message import Message
from dsv4._encode.inputs import maybe_dict
from dsv4._encode.turns import NATIVE
from dsv4._format import tokens
from dsv4._format.dialects import Dialect
from dsv4._parse.parse import parse

# Reasoning and calls in an assistant's text, which a parser should have taken out of it.


REASONING, CALLS = "reasoning_in_content", "calls_in_content"

_PROBLEMS = {
    REASONING: "the text holds reasoning or its tags: a model would learn to write them as text",
    CALLS: "the text holds markup of tool calls: a model would learn to write calls as text",
}
_REASONING_KINDS: set[DiagnosticKind] = {"think_in_content", "stray_think"}
# Repairs that are not signs of calls: of text that stays unchanged, and of tokens, which another
# rule finds.
_OTHER_KINDS: set[DiagnosticKind] = {
    *_REASONING_KINDS,
    *("unclosed_reasoning", "markup_as_text", "stray_token"),
    *("made_up_turn", "more_departures"),
}
# Other models' tags at the start of an answer, as published data sets have them. The last two are
# Mistral's, and a list of calls as Python writes them, which is the whole answer: [f(a=1), g()].
_OTHER_TAGS = {
    REASONING: re.compile(r"\s*<(?:thinking|thoughts?|reasoning|\|begin_of_thought\|)>"),
    CALLS: re.compile(
        r"\s*(?:<(?:tool_call|functioncall|\|python_tag\|)>|\[TOOL_CALLS\]"
        r"|\[\w[\w .-]*\((?:\w+ *=.*)?\)\]\s*\Z)",
        re.DOTALL,
    ),
}
# Repairs that leave no doubt about what was meant.
_HARMLESS_KINDS: set[DiagnosticKind] = {"other_release", "undeclared_tool"}


OTHER_MARKUP = "other_markup"
# Markup, special tokens and ends of turns of other models, anywhere except in a quotation.
_OF_OTHER_MODELS = re.compile(
    r"<\|[\w\u2581]+\|>|\[/?(?:THINK|TOOL_CALLS|INST|AVAILABLE_TOOLS|TOOL_RESULTS|ARGS)\]|<</?SYS>>"
    r"|<(?:seed|minimax|xai|longcat|ling|step):\w+[ >]|<(?:function|parameter)=[\w.-]+>"
    r"|\u25c1/?think\u25b7|\[/?SYSTEM_PROMPT\]|<function_call>|<longcat_think>"
    r"|<(?:start|end)_of_turn>|<eos>|<\|?eom_id\|?>|</s>\s*\Z|\A\s*<s>|\[gMASK\]|\u273fFUNCTION\u273f"
    r"|<tool_call>|<function_calls>|<arg_key>|<longcat_tool_call>|<tool_response>|<unused\d+>"
    r"|</?start_function_(?:call|declaration|response)>|<TOOLCALL>|<TOOL_RESPONSE>|\[e~\[|\]~b\]"
    r"|<\|(?:tool|tool_call|tool_response|channel|turn)>|<(?:tool_call|channel|turn)\|>"
    r"|(?:\[EOS\]|<(?:EOS|eot|eod)>)\s*\Z|\A\s*<bos>"
)
# DeepSeek's own tokens, in look-alikes with ASCII bars.
_NAMES_OF_OWN = "|".join(str(token)[2:-2] for token in (tokens.USER, tokens.ASSISTANT, tokens.BOS))
# The beginnings of turns in templates of other models, and the openings of an answer in those that
# are plain text: Alpaca's and Vicuna's.
_OF_TEMPLATES = re.compile(
    r"<\|(?:im_(?:start|user|system|assistant)|start|start_header_id|header_start|start_of_role"
    r"|user|assistant|prompter|turn|USER_TOKEN|START_OF_TURN_TOKEN"
    rf"|{_NAMES_OF_OWN})\|>|<\|turn>|\]~b\]|<seed:bos>"
    r"|\[INST\]|\[gMASK\]|<start_of_turn>|\A\s*(?:<\|begin_of_text\|>|<bos>|<s>)"
    r"|^### (?:Response|Assistant|Output):\s*\Z|\bASSISTANT:\s*\Z",
    re.MULTILINE,
)
# One of DeepSeek's own tokens before all other text, or after it, where a turn has them.
_BAR = tokens.USER[1]
_OWN_TOKEN = rf"<{_BAR}[^<>{_BAR}\s]{{1,40}}{_BAR}>"
_OWN_TOKENS = re.compile(rf"\A\s*{_OWN_TOKEN}|{_OWN_TOKEN}\s*\Z")
# Each match of the patterns has one of these signs: searching for a pattern takes longer than
# searching for all signs.
_SIGNS = ("<", "[", "]", "\u25c1", "\u273f", "### ", "ASSISTANT:")
_QUOTED = re.compile(r"^ *(```+|~~~+).*?^ *\1|(`+)[^`]+?\2", re.DOTALL | re.MULTILINE)


def markup_of_other_models(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for index, text in enumerate(conversation.texts):
        if not any(map(text.__contains__, _SIGNS)):
            continue
        is_answer = conversation.role(index) == "assistant"
        pattern = _OF_OTHER_MODELS if is_answer else _OF_TEMPLATES
        for each, whose in ((pattern, "markup of another model"), (_OWN_TOKENS, "a token as text")):
            if each.search(text) and (found := each.search(_QUOTED.sub("", text))):
                problem = f"the text holds {found[0].strip()}, which is {whose}"
                yield RuleFinding(OTHER_MARKUP, ("messages", index, "content"), problem)


def leaked_markup(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for index, _ in conversation.of_role("assistant"):
        text = conversation.texts[index]
        if "<" not in text and not _MAY_BE_CALL.match(text):
            continue
        tools = [{"name": tool.name} for tool in conversation.tools]
        for kind in leaked_kinds(text, tools, conversation.prompt.dialect):
            yield RuleFinding(kind, ("messages", index, "content"), _PROBLEMS[kind])


# The beginning of a text that is a call as JSON, perhaps in a fence. All tags have a "<" instead.
_MAY_BE_CALL = re.compile(r"\s*(?:```|[{\[])")


def leaked_kinds(text: str, tools: Sequence[Any] = (), dialect: Dialect | None = None) -> list[str]:
    """The kinds of markup that a text holds."""
    if is_json_call(text, tools):
        return [CALLS]
    if "<" not in text:  # every tag of this format has this character
        return [CALLS] if _OTHER_TAGS[CALLS].match(text) else []
    read = parse(text, thinking=False, tools=tools or None, dialect=dialect, reason="stop")
    kinds = {each.kind for each in read.diagnostics}
    is_called = read.tool_calls or read.incomplete or kinds - _OTHER_KINDS
    leaks = {REASONING: kinds & _REASONING_KINDS, CALLS: is_called}
    return [kind for kind, signs in leaks.items() if signs or _OTHER_TAGS[kind].match(text)]


def is_json_call(text: str, tools: Sequence[Any]) -> bool:
    """Whether a text is only a call as JSON, or a list of calls, of declared tools."""
    body = text.strip()
    if body.startswith("```") and body.endswith("```"):
        body = body.strip("`").removeprefix("json").strip()
    if not body.startswith(("{", "[")):
        return False
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    names = {tool["name"] for tool in tools}
    calls = value if isinstance(value, list) else [value]
    return bool(calls) and all(_is_call(call, names) for call in calls)


def _is_call(value: object, names: set[str]) -> bool:
    if not isinstance(value, dict):
        return False
    function = maybe_dict(value.get("function")) or value
    name = function.get("name")
    called = any(isinstance(function.get(key), (dict, str)) for key in ("arguments", "parameters"))
    return isinstance(name, str) and called and (name in names or set(function) <= _CALL_FIELDS)


_CALL_FIELDS = {"id", "type", "name", "arguments"}


def maybe_completion(text: str) -> Message | None:
    """The message in a text that is a whole completion. None if that is not certain."""
    body = text.strip()
    completion = body.removeprefix(tokens.THINK_START)
    thinking = completion != body or tokens.THINK_END in body
    read = parse(completion, thinking=thinking, reason="stop")
    doubts = {each.kind for each in read.diagnostics} - _HARMLESS_KINDS
    return None if doubts or leaked_kinds(read.content) else read


LEAK_RULES = (leaked_markup, markup_of_other_models)


# Advice on conversations that may be intended as they are.


def answers_without_reasoning(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Answers in which the end of thinking directly follows its start."""
    own, before = conversation.prompt.dialect.tokens, ""
    for piece in conversation.prompt.pieces:
        if piece.text == own.think_end and before == own.think_start:
            index = piece.message if piece.message is not None else conversation.last
            problem = "no reasoning, where thinking is on (--mode chat trains without thinking)"
            yield RuleFinding("no_reasoning", ("messages", index), problem)
        before = piece.text if piece.special else ""


def open_last_turn(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """A last answer that a field of its message leaves open."""
    message = conversation.messages[-1] if conversation.messages else {}
    for field in NATIVE.open_turn_fields:
        if conversation.role(conversation.last) == "assistant" and message.get(field):
            problem = "the answer is left open: its end-of-sentence token is not trained"
            yield RuleFinding("open_turn", ("messages", conversation.last, field), problem)


ADVICE_RULES = (answers_without_reasoning, open_last_turn)


# Unfit conversations: the rules whose findings are errors in a training example.


UNFIT_KINDS = (REASONING, CALLS, OTHER_MARKUP, "arguments_not_json")

# Tokenizers refuse lone surrogates themselves.
_TRAINING_RULES = (*LEAK_RULES, arguments_that_are_not_json)


def find_unfit(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """The findings that make a conversation, which can be encoded, unfit for training."""
    for rule in _TRAINING_RULES:
        yield from rule(conversation)
