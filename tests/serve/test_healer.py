"""What the answers of a chat server show about it, and what is done about that."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from aiohttp import web
from gateway import TOOLS, Gateway, gateway, run
from standins import THINK_END, THINK_START, ChatServer, event
from test_healing import answer, body_for, folded, in_pieces

from dsv4._completion.events import ContentDelta, ReasoningDelta
from dsv4._completion.message import assemble
from dsv4.api import chat
from dsv4.profiles import render
from dsv4.serve.backend import Chunk
from dsv4.serve.heal.chat_delta import OtherChoice
from dsv4.serve.heal.healing_reader import HealingReader
from dsv4.serve.heal.upstream_habits import UpstreamHabits
from dsv4.serve.settings import ReasoningInContent
from dsv4.serve.upstreams import answer_chunks
from dsv4.tokens import Tokenizer

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "Hi"}
THOUGHT = f"I think.{THINK_END}Hello"
READ = ("I think.", "Hello")


def read(
    *pieces: str, habits: UpstreamHabits, stream: bool = True, finish: str = "stop", **body: Any
) -> tuple[str, str]:
    """The reasoning and the content that a client of an answer gets."""
    call = chat.read({"messages": [USER], "stream": stream, **body})
    reader = HealingReader(call, None, habits)
    events = [e for piece in pieces for e in reader.feed(Chunk(delta={"content": piece}))]
    events += [*reader.feed(Chunk(finish=finish)), *reader.end()]
    said = {ReasoningDelta: "", ContentDelta: ""}
    for e in events:
        if isinstance(e, (ReasoningDelta, ContentDelta)):
            said[type(e)] += e.text
    return said[ReasoningDelta], said[ContentDelta]


class TestReasoningInTheContent:
    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize("size", [1, 3, 1000])
    def test_it_is_read_as_reasoning(self, size: int, stream: bool) -> None:
        pieces = [THOUGHT[n : n + size] for n in range(0, len(THOUGHT), size)]
        assert read(*pieces, habits=UpstreamHabits(), stream=stream) == READ

    def test_it_may_be_all_that_another_choice_has(self) -> None:
        """Behind the calls of the first one, it was read as content."""
        call = chat.read({"messages": [USER], "stream": True})
        reader = HealingReader(call, None, UpstreamHabits())
        function = {"name": "bash", "arguments": "{}"}
        reader.feed(Chunk(delta={"tool_calls": [{"index": 0, "id": "x", "function": function}]}))
        reader.feed(Chunk(delta=OtherChoice(1, {"content": THOUGHT})))
        reader.feed(Chunk(finish="tool_calls"))
        reader.end()
        message = assemble(reader.events)
        assert (message.reasoning, message.content) == READ

    def test_what_was_learned_holds_for_the_answers_after_it(self) -> None:
        habits = UpstreamHabits()
        long = "Long. " * 400
        assert read(long, f"{THINK_END}Hello", habits=habits) == ("", f"{long}Hello")
        assert habits.reasoning_place == "content"
        assert read(long, f"{THINK_END}Hello", habits=habits) == (long, "Hello")
        # Nothing waits any more.
        call = chat.read({"messages": [USER], "stream": True})
        reader = HealingReader(call, None, habits)
        assert ReasoningDelta("I") in reader.feed(Chunk(delta={"content": "I"}))

    def test_no_more_than_a_kilobyte_of_the_first_answers_waits(self) -> None:
        habits = UpstreamHabits()
        for _ in range(3):
            call = chat.read({"messages": [USER], "stream": True})
            reader = HealingReader(call, None, habits)
            waiting = 0
            while not reader.feed(Chunk(delta={"content": "word " * 10})):
                waiting += 50
                assert waiting <= 1024
            assert read("Hi.", habits=habits) == ("", "Hi.")
        assert habits.reasoning_place == "none"
        call = chat.read({"messages": [USER], "stream": True})
        assert HealingReader(call, None, habits).feed(Chunk(delta={"content": "Hi"}))

    @pytest.mark.parametrize(
        ("setting", "expected"),
        [("always", ("Hi. ", "Yes.")), ("never", ("", "Hi. Yes.")), ("auto", ("Hi. ", "Yes."))],
    )
    def test_the_setting(self, setting: ReasoningInContent, expected: Any) -> None:
        habits = UpstreamHabits(setting)
        assert read("Hi. ", f"{THINK_END}Yes.", habits=habits) == expected
        assert read("Hi. ", f"{THINK_END}Yes.", habits=habits) == expected

    @pytest.mark.parametrize("stream", [True, False])
    def test_it_is_not_looked_for_where_nobody_thinks(self, stream: bool) -> None:
        off, habits = {"thinking": {"type": "disabled"}}, UpstreamHabits()
        for _ in range(5):
            assert read("Hi.", habits=habits, stream=stream, **off) == ("", "Hi.")
        assert habits.reasoning_place == "unknown"  # of which such answers say nothing
        call = chat.read({"messages": [USER], "stream": stream, **off})
        assert HealingReader(call, None, habits).feed(Chunk(delta={"content": "Hi."}))

    @pytest.mark.parametrize("mark", ["`", "'", '"'])
    def test_an_answer_that_names_the_tag_is_an_answer(self, mark: str) -> None:
        text = f"The tag {mark}{THINK_END}{mark} ends it."
        for stream in (True, False):
            assert read(text, habits=UpstreamHabits(), stream=stream)[0] == ""

    @pytest.mark.parametrize("size", [1, 1000])
    def test_a_server_that_writes_both_tags_is_not_guessed_about(self, size: int) -> None:
        habits, text = UpstreamHabits(), f"{THINK_START}{THOUGHT}"
        pieces = [text[n : n + size] for n in range(0, len(text), size)]
        for stream in (True, False):
            assert read(*pieces, habits=habits, stream=stream) == READ
        assert habits.reasoning_place == "unknown"
        assert read("Hello", habits=habits) == ("", "Hello")

    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize(
        "texts", [("One.", "Two."), ("```\na", "b\n```"), ('Say "', '" so.'), ("Say `", "` a <")]
    )
    def test_a_thought_in_its_field_is_one_whatever_the_texts_around_it_quote(
        self, texts: tuple[str, str], stream: bool
    ) -> None:
        reader = HealingReader(chat.read({"messages": [USER], "stream": stream}))
        deltas = ({"content": texts[0]}, {"reasoning": "Hm"}, {"thinking": "."})
        chunks = [Chunk(delta=each) for each in (*deltas, {"content": texts[1]})]
        events = [event for chunk in chunks for event in reader.feed(chunk)]
        events += [*reader.feed(Chunk(finish="stop")), *reader.end()]
        message = assemble(events)
        assert (message.reasoning, message.content) == ("Hm.", "".join(texts))

    def test_a_server_with_a_field_for_reasoning_is_known_by_it(self) -> None:
        habits = UpstreamHabits()
        call = chat.read({"messages": [USER], "stream": True})
        reader = HealingReader(call, None, habits)
        assert reader.feed(Chunk(delta={"reasoning_content": "Hm."}))
        assert habits.reasoning_place == "field"
        assert read("Hi.", habits=habits) == ("", "Hi.")

    def test_a_thought_that_was_cut_has_no_end(self) -> None:
        habits = UpstreamHabits()
        assert read(THOUGHT, habits=habits) == READ
        for stream in (True, False):
            said = read("I thi", habits=habits, stream=stream, finish="length")
            assert said == ("I thi", "")

    def test_an_answer_without_it_unlearns_it(self) -> None:
        habits = UpstreamHabits()
        assert read(THOUGHT, habits=habits) == READ
        assert read("Hello", habits=habits, stream=False) == ("", "Hello")
        assert habits.reasoning_place == "unknown"

    def test_through_all_protocols_in_the_log_and_in_ready(
        self, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario() -> None:
            upstream = ChatServer(tokenizer, answer(*in_pieces("content", THOUGHT, 4)))
            async with upstream.running() as url, gateway(**healing(url)) as g:
                for path in (CHAT, "/v1/messages", "/v1/responses"):
                    said = folded(path, await g.stream(path, body_for(path)))
                    assert (said["reasoning"], said["content"]) == READ, path
                ready = (await g.get("/ready"))[1]["chat_server"]
                assert ready["reasoning"] == "content"

        caplog.set_level(logging.INFO, "dsv4.serve")
        run(scenario())
        assert caplog.text.count("the chat server writes its reasoning into the content") == 1


def healing(url: str, **more: Any) -> dict[str, Any]:
    return {"settings_backend": "chat", "upstream": url, "strip_markup": True, **more}


class Vendor(ChatServer):
    """A vendor with DeepSeek's rules, under an address of its own."""

    refusal = "The `reasoning_content` in the thinking mode must be passed back to the API."

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        turns = [m for m in body["messages"] if m["role"] == "assistant"]
        if any(not turn.get("reasoning_content") for turn in turns):
            self.requests.append(body)
            error = {"error": {"message": self.refusal, "type": "invalid_request_error"}}
            return web.json_response(error, status=400)
        return await super().complete(request)


async def two_turns(g: Gateway, n: int = 1) -> tuple[int, Any, Any]:
    """A conversation of a client that sends no reasoning back."""
    status, _, first = await g.post(CHAT, {"messages": [USER]})
    assert status == 200, first
    said = {"role": "assistant", "content": first["choices"][0]["message"]["content"]}
    return await g.post(CHAT, {"messages": [USER, said, USER], "n": n})


class TestEmptyAnswers:
    """What ends and says nothing, as happens in loops of tools (`--retry-empty`)."""

    NOTHING = answer({"role": "assistant", "content": ""})

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(("retry_empty", "asked"), [(0, 1), (1, 2), (2, 3), (5, 3)])
    def test_are_asked_for_again(
        self, stream: bool, retry_empty: int, asked: int, tokenizer: Tokenizer
    ) -> None:
        async def scenario() -> None:
            yes = answer({"reasoning_content": "Hm."}, {"content": "Yes."})
            upstream = ChatServer(tokenizer, self.NOTHING, self.NOTHING, yes)
            settings: dict[str, Any] = {"retry_empty": retry_empty}
            async with upstream.running() as url, gateway(**healing(url, **settings)) as g:
                status, _, body = await g.post(CHAT, {"messages": [USER], "stream": stream})
                assert (status, len(upstream.requests)) == (200, asked)
                assert ("Yes." in json.dumps(body)) == (asked == 3)

        run(scenario())

    def test_but_none_that_says_anything(self, tokenizer: Tokenizer) -> None:
        said = [
            answer({"reasoning_content": "Hm."}),
            answer({"content": "Yes."}),
            answer({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash"}}]}),
        ]

        async def scenario() -> None:
            upstream = ChatServer(tokenizer, *said)
            async with upstream.running() as url, gateway(**healing(url, retry_empty=3)) as g:
                for n in range(len(said)):
                    assert (await g.post(CHAT, {"messages": [USER]}))[0] == 200
                    assert len(upstream.requests) == n + 1

        run(scenario())


class TestDeepSeeksRules:
    def test_a_refusal_shows_them_and_the_request_is_sent_again(
        self, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario() -> None:
            upstream = Vendor(tokenizer, answer({"reasoning_content": "Hm."}, {"content": "Yes."}))
            async with upstream.running() as url, gateway(**healing(url)) as g:
                assert (await g.get("/ready"))[1]["chat_server"]["adapted_to"] == "nothing"
                for _ in range(2):
                    status, headers, body = await two_turns(g)
                    assert status == 200, body
                    assert headers["x-dsv4-adapted"] == "reasoning"
                # The first of the second turns was refused once, and none after it.
                assert len(upstream.requests) == 5
                assert upstream.requests[-1]["messages"][1]["reasoning_content"] == "Hm."
                ready = (await g.get("/ready"))[1]["chat_server"]
                assert ready["learned_rules"]
                assert ready["adapted_to"] == "the official API"

        caplog.set_level(logging.INFO, "dsv4.serve")
        run(scenario())
        assert caplog.text.count("requests are adapted to its rules") == 1

    def test_every_choice_is_sent_again_once(self, tokenizer: Tokenizer) -> None:
        async def scenario() -> None:
            upstream = Vendor(tokenizer, answer({"reasoning_content": "Hm."}, {"content": "Yes."}))
            async with upstream.running() as url, gateway(**healing(url)) as g:
                status, _, body = await two_turns(g, n=2)
                assert (status, len(body["choices"])) == (200, 2)

        run(scenario())

    @pytest.mark.parametrize("more", [{"adapt_for": "none"}, {"refusal": "Bad request."}])
    def test_but_not_where_the_operator_or_the_server_says_otherwise(
        self, more: dict[str, Any], tokenizer: Tokenizer
    ) -> None:
        async def scenario() -> None:
            upstream = Vendor(tokenizer, answer({"reasoning_content": "Hm."}, {"content": "Yes."}))
            settings = dict(more)
            upstream.refusal = settings.pop("refusal", upstream.refusal)
            async with upstream.running() as url, gateway(**healing(url, **settings)) as g:
                status, _, body = await two_turns(g)
                assert (status, len(upstream.requests)) == (400, 2)
                assert upstream.refusal in body["error"]["message"]

        run(scenario())


class VendorWithoutDeveloper(ChatServer):
    """A vendor that has no developer messages, as the official API has none."""

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        if any(message["role"] == "developer" for message in body["messages"]):
            self.requests.append(body)
            words = (
                "messages[0].role: unknown variant `developer`, expected one of `system`, `user`"
            )
            return web.json_response({"error": {"message": words}}, status=400)
        return await super().complete(request)


def test_a_refused_developer_message_is_learned_from(tokenizer: Tokenizer) -> None:
    """The request is sent again with a system message, and later ones are adapted at once."""

    async def scenario() -> None:
        upstream = VendorWithoutDeveloper(tokenizer, answer({"content": "Yes."}))
        async with upstream.running() as url, gateway(**healing(url)) as g:
            for _ in range(2):
                body = {"messages": [{"role": "developer", "content": "Be brief."}, USER]}
                status, headers, answered = await g.post(CHAT, body)
                assert status == 200, answered
                assert "developer" in headers["x-dsv4-adapted"].split(",")
            roles = [request["messages"][0]["role"] for request in upstream.requests]
            assert roles == ["developer", "system", "system"]

    run(scenario())


@pytest.mark.parametrize("has_count", [True, False])
def test_behind_a_finish_reason_only_a_moment_is_waited(
    has_count: bool, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a count of tokens, and not for as long as a server may be silent otherwise."""
    monkeypatch.setattr(answer_chunks, "_GRACE", 0.3)

    async def hanging(request: web.Request, number: int) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for chunk in json.loads(answer({"content": "Yes."}))[:-1]:
            await response.write(event(chunk))
        if has_count:
            await asyncio.sleep(0.05)
            usage = {"prompt_tokens": 7, "completion_tokens": 3}
            await response.write(event({"choices": [], "usage": usage}))
        await asyncio.sleep(30)
        return response

    async def scenario() -> None:
        upstream = ChatServer(tokenizer, "[]")
        upstream.fault = hanging
        async with upstream.running() as url, gateway(**healing(url, idle_timeout=600)) as g:
            status, _, body = await g.post(CHAT, {"messages": [USER]})
            assert status == 200
            assert body["choices"][0]["message"]["content"] == "Yes."
            assert (body["usage"]["prompt_tokens"] == 7) is has_count

    run(scenario(), 10)


class ManyModels(ChatServer):
    """A router to many models."""

    models: tuple[str, ...] = ("openai/gpt-5", "deepseek/deepseek-v4", "qwen/qwen4")

    async def list_models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": name} for name in self.models]})


class TestModels:
    @pytest.mark.parametrize("name", ["deepseek/deepseek-v4:nitro", "deepseek-v44", "qwen/qwen4"])
    def test_among_several_models_the_client_chooses(self, name: str, tokenizer: Tokenizer) -> None:
        async def scenario() -> None:
            upstream = ManyModels(tokenizer, answer({"content": "Hi."}))
            async with upstream.running() as url, gateway(**healing(url)) as g:
                await g.post(CHAT, {"messages": [USER], "model": name})
                await g.post(CHAT, {"messages": [USER]})
                asked = [request["model"] for request in upstream.requests]
                assert asked == [name, "deepseek/deepseek-v4"]
                assert (await g.get("/ready"))[1]["model"] == "deepseek/deepseek-v4"

        run(scenario())

    def test_all_of_them_are_listed_and_no_others(self, tokenizer: Tokenizer) -> None:
        async def scenario() -> None:
            upstream = ManyModels(tokenizer, answer({"content": "Hi."}))
            async with upstream.running() as url:
                async with gateway(**healing(url)) as g:
                    _, listed = await g.get("/v1/models")
                    names = [model["id"] for model in listed["data"]]
                    assert names == ["deepseek/deepseek-v4", "openai/gpt-5", "qwen/qwen4"]
                    for name in names:
                        assert (await g.get(f"/v1/models/{name}"))[0] == 200
                    assert (await g.get("/v1/models/qwen"))[0] == 404
                async with gateway(**healing(url, upstream_model="qwen/qwen4")) as g:
                    _, listed = await g.get("/v1/models")
                    assert [model["id"] for model in listed["data"]] == ["qwen/qwen4"]

        run(scenario())


class OwnedServer(ChatServer):
    """A server that says what it is."""

    owner = "vllm"

    async def list_models(self, request: web.Request) -> web.Response:
        model = {"id": "deepseek-v4", "owned_by": self.owner, "root": "deepseek-ai/DeepSeek-V4"}
        return web.json_response({"data": [model]})


@pytest.mark.parametrize(
    ("owner", "adapt_for", "profile"),
    [("vllm", None, "vllm"), ("sglang", None, "sglang"), ("x", "deepseek-api", "deepseek-api")],
)
def test_tokens_are_counted_as_the_server_behind_counts_them(
    owner: str, adapt_for: str | None, profile: str, tokenizer: Tokenizer
) -> None:
    async def scenario() -> None:
        upstream = OwnedServer(tokenizer, answer({"content": "Hi."}))
        upstream.owner = owner
        async with upstream.running() as url, gateway(**healing(url, adapt_for=adapt_for)) as g:
            body = {**body_for("/v1/messages"), "max_tokens": 5}
            _, _, counted = await g.post("/v1/messages/count_tokens", body)
            sent = {"messages": [USER], "tools": TOOLS}
            expected = len(upstream.ids(render(sent, profile, dialect="v4")))
            assert counted == {"input_tokens": expected}

    run(scenario())


def test_a_call_that_was_removed_is_in_the_summary_and_a_failed_request_is_no_answer(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    from test_healing import MARKUP

    async def scenario() -> None:
        upstream = ChatServer(tokenizer, answer({"reasoning_content": "Hm."}, {"content": MARKUP}))
        async with upstream.running() as url, gateway(**healing(url)) as g:
            upstream.fault = lambda request, number: web.Response(
                body=event({"error": "no"}), content_type="text/event-stream"
            )
            assert (await g.post(CHAT, {"messages": [USER]}))[0] == 502
            assert g.server.metrics.healing() == "no answers"
            upstream.fault = None
            assert (await g.post(CHAT, {"messages": [USER]}))[0] == 200
            while g.server.metrics.healing() == "no answers":  # it is counted after it is sent
                await asyncio.sleep(0.01)
            assert g.server.metrics.healing() == "1 of 1 answer had calls that were removed"

    run(scenario())
