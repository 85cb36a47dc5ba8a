"""A tokenizer.json that is loaded in no time: a token for each byte, and the special ones."""

from __future__ import annotations

import json
from pathlib import Path

import dsv4


def write_small_vocabulary(path: Path, dialect: str = "v4") -> Path:
    specials = dsv4.DIALECTS[dialect].special_tokens
    # A merge must be there for the file to count as BPE.
    vocabulary = {str(token): token.id for token in specials if token.id in (0, 1)}
    vocabulary |= {letter: 2 + n for n, letter in enumerate([*_byte_letters(), "he"])}
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    content = {
        "version": "1.0",
        "added_tokens": [
            _added(str(token), 500 + n if token.id is None else token.id)
            for n, token in enumerate(specials)
        ],
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": ["h e"]},
    }
    path.write_text(json.dumps(content))
    return path


def _added(content: str, id: int | None) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id, "content": content, "special": True, **flags}


def _byte_letters() -> list[str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [*map(chr, printable), *(chr(0x100 + n) for n in range(256 - len(printable)))]
