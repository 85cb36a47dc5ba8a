"""A user's program that gives what OpenAI's SDK returned: type checkers must find nothing in it."""

from __future__ import annotations

from openai.types.chat import ChatCompletionMessage

import dsv4


def next_prompt(message: ChatCompletionMessage) -> dsv4.Prompt:
    return dsv4.encode([{"role": "user", "content": "Hi"}, message])
