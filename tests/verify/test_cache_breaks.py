"""What a prefix cache can reuse from one request to the next, and what is said where it cannot."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from running import dsv4, printed, refused

from dsv4 import profiles
from dsv4._format.dialects import V4
from dsv4.profiles.profile import profile_named
from dsv4.verify import cache_breaks
from dsv4.verify.cache_breaks import FORGOTTEN, NEW, CacheForecast, CacheSummary, CacheTurn
from dsv4.verify.token_counts import PromptCounter
from parts import fewer

TOOL = {"type": "function", "function": {"name": "run", "description": "d", "parameters": {}}}
OTHER = {"type": "function", "function": {"name": "note", "description": "d", "parameters": {}}}
SYSTEM = {"role": "system", "content": "You are an agent. Today is Monday."}
ASKED = {"role": "user", "content": "List the files, then fix the bug."}
COUNTER = PromptCounter()
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgABc3UBGAAAAABJRU5ErkJggg=="
)


def call(number: int, reasoning: str | None = "I should look.") -> list[Any]:
    function = {"name": "run", "arguments": f'{{"command": "ls {number}"}}'}
    turn: dict[str, Any] = {"role": "assistant", "content": ""}
    turn["tool_calls"] = [{"id": f"c{number}", "type": "function", "function": function}]
    if reasoning is not None:
        turn["reasoning_content"] = reasoning
    result = f"{'file ' * 40}{number}"
    return [turn, {"role": "tool", "tool_call_id": f"c{number}", "content": result}]


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": [SYSTEM, ASKED, *messages], "tools": [TOOL], **fields}


def turns(*bodies: dict[str, Any], profile: str = "dsv4") -> list[CacheTurn]:
    forecast = CacheForecast(profile_named(profile), "v4", COUNTER)
    return [forecast.add(each) for each in bodies]


class TestReuse:
    @pytest.mark.parametrize("profile", ["dsv4", "vllm-0.32"])
    def test_a_loop_reuses_all_of_the_request_before(self, profile: str) -> None:
        first, second, third = turns(
            body(), body(*call(0)), body(*call(0), *call(1)), profile=profile
        )
        assert (first.reusable, first.after) == (0, None)
        assert (second.reusable, second.after, second.cause) == (first.tokens, 1, "")
        assert (third.reusable, third.lost) == (second.tokens, 0)

    @pytest.mark.parametrize("profile", ["dsv4", "sglang-0.5.23"])
    def test_another_picture_at_the_same_place_is_no_prefix(self, profile: str) -> None:
        def seen(url: str) -> dict[str, Any]:
            shot = [{"type": "image_url", "image_url": {"url": url}}]
            (calling, result) = call(0)
            return body(calling, {**result, "content": shot}, *call(1), tools=[])

        cat, dog = (f"https://example.com/{name}.png" for name in ("cat", "dog"))
        forecast = CacheForecast(profile_named(profile), "v4.1", COUNTER)
        first, second, third = (forecast.add(seen(url)) for url in (cat, dog, cat))
        assert second.tokens == first.tokens
        assert second.reusable < first.tokens - 50
        assert (second.cause, second.lost) == (
            "an earlier message (tool) was rewritten",
            first.tokens - second.reusable,
        )
        assert (third.reusable, third.after) == (first.tokens, 1)

    def test_pictures_count_with_all_of_their_tokens(self) -> None:
        from dsv4 import api
        from dsv4.tokens import Tokenizer

        pixel = {"url": f"data:image/png;base64,{PIXEL}"}
        asked = {"role": "user", "content": [{"type": "image_url", "image_url": pixel}]}
        sent = {"model": "DeepSeek-V4.1-Flash", "messages": [SYSTEM, asked, *call(0), asked]}
        turn = CacheForecast(profile_named("dsv4"), "v4.1", COUNTER).add(sent)
        tokenizer = Tokenizer.load(dialect="v4.1")
        assert turn.tokens == tokenizer.count(api.read(sent).request.encode())

    def test_tokens_are_those_that_the_prompt_has(self) -> None:
        from dsv4 import encode

        _, second = turns(body(), body(*call(0)))
        asked = body(*call(0))
        prompt = encode(asked["messages"], tools=asked["tools"])
        assert second.tokens == COUNTER.tokenizer.count(prompt)

    def test_conversations_may_take_turns(self) -> None:
        other = {"role": "user", "content": "Something else altogether."}
        mixed = [{"messages": [SYSTEM, other], "tools": [TOOL]}, body()]
        mixed += [{"messages": [SYSTEM, other, *call(0)], "tools": [TOOL]}, body(*call(0))]
        found = turns(*mixed)
        assert [turn.after for turn in found] == [None, 1, 1, 2]
        assert found[1].cause == NEW
        assert [turn.lost for turn in found] == [0, 0, 0, 0]

    def test_only_what_is_new_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each turn tokenizes its own texts, however long the conversation has become."""
        counter = PromptCounter()
        encode, read = counter.tokenizer.encode_text, list[int]()
        monkeypatch.setattr(
            type(counter.tokenizer),
            "encode_text",
            lambda self, text: read.append(len(text)) or encode(text),
        )
        forecast = CacheForecast(profile_named("vllm-0.32"), "v4", counter)
        messages: list[Any] = []
        sizes = []
        for number in range(12):
            forecast.add(body(*messages))
            messages += call(number)
            sizes.append(sum(read))
            read.clear()
        assert max(sizes[2:]) < 2 * min(sizes[2:])


class TestDeviations:
    """Each request is compared with all that came before it, and not with the last one alone."""

    def test_a_conversation_that_deviates_once_goes_on_where_it_was(self) -> None:
        other = {"role": "user", "content": "Stop, and do something else."}
        asked = [body(), body(*call(0)), body(other), body(*call(0), *call(1))]
        _, second, _, fourth = turns(*asked)
        assert (fourth.reusable, fourth.after, fourth.lost) == (second.tokens, 2, 0)

    def test_a_side_request_that_shares_the_first_question_takes_nothing_away(self) -> None:
        title = {"role": "user", "content": "A title for this, please."}
        asked = [body(*call(0)), body(*call(0), title), body(title), body(*call(0), *call(1))]
        first, *_, last = turns(*asked)
        assert last.reusable >= first.tokens

    def test_a_second_naive_implementation_has_the_same_sums(self) -> None:
        """On logs at random: every prompt against every earlier one, id by id."""
        for seed in range(fewer(200, 10)):
            log = random_log(random.Random(seed))
            found, summary = turns(*log), CacheSummary()
            for turn in found:
                summary.add(turn)
            naive = naive_turns(log)
            assert [(t.tokens, t.reusable, t.after) for t in found] == naive
            assert summary.tokens == sum(tokens for tokens, _, _ in naive)
            assert summary.reusable == sum(reusable for _, reusable, _ in naive)

    def test_what_is_forgotten_is_not_compared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first = turns(body())[0].tokens
        monkeypatch.setattr(cache_breaks, "MOST_TOKENS", first * 3)
        other = {"role": "user", "content": "Something else."}
        between = [{"messages": [{"role": "user", "content": f"{n} {'x ' * 300}"}]} for n in (1, 2)]
        *_, last = turns(body(), *between, {"messages": [other]}, body())
        assert last.reusable < first / 2

    def test_memory_does_not_grow_with_the_log(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cache_breaks, "MOST_TOKENS", 20_000)
        forecast = CacheForecast(profile_named("dsv4"), "v4", COUNTER)
        sizes = []
        for n in range(300):
            forecast.add({"messages": [{"role": "user", "content": f"{n} {'word ' * 200}"}]})
            sizes.append(len(forecast._tree._root.below[0].below) + len(forecast._requests))
        assert max(sizes[150:]) <= 2 * max(sizes[:150])


def random_log(chance: random.Random) -> list[dict[str, Any]]:
    """Conversations that take turns, deviate, are cut back, and start again."""
    conversations: list[list[Any]] = [[] for _ in range(3)]
    log = []
    for number in range(14):
        mine = chance.choice(conversations)
        kind = chance.randrange(8)
        if kind == 0 and mine:
            del mine[chance.randrange(0, len(mine), 2) :]
        elif kind == 1:
            log.append(body(*mine, {"role": "user", "content": chance.choice("abc") * 9}))
        else:
            mine += call(number if kind < 6 else chance.randrange(3))
        fields = {"reasoning_effort": "max"} if chance.random() < 0.2 else {}
        log.append(body(*mine, **fields))
    return log


def naive_turns(log: list[dict[str, Any]]) -> list[tuple[int, int, int | None]]:
    """Tokens, what is reusable, and the last request that shares as much."""
    profile = profile_named("dsv4")
    prompts: list[list[int | None]] = []
    found = []
    for asked in log:
        ids = COUNTER.ids(profiles.render(asked, profile, dialect="v4"), V4)
        best, after = 0, None
        for number, earlier in enumerate(prompts, 1):
            same = 0
            while same < min(len(ids), len(earlier)) and ids[same] == earlier[same]:
                same += 1
            if same >= best:
                best, after = same, number
        found.append((len(ids), best, after))
        prompts.append(ids)
    return found


class TestCauses:
    @pytest.mark.parametrize(
        ("before", "after", "cause", "detail"),
        [
            (
                body(*call(0)),
                {**body(*call(0), *call(1)), "tools": [TOOL, OTHER]},
                "the tools differ",
                "added note",
            ),
            (
                {**body(*call(0)), "tools": [TOOL, OTHER]},
                {**body(*call(0)), "tools": [OTHER, TOOL]},
                "the tools differ",
                "in another order",
            ),
            (
                body(*call(0), reasoning_effort="high"),
                body(*call(0), *call(1), reasoning_effort="max"),
                "`reasoning_effort` differs",
                "was 'high', is 'max'",
            ),
            (
                body(*call(0)),
                {
                    **body(),
                    "messages": [
                        {**SYSTEM, "content": "You are an agent. Today is Friday."},
                        *(ASKED, *call(0)),
                    ],
                },
                "the system text was rewritten",
                "messages[0].content, after 27 characters",
            ),
            (
                body(*call(0), *call(1)),
                body(*call(1), *call(2)),
                "earlier messages were left out",
                "from messages[2] on",
            ),
            (
                body(*call(0), *call(1)),
                body(*call(0, None), *call(1)),
                "reasoning was taken out of an earlier answer",
                "messages[2].reasoning_content",
            ),
            (
                body(*call(0), *call(1)),
                body(*call(0)),
                "the conversation was cut back",
                "from 6 messages to 4",
            ),
        ],
    )
    def test_what_broke_the_prefix_is_said(
        self, before: dict[str, Any], after: dict[str, Any], cause: str, detail: str
    ) -> None:
        _, turn = turns(before, after)
        assert (turn.cause, turn.detail) == (cause, detail)
        assert turn.lost > 0
        assert turn.lost + turn.reusable == turns(before)[0].tokens

    @pytest.mark.parametrize("profile", ["dsv4", "vllm-0.32", "sglang-0.5.23"])
    def test_a_conversation_without_tools_loses_nothing(self, profile: str) -> None:
        """The answer's reasoning is dropped with the next question, and no prompt had it."""
        answer = {"role": "assistant", "content": "Done.", "reasoning_content": "Fine."}
        first = {"messages": [SYSTEM, ASKED]}
        second = {"messages": [SYSTEM, ASKED, answer, {"role": "user", "content": "And now?"}]}
        found = turns(first, second, profile=profile)
        assert [(each.lost, each.cause) for each in found] == [(0, ""), (0, "")]
        assert found[1].reusable >= found[0].tokens - 1

    def test_a_server_that_forgot(self) -> None:
        forecast = CacheForecast(profile_named("dsv4"), "v4", COUNTER)
        forecast.add(body(), 0)
        turn = forecast.add(body(*call(0)), 0)
        assert turn.forgotten == turn.reusable > 0
        summary = CacheSummary()
        summary.add(turn)
        assert [each.cause for each in summary.lost] == [FORGOTTEN]
        assert not CacheTurn(1, 1000, 900, 832).forgotten


def test_the_worst_cause_comes_first() -> None:
    summary = CacheSummary()
    for lost, cause in ((10, "a"), (30, "b"), (25, "a")):
        summary.add(CacheTurn(1, 100, 50, None, lost, cause))
    assert [(each.cause, each.requests, each.tokens) for each in summary.lost] == [
        ("a", 2, 35),
        ("b", 1, 30),
    ]


class TestTheCommand:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        usage = {"prompt_tokens": 400, "completion_tokens": 5}
        details = {**usage, "prompt_tokens_details": {"cached_tokens": 256}}
        rows = [
            {"request": body(), "response": {"usage": usage}},
            {"request": body(*call(0)), "response": {"usage": details}},
            {"request": {**body(*call(0), *call(1)), "tools": [TOOL, OTHER]}, "response": {}},
        ]
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        return path

    def test_one_line_a_request_and_a_summary(self, log: Path) -> None:
        done = dsv4("cache", log)
        assert (done.returncode, done.stderr) == (1, b"")
        lines = done.stdout.decode().splitlines()
        assert lines[0].split() == ["line", "tokens", "reusable", "reused", "what", "was", "lost"]
        assert len(lines) == 7
        assert " 256" in lines[2]
        assert "tokens: the tools differ (added note)" in lines[3]
        assert lines[5].startswith("3 requests, ")
        assert lines[6].endswith("in 1 request: the tools differ")

    def test_requests_of_other_protocols(self, tmp_path: Path) -> None:
        rows = [{"input": "Hi", "instructions": "Be brief."}, {"system": "Be brief.", **body()}]
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        assert b"\n2 requests, " in dsv4("cache", path).stdout

    def test_as_json(self, log: Path) -> None:
        done = dsv4("cache", "--json", "--profile", "vllm-0.32", log)
        *rows, last = map(json.loads, done.stdout.splitlines())
        assert [row["number"] for row in rows] == [1, 2, 3]
        assert (rows[1]["reused"], rows[1]["reusable"]) == (256, rows[0]["tokens"])
        assert last["summary"]["reusable"] == sum(row["reusable"] for row in rows)
        assert last["summary"]["lost"][0]["cause"] == "the tools differ"

    def test_a_log_that_loses_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in (body(), body(*call(0)))))
        assert printed("cache", "--only-breaks", path).endswith("Nothing was lost.\n")

    def test_a_request_that_the_server_refuses(self, tmp_path: Path) -> None:
        path = tmp_path / "log.jsonl"
        path.write_text(json.dumps({**body(), "tools": []}) + "\n" + json.dumps(body()) + "\n")
        done = dsv4("cache", "--profile", "vllm-0.32", path)
        assert done.returncode == 1
        assert "log.jsonl:1: refused: tools: found an empty list" in done.stdout.decode()

    def test_what_is_no_log(self, tmp_path: Path) -> None:
        path = tmp_path / "log.jsonl"
        path.write_text('{"a": 1}\n')
        assert "found no request" in refused("cache", path)
        path.write_text("{\n")
        assert "log.jsonl:1" in refused("cache", path)
        assert "expected one of" in refused("cache", "--profile", "nobody", path)
