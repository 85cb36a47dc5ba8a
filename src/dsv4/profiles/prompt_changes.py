"""Faults of servers in a finished prompt, and prompts in another format altogether.

Each change takes the prompt, the body that it was made from and the dialect, and returns another
prompt. Tokens that a caller's text spells are marked, so any token found here is the server's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from dsv4._format import tokens
from dsv4._format.dialects import STRING_FALSE, V3_2, V3_2_SERVED, Dialect
from dsv4._format.texts import EFFORT_0731_MAX, EFFORT_MAX
from dsv4.errors import Error
from dsv4.profiles.gateway_prompts import prompt_of
from dsv4.profiles.request_changes import messages_in, without
from dsv4.profiles.server_requests import Object

PromptChange: TypeAlias = Callable[[str, Object, Dialect], str]


class Unpredictable(Error):
    """Raised for a prompt that cannot be known: the template does not cover such a request."""


def bos_twice(prompt: str, body: Object, dialect: Dialect) -> str:
    return tokens.BOS + prompt


def bos_missing(prompt: str, body: Object, dialect: Dialect) -> str:
    return prompt.removeprefix(tokens.BOS)


_THINK = (tokens.THINK_START, tokens.THINK_END)


def no_header(prompt: str, body: Object, dialect: Dialect) -> str:
    for token in _THINK:
        prompt = prompt.removesuffix(tokens.ASSISTANT + token)
    return prompt


def think_token_missing(prompt: str, body: Object, dialect: Dialect) -> str:
    for token in _THINK:
        if prompt.endswith(tokens.ASSISTANT + token):
            return prompt.removesuffix(token)
    return prompt


def trailing_newline(prompt: str, body: Object, dialect: Dialect) -> str:
    return prompt + "\n"


# The texts about effort.


def effort_unwritten(prompt: str, body: Object, dialect: Dialect) -> str:
    for text in sorted(set(dialect.efforts.values()), key=len, reverse=True):
        if text and text in prompt:
            prompt = prompt.replace(text, "", 1)
            opened = tokens.BOS + (dialect.system_token or "") + tokens.USER
            # A system turn that was opened only for the effort is dropped with it.
            return prompt.replace(opened, tokens.BOS + tokens.USER, 1)
    return prompt


def effort_april(prompt: str, body: Object, dialect: Dialect) -> str:
    """The effort text one step lower: April did not have July's text for the highest effort."""
    if EFFORT_0731_MAX in prompt:
        return prompt.replace(EFFORT_0731_MAX, EFFORT_MAX, 1)
    return prompt.replace(EFFORT_MAX, "", 1)


# The schemas of tools.


def _json_writer(**style: Any) -> Callable[[object], str]:
    return lambda value: json.dumps(value, ensure_ascii=False, **style)


def schemas_written(write: Callable[[Any], str]) -> PromptChange:
    """Writes the JSON in each line of the tools section in another style."""

    def changed(prompt: str, body: Object, dialect: Dialect) -> str:
        before, opening, rest = prompt.partition(dialect.tools_open)
        schemas, closing, after = rest.partition(dialect.tools_close)
        if not opening or not closing:
            return prompt
        lines = [_rewritten(line, write) for line in schemas.split("\n")]
        return "".join([before, opening, "\n".join(lines), closing, after])

    return changed


def _rewritten(line: str, write: Callable[[Any], str]) -> str:
    try:
        return write(json.loads(line))
    except ValueError:
        return line


tools_wrapped: PromptChange = schemas_written(
    lambda schema: _json_writer()({"type": "function", "function": schema})
)
tools_compact: PromptChange = schemas_written(_json_writer(separators=(",", ":")))
tools_indented: PromptChange = schemas_written(_json_writer(indent=2))
tools_indented_more: PromptChange = schemas_written(_json_writer(indent=4))
tools_sorted: PromptChange = schemas_written(_json_writer(sort_keys=True))
tools_ascii: PromptChange = schemas_written(json.dumps)


# Turns.


def arguments_compact(prompt: str, body: Object, dialect: Dialect) -> str:
    """Writes arguments that are not texts as JSON without spaces."""
    tags = dialect.tags
    pattern = f"{re.escape(STRING_FALSE)}(.*?){re.escape(tags.parameter_close)}"
    compact = _json_writer(separators=(",", ":"))

    def value(match: re.Match[str]) -> str:
        return STRING_FALSE + _rewritten(match[1], compact) + tags.parameter_close

    return re.sub(pattern, value, prompt, flags=re.DOTALL)


def result_tags_missing(prompt: str, body: Object, dialect: Dialect) -> str:
    for tag in (tokens.RESULT_START, tokens.RESULT_END):
        prompt = prompt.replace(tag, "")
    return prompt


def reasoning_written(*, where_missing: bool) -> PromptChange:
    """Writes the reasoning of old answers, which should be left out.

    With `where_missing`, answers without reasoning get an empty thinking part.
    """

    def changed(prompt: str, body: Object, dialect: Dialect) -> str:
        if not prompt.endswith(tokens.THINK_START):
            return prompt
        first, *turns = prompt.split(tokens.ASSISTANT)
        answers = [m for m in messages_in(body) if m.get("role") == "assistant"]
        if len(turns) != len(answers) + 1:
            return prompt
        for n, answer in enumerate(answers):
            reasoning = answer.get("reasoning_content") or answer.get("reasoning") or ""
            if turns[n].startswith(tokens.THINK_END) and (reasoning or where_missing):
                turns[n] = f"{tokens.THINK_START}{reasoning}{turns[n]}"
        return tokens.ASSISTANT.join([first, *turns])

    return changed


# Other formats.


def _plain_turns(body: Object) -> list[tuple[str, str]]:
    """The role and text of each message. Raises `Unpredictable` if there is anything else."""
    turns = [(str(m.get("role")), m.get("content")) for m in messages_in(body)]
    simple = not body.get("tools") and not body.get("response_format")
    if not simple or any(
        role not in ("system", "user", "assistant") or not isinstance(text, str)
        for role, text in turns
    ):
        raise Unpredictable("this template says nothing of tools and lists")
    return [(role, str(text)) for role, text in turns]


def template_v3(*, think_token: bool) -> PromptChange:
    """The chat template of V3, or of V3.1, which ends with a think token."""

    def changed(prompt: str, body: Object, dialect: Dialect) -> str:
        turns = _plain_turns(body)
        end = tokens.THINK_START if prompt.endswith(tokens.THINK_START) else tokens.THINK_END
        header = tokens.ASSISTANT + (tokens.THINK_END if think_token else "")
        systems = "\n\n".join(text for role, text in turns if role == "system")
        parts = [tokens.BOS, systems]
        for role, text in turns:
            if role == "user":
                parts += tokens.USER, text
            elif role == "assistant":
                parts += header, text, tokens.EOS
        parts += tokens.ASSISTANT, end if think_token else ""
        return "".join(parts)

    return changed


def template_chatml(*, bos: bool) -> PromptChange:
    def changed(prompt: str, body: Object, dialect: Dialect) -> str:
        start, end = "<|im_start|>", "<|im_end|>\n"
        turns = [f"{start}{role}\n{text}{end}" for role, text in _plain_turns(body)]
        return "".join([tokens.BOS if bos else "", *turns, f"{start}assistant\n"])

    return changed


def _written_as(dialect: Dialect) -> PromptChange:
    """The prompt of V3.2's encoder, in the mode that the server had chosen."""

    def changed(prompt: str, body: Object, _: Dialect) -> str:
        thinking = prompt.endswith(tokens.THINK_START)
        fields = without("reasoning_effort", "chat_template_kwargs")(body)
        switch = {"type": "enabled" if thinking else "disabled"}
        return str(prompt_of({**fields, "thinking": switch}, dialect))

    return changed


format_v3_2_served, format_v3_2_released = _written_as(V3_2_SERVED), _written_as(V3_2)
