"""What a real vLLM makes of a row of the corpora, which its model writes."""

from __future__ import annotations

from typing import Any

from corpus_rows import Row
from protocol_clients import chat_body, chat_reading, chat_stream_reading, limit, posted
from vllm_process import MODEL_NAME, Scripts


async def scripted_reading(
    client: Any, url: str, row: Row, scripts: Scripts, streamed: bool
) -> Any:
    ids = scripts.ids(row.text)
    name = scripts.add(row.name, ids)
    options = {"chat_template_kwargs": {"thinking": row.thinking}, "stream": streamed}
    body = chat_body(row, name, limit(row, ids), model=MODEL_NAME, **options)
    answer = await posted(client, f"{url}/v1/chat/completions", body)
    return (chat_stream_reading if streamed else chat_reading)(answer)
