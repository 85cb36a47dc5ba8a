"""Servers in front of a worker that stands in for an engine: it says what it is told, and keeps the
ids that it was asked with. `dynamo_frontend.py` and `smg_frontend.py` start them.
"""

from __future__ import annotations

import atexit
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

# The model's name, and its kind, by which servers choose how they write prompts; so are their
# parsers named.
MODELS = {
    "v4": ("DeepSeek-V4-Pro", "deepseek_v4"),
    "v4.1": ("DeepSeek-V4.1-Flash", "deepseek_v41"),
}
ARCHITECTURES = {"v4": ["DeepseekV4ForCausalLM"], "v4.1": ["DeepseekV41ForCausalLM"]}
# What V4.1 calls reserved tokens of V4's vocabulary.
RENAMED = {128799: "<｜System｜>", 129264: "<｜deepseek_image｜>"}
SECONDS = 60


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def write_model(folder: Path, dialect: str, vocabulary: Path) -> None:
    """What a frontend reads of a model: no weights."""
    folder.mkdir(parents=True)
    written = json.loads(vocabulary.read_text("utf-8"))
    if dialect == "v4.1":
        for token in written["added_tokens"]:
            token["content"] = RENAMED.get(token["id"], token["content"])
    (folder / "tokenizer.json").write_text(json.dumps(written), "utf-8")
    ends = {"bos_token_id": 0, "eos_token_id": 1}
    (folder / "generation_config.json").write_text(json.dumps(ends), "utf-8")
    kind = {"architectures": ARCHITECTURES[dialect], "model_type": MODELS[dialect][1]}
    sizes = {"vocab_size": 129280, "max_position_embeddings": 1_048_576}
    (folder / "config.json").write_text(json.dumps({**kind, **sizes, **ends}), "utf-8")
    options = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(options), "utf-8")


class Frontend:
    """Serves both dialects for as long as this process lives."""

    def __init__(self, vocabulary: Path) -> None:
        from tokenizers import Tokenizer

        self.folder = Path(mkdtemp())
        self._tokenizers = {}
        for dialect, (model, _) in MODELS.items():
            write_model(self.folder / model, dialect, vocabulary)
            file = str(self.folder / model / "tokenizer.json")
            self._tokenizers[dialect] = Tokenizer.from_file(file)
        self._urls: dict[str, str] = {}
        self._said = ""
        self._asked: list[int] = []

    def generated(self, dialect: str, asked: Any) -> list[int]:
        """What the worker says when it is asked."""
        self._asked = list(asked)
        encoded = self._tokenizers[dialect].encode(self._said, add_special_tokens=False)
        return list(encoded.ids)

    def start(self, command: list[str], port: int, *dialects: str) -> None:
        """Starts a server for models, and waits for them."""
        log = self.folder / f"{port}.log"
        process = subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT)
        atexit.register(process.kill)
        url = f"http://127.0.0.1:{port}/v1"
        self._urls |= dict.fromkeys(dialects, url)
        for _ in range(SECONDS * 10):
            time.sleep(0.1)
            try:
                with urllib.request.urlopen(f"{url}/models", timeout=5) as answer:
                    if len(json.load(answer)["data"]) == len(dialects):
                        return
            except OSError:
                continue
        raise SystemExit(f"no frontend: {log.read_text('utf-8')}")

    def _post(self, dialect: str, body: Any, *, stream: bool = False) -> bytes:
        headers = {"content-type": "application/json"}
        data = json.dumps({**body, "model": MODELS[dialect][0], "stream": stream}).encode()
        request = urllib.request.Request(f"{self._urls[dialect]}/chat/completions", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise ValueError(error.read().decode("utf-8", "replace")) from None

    def prompt(self, dialect: str, body: Any) -> str:
        """The prompt that the worker is asked with. Raises a `ValueError` for what is refused."""
        self._said, self._asked = "", []
        self._post(dialect, body)
        return str(self._tokenizers[dialect].decode(self._asked, skip_special_tokens=False))

    def message(self, dialect: str, said: str, body: Any) -> Any:
        """What becomes of a completion."""
        self._said = said
        return json.loads(self._post(dialect, body))["choices"][0]["message"]

    def chunks(self, dialect: str, said: str, body: Any) -> list[Any]:
        """The same, streamed: the chunks of the answer."""
        self._said = said
        events = self._post(dialect, body, stream=True).decode("utf-8").splitlines()
        data = [line[len("data: ") :] for line in events if line.startswith("data: ")]
        return [json.loads(each) for each in data if each != "[DONE]"]
