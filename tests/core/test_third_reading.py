"""The third reading: markup that the model quotes (docs/recovery.md, rules 20 to 28)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import dsv4
from completions import (
    BASH,
    BLOCK,
    BLOCK_END,
    COMMAND,
    CORPUS,
    DSML,
    INVOKE_END,
    PARAMETER_END,
    block,
    calling,
    calls_of,
    cuts,
    declared,
    events_of,
    invoke,
    kinds_of,
    merged,
    parameter,
    read_everywhere,
)

ENDS = f"{INVOKE_END}{BLOCK_END}"
EOS, USER, ASSISTANT = "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"
TOOLS = declared(
    bash={"command": "string", "timeout": "integer"},
    write_file={"path": "string", "content": "string"},
    edit={"path": "string", "old_string": "string", "new_string": "string"},
    ping={},
)
ROOT = Path(__file__).parents[2]


def third() -> list[dict[str, Any]]:
    lines = (CORPUS / "third.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


# Readings that are disputable, and differ from ours.
NOT_READ_SO = {"B14-array-one-item-at-a-time", "D19-fullwidth-punctuation"} | {
    "D42-tool-json-stray-closer"
}

cases = pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["id"]) for c in third() if c["id"] not in NOT_READ_SO]
)


def options(case: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    chosen = dict(case["options"])
    reason = chosen.pop("reason", None)
    chosen["tools"] = chosen["tools"] and declared(**chosen["tools"])
    return chosen, reason


def read_in(chunks: list[str], reason: str | None, chosen: dict[str, Any]) -> list[Any]:
    parser = dsv4.StreamParser(**chosen)
    return [*(event for chunk in chunks for event in parser.feed(chunk)), *parser.finish(reason)]


@cases
def test_reading(case: dict[str, Any]) -> None:
    chosen, reason = options(case)
    whole = read_in([case["text"]], reason, chosen)
    message, expected = dsv4.assemble(whole), case["expect"]
    calls = [{"name": name, "arguments": arguments} for name, arguments in calls_of(message)]
    found = {
        "content": message.content,
        "reasoning": message.reasoning,
        "calls": calls,
        "finish": message.finish,
    }
    assert {key: found[key] for key in expected if key != "never"} == {
        key: wanted for key, wanted in expected.items() if key != "never"
    }
    assert not {call["name"] for call in calls} & set(expected.get("never", ()))
    for chunks in cuts(case["text"]):
        assert merged(read_in(chunks, reason, chosen)) == merged(whole)


# What values and answers quote.
QUOTED = (
    *(BLOCK, BLOCK_END, BASH, INVOKE_END, COMMAND, parameter("content"), parameter("other")),
    *(EOS, USER, ASSISTANT, "<think>", "</think>", "```", "```\n", "`", '"', "+", "\\"),
    *("\n", "\n\n", " ", "x", "rm -rf /", "<", "</", DSML, f"</{DSML}paramete", f"/{DSML}param"),
    *('<invoke name="bash">', "</invoke>", "<|DSML|invoke>", "<｜tool▁calls▁begin｜>", "{}"),
    f"\n{INVOKE_END}\n{BASH}\n{COMMAND}rm",
    f"{INVOKE_END}\n{BLOCK_END}\n\n{BLOCK}\n{BASH}\n",
    f"\n{EOS}{USER}Hi{ASSISTANT}</think>",
)
CLOSE = f"/{DSML}parameter"
# A parameter's tag at the start of a line, and closing tags of unknown names, which may be repairs.
REPAIRED = re.compile(
    rf'\n\s*<{DSML}parameter name="content"|</{DSML}(?!invoke|tool_calls|paramete)'
)


def quoting(chance: Random) -> str:
    """A value that the strict grammar takes, and that rules 12 and 13 do not end."""
    while True:
        text = "".join(chance.choices(QUOTED, k=chance.choice((0, 1, 2, 4, 8))))
        if CLOSE not in text and not REPAIRED.search(text):
            return text


def strict_block(chance: Random) -> tuple[str, list[tuple[str, dict[str, str]]]]:
    keys = {"write_file": ["path", "content"], "edit": ["path", "new_string"], "ping": []}
    calls = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = chance.choice(list(keys))
        calls.append((name, {key: quoting(chance) for key in keys[name]}))
    text = block(*(calling(name, **arguments) for name, arguments in calls))
    return f"Ok.{text}{chance.choice(('', EOS))}", calls


def random_blocks(seed: int, count: int) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    for number in range(count):
        yield strict_block(Random(seed * 1_000_003 + number))


class TestStrictBlocks:
    """Rule 20: a block that the strict grammar accepts is read as it reads it."""

    @pytest.mark.parametrize("seed", range(4))
    def test_whole_and_in_pieces(self, seed: int) -> None:
        for text, calls in random_blocks(seed, 60):
            whole = events_of([text], thinking=False, tools=TOOLS)
            message = dsv4.assemble(whole)
            assert (message.content, calls_of(message)) == ("Ok.", calls), text
            for chunks in cuts(text):
                assert merged(events_of(chunks, thinking=False, tools=TOOLS)) == merged(whole)

    def test_at_every_cut(self) -> None:
        for text, calls in random_blocks(99, 12):
            if len(text) < 400:
                message = read_everywhere(text, tools=TOOLS)
                assert calls_of(message) == calls

    @pytest.mark.parametrize("seed", range(2))
    def test_from_ids(self, seed: int) -> None:
        """Where only the model's own tags are tokens, what values spell is ordinary text."""
        for _, calls in random_blocks(seed, 60):
            parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
            events = [*parser.feed(f"\n\n<{DSML}tool_calls>\n")]
            for name, arguments in calls:
                events += parser.feed(f"{invoke(name)}\n")
                for key, value in arguments.items():
                    events += parser.feed(parameter(key))
                    for at in range(0, len(value), 3):
                        events += parser.feed_inert(value[at : at + 3])
                    events += parser.feed(f"{PARAMETER_END}\n")
                events += parser.feed(f"{INVOKE_END}\n")
            events += parser.feed(f"{BLOCK_END}{EOS}")
            assert calls_of(dsv4.assemble([*events, *parser.finish()])) == calls

    def test_two_calls_of_which_the_first_lacks_its_closer_are_one(self) -> None:
        quoted = f"ls{INVOKE_END}\n{BASH}\n{COMMAND}pwd"
        message = read_everywhere(block(calling("bash", command=quoted)))
        assert calls_of(message) == [("bash", {"command": quoted})]
        assert kinds_of(message) == ["quoted_markup"]

    def test_a_forgotten_closer_before_a_parameter_stays_a_repair(self) -> None:
        text = f"{BLOCK}\n{invoke('write_file')}\n{parameter('path')}a\n{parameter('content')}b"
        message = read_everywhere(
            f"{text}{PARAMETER_END}\n{INVOKE_END}\n{BLOCK_END}{EOS}", tools=TOOLS
        )
        assert calls_of(message) == [("write_file", {"path": "a", "content": "b"})]


# Documents about calls, of which patches and edits take any lines.
TRANSCRIPT = (
    f"Let me look.{block(calling('ping'), calling('bash', command='rm -rf build', timeout=5))}"
    f"{EOS}{USER}ok{ASSISTANT}</think>Then.{block(calling('bash', command='rm -rf /'))}\nDone.\n"
).split("\n")


def patch(chance: Random) -> str:
    first = chance.randrange(len(TRANSCRIPT))
    lines = TRANSCRIPT[first : first + chance.randint(1, 12)]
    mark = chance.choice(("", "", "+", "-", " ", "> ", "    "))
    start = chance.choice(("", "@@ -1,3 +1,6 @@\n", "# Doc\n", "```\n"))
    return start + "".join(f"{mark}{line}\n" for line in lines) + chance.choice(("", "```\n"))


@pytest.mark.parametrize("seed", range(4))
def test_a_quoted_call_never_runs(seed: int) -> None:
    """Rule 21, whatever becomes of the call that quotes: its block is strict or not."""
    for number in range(150):
        chance = Random(seed * 1_000_003 + number)
        line_end = chance.choice(("\n", "\n", "", " \n"))
        text = line_end.join(
            (
                *(f"Ok.\n\n{BLOCK}", invoke("write_file"), f"{parameter('path')}a{PARAMETER_END}"),
                f"{parameter('content')}{patch(chance)}{PARAMETER_END}",
                *(INVOKE_END, BLOCK_END),
            )
        )
        text += chance.choice(("", EOS, "\nDone.", f"{EOS}{USER}more"))
        whole = events_of([text], thinking=False, tools=TOOLS)
        assert {call.name for call in dsv4.assemble(whole).tool_calls} <= {"write_file"}, text
        in_pieces = events_of([text[n : n + 5] for n in range(0, len(text), 5)], **OPTIONS)
        assert merged(in_pieces) == merged(whole)


OPTIONS: dict[str, Any] = {"thinking": False, "tools": TOOLS}


def own_files() -> list[Path]:
    folders = ("src/dsv4/_parse", "src/dsv4/_format", "docs", "tests/core")
    suffixes = {".py", ".md", ".jinja", ".txt"}
    found = [path for folder in folders for path in sorted((ROOT / folder).glob("*"))]
    return [path for path in found if path.suffix in suffixes]


@pytest.mark.parametrize("path", own_files(), ids=lambda path: path.name)
def test_this_projects_own_files_arrive_whole(path: Path) -> None:
    """Each as a value of `write_file`, unless it holds a close, and each as an answer."""
    text = path.read_text("utf-8")
    if CLOSE not in text:
        message = dsv4.parse(block(calling("write_file", path="a", content=text)) + EOS, **OPTIONS)
        assert calls_of(message) == [("write_file", {"path": "a", "content": text})]
    assert not dsv4.parse(f"````\n{text}\n````\n", **OPTIONS).tool_calls


class TestQuotations:
    """Rules 23 to 25 and 27."""

    CALLS = f"{BLOCK}{calling('bash', command='rm')}{BLOCK_END}"

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(f"Write `{CALLS}` there.", id="backticks"),
            pytest.param(f'Write "{CALLS}" there.', id="quotes"),
            pytest.param(f"Write `{calling('bash', command='rm').strip()}` there.", id="a call"),
            pytest.param(f"<pre>\n{CALLS}\n</pre>", id="pre"),
            pytest.param(f"```\n{CALLS}{EOS}\n```\nThat is it.", id="a closed fence"),
            pytest.param(f"EOS is `{EOS}`, or '{EOS}'.", id="EOS"),
            pytest.param(f'```\neos = "{EOS}"\n```\nDone.', id="EOS in a fence"),
            pytest.param(f"A turn begins with `{USER}`.", id="a role token"),
            pytest.param(f"A turn begins with {USER}.", id="a role token alone"),
        ],
    )
    def test_stay_in_the_text(self, text: str) -> None:
        message = read_everywhere(text, tools=TOOLS)
        assert (message.content, message.tool_calls) == (text, ())

    def test_what_is_quoted_on_one_side_acts(self) -> None:
        message = read_everywhere(f"Write `{self.CALLS}", tools=TOOLS)
        assert calls_of(message) == [("bash", {"command": "rm"})]

    def test_a_turn_that_was_made_up_goes(self) -> None:
        turn = f"{USER}go on{ASSISTANT}</think>{self.CALLS}"
        message = read_everywhere(f"Done.\n{turn}", tools=TOOLS)
        assert (message.content, message.tool_calls) == ("Done.\n", ())
        (found,) = message.diagnostics
        assert (found.kind, found.raw) == ("made_up_turn", turn)

    def test_of_a_long_one_the_beginning_is_quoted(self) -> None:
        turn = f"{USER}{'x' * 3000}{ASSISTANT}<think>"
        (found,) = dsv4.parse(f"Done.{turn}", **OPTIONS).diagnostics
        assert (found.raw, found.end - found.start) == (turn[:1024], len(turn))


class TestWhatIsMeant:
    """Rule 28."""

    LS = (("bash", {"command": "ls"}),)

    @pytest.mark.parametrize(
        "text",
        [
            f"{BLOCK}{BASH}\n{calling('bash', command='ls')}{BLOCK_END}",
            f"{BLOCK}{BASH}{COMMAND}ls{INVOKE_END}\n{INVOKE_END}\n{BLOCK_END}{EOS}",
            f"{BLOCK}{BASH}<{DSML}parameters>{COMMAND}ls{PARAMETER_END}</{DSML}parameters>{ENDS}",
            f'{BLOCK}{BASH}<{DSML}parameters>{{"command": "ls"}}</{DSML}parameters>{INVOKE_END}',
            f'{BLOCK}<{DSML}invoke name=\\"bash\\">{COMMAND}ls{PARAMETER_END}{ENDS}',
            '<|tool▁calls▁begin|><|tool▁call▁begin|>bash<|tool▁sep|>{"command": "ls"}',
        ],
        ids=["stutter", "two closes", "container", "JSON in a container", "escaped", "ASCII bars"],
    )
    def test_is_read(self, text: str) -> None:
        assert tuple(calls_of(read_everywhere(text, tools=TOOLS))) == self.LS

    def test_a_thought_may_end_in_capitals(self) -> None:
        message = read_everywhere("Hm.</THINK>Ok.", thinking=True)
        assert (message.reasoning, message.content) == ("Hm.", "Ok.")

    def test_eos_with_ascii_bars_is_the_end(self) -> None:
        assert read_everywhere("Ok.<|end▁of▁sentence|>").content == "Ok."


class TestWhiteSpaceBehindAClose:
    def test_may_be_of_any_length(self) -> None:
        text = f"{BLOCK}{BASH}{COMMAND}ls{PARAMETER_END}{' ' * 5000}{INVOKE_END}{BLOCK_END}"
        assert calls_of(dsv4.parse(text, **OPTIONS)) == [("bash", {"command": "ls"})]


def test_a_doubtful_call_that_the_prompt_opened_goes_on() -> None:
    prefix = f"{BLOCK}{calling('ping')}x{PARAMETER_END}{BASH}{COMMAND}l"
    message = read_everywhere(f"s{PARAMETER_END}{ENDS}{EOS}", tools=TOOLS, prefix=prefix)
    assert calls_of(message) == [("bash", {"command": "ls"})]


def test_the_close_of_a_wrapper_that_was_never_opened_is_no_surplus() -> None:
    text = f'Ok.\n\n{BASH}\n<{DSML}parameter name="command">ls\n{INVOKE_END}\n{BLOCK_END}{EOS}'
    assert calls_of(read_everywhere(text, tools=TOOLS)) == [("bash", {"command": "ls"})]
