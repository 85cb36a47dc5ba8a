"""Reads completions with parsers in vLLM: python vllm_parsers.py NAME TOKENIZER < rows > readings

It runs in vLLM's environment, without a model: the two parsers of that name are composed as vLLM's
server composes them. Rows and readings are those of `sglang_parsers.py`; a row has the `ids` of its
pieces too.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from transformers import PreTrainedTokenizerFast
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

from encoding_dsv4 import thinking_end_token as THINK_END
from encoding_dsv4 import thinking_start_token as THINK_START

PLUGIN = "dsv4.compat.vllm_plugin"
Row = dict[str, Any]


class Parsers:
    """A new parser for each request, as in the server."""

    def __init__(self, name: str, tokenizer: Any) -> None:
        self._compose = ParserManager.get_parser(
            tool_parser_name=name,
            reasoning_parser_name=name,
            enable_auto_tools=True,
            model_name="deepseek-v4",
        )
        self._tokenizer = tokenizer

    def _made(self, row: Row) -> tuple[Any, Any]:
        request = ChatCompletionRequest(
            model="m",
            messages=[{"role": "user", "content": "Hi"}],
            tools=row["tools"] or None,
            tool_choice=row["tool_choice"] if row["tools"] else None,
            chat_template_kwargs={"thinking": row["thinking"]},
            stream=True,
        )
        options = {"thinking": row["thinking"]}
        return self._compose(self._tokenizer, request.tools, chat_template_kwargs=options), request

    def whole(self, row: Row) -> Row:
        parser, request = self._made(row)
        reasoning, content, calls = parser.parse(
            row["text"], request, enable_auto_tools=True, model_output_token_ids=row["ids"]
        )
        made = [[call.name, call.arguments] for call in calls or ()]
        return {"reasoning": reasoning or "", "content": content or "", "calls": made}

    def streamed(self, row: Row) -> Row:
        parser, request = self._made(row)
        prompt = [self._tokenizer.get_vocab()[THINK_START if row["thinking"] else THINK_END]]
        read: Row = {"reasoning": "", "content": "", "calls": []}
        last = len(row["ids"]) - 1
        for n, (id, piece) in enumerate(zip(row["ids"], row["pieces"], strict=True)):
            delta = parser.parse_delta(
                piece, [id], request, prompt_token_ids=prompt, finished=n == last
            )
            if delta is None:
                continue
            read["reasoning"] += delta.reasoning or ""
            read["content"] += delta.content or ""
            for call in delta.tool_calls or ():
                while len(read["calls"]) <= call.index:
                    read["calls"].append(["", ""])
                known = read["calls"][call.index]
                known[0] += call.function.name or ""
                known[1] += call.function.arguments or ""
        return read


def reading(read: Any, row: Row) -> Row | None:
    try:
        found: Row = read(row)
    except Exception as error:
        print(f"{row['name']}: {error!r}", file=sys.stderr)
        return None
    return found


def main() -> None:
    name, vocabulary = sys.argv[1:3]
    if name == "dsv4":
        ToolParserManager.import_tool_parser(PLUGIN)
        ReasoningParserManager.import_reasoning_parser(PLUGIN)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=vocabulary)
    known = tokenizer.get_vocab()
    tokenizer.get_vocab = lambda: known  # it takes a while, and each parser asks for it
    parsers = Parsers(name, tokenizer)
    for line in sys.stdin:
        row = json.loads(line)
        print(json.dumps([reading(parsers.whole, row), reading(parsers.streamed, row)]))


main()
