"""Through how few files of the package a request runs: what someone reads who follows it. Run it
with `pytest -s` to see them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from gateway import TOOLS, gateway, run

import dsv4
from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4.api import Usage, chat
from dsv4.serve import Chunk, Model

PACKAGE = Path(dsv4.__file__).parent
PLAIN = f"Let me see.{THINK_END}Hello.{EOS}"
CALL = (
    f'Let me see.{THINK_END}\n\n<{DSML}tool_calls>\n<{DSML}invoke name="bash">\n'
    f'<{DSML}parameter name="command" string="true">ls</{DSML}parameter>\n'
    f"</{DSML}invoke>\n</{DSML}tool_calls>{EOS}"
)
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
LOADS = {"plain": (BODY, PLAIN), "a call": ({**BODY, "tools": TOOLS}, CALL)}
# What may become less, and never more. Lower a bound when the code allows it.
MOST_FOR_FRAMES = {"plain": 26, "a call": 26}
MOST_FOR_HTTP = {"plain": 41, "a call": 49}
every_load = pytest.mark.parametrize("load", LOADS)
# Options that were read before are cached.
NEW_OPTIONS = {"seed": 20_261_116}


@contextmanager
def counted(what: str) -> Iterator[set[str]]:
    """Gathers the files whose functions are called, and prints them."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    ours: set[str] = set()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield ours
    finally:
        sys.setprofile(before)
        paths = (Path(file) for file in files)
        ours |= {str(p.relative_to(PACKAGE)) for p in paths if p.is_relative_to(PACKAGE)}
        print(f"\n{what}: {len(ours)} files: {' '.join(sorted(ours))}")


def frames(body: dict[str, Any], text: str) -> bytes:
    call = chat.read(body)
    parser = call.parser(call.request.encode())
    writer = chat.Writer(call)
    data = chat.frames(writer.start())
    for start in range(0, len(text), 7):
        data += writer.frames(parser.feed(text[start : start + 7]))
    data += writer.frames(parser.finish())
    return data + chat.frames(writer.finish(usage=Usage(1, 0, 1)))


@every_load
def test_a_chat_body_to_frames(load: str) -> None:
    body, text = LOADS[load]
    frames(body, text)
    with counted(f"a Chat body to frames, {load}") as files:
        assert frames({**body, **NEW_OPTIONS}, text).endswith(b"data: [DONE]\n\n")
    assert "api/chat_requests.py" in files
    assert len(files) <= MOST_FOR_FRAMES[load]


class Engine:
    """A backend that generates one text."""

    grammar_form = None

    def __init__(self, text: str) -> None:
        self._text = text

    async def stream(self, prompt: Any, ids: Any, options: Any) -> AsyncIterator[Chunk]:
        for start in range(0, len(self._text), 7):
            yield Chunk(self._text[start : start + 7])
        yield Chunk(finish="eos")

    async def models(self) -> list[Model]:
        return [Model("deepseek-v4", 1_000_000)]

    async def aclose(self) -> None:
        pass


@every_load
def test_an_http_request(load: str) -> None:
    body, text = LOADS[load]

    async def scenario() -> None:
        async with gateway(Engine(text)) as g:
            await g.stream("/v1/chat/completions", body)
            with counted(f"an HTTP request, {load}") as files:
                events = await g.stream("/v1/chat/completions", {**body, **NEW_OPTIONS})
            assert events[-1] == "[DONE]"
            assert "serve/completion_route.py" in files
            assert len(files) <= MOST_FOR_HTTP[load]

    run(scenario())
