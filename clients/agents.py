"""How each agent is started, as its users start it, and what it says in the end.

The settings are those that `dsv4 serve --clients` prints. They name one protocol for each agent;
where an agent speaks others too, the name of the protocol is changed in them and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from errand import Errand, Failure, check_loop, loop_prompt, require
from printed import Printed

Events = list[dict[str, Any]]


@dataclass(frozen=True)
class Start:
    """A command with its settings. Paths of files that begin with `~` are in the agent's home, the
    others in the folder that it works in."""

    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    stdin: str = ""


@dataclass(frozen=True)
class Agent:
    """An agent over one protocol.

    `start` makes its command from the settings and the prompt; `answer` finds its last text in the
    JSON that it prints. `is_exact` is false where it puts lines of its own before a tool's result.
    """

    name: str
    protocol: str
    start: Callable[[Printed, str, str], Start]
    answer: Callable[[Events], str]
    is_exact: bool = True


# Claude Code.


def _start_claude(printed: Printed, protocol: str, prompt: str) -> Start:
    arguments = ["-p", prompt, "--output-format", "json", "--allowedTools", "Bash"]
    return Start(arguments, {**printed.environment("Claude Code"), "DISABLE_AUTOUPDATER": "1"})


def _answer_claude(events: Events) -> str:
    return _last(event.get("result") for event in events if event.get("type") == "result")


# Codex.


def _start_codex(printed: Printed, protocol: str, prompt: str) -> Start:
    path, text = printed.file("Codex")
    # It runs in a sandbox of its own otherwise, which cannot be made inside of another.
    free = ["--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
    return Start(["exec", "--json", *free, prompt], {"DSV4_KEY": printed.key}, {path: text})


def _answer_codex(events: Events) -> str:
    items = [event["item"] for event in events if event.get("type") == "item.completed"]
    return _last(item["text"] for item in items if item.get("type") == "agent_message")


# opencode.

_OPENCODE = {
    "chat": "@ai-sdk/openai-compatible",
    "responses": "@ai-sdk/openai",
    "messages": "@ai-sdk/anthropic",
}


def _start_opencode(printed: Printed, protocol: str, prompt: str) -> Start:
    path, text = printed.file("opencode")
    settings = {path: text.replace(_OPENCODE["chat"], _OPENCODE[protocol])}
    offline = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return Start(["run", "--format", "json", "--auto"], offline, settings, prompt)


def _answer_opencode(events: Events) -> str:
    return _last(event["part"]["text"] for event in events if event.get("type") == "text")


# pi.

_PI = {
    "chat": "openai-completions",
    "responses": "openai-responses",
    "messages": "anthropic-messages",
}


def _start_pi(printed: Printed, protocol: str, prompt: str) -> Start:
    path, text = printed.file("pi")
    text = text.replace(_PI["chat"], _PI[protocol])
    if protocol == "messages":
        text = text.replace('/v1"', '"')  # its SDK adds that
    provider, models = next(iter(json.loads(text)["providers"].items()))
    chosen = ["--provider", provider, "--model", models["models"][0]["id"]]
    return Start(["-p", "--mode", "json", *chosen, prompt], {"PI_OFFLINE": "1"}, {path: text})


def _answer_pi(events: Events) -> str:
    messages = [event["message"] for event in events if event.get("type") == "message_end"]
    return _last(
        "".join(part.get("text", "") for part in message["content"])
        for message in messages
        if message.get("role") == "assistant"
    )


# Qwen Code.


def _start_qwen(printed: Printed, protocol: str, prompt: str) -> Start:
    environment = printed.environment("Qwen Code")
    arguments = printed.command("Qwen Code")[1:]
    if protocol == "messages":
        environment = {
            name.replace("OPENAI", "ANTHROPIC"): value.removesuffix("/v1")
            for name, value in environment.items()
        }
        arguments = [argument.replace("openai", "anthropic") for argument in arguments]
    return Start([*arguments, "-y", "-o", "stream-json", "-p", prompt], environment)


_answer_qwen = _answer_claude


AGENTS = (
    Agent("claude", "messages", _start_claude, _answer_claude),
    Agent("codex", "responses", _start_codex, _answer_codex, is_exact=False),
    *(Agent("opencode", protocol, _start_opencode, _answer_opencode) for protocol in _OPENCODE),
    *(Agent("pi", protocol, _start_pi, _answer_pi) for protocol in _PI),
    Agent("qwen", "chat", _start_qwen, _answer_qwen, is_exact=False),
    Agent("qwen", "messages", _start_qwen, _answer_qwen, is_exact=False),
)


def run(agent: Agent, command: Path, printed: Printed, work: Path, limit: float) -> str:
    """Sends an agent on an errand, in a folder and a home of its own below `work`.

    Returns its last text. Raises `Failure`.
    """
    proof = work / "project" / "ran.txt"
    errand = Errand(str(proof))
    events = events_of_run(agent, command, printed, work, errand.prompt, limit)
    ran = proof.read_text().splitlines() if proof.exists() else []
    answer = agent.answer(events)
    errand.check(ran, answer, is_exact=agent.is_exact)
    require(errand.marker in json.dumps(events), "the result of the tool is in none of its events")
    return answer


def run_loop(
    agent: Agent,
    command: Path,
    printed: Printed,
    work: Path,
    limit: float,
    malformed: str | None = None,
) -> None:
    """Sends an agent into a loop of turns, below `work`. Raises `Failure`."""
    events_of_run(agent, command, printed, work, loop_prompt(malformed), limit)
    proof = work / "project" / "ran.txt"
    check_loop(proof.read_text().splitlines() if proof.exists() else [])


def events_of_run(
    agent: Agent, command: Path, printed: Printed, work: Path, prompt: str, limit: float
) -> Events:
    """What an agent prints about a prompt, in a folder and a home of its own below `work`."""
    home, project = work / "home", work / "project"
    home.mkdir(parents=True)
    project.mkdir()
    subprocess.run(["git", "init", "--quiet", project], check=False)
    start = agent.start(printed, agent.protocol, prompt)
    for name, text in start.files.items():
        path = home / name[2:] if name.startswith("~/") else project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return _events(_output([str(command), *start.arguments], start, work, limit))


def _output(command: list[str], start: Start, work: Path, limit: float) -> str:
    """What a command prints. It is ended, with all that it started, when its time is over."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(work / "home"), "NO_COLOR": "1"}
    (work / "stdin").write_text(start.stdin)
    with (
        open(work / "stdin") as stdin,
        open(work / "stdout", "w") as stdout,
        open(work / "stderr", "w") as stderr,
    ):
        process = subprocess.Popen(
            command,
            cwd=work / "project",
            env={**environment, **start.environment},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Failure(f"not done after {limit:g} s") from None
    require(status == 0, f"exit status {status}: {(work / 'stderr').read_text()[-300:]}")
    return (work / "stdout").read_text()


def _events(output: str) -> Events:
    """The JSON objects in lines of text; some agents print a list of them in one line."""

    def found() -> Iterator[Any]:
        for line in output.splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            yield from value if isinstance(value, list) else [value]

    return [event for event in found() if isinstance(event, dict)]


def _last(texts: Iterator[Any]) -> str:
    return next(iter([text for text in texts if text][-1:]), "")
