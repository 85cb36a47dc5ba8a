"""Asks a real llama.cpp with its own template for the prompts in profiles-llamacpp.jsonl.gz again.

    python tests/serve/record_llamacpp.py

The requests stay as they are. Do so for a new release of llama.cpp, which gets a profile of its
own, and look at what has changed.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import llama_server
import llama_templates
import tiny_model

from dsv4.tokens import Tokenizer
from encoding_dsv4 import bos_token

# llama.cpp says no with both.
REFUSALS = (400, 500)
RECORDED = Path(__file__).parents[1] / "vectors" / "profiles-llamacpp.jsonl.gz"


def recorded() -> list[dict[str, Any]]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def prompt_of(url: str, body: object) -> str | None:
    """The prompt that a server makes of a request; None where it refuses it. Of the BOS, which its
    tokenizer adds, it shows nothing."""
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{url}/apply-template", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return bos_token + str(json.load(answer)["prompt"])
    except urllib.error.HTTPError as refusal:
        if refusal.code not in REFUSALS:
            raise
        return None


def record(url: str, bodies: Iterable[object]) -> None:
    rows = [json.dumps({"request": body, "prompt": prompt_of(url, body)}) for body in bodies]
    # Without the time, so that the same rows are the same file.
    with gzip.GzipFile(RECORDED, "wb", mtime=0) as file:
        file.write("".join(f"{row}\n" for row in rows).encode())


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_model.write(folder / "tiny.gguf", Tokenizer.load())
        template = llama_templates.template(llama_templates.JULY)
        with llama_server.running(folder / "tiny.gguf", template, folder / "log") as url:
            record(url, [row["request"] for row in recorded()])


if __name__ == "__main__":
    main()
