"""What `make clients` runs clients with, and what the documentation says of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import agents
import install
import pytest
from errand import Errand, Failure
from printed import Printed

from dsv4.serve.banner import all_clients, summary_of_settings
from dsv4.serve.settings import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PRINTED = Printed(all_clients(summary_of_settings(Settings())), "sk-1")


def test_settings_files_can_be_read() -> None:
    path, text = PRINTED.file("Codex")
    assert path == "~/.codex/config.toml"
    assert tomllib.loads(text)["model_providers"]["dsv4"]["env_key"] == "DSV4_KEY"
    path, text = PRINTED.file("opencode")
    assert path == "opencode.json"
    assert json.loads(text)["provider"]["dsv4"]["options"]["apiKey"] == "sk-1"
    assert json.loads(PRINTED.file("pi")[1])["providers"]["dsv4"]["apiKey"] == "sk-1"


def test_variables_and_commands_can_be_read() -> None:
    environment = PRINTED.environment("Claude Code")
    assert environment["ANTHROPIC_AUTH_TOKEN"] == "sk-1"
    assert environment["CLAUDE_CODE_SUBAGENT_MODEL"] == "deepseek-v4"
    assert PRINTED.command("Claude Code") == ["claude"]
    assert PRINTED.command("Qwen Code") == ["qwen", "--auth-type", "openai"]


@pytest.mark.parametrize("agent", agents.AGENTS, ids=lambda agent: f"{agent.name}-{agent.protocol}")
def test_every_agent_is_given_the_prompt_and_the_protocol(agent: agents.Agent) -> None:
    start = agent.start(PRINTED, agent.protocol, "the prompt")
    assert "the prompt" in [*start.arguments, start.stdin]
    names = {"chat": ("openai",), "responses": ("openai", "responses"), "messages": ("anthropic",)}
    given = json.dumps([start.arguments, start.environment, start.files]).lower()
    assert any(name in given for name in names[agent.protocol])


def test_an_errand_is_done_once_with_its_own_result_and_told_of() -> None:
    errand = Errand()
    done = f"DONE: {errand.marker}"
    errand.check([errand.marker + "\n"], done)
    for results, answer in (
        ([], done),
        ([errand.marker] * 2, done),
        (["other"], done),
        ([errand.marker], "DONE: other"),
        ([errand.marker], ""),
    ):
        with pytest.raises(Failure):
            errand.check(results, answer)
    assert errand.marker not in errand.prompt


def test_the_page_names_the_versions_that_are_run() -> None:
    page = (ROOT / "docs" / "serving.md").read_text("utf-8")
    for package in install.AGENTS:
        assert f"{package.title} {package.version}" in page
    for packages in install.SDKS.values():
        for name, version in packages.items():
            if name != "mcp":
                assert f"{name.partition('[')[0]} {version}" in page
