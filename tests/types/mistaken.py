"""A user's program in which every line that ends with `# wrong` has a mistake."""

from __future__ import annotations

import dsv4
import encoding_dsv4
import encoding_dsv32
from dsv4.compat import vllm
from dsv4.tokens import Session, Tokenizer
from dsv4.types import MessageParam, ToolParam

dsv4.encode([{"role": "usr", "content": "Hi"}])  # wrong
dsv4.encode([{"role": "user", "content": 3}])  # wrong
dsv4.encode([{"role": "user", "content": [{"type": "text", "text": 3}]}])  # wrong
dsv4.encode([{"role": "user", "content": "Hi", "tool_call_id": "call_1"}])  # wrong
dsv4.encode([{"content": "Hi"}])  # wrong
dsv4.encode("Hi")  # wrong
dsv4.encode([{"role": "user", "content": "Hi"}], efort="max")  # wrong
dsv4.encode([{"role": "user", "content": "Hi"}], effort="nope")  # wrong
dsv4.encode([{"role": "user", "content": "Hi"}], dialect="v9")  # wrong
dsv4.encode([{"role": "user", "content": "Hi"}], thinking="yes")  # wrong
dsv4.encode([], tools=["weather"])  # wrong
dsv4.encode([], tools={1: "weather"})  # wrong
dsv4.encode([], tool_choice={"type": "function", "function": "f"})  # wrong
dsv4.encode([], tool_choice={"type": "tool", "name": "f"})  # wrong
dsv4.encode([], response_format="json")  # wrong
dsv4.encode([], context=[{"role": "user", "content": 3}])  # wrong

dsv4.Request([{"role": "user", "content": 3}], dialect="v4")  # wrong
dsv4.Request([{"role": "user", "content": "Hi"}], effort="nope")  # wrong
dsv4.Request([{"role": "user", "content": "Hi"}], dialect="v9")  # wrong
dsv4.Request([{"role": "user", "content": "Hi"}], stop=[1])  # wrong
dsv4.Request([{"role": "user", "content": "Hi"}], temperature=1.0)  # wrong
dsv4.Request([{"role": "assistant", "tool_calls": [{"function": {}}]}])  # wrong
dsv4.Sampled("Hi", text="Hi")  # wrong
dsv4.Sampled({"role": "user", "content": "Hi"})  # wrong

dsv4.check([{"role": "user", "content": 3}])  # wrong
dsv4.check([], purpose="fun")  # wrong
dsv4.decode("", dialect="v9")  # wrong


def ids(tokenizer: Tokenizer) -> None:
    Session(tokenizer, effort="nope")  # wrong
    Session(tokenizer).append({"role": "user", "content": 3})  # wrong
    tokenizer.expand([{"role": "user", "content": 3}])  # wrong
    tokenizer.expand([], dialect="v9")  # wrong
    Tokenizer.load(dialect="v9")  # wrong


encoding_dsv4.encode_messages([{"role": "user", "content": 3}], "chat")  # wrong
encoding_dsv4.encode_messages([], "think")  # wrong
encoding_dsv4.encode_messages([], "chat", reasoning_effort="nope")  # wrong
encoding_dsv32.encode_messages([{"role": "usr", "content": "Hi"}], "chat")  # wrong
vllm.encode_messages([{"role": "usr", "content": "Hi"}], "chat")  # wrong

message: MessageParam = {"role": "user", "contents": "Hi"}  # wrong
tool: ToolParam = {"type": "function"}  # wrong
