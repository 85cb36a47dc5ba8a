"""The recipes of docs/serving.md, command by command.

What a command says is run, with a tiny model in place of the real one and free ports in place of
those that it names.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from gateway_process import running_gateway
from protocol_clients import together
from vllm_process import ROOT, TinyModel

from encoding_dsv4 import eos_token as EOS

PAGE = ROOT / "docs" / "serving.md"


def commands(title: str) -> list[str]:
    """The blocks of shell commands in a section of the page."""
    text = PAGE.read_text("utf-8")
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^( *)```sh\n(.*?)^ *```", section, re.M | re.S)
    assert blocks, f"no commands under {title}"
    return [re.sub(rf"^{indent}", "", block, flags=re.M).strip() for indent, block in blocks]


def words(command: str, *program: str) -> list[str]:
    """The options of a command."""
    found = shlex.split(command, comments=True)
    assert found[: len(program)] == list(program), command
    return found[len(program) :]


def body_of(curl: str) -> tuple[str, bytes]:
    """The path and the body of a request by curl."""
    address, data = words(curl, "curl")[0], words(curl, "curl")[2]
    return re.sub(r"^http://[^/]+", "", address), data.encode()


def test_in_the_first_minute() -> None:
    start, curl = commands("In the first minute")
    serve = start.splitlines()[-1]
    path, data = body_of(curl)

    async def ask(client: Any, url: str) -> Any:
        async with client.post(url + path, data=data) as response:
            assert response.status == 200
            return await response.json()

    with running_gateway(*words(serve, "dsv4", "serve")) as gateway:
        (answer,) = together(ask, [gateway.url])
    assert answer["choices"][0]["message"]["content"]


def test_claude_code_on_your_own_vllm(model: TinyModel) -> None:
    anthropic = pytest.importorskip("anthropic")
    vllm_serve, dsv4_serve, claude = commands("Claude Code on your own vLLM, in five minutes")
    _, flag, _, *options = words(vllm_serve, "vllm", "serve")
    assert flag == "--port"
    exports, program = claude.splitlines()
    exported = dict(word.split("=", 1) for word in words(exports, "export"))
    assert program == "claude"
    said = model.scripts.add("recipe", model.scripts.ids(f"Easy.</think>Hello!{EOS}"))
    with model.served(*options) as vllm:
        asked = words(dsv4_serve, "dsv4", "serve")
        given = [vllm.url if word.startswith("http") else word for word in asked]
        with running_gateway(*given) as gateway:
            assert "deepseek-v4-tiny, v4, context 8,192 tokens" in gateway.banner

            async def ready(client: Any, _: int) -> int:
                async with client.get(f"{gateway.url}/ready") as response:
                    return int(response.status)

            assert together(ready, [0]) == [200]
            client = anthropic.Anthropic(
                base_url=gateway.url, auth_token=exported["ANTHROPIC_AUTH_TOKEN"], api_key=None
            )
            answer = client.messages.create(
                model=exported["ANTHROPIC_MODEL"],
                max_tokens=100,
                messages=[{"role": "user", "content": said}],
            )
            assert [block.type for block in answer.content] == ["thinking", "text"]
            assert answer.content[1].text == "Hello!"
            assert answer.usage.cache_read_input_tokens is not None
            assert exported["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1:8000")
