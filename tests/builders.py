"""Short ways to write messages, so that a test shows what it is about."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dsv4

__all__ = [
    "BOS",
    "EOS",
    "VECTORS",
    "Message",
    "Model",
    "assistant",
    "call",
    "calling",
    "developer",
    "function",
    "gapless",
    "image",
    "is_json",
    "openai_tool",
    "png",
    "reminder",
    "result",
    "small_vocabulary",
    "system",
    "text",
    "user",
    "vectors",
]

Message = dict[str, Any]

BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"

VECTORS = Path(__file__).parent / "vectors"


class Model:
    """What turns itself into a dict as pydantic models do."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self._fields


def vectors(name: str) -> list[dict[str, Any]]:
    with (VECTORS / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def system(content: Any = "Be brief.", **fields: Any) -> Message:
    return {"role": "system", "content": content, **fields}


def user(content: Any = "Hi", **fields: Any) -> Message:
    return {"role": "user", "content": content, **fields}


def assistant(content: Any = "Hello", **fields: Any) -> Message:
    return {"role": "assistant", "content": content, **fields}


def result(content: Any = "sunny", of: Any = None, **fields: Any) -> Message:
    return {"role": "tool", "tool_call_id": of, "content": content, **fields}


def reminder(content: Any = "Today is Friday.", **fields: Any) -> Message:
    return {"role": "latest_reminder", "content": content, **fields}


def developer(content: Any = "Find it.", **fields: Any) -> Message:
    return {"role": "developer", "content": content, **fields}


def call(name: Any = "weather", arguments: Any = "{}", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def calling(*calls: Any, **fields: Any) -> Message:
    return assistant("", tool_calls=list(calls), **fields)


def function(name: Any = "weather", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def openai_tool(name: Any = "weather", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": function(name, **fields)}


def image(url: str = "https://example.com/1.png") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def text(words: Any) -> dict[str, Any]:
    return {"type": "text", "text": words}


def is_json(words: str) -> bool:
    try:
        json.loads(words)
    except ValueError:
        return False
    return True


def png(width: int, height: int, pixels: bytes = b"") -> bytes:
    """A PNG file of this size, as far as its headers say."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b"")):
        crc = zlib.crc32(kind + data)
        file += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)
    return file


def small_vocabulary(tokens: Iterable[dsv4.Special]) -> dict[str, Any]:
    """A `tokenizer.json` in which every byte is a token, and these are special."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [*map(chr, printable), *(chr(0x100 + n) for n in range(len(others)))]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": 200_000 + n if token.id is None else token.id, "content": str(token), **flags}
            | {"special": False}
            for n, token in enumerate(tokens)
        ],
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "use_regex": False},
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": False},
        "model": {
            **{"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False},
            **{"continuing_subword_prefix": None, "end_of_word_suffix": None},
            **{"byte_fallback": False, "merges": []},
            # The first two are BOS and EOS.
            "vocab": {letter: n for n, letter in enumerate([BOS, EOS, *letters])},
        },
    }


def gapless(vocabulary: dict[str, Any]) -> dict[str, Any]:
    """The same vocabulary, fit for `tokenizers`: it gives other ids where some are left out."""
    special = {token["content"]: token["id"] for token in vocabulary["added_tokens"]}
    vocab = {**vocabulary["model"]["vocab"], **special}
    unused = set(range(max(vocab.values()))) - set(vocab.values())
    vocab |= {f"unused{id}": id for id in unused}
    return {**vocabulary, "model": {**vocabulary["model"], "vocab": vocab}}
