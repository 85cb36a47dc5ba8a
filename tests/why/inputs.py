"""Things that people paste, of all kinds, each with what is to be said of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import dsv4
from completions import block, calling

TESTS = Path(__file__).parents[1]
EOS = "<｜end▁of▁sentence｜>"
CALL = block(calling("get_weather", city="Paris")).strip()
LEAK = f"Let me look.\n\n{CALL}"
MALFORMED = LEAK.replace("<｜DSML｜tool_calls>\n", "").replace("</｜DSML｜tool_calls>", "").rstrip()
CUT = LEAK[:110]
PROMPT = str(
    dsv4.encode([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])
)
REASONING = "The `reasoning_content` in the thinking mode must be passed back to the API."
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


class Input(NamedTuple):
    """Something pasted: what kind it is, the exit status, who did it, and words of the verdict."""

    name: str
    source: str | bytes
    kind: str
    status: int
    who: str = "nobody"
    words: str = ""


def text_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def chat(message: Any, finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], **fields}


def chunk(delta: Any, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def sse(*events: Any, end: str = "\n\n", prefix: str = "") -> str:
    return "".join(f"{prefix}data: {text_of(event)}{end}" for event in events)


def request(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "deepseek-v4-flash", "messages": list(messages), **fields}


def error(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def har(*entries: tuple[Any, int, str]) -> str:
    def entry(body: Any, status: int, reply: str) -> dict[str, Any]:
        headers = [{"name": "Authorization", "value": "Bearer sk-0123456789abcdef"}]
        post = {"mimeType": "application/json", "text": text_of(body)}
        url = "https://api.deepseek.com/chat/completions?api_key=sk-0123456789abcdef"
        asked = {"method": "POST", "url": url, "headers": headers, "postData": post}
        return {"request": asked, "response": {"status": status, "content": {"text": reply}}}

    other = {"request": {"method": "GET", "url": "https://x/logo.png"}, "response": {"status": 200}}
    return text_of({"log": {"version": "1.2", "entries": [other, *(entry(*e) for e in entries)]}})


USER = {"role": "user", "content": "Hi"}
ASKS = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "5"}
CALLS = {"role": "assistant", "content": "", "tool_calls": [ASKS]}
FINE = request(USER)
BROKEN = request({"role": "user", "content": 5})
SAID = chat({"content": "Hello."})
LEAKED = chat({"content": LEAK, "tool_calls": []})
WORDS = ["Hel", "lo."]
STREAM = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": w}) for w in WORDS)]
DONE = chunk({}, "stop")
LEAK_STREAM = [chunk({"content": LEAK[n : n + 7]}) for n in range(0, len(LEAK), 7)]
MESSAGE = {
    "type": "message",
    "role": "assistant",
    "id": "m",
    "model": "m",
    "stop_reason": "end_turn",
}
RESPONSE = {"id": "r", "object": "response", "status": "completed", "model": "m"}
ITEM = {"type": "message", "role": "assistant", "id": "i", "status": "completed"}


def messages_answer(*content: Any, **fields: Any) -> dict[str, Any]:
    return {**MESSAGE, "content": list(content), **fields}


def responses_answer(text: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {**RESPONSE, "output": [{**ITEM, "content": [part]}], **fields}


def record(completion: str, kind: str | None = None) -> dict[str, Any]:
    repair = {"kind": kind, "start": 0, "end": 4, "raw": completion[:4]}
    return {
        "protocol": "chat",
        "request": FINE,
        "dialect": "v4",
        "prompt": PROMPT,
        "completion": completion,
        "finish": "stop",
        "message": {"role": "assistant", "content": completion},
        "diagnostics": [repair] if kind else [],
        "version": 1,
    }


SDK_TRACE = f"""Traceback (most recent call last):
  File "/app/agent.py", line 12, in <module>
    client.chat.completions.create(**body)
  File "/usr/lib/python3.12/site-packages/openai/_base_client.py", line 1047, in request
    raise self._make_status_error_from_response(err.response) from None
openai.BadRequestError: Error code: 400 - {error(REASONING)!r}
"""
ANTHROPIC_TRACE = """anthropic.BadRequestError: Error code: 400 - {'type': 'error', 'error': {\
'message': 'prompt is too long: 1200000 tokens > 1048576 maximum'}}"""
OWN_TRACE = """Traceback (most recent call last):
  File "/home/ann/run.py", line 3, in <module>
    dsv4.parse(text)
  File "/home/ann/venv/lib/python3.12/site-packages/dsv4/_parse/parse.py", line 40, in parse
    parser.feed(text)
{end}
"""
NGINX = """<html>\r
<head><title>502 Bad Gateway</title></head>\r
<body>\r
<center><h1>502 Bad Gateway</h1></center>\r
<hr><center>nginx/1.24.0</center>\r
</body>\r
</html>\r
"""
CLOUD = "<!DOCTYPE html>\n<html><head><title>Just a moment...</title></head><body></body></html>"
CLIENT = json.loads((TESTS / "api/requests/cc-01-first-turn.json").read_text("utf-8"))
LONG = " ".join(f"word{n}" for n in range(200_000))
CURL = (
    "curl https://api.deepseek.com/chat/completions \\\n"
    '  -H "Authorization: Bearer sk-0123456789abcdef" \\\n'
    "  -H 'Content-Type: application/json' \\\n"
    "  -d '{body}'"
)


def curl(body: Any) -> str:
    return CURL.replace("{body}", text_of(body))


PRINTED = (
    "ChatCompletion(id='x', choices=[Choice(finish_reason='stop', index=0, logprobs=None, "
    f"message=ChatCompletionMessage(content={LEAK!r}, role='assistant', tool_calls=None))], "
    "created=1, model='m', usage=CompletionUsage(completion_tokens=5, prompt_tokens=9))"
)
BAD_KEY = error("Authentication Fails, Your api key: ****fcc2 is invalid", "authentication_error")
REFUSED_KEY = f"HTTP/1.1 401 Unauthorized\r\ncontent-type: x\r\n\r\n{text_of(BAD_KEY)}"
NEEDS_PARSER = (
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
)
NO_PARSER = text_of({"object": "error", "message": NEEDS_PARSER, "code": 400})
CLAUDE_SESSION = "\n".join(
    text_of(line)
    for line in (
        {"type": "summary", "summary": "A session", "leafUuid": "u"},
        {"type": "user", "uuid": "1", "message": USER},
        {
            "type": "assistant",
            "uuid": "2",
            "message": messages_answer({"type": "text", "text": "Ho"}),
        },
        {"type": "user", "uuid": "3", "message": {"role": "user", "content": "Go on"}},
    )
)
CODEX_SESSION = "\n".join(
    text_of(line)
    for line in (
        {"timestamp": "t", "type": "session_meta", "payload": {"id": "s"}},
        {"timestamp": "t", "type": "response_item", "payload": {"type": "message", **USER}},
        {
            "timestamp": "t",
            "type": "response_item",
            "payload": {**ITEM, "content": [{"type": "output_text", "text": "Ho"}]},
        },
    )
)

INPUTS = [
    # Sentences, and what is not understood.
    Input("a sentence", "Why is the sky blue?", "sentence", 0),
    Input("a Chinese sentence", "请用中文介绍一下你自己。", "sentence", 0),
    Input("a paragraph with CRLF", "One line.\r\nAnother one.\r\n", "sentence", 0),
    Input("a sentence about a token", "What does <｜User｜> mean?", "sentence", 0),
    Input("code", "def f(x):\n    return {'a': x}\n", "sentence", 0),
    Input("a huge text", LONG, "sentence", 0),
    Input("a markdown table", "| a | b |\n|---|---|\n| 1 | 2 |\n", "sentence", 0),
    Input("nothing", "", "unknown", 2),
    Input("spaces", " \r\n\t", "unknown", 2),
    Input("a byte order mark alone", "\ufeff", "unknown", 2),
    Input("a PDF", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "unknown", 2, words="a PDF"),
    Input("a PNG", b"\x89PNG\r\n\x1a\n\x00\x00", "unknown", 2, words="PNG"),
    Input("gzip", gzip.compress(b"{}"), "unknown", 2, words="gzip"),
    Input("bytes", bytes(range(256)), "unknown", 2, words="no text"),
    Input("zeros", b"abc\x00\x00def", "unknown", 2, words="no text"),
    Input("a number", "42", "unknown", 2),
    Input("JSON of something else", '{"name": "x", "version": 3}', "unknown", 2, words="'name'"),
    Input("token ids", "[0, 128803, 33, 128804]", "unknown", 2, words="dsv4 decode --ids"),
    Input("tools", text_of(TOOLS), "unknown", 2, words="a list of tools"),
    # Requests.
    Input("a Chat request", text_of(FINE), "request", 0, words="Chat Completions"),
    Input("a list of messages", text_of([USER]), "request", 0, words="list of messages"),
    Input(
        "a request with a wrong content",
        text_of(BROKEN),
        "request",
        1,
        "client",
        "messages[0].content",
    ),
    Input(
        "a result without a call",
        text_of(request(USER, RESULT)),
        "request",
        1,
        "client",
        "messages[1]",
    ),
    Input("UTF-16", text_of(BROKEN).encode("utf-16"), "request", 1, "client"),
    Input("a byte order mark", f"\ufeff{text_of(FINE)}", "request", 0),
    Input("a request in a fence", f"```json\n{text_of(FINE)}\n```", "request", 0),
    Input(
        "a request in a fence, with words around it",
        f"I send this:\r\n\r\n```json\r\n{json.dumps(BROKEN, indent=2)}\r\n```\r\n\r\nThanks!",
        "request",
        1,
        "client",
        "content",
    ),
    Input(
        "a request in a line of a log",
        f"2026-11-18 INFO body={text_of(BROKEN)} done",
        "request",
        1,
        "client",
    ),
    Input("a request as Python prints it", repr(BROKEN), "request", 1, "client"),
    Input(
        "a Responses request",
        text_of({"model": "m", "input": "Hi"}),
        "request",
        0,
        words="Responses",
    ),
    Input(
        "a Messages request",
        text_of({"model": "m", "max_tokens": 5, "system": "Be brief.", "messages": [USER]}),
        "request",
        0,
        words="Messages",
    ),
    Input(
        "a request that Claude Code sent", text_of(CLIENT["body"]), "request", 0, words="Messages"
    ),
    Input("the same with its headers", text_of(CLIENT), "request", 0, words="Messages"),
    Input(
        "a line of a batch",
        text_of({"custom_id": "1", "url": "/v1/chat/completions", "body": BROKEN}),
        "request",
        1,
        "client",
    ),
    Input(
        "a request that loses the reasoning of a turn",
        text_of(request(USER, CALLS, RESULT, tools=TOOLS)),
        "request",
        1,
        "client",
        "dsv4 heal",
    ),
    Input(
        "the same, sent to another server",
        curl(request(USER, CALLS, RESULT, tools=TOOLS)).replace("api.deepseek.com", "gpu.local"),
        "request",
        0,
    ),
    Input(
        "a model that is gone",
        text_of({**FINE, "model": "deepseek-chat"}),
        "request",
        1,
        "client",
        "24 July 2026",
    ),
    Input("a curl line", curl(FINE), "request", 0, words="api.deepseek.com"),
    Input(
        "a curl line that forces a call while the model thinks",
        curl({**FINE, "model": "deepseek-v4-pro", "tools": TOOLS, "tool_choice": "required"}),
        "request",
        1,
        "client",
        "tool_choice",
    ),
    Input(
        "a curl line with a mistake in its JSON",
        CURL.replace("{body}", '{"model": "m",}'),
        "json",
        1,
        "client",
        "line 1, column",
    ),
    Input(
        "a curl line without data",
        "curl https://api.deepseek.com/models",
        "unknown",
        2,
        words="--data",
    ),
    Input("a request that breaks off", text_of(FINE)[:60], "json", 1, "client", "breaks off"),
    Input(
        "a request with a comma too many",
        '{"messages": [{"role": "user", "content": "Hi"},]}',
        "json",
        1,
        "client",
        "⟦",
    ),
    # Answers.
    Input("a fine answer", text_of(SAID), "answer", 0),
    Input(
        "an answer of /v1/completions",
        text_of({"id": "x", "choices": [{"text": LEAK, "finish_reason": "stop"}]}),
        "answer",
        1,
        "server",
        "choices[0].text",
    ),
    Input(
        "a fine call",
        text_of(chat({"content": None, "tool_calls": [ASKS]}, "tool_calls")),
        "answer",
        0,
        words="1 call",
    ),
    Input(
        "a leak in Chat",
        text_of(LEAKED),
        "answer",
        1,
        "server",
        "choices[0].message.content, line 3",
    ),
    Input(
        "a leak in Messages",
        text_of(messages_answer({"type": "text", "text": LEAK})),
        "answer",
        1,
        "server",
        "content[0].text",
    ),
    Input(
        "a leak in Responses",
        text_of(responses_answer(LEAK)),
        "answer",
        1,
        "server",
        "output[0].content[0].text",
    ),
    Input(
        "a leak as an SDK prints it",
        PRINTED,
        "answer",
        1,
        "server",
        "get_weather",
    ),
    Input(
        "a malformed leak", text_of(chat({"content": MALFORMED})), "answer", 1, "model", "malformed"
    ),
    Input("a leak that is text", LEAK, "answer", 1, "server", "⟦<｜DSML｜tool_calls>⟧"),
    Input(
        "the same with CRLF",
        LEAK.replace("\n", "\r\n"),
        "answer",
        1,
        words="get_weather",
        who="server",
    ),
    Input("a malformed leak that is text", MALFORMED, "answer", 1, "model", "⟦"),
    Input("a text that breaks off in a call", CUT, "answer", 1, "server", "breaks off"),
    Input(
        "an answer that breaks off in a call",
        text_of(chat({"content": CUT}, "length")),
        "answer",
        1,
        "client",
        "max_tokens",
    ),
    Input(
        "markup that is quoted",
        f"The format looks so:\n\n```\n{CALL}\n```\n\nThat is all.",
        "answer",
        0,
        words="quoted",
    ),
    Input(
        "an answer that quotes markup",
        text_of(chat({"content": 'Write `<｜DSML｜invoke name="f">` first.'})),
        "answer",
        0,
    ),
    Input(
        "reasoning in the text",
        text_of(chat({"content": "Hm, well.</think>Hello."})),
        "answer",
        1,
        "server",
        "reasoning",
    ),
    Input("reasoning in a text", "Hm, well.</think>Hello.", "answer", 1, "server", "⟦</think>⟧"),
    Input(
        "a call in the reasoning",
        text_of(chat({"content": "", "reasoning_content": LEAK})),
        "answer",
        1,
        "model",
        "reasoning",
    ),
    Input("a completion", f"Hm.</think>{LEAK}{EOS}\n", "answer", 0, words="as the model wrote it"),
    Input(
        "a malformed completion",
        f"Hm.</think>{MALFORMED}{EOS}",
        "answer",
        1,
        "model",
        "dsv4 parse --explain",
    ),
    Input(
        "an answer that was cut",
        text_of(chat({"content": "Once upon"}, "length")),
        "answer",
        1,
        "client",
        "max_tokens",
    ),
    Input(
        "reasoning that was cut",
        text_of(chat({"content": "", "reasoning_content": "Hm"}, "length")),
        "answer",
        1,
        "client",
        "still reasoned",
    ),
    Input(
        "Messages that was cut",
        text_of(messages_answer({"type": "text", "text": "Once"}, stop_reason="max_tokens")),
        "answer",
        1,
        "client",
        "max_tokens",
    ),
    Input(
        "Responses that was cut",
        text_of(
            responses_answer(
                "Once", status="incomplete", incomplete_details={"reason": "max_output_tokens"}
            )
        ),
        "answer",
        1,
        "client",
        "max_tokens",
    ),
    Input(
        "a filtered answer",
        text_of(chat({"content": "I"}, "content_filter")),
        "answer",
        1,
        "server",
    ),
    Input(
        "no resources",
        text_of(chat({"content": "I"}, "insufficient_system_resource")),
        "answer",
        1,
        "server",
    ),
    Input("an empty answer", text_of(chat({"content": ""})), "answer", 1, "model", "empty"),
    Input(
        "spaces for JSON",
        text_of(chat({"content": "      "})),
        "answer",
        1,
        "server",
        "white space",
    ),
    Input(
        "a lost call",
        text_of(chat({"content": "Let me look."}, "tool_calls")),
        "answer",
        1,
        "server",
        "no call",
    ),
    Input(
        "arguments that are no JSON",
        text_of(
            chat(
                {
                    "content": None,
                    "tool_calls": [{**ASKS, "function": {"name": "f", "arguments": '{"a": '}}],
                },
                "tool_calls",
            )
        ),
        "answer",
        1,
        "server",
        "arguments",
    ),
    # Streams.
    Input("a stream", sse(*STREAM, DONE) + "data: [DONE]\n\n", "answer", 0, words="stream"),
    Input(
        "a stream with CRLF and comments",
        ": keep-alive\r\n\r\n" + sse(*STREAM, DONE, end="\r\n\r\n"),
        "answer",
        0,
    ),
    Input("a stream that leaks", sse(*LEAK_STREAM, DONE), "answer", 1, "server", "get_weather"),
    Input(
        "a stream in a log",
        sse(*LEAK_STREAM, DONE, prefix="2026-11-18 10:00:00 DEBUG recv "),
        "answer",
        1,
        "server",
        "get_weather",
    ),
    Input(
        "a stream as Python prints its bytes",
        "\n".join(repr(sse(event).encode()) for event in (*LEAK_STREAM, DONE)),
        "answer",
        1,
        "server",
        "get_weather",
    ),
    Input(
        "a stream of what Python prints",
        "".join(f"data: {event!r}\n\n" for event in (*LEAK_STREAM, DONE)),
        "answer",
        1,
        "server",
        "get_weather",
    ),
    Input(
        "a stream that breaks off",
        sse(*STREAM)[:-30],
        "answer",
        1,
        "server",
        "without a finish_reason",
    ),
    Input(
        "chunks, one a line",
        "\n".join(map(text_of, (*LEAK_STREAM, DONE))),
        "answer",
        1,
        "server",
        "get_weather",
    ),
    Input(
        "a stream with an error",
        sse(*STREAM, error("Insufficient Balance")),
        "error",
        1,
        "client",
        "top up",
    ),
    # Prompts.
    Input("a prompt", PROMPT, "prompt", 0),
    Input(
        "a prompt in a log",
        f"INFO 11-18 engine.py:42] Received request x: prompt: {PROMPT!r}, params: None",
        "prompt",
        0,
    ),
    Input("a prompt as JSON", text_of(PROMPT), "prompt", 0),
    Input("a prompt of /v1/completions", text_of({"model": "m", "prompt": PROMPT}), "prompt", 0),
    Input(
        "a prompt that another encoder wrote",
        PROMPT.replace("<｜Assistant｜>", "<｜Assistant｜>\n"),
        "prompt",
        1,
        "unknown",
    ),
    # Errors.
    Input("an error text", REASONING, "error", 1, "client", "dsv4 heal"),
    Input("an error body", text_of(error(REASONING)), "error", 1, "client", "dsv4 heal"),
    Input(
        "an error of Messages",
        text_of({"type": "error", **error("Thinking mode does not support this tool_choice")}),
        "error",
        1,
        "client",
    ),
    Input("a trace of openai", SDK_TRACE, "error", 1, "client", "⟦"),
    Input("the same with CRLF", SDK_TRACE.replace("\n", "\r\n"), "error", 1, "client", "dsv4 heal"),
    Input("a trace of anthropic", ANTHROPIC_TRACE, "error", 1, "client", "dsv4 count"),
    Input(
        "an error that Claude Code shows",
        f"API Error: 400 {text_of(error(REASONING))}",
        "error",
        1,
        "client",
    ),
    Input(
        "an error as curl -i prints it",
        REFUSED_KEY,
        "error",
        1,
        "client",
        "key",
    ),
    Input(
        "an error of vLLM",
        NO_PARSER,
        "error",
        1,
        "server",
        "--tool-call-parser",
    ),
    Input(
        "an error of FastAPI", '{"detail": "Not Found", "status": 404}', "error", 1, "client", "404"
    ),
    Input("an error page of nginx", NGINX, "error", 1, "server", "502"),
    Input("a page of something else", CLOUD, "error", 2, words="not in the table"),
    Input(
        "an error with a status that says enough",
        "openai.RateLimitError: Error code: 429 - {'error': {'message': 'slow down'}}",
        "error",
        1,
        "client",
        "429",
    ),
    Input("an error that nobody knows", "ValueError: the flux is not calibrated", "error", 2),
    Input(
        "a question about an error",
        "Why do I get 'Content Exists Risk' here?",
        "error",
        1,
        "server",
    ),
    Input("a fault of dsv4", OWN_TRACE.format(end="KeyError: 'x'"), "error", 1, "dsv4", "report"),
    Input(
        "an error of dsv4's",
        OWN_TRACE.format(
            end="dsv4.errors.EncodeError: messages[0].content: found 4, expected text"
        ),
        "error",
        1,
        "client",
        "found 4",
    ),
    # Exchanges, logs, sessions, lines.
    Input("a HAR file", har((FINE, 200, text_of(SAID))), "exchanges", 0, words="HAR"),
    Input(
        "a HAR file with an error",
        har((FINE, 200, text_of(SAID)), (FINE, 400, text_of(error(REASONING)))),
        "exchanges",
        1,
        "client",
        "entry 3",
    ),
    Input(
        "a HAR file with a leak",
        har((FINE, 200, sse(*LEAK_STREAM, DONE))),
        "exchanges",
        1,
        "server",
        "get_weather",
    ),
    Input("a HAR file without requests to models", har(), "unknown", 2, words="HAR"),
    Input(
        "a request with its response",
        text_of({"request": FINE, "response": LEAKED}),
        "exchanges",
        1,
        "server",
    ),
    Input(
        "a log of requests and responses",
        "\n".join(
            [
                text_of({"request": FINE, "response": SAID}),
                text_of({"request": FINE, "response": LEAKED}),
            ]
        ),
        "exchanges",
        1,
        "server",
        "line 2",
    ),
    Input("records", "\n".join([text_of(record("Hi")), text_of(record("Hm"))]), "record", 0),
    Input(
        "records with a repair",
        "\n".join([text_of(record("Hi")), text_of(record(MALFORMED, "missing_wrapper"))]),
        "record",
        1,
        "model",
        "line 2",
    ),
    Input(
        "one record of heal",
        text_of(record(LEAK, "leaked_call")),
        "record",
        1,
        "server",
        "leaked_call",
    ),
    Input("a session of Claude Code", CLAUDE_SESSION, "session", 0, words="3 messages"),
    Input("a session of Codex", CODEX_SESSION, "session", 0, words="2 messages"),
    Input(
        "lines of conversations",
        "\n".join([text_of(FINE), text_of(BROKEN)]),
        "lines",
        1,
        "client",
        "line 2",
    ),
    Input(
        "lines whose last is cut",
        "\n".join([text_of(FINE), text_of(FINE), text_of(FINE)[:20]]),
        "lines",
        0,
    ),
]
