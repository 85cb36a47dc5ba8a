"""The clients, their versions, and how they are installed into a folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from errand import Failure


@dataclass(frozen=True)
class Package:
    """An agent, as npm has it."""

    name: str
    package: str
    version: str
    title: str


AGENTS = (
    Package("claude", "@anthropic-ai/claude-code", "2.1.325", "Claude Code"),
    Package("codex", "@openai/codex", "0.166.0", "Codex"),
    Package("opencode", "opencode-ai", "1.18.18", "opencode"),
    Package("pi", "@mariozechner/pi-coding-agent", "0.73.1", "pi"),
    Package("qwen", "@qwen-code/qwen-code", "0.15.10", "Qwen Code"),
)
# DeepSeek's own agent. It is tried, and what fails is said: no errand is run with it.
DSH = Package("dsh", "@deepseek-ai/dsh", "0.1.5-rc.2", "dsh")
# LiteLLM needs an older `openai`, and `mcp`, which it does not declare. pydantic-ai's Anthropic
# model needs an `anthropic` before 2.
SDKS = {
    "venv": {
        "openai": "3.3.0",
        "anthropic": "2.8.0",
        "langchain-deepseek": "1.1.1",
        "langchain-openai": "1.7.3",
        "langchain-anthropic": "1.7.7",
        "pydantic-ai-slim[openai]": "2.38.0",
        "instructor": "1.17.0",
    },
    "venv_litellm": {
        "litellm": "1.106.2",
        "mcp": "",
        "pydantic-ai-slim[anthropic]": "2.66.0",
        "anthropic": "1.17.0",
    },
}


class Installation:
    """A folder with clients in it. What is there already is left alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def agent(self, name: str) -> Path:
        """The command of an agent."""
        return self.folder / "npm" / name / "node_modules" / ".bin" / name

    def python(self, environment: str) -> Path:
        """The Python of an environment."""
        return self.folder / environment / "bin" / "python"

    # Agents.

    def install_agent(self, package: Package) -> None:
        """Raises `Failure` where it cannot be installed."""
        if self._agent_version(package) == package.version:
            return
        npm = shutil.which("npm")
        if npm is None:
            raise Failure("npm is missing: install Node.js 20 or later")
        folder = self.folder / "npm" / package.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        wanted = f"{package.package}@{package.version}"
        _run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", wanted], folder)

    def _agent_version(self, package: Package) -> str | None:
        """The version that is there."""
        about = self.folder / "npm" / package.name / "node_modules" / package.package
        try:
            found = json.loads((about / "package.json").read_text())["version"]
        except (OSError, ValueError, KeyError):
            return None
        return str(found) if self.agent(package.name).exists() else None

    # Environments of Python.

    def install_sdks(self, environment: str) -> None:
        """Raises `Failure` where they cannot be installed."""
        missing = [
            name + (f"=={version}" if version else "")
            for name, version in SDKS[environment].items()
            if not self._has(environment, name.partition("[")[0], version)
        ]
        if not missing:
            return
        python = self.python(environment)
        if not python.exists():
            venv.create(self.folder / environment)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        _run([*pip, "--disable-pip-version-check", *missing], self.folder)

    def _has(self, environment: str, name: str, version: str) -> bool:
        found = self.sdk_version(environment, name)
        return found is not None and version in ("", found)

    def sdk_version(self, environment: str, name: str) -> str | None:
        """The version that is there."""
        ask = f"import importlib.metadata as found; print(found.version({name!r}))"
        try:
            answer = subprocess.run(
                [str(self.python(environment)), "-c", ask], capture_output=True, text=True
            )
        except OSError:
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout)[-1000:]}")
