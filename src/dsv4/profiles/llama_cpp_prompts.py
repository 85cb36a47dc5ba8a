"""The prompts of llama.cpp with its template `deepseek-ai-DeepSeek-V4-Flash-0731`.

Compared with real servers with that template (`make test-llamacpp`). `llama_cpp_request.py` has
what the server does before it applies the template.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from dsv4._format import tokens
from dsv4._format.texts import RESPONSE_FORMAT
from dsv4.profiles import llama_cpp_request
from dsv4.profiles import server_requests as server
from dsv4.profiles.llama_cpp_request import LlamaCall, LlamaMessage, LlamaRelease
from dsv4.profiles.markup_texts import calls_block, tools_section
from dsv4.profiles.rust_json import json_with
from dsv4.profiles.server_requests import Object, ThinkingMode

# The efforts that have a text; any other writes nothing.
EFFORTS = ("high", "max")
# The roles of messages that an answer follows.
ASKING = ("user", "tool")


def render(release: LlamaRelease, body: Object, dialect: str) -> str:
    if dialect != "v4":
        raise server.unexpected(dialect, "v4: llama.cpp has no other template", "dialect")
    request = llama_cpp_request.read_request(body, release)
    modes = mode(body, dialect)
    effort = modes.effort if request.messages else ""
    turns = _turns(request, modes.thinking)
    return "".join([tokens.BOS, effort, _front(request), *turns, _end(request, modes.thinking)])


def mode(body: Object, dialect: str) -> ThinkingMode:
    options = server.template_options(body)
    value = body.get("reasoning_effort")
    name = value if isinstance(value, str) and value else None
    effort = options.get("reasoning_effort") if name is None else name
    thinking = next(iter(llama_cpp_request.RULES.switches(options)), name != "none")
    shows_effort = thinking and isinstance(effort, str) and effort in EFFORTS
    return ThinkingMode(
        thinking, server.served_dialect("v4").efforts[effort] if shows_effort else ""
    )


def _front(request: llama_cpp_request.LlamaRequest) -> str:
    """Every system text, then the tools and the format, each after a blank line if not first."""
    texts = [server.BLANK_LINE.join(m.text for m in request.messages if m.role == "system")]
    if request.tools:
        texts.append(tools_section(request.tools, server.served_dialect("v4"), _json))
    if request.schema is not None:
        texts.append(RESPONSE_FORMAT + _json(request.schema))
    return server.BLANK_LINE.join(text for text in texts if text)


# Turns.


def _turns(request: llama_cpp_request.LlamaRequest, thinking: bool) -> Iterator[str]:
    """The conversation. Messages of other roles than asking or answering are left out."""
    messages = [m for m in _in_order_of_calls(request.messages) if m.role in (*ASKING, "assistant")]
    last = max((n for n, m in enumerate(messages) if m.role in ASKING), default=-1)
    keeps = (
        bool(request.tools)
        or not request.options.get("drop_thinking", True)
        or any(message.role == "tool" for message in messages)
    )
    index = 0
    for is_answer, run in groupby(messages, key=lambda m: m.role == "assistant"):
        listed = list(run)
        if not is_answer:
            yield tokens.USER + server.BLANK_LINE.join(map(_block, listed))
        for n, message in enumerate(listed if is_answer else (), index):
            yield _answer(message, thinking and (keeps or n > last))
        index += len(listed)


def _in_order_of_calls(messages: Sequence[LlamaMessage]) -> Iterator[LlamaMessage]:
    """The messages, with results in the order of their calls within each run of asking messages."""
    order: dict[str, int] = {}
    for asks, run in groupby(messages, key=lambda m: m.role in ASKING):
        listed = list(run)
        if asks:
            results = [message for message in listed if message.role == "tool"]
            ordered = iter(sorted(results, key=lambda m: order.get(m.result_of, 0)))
            yield from (next(ordered) if m.role == "tool" else m for m in listed)
        else:
            yield from listed
            called = [m.calls for m in listed if m.role == "assistant" and m.calls]
            if called:
                order = {call.id: n for n, call in enumerate(called[-1]) if call.id}


def _block(message: LlamaMessage) -> str:
    if message.role == "user":
        return message.text
    return tokens.RESULT_START + message.text + tokens.RESULT_END


def _answer(message: LlamaMessage, shows_reasoning: bool) -> str:
    """An answer with its own header."""
    thought = tokens.THINK_START + message.reasoning if shows_reasoning else ""
    answer = tokens.ASSISTANT + thought + tokens.THINK_END + message.text
    return answer + _calls(message.calls) + tokens.EOS


def _end(request: llama_cpp_request.LlamaRequest, thinking: bool) -> str:
    """The header of the requested answer, or a last answer that is left open to be continued. An
    empty last answer writes nothing, not even its header."""
    continued = request.continued
    if continued is None:
        header = tokens.ASSISTANT + (tokens.THINK_START if thinking else tokens.THINK_END)
        return header if request.asks else ""
    thought = tokens.THINK_START + continued.reasoning if continued.reasoning else ""
    text = llama_cpp_request.joined(continued.texts, server.BLANK_LINE)
    answer = tokens.THINK_END + text if continued.texts else ""
    return tokens.ASSISTANT + thought + answer if thought or answer else ""


def _calls(calls: Sequence[LlamaCall]) -> str:
    if not calls:
        return ""
    listed = [(call.name, call.arguments) for call in calls]
    return calls_block(listed, server.served_dialect("v4").tags, _json)


# JSON with the numbers of a C++ stream.
_json = partial(json_with, "{:g}".format)
