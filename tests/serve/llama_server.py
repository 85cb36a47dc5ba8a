"""A real llama.cpp server, with the model of `tiny_model.py`.

It is the program `llama-server`, where one is on the path or named by LLAMA_SERVER; else the one
that the package `xllamacpp` has inside, which this file runs.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTEXT = 4096
SLOTS = 2


def why_not() -> str | None:
    """Why no server can be run here."""
    missing = [name for name in ("gguf", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        return f"no {' and no '.join(missing)}: `make test-llamacpp` installs them"
    if _program() is None and importlib.util.find_spec("xllamacpp") is None:
        return "no llama-server and no xllamacpp: `make test-llamacpp` installs that"
    return None


def _program() -> str | None:
    return os.environ.get("LLAMA_SERVER") or shutil.which("llama-server")


@contextmanager
def running(model: Path, template: Path, log: Path) -> Iterator[str]:
    """The address of a server that has the model loaded, and the chat template."""
    port = _free_port()
    with open(log, "w") as file:
        command = _command(model, template, port)
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url, process, log)
            yield url
        finally:
            process.kill()
            process.wait()


def _command(model: Path, template: Path, port: int) -> list[str]:
    program = _program()
    if program is None:
        return [sys.executable, __file__, str(model), str(template), str(port)]
    context = ["--ctx-size", str(CONTEXT * SLOTS), "--parallel", str(SLOTS), "--no-kv-unified"]
    chat = ["--jinja", "--chat-template-file", str(template)]
    listen = ["--host", "127.0.0.1", "--port", str(port), "--slots"]
    return [program, "--model", str(model), "--threads", "1", *context, *chat, *listen]


def _free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError:
            assert process.poll() is None, f"llama.cpp did not start:\n{log.read_text()[-2000:]}"
            time.sleep(0.1)
    raise AssertionError("llama.cpp did not start within a minute")


def _serve(model: str, template: str, port: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.port = int(port)
    params.n_ctx, params.n_parallel = CONTEXT * SLOTS, SLOTS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.chat_template = Path(template).read_text("utf-8")
    server = xllamacpp.Server(params)
    while server:
        time.sleep(60)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
