"""Reads completions with SGLang's own parser classes: python sglang_parsers.py < rows > readings

It runs in SGLang's environment. A row is an object with `text`, `pieces` (the same text, token by
token), `tools` and `thinking`; of each comes a list of two readings, whole and streamed, with
`reasoning`, `content` and `calls`, or null where the classes fail.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

Row = dict[str, Any]


class Parsers:
    """The two parsers of one request, the second reading what the first leaves."""

    def __init__(self, row: Row) -> None:
        request = ChatCompletionRequest(
            model="m",
            messages=[{"role": "user", "content": "Hi"}],
            tools=row["tools"] or None,
            chat_template_kwargs={"thinking": row["thinking"]},
        )
        self._reasoning = ReasoningParser(
            model_type="deepseek-v4",
            stream_reasoning=True,
            force_reasoning=row["thinking"],
            request=request,
            tool_call_parser_active=bool(request.tools),
        )
        self._calls = (
            FunctionCallParser(request.tools, "deepseekv4", tool_choice=request.tool_choice)
            if request.tools
            else None
        )

    def whole(self, text: str) -> Row:
        reasoning, content = self._reasoning.parse_non_stream(text)
        calls: list[Any] = []
        if self._calls is not None and self._calls.has_tool_call(content or ""):
            content, calls = self._calls.parse_non_stream(content or "")
        made = [[call.name, call.parameters] for call in calls]
        return {"reasoning": reasoning or "", "content": content or "", "calls": made}

    def streamed(self, pieces: list[str]) -> Row:
        read: Row = {"reasoning": "", "content": "", "calls": []}
        for piece in pieces:
            self._add(read, *self._reasoning.parse_stream_chunk(piece))
        self._add(read, *(self._reasoning.parse_stream_end() or ("", "")))
        if self._calls is not None:
            self._add_calls(read, *(self._calls.parse_stream_end() or ("", [])))
        return read

    def _add(self, read: Row, reasoning: str | None, content: str | None) -> None:
        read["reasoning"] += reasoning or ""
        if content and self._calls is not None:
            self._add_calls(read, *self._calls.parse_stream_chunk(content))
        else:
            read["content"] += content or ""

    @staticmethod
    def _add_calls(read: Row, content: str | None, calls: list[Any]) -> None:
        read["content"] += content or ""
        for call in calls:
            while len(read["calls"]) <= call.tool_index:
                read["calls"].append(["", ""])
            known = read["calls"][call.tool_index]
            known[0] += call.name or ""
            known[1] += call.parameters or ""


def reading(row: Row, streamed: bool) -> Row | None:
    try:
        parsers = Parsers(row)
        return parsers.streamed(row["pieces"]) if streamed else parsers.whole(row["text"])
    except Exception as error:
        print(f"{row['name']}: {error!r}", file=sys.stderr)
        return None


for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps([reading(asked, False), reading(asked, True)]), flush=True)
