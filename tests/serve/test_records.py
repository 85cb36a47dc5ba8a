"""What `--record` writes, and what `dsv4 replay` makes of it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from gateway import TOOLS, Gateway, gateway, gateway_before, key_file, run
from standins import ChatServer

from dsv4._cli.main import main
from dsv4._format.tokens import DSML
from dsv4.serve.backends.demo_model import BREAKERS
from dsv4.serve.observe.records import Exchange, Recorder, read_exchange
from dsv4.serve.settings import SettingError
from dsv4.tokens import Tokenizer

CALLING = "Please\nRUN: echo hi"


def asked(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def recorded(path: Path, scenario: Any, **settings: Any) -> list[dict[str, Any]]:
    """The lines that a gateway writes."""

    async def whole() -> None:
        async with gateway(record=str(path), **settings) as running:
            await scenario(running)

    run(whole())
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def replayed(path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["replay", str(path), *flags])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record.jsonl"


class TestWriting:
    def test_each_protocol_streamed_and_whole(self, record: Path) -> None:
        async def scenario(running: Gateway) -> None:
            await running.post("/v1/chat/completions", asked(CALLING, tools=TOOLS))
            await running.stream("/v1/responses", {"input": "Hi"})
            await running.stream("/v1/messages", asked("Hi", max_tokens=50))

        chat, responses, messages = recorded(record, scenario)
        assert [e["protocol"] for e in (chat, responses, messages)] == [
            "chat",
            "responses",
            "messages",
        ]
        assert chat["message"]["tool_calls"][0]["function"]["name"] == "bash"
        assert chat["completion"].count(DSML) == 6
        assert Tokenizer.load().decode(chat["ids"]) == chat["completion"]
        assert chat["stopped"] == responses["stopped"] == "eos"
        assert responses["request"]["input"] == "Hi"

    def test_every_choice_has_its_line(self, record: Path) -> None:
        async def scenario(running: Gateway) -> None:
            await running.post("/v1/chat/completions", asked("Hi", n=3))

        assert len(recorded(record, scenario)) == 3

    def test_neither_keys_nor_headers(self, record: Path, tmp_path: Path) -> None:
        keys = key_file(tmp_path, "ann:secret-a\n")

        async def scenario(running: Gateway) -> None:
            headers = {"authorization": "Bearer secret-a", "x-other": "other-header"}
            await running.post("/v1/chat/completions", asked("Hi"), **headers)

        recorded(record, scenario, api_key_file=keys)
        assert "secret" not in record.read_text()
        assert "other-header" not in record.read_text()

    def test_nobody_else_may_read_it(self, record: Path) -> None:
        Recorder(str(record)).close()
        assert stat.S_IMODE(record.stat().st_mode) == 0o600

    def test_a_file_that_cannot_be_made(self, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match=r"record: .*directory"):
            Recorder(str(tmp_path / "missing" / "record.jsonl"))
        with pytest.raises(SettingError, match=r"record: .*directory"):
            Recorder(str(tmp_path))

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
    def test_a_full_disk_harms_no_client(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scenario() -> Any:
            async with gateway(record="/dev/full") as running:
                return await running.post("/v1/chat/completions", asked("Hi"))

        status, _, answer = run(scenario())
        assert (status, answer["choices"][0]["finish_reason"]) == (200, "stop")
        assert "/dev/full: an exchange was not recorded" in caplog.text

    def test_a_request_that_json_cannot_say_again(
        self, record: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        recorder = Recorder(str(record))
        line = Exchange("chat", {"n": 10**5000}, "v4", "", "", "stop", {})
        recorder.write(line)
        recorder.close()
        assert record.read_text() == ""
        assert "was not recorded" in caplog.text


class TestReplaying:
    def test_what_was_written_is_read_the_same(
        self, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async def scenario(running: Gateway) -> None:
            for kind in BREAKERS:
                await running.post("/v1/chat/completions", asked(f"BREAK: {kind}", tools=TOOLS))
            await running.stream("/v1/responses", {"input": CALLING, "tools": []})
            await running.post("/v1/messages", asked("Hi", max_tokens=3))
            await running.post("/v1/chat/completions", asked("Hi", stop=["demo"]))
            prefix = {"role": "assistant", "content": "Well", "prefix": True}
            body = asked("Hi", thinking={"type": "disabled"})
            body["messages"].append(prefix)
            await running.post("/v1/chat/completions", body)

        count = len(recorded(record, scenario))
        assert count == len(BREAKERS) + 4
        assert replayed(record, capsys) == (0, f"{count} exchanges, 0 read differently\n")

    def test_what_the_server_decided_is_decided_again(
        self, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async def scenario(running: Gateway) -> None:
            body = asked("Hi")
            body["messages"].append({"role": "system", "content": "Be brief."})
            await running.post("/v1/chat/completions", body)

        settings = {"effort": "max", "systems": "in_front", "dialect": "v4-0731"}
        (line,) = recorded(record, scenario, **settings)
        assert line["settings"]["effort"] == "max"
        assert replayed(record, capsys)[0] == 0

    def test_turns_that_stand_as_they_were_sampled(
        self, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The prompt has what the model wrote, which the request does not tell."""

        async def scenario(running: Gateway) -> None:
            body = asked("BREAK: no-wrapper", tools=TOOLS)
            _, _, answer = await running.post("/v1/chat/completions", body)
            turn = answer["choices"][0]["message"]
            result = {
                "role": "tool",
                "tool_call_id": turn["tool_calls"][0]["id"],
                "content": "done",
            }
            messages = [*body["messages"], turn, result]
            await running.post("/v1/chat/completions", {**body, "messages": messages})

        first, second = recorded(record, scenario)
        assert (first["recalled"], second["recalled"]) == (0, 1)
        assert replayed(record, capsys)[0] == 0

    def test_text_that_only_looks_like_markup(
        self, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It was made of ordinary tokens, so it did nothing: nor does it when it is read again."""
        tokenizer = Tokenizer.load()
        shown = "Write </think> to end."
        ids = [*tokenizer.encode_text(shown), tokenizer.special_id("</think>"), 1]
        line = Exchange(
            protocol="chat",
            request=asked("Hi"),
            dialect="v4",
            prompt="<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜><think>",
            completion=tokenizer.decode(ids),
            ids=ids,
            stopped="stop",
            finish="stop",
            message={"role": "assistant", "content": "", "reasoning_content": shown},
        )
        recorder = Recorder(str(record))
        recorder.write(line)
        recorder.close()
        status, printed = replayed(record, capsys)
        assert (status, printed) == (0, "1 exchange, 0 read differently\n")

    def test_what_a_chat_server_sent(
        self, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        leaked = f'\n\n<{DSML}tool_calls>\n<{DSML}invoke name="bash">\n</{DSML}invoke>\n'
        own = {"id": "call_9", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
        twin = {"id": "call_8", "function": {"name": "bash", "arguments": "{}"}}
        deltas = [
            {"role": "assistant", "reasoning_content": "Let me "},
            {"reasoning_content": "see."},
            {"content": "Well." + leaked},
            {"content": f"</{DSML}tool_calls>"},
            {"tool_calls": [{"index": n, **call} for n, call in enumerate([twin, own])]},
        ]
        chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})

        async def whole() -> None:
            server = ChatServer(Tokenizer.load(), json.dumps(chunks))
            async with gateway_before(server.running(), record=str(record)) as running:
                await running.post("/v1/chat/completions", asked("Hi", tools=TOOLS))

        run(whole())
        line = json.loads(record.read_text())
        assert [call["function"]["name"] for call in line["message"]["tool_calls"]] == ["bash"] * 2
        assert line["deltas"][0] == {"reasoning_content": "Let me see."}
        assert line["deltas"][-1] == deltas[-1]
        assert replayed(record, capsys)[0] == 0

    def test_differences_are_shown_where_they_begin(
        self, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async def scenario(running: Gateway) -> None:
            await running.post("/v1/chat/completions", asked("Hi"))

        (line,) = recorded(record, scenario)
        line["message"]["content"] = "x" * 100 + "here"
        line["message"]["reasoning_content"] = "short"
        line["diagnostics"] = [{"kind": "implied_close"}]
        record.write_text(json.dumps(line) + "\n")
        status, printed = replayed(record, capsys)
        assert status == 1
        assert f"{record}:1: content from character 0 on: 'xxx" in printed
        assert f"{record}:1: reasoning_content: 'short' -> 'Nothing was" in printed
        assert f"{record}:1: repairs: ['implied_close'] -> []" in printed
        assert printed.endswith("1 exchange, 1 read differently\n")
        assert replayed(record, capsys, "--quiet")[1] == "1 exchange, 1 read differently\n"


GOOD = {
    "protocol": "chat",
    "request": {"messages": [{"role": "user", "content": "Hi"}]},
    "dialect": "v4",
    "prompt": "",
    "completion": "Hm</think>Hi",
    "finish": "stop",
    "message": {},
}


class TestBadFiles:
    @pytest.mark.parametrize(
        ("changed", "problem"),
        [
            ({"completion": 5}, "completion: found 5, expected text"),
            ({"request": None}, "request: found null, expected an object"),
            ({"protocol": "x"}, "protocol: found 'x', expected one of chat, responses, messages"),
            ({"protocol": []}, "protocol: found [], expected text"),
            ({"diagnostics": [5]}, "diagnostics[0]: found 5, expected an object"),
            ({"ids": ["a"]}, "ids[0]: found 'a', expected a token's id"),
            ({"ids": [10**9]}, "1000000000"),
            ({"ids": [-1]}, ""),
            ({"deltas": [{"tool_calls": 5}]}, "tool_calls of a delta"),
            ({"settings": {"effort": []}}, "settings.effort: found []"),
            ({"version": 2}, "version: found 2, expected 1: a newer dsv4 wrote this"),
        ],
    )
    def test_a_field_that_is_wrong(
        self, changed: Any, problem: str, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        record.write_text(json.dumps({**GOOD, **changed}) + "\n")
        status, printed = replayed(record, capsys)
        assert status == 2
        assert f"{record}:1: " in printed
        assert problem.replace("null", "None") in printed.replace('"', "'").replace("null", "None")

    @pytest.mark.parametrize("name", GOOD)
    def test_a_field_that_is_missing(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name}: missing, expected"):
            read_exchange({key: value for key, value in GOOD.items() if key != name})

    @pytest.mark.parametrize(
        "data",
        [b"5\n", b"[" * 100_000, bytes(range(256)), b'{"a": ', b"\xff\xfe", b"nan\n"],
        ids=["number", "deep", "binary", "cut", "marked", "word"],
    )
    def test_what_is_no_recording(
        self, data: bytes, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        record.write_bytes(data)
        status, printed = replayed(record, capsys)
        assert (status, printed.count("\n")) == (2, 1)
        assert str(record) in printed

    def test_a_request_that_is_refused_today(
        self, record: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for changed in ({"request": {}}, {"dialect": "v9"}):
            record.write_text(json.dumps({**GOOD, **changed}) + "\n")
            status, printed = replayed(record, capsys)
            assert status == 1
            assert "the request is refused: " in printed

    def test_no_file_and_no_lines(
        self, record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert replayed(record, capsys)[0] == replayed(tmp_path, capsys)[0] == 2
        record.write_text("\n\n")
        problem = f"dsv4: {record}: found nothing, expected JSON lines\n"
        assert replayed(record, capsys) == (2, problem)
