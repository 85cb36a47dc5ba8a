"""Markup that the model quotes, and how texts end (docs/recovery.md, rules 20 to 28)."""

from __future__ import annotations

import json
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
    declared,
    events_of,
    invoke,
    kinds_of,
    merged,
    parameter,
    read_everywhere,
)
from loading import loaded
from parts import fewer, part

ENDS = f"{INVOKE_END}{BLOCK_END}"
BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
USER, ASSISTANT = "<｜User｜>", "<｜Assistant｜>"
TOOLS = declared(
    bash={"command": "string", "timeout": "integer"},
    write_file={"path": "string", "content": "string"},
    edit={"path": "string", "old_string": "string", "new_string": "string"},
    ping={},
)
ROOT = Path(__file__).parents[2]


strict_blocks = loaded("fuzz/strict_blocks.py")

PATH = f"{parameter('path')}a{PARAMETER_END}"


class TestFilesThatQuoteCloses:
    """Rules 11 and 22: closes in programs and in JSON are parts of a value."""

    @pytest.mark.parametrize(
        "line",
        [
            f'END = "x{PARAMETER_END}" + "{INVOKE_END}"',
            f'{{"text": "x{PARAMETER_END}\\n{INVOKE_END}\\n"}}',
            f'{{"text": "x{BLOCK_END}{EOS}"}}',
            f'{{"text": "x{INVOKE_END}{BLOCK_END}{EOS}", "a": 1}}',
            f'{{"text": "x{PARAMETER_END}{EOS}"}}',
            f'{{"text": "x{PARAMETER_END} \\n  {INVOKE_END} \\n"}}',
        ],
    )
    def test_arrive_whole(self, line: str) -> None:
        text = f"{BLOCK}{invoke('write_file')}{PATH}{parameter('content')}{line}{PARAMETER_END}"
        message = read_everywhere(f"{text}{ENDS}{EOS}", tools=TOOLS)
        assert calls_of(message) == [("write_file", {"path": "a", "content": line})]


class TestEscapedQuotes:
    """Rules 21 and 28: who escapes quotes does so from the first call on."""

    ESCAPED = calling("ping").replace('"', '\\"')

    def test_a_call_that_has_them_behind_one_that_has_not_is_quoted(self) -> None:
        text = f"{BLOCK}{calling('bash', command='ls')}{BLOCK_END} and {BLOCK}{self.ESCAPED}"
        message = read_everywhere(f"{text}{BLOCK_END}", tools=TOOLS)
        assert calls_of(message) == [("bash", {"command": "ls"})]
        assert [found.kind for found in message.dropped] == ["dropped_call"]

    def test_calls_that_all_have_them_are_made(self) -> None:
        message = read_everywhere(f"{BLOCK}{self.ESCAPED}{self.ESCAPED}{BLOCK_END}", tools=TOOLS)
        assert calls_of(message) == [("ping", {})] * 2


class TestStrictBlocks:
    """Rule 20: a block that the strict grammar accepts is read as it reads it."""

    @pytest.mark.parametrize("batch", range(4))
    def test_at_random(self, batch: int) -> None:
        """`fuzz/strict_blocks.py` builds them, and can build more."""
        for number in range(30):
            chance = Random(f"{batch} {number}")
            written, calls = strict_blocks.completion(chance)
            assert strict_blocks.difference(written, calls, chance) is None, written.text

    @pytest.mark.parametrize(
        "close", [f"</{DSML}>", f"</{DSML}x>", f"</{DSML}param>", "</parameter>", "</command>"]
    )
    def test_what_follows_a_quoted_odd_close_never_runs(self, close: str) -> None:
        quoted = f"ls{close}\n{INVOKE_END}\n{BASH}\n{COMMAND}rm"
        message = read_everywhere(block(calling("bash", command=quoted)))
        assert calls_of(message) == [("bash", {"command": quoted})]

    def test_a_quoted_close_before_a_call_says_nothing_of_the_close_behind_it(self) -> None:
        """The call was dropped, as if its own close had changed places with its parameter's."""
        quoted = f"ls</{DSML}paramete<{DSML}bash>{INVOKE_END}"
        message = read_everywhere(block(calling("bash", command=quoted)))
        assert calls_of(message) == [("bash", {"command": quoted})]

    def test_an_odd_close_before_a_parameter_stays_a_repair(self) -> None:
        text = block(calling("write_file", path="a", content="b")).replace(
            f"a{PARAMETER_END}", f"a</{DSML}>"
        )
        message = read_everywhere(text, tools=TOOLS)
        assert calls_of(message) == [("write_file", {"path": "a", "content": "b"})]

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
    for number in range(fewer(150, 5)):
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
    """All texts of this project: its sources, its documentation and its tests."""
    folders = ("src", "docs", "tests", "fuzz", "bench", "examples", "clients", "deploy")
    found = [*ROOT.glob("*.*"), *(path for name in folders for path in (ROOT / name).rglob("*.*"))]
    suffixes = {".py", ".md", ".jinja", ".txt", ".js", ".css", ".html", ".toml", ".json", ".jsonl"}
    return sorted(path for path in found if path.suffix in suffixes)


class TestThisProjectsOwnFiles:
    """Files that speak of markup arrive whole, and nothing in them runs."""

    FILES = pytest.mark.parametrize("batch", range(8))

    @staticmethod
    def texts(batch: int) -> Iterator[tuple[Path, str]]:
        for path in part(own_files()[batch::8], 12):
            text = path.read_text("utf-8")
            if "<" in text or DSML[0] in text:
                yield path, text

    @FILES
    def test_as_a_value(self, batch: int) -> None:
        for path, text in self.texts(batch):
            message = dsv4.parse(
                block(calling("write_file", path="a", content=text)) + EOS, **OPTIONS
            )
            if CORPUS not in path.parents:
                assert calls_of(message) == [("write_file", {"path": "a", "content": text})], path
            else:  # which has closes in every state, and some of them close this value too
                assert {call.name for call in message.tool_calls} <= {"write_file"}, path

    @FILES
    def test_as_an_answer(self, batch: int) -> None:
        for path, text in self.texts(batch):
            answers = [f"Here:\n\n~~~~~~\n{text}\n~~~~~~\nDone."]
            if path.suffix == ".md":
                answers.append(text)
            for answer in answers:
                message = dsv4.parse(answer, **OPTIONS)
                assert (message.content, message.tool_calls) == (answer, ()), path


class TestQuotations:
    """Rules 23 to 25 and 27."""

    CALLS = f"{BLOCK}{calling('bash', command='rm')}{BLOCK_END}"

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(f"Write `{CALLS}` there.", id="backticks"),
            pytest.param(f'Write "{CALLS}" there.', id="quotes"),
            pytest.param(f"Write '{CALLS}' there.", id="single quotes"),
            pytest.param(f"Write “{CALLS}” there.", id="smart quotes"),
            pytest.param(f"Write `{calling('bash', command='rm').strip()}` there.", id="a call"),
            pytest.param(f"<pre>\n{CALLS}\n</pre>", id="pre"),
            pytest.param(f"```\n{CALLS}{EOS}\n```\nThat is it.", id="a closed fence"),
            pytest.param(f"EOS is `{EOS}`, or '{EOS}'.", id="EOS"),
            pytest.param(f'```\neos = "{EOS}"\n```\nDone.', id="EOS in a fence"),
            pytest.param(f"A turn begins with `{USER}`.", id="a role token"),
            pytest.param(f"A turn begins with {USER}.", id="a role token alone"),
            pytest.param(f"Behind it comes `{EOS}{USER}`, so.", id="two tokens"),
            pytest.param(
                f"An answer begins with '{ASSISTANT}<think>', so.", id="an answer's tokens"
            ),
            pytest.param(f"It is `{BOS}{USER}Hi{ASSISTANT}</think>` there.", id="a prompt"),
            pytest.param(f"`{USER}a{ASSISTANT}<think>b</think>c{EOS}`", id="two turns"),
        ],
    )
    def test_stay_in_the_text(self, text: str) -> None:
        message = read_everywhere(text, tools=TOOLS)
        assert (message.content, message.tool_calls) == (text, ())

    def test_what_is_quoted_on_one_side_acts(self) -> None:
        message = read_everywhere(f"Write `{self.CALLS}", tools=TOOLS)
        assert calls_of(message) == [("bash", {"command": "rm"})]

    def test_what_a_prompt_in_a_line_calls_never_runs(self) -> None:
        call = self.CALLS.replace("\n", "")
        text = f"It is `{USER}Hi{ASSISTANT}</think>{call}` there."
        message = read_everywhere(text, tools=TOOLS)
        assert (message.content, message.tool_calls) == (text, ())

    @pytest.mark.parametrize("between", ["\n", "x" * 1024])
    def test_a_prompt_whose_quote_does_not_close_soon_is_a_turn(self, between: str) -> None:
        text = f"So: `{USER}Hi{ASSISTANT}</think>{between}`"
        assert read_everywhere(text, tools=TOOLS).content == "So: `"

    def test_a_thought_ends_in_a_prompt_too(self) -> None:
        text = f"It is `{BOS}{USER}Hi{ASSISTANT}</think>` there."
        message = read_everywhere(text, thinking=True)
        assert message.content == "` there."

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
            f"{BLOCK}{calling('bash', command='ls')}{BLOCK_END}".replace("<｜", "<<｜"),
            f"<{BASH}{COMMAND}ls{PARAMETER_END}{INVOKE_END}",
            f"{BLOCK}{calling('bash', command='ls')}{BLOCK_END}".translate(
                str.maketrans('<>="/', "＜＞＝＂／")
            ),
            '<tool>{"name": "bash", "arguments": {"command": "ls"}}</parameter></tool>',
        ],
        ids=[
            *("stutter", "two closes", "container", "JSON in a container", "escaped"),
            *("ASCII bars", "doubled brackets", "one doubled bracket", "full-width", "stray close"),
        ],
    )
    def test_is_read(self, text: str) -> None:
        assert tuple(calls_of(read_everywhere(text, tools=TOOLS))) == self.LS

    def test_brackets_before_a_tag_are_text_in_a_value(self) -> None:
        value = f"a <<{BASH[1:]} b <<"
        message = read_everywhere(block(calling("bash", command=value)) + EOS, tools=TOOLS)
        assert calls_of(message) == [("bash", {"command": value})]

    def test_a_thought_may_end_in_capitals(self) -> None:
        message = read_everywhere("Hm.</THINK>Ok.", thinking=True)
        assert (message.reasoning, message.content) == ("Hm.", "Ok.")

    def test_eos_with_ascii_bars_is_the_end(self) -> None:
        assert read_everywhere("Ok.<|end▁of▁sentence|>").content == "Ok."


class TestParametersThatAreGivenAgain:
    """Rule 28: those of a declared array make a list; of others the last counts."""

    TOOLS = declared(search={"query": "string", "tags": "array"}, ping={})

    def read(self, *parameters: str, end: str = ENDS, **options: Any) -> dsv4.Message:
        text = "\n".join((BLOCK, invoke("search"), *parameters, end))
        return read_everywhere(text, **{"tools": self.TOOLS, **options})

    @staticmethod
    def given(key: str, value: str, string: str = "true") -> str:
        tag = f'<{DSML}parameter name="{key}" string="{string}">'
        return f"{tag}{value}{PARAMETER_END}"

    A, B, QUERY = given("tags", "a"), given("tags", "b"), given("query", "q")
    ONE, LIST = given("tags", "1", "false"), given("tags", '["c"]', "false")

    @pytest.mark.parametrize("calls", ["streamed", "whole"])
    @pytest.mark.parametrize(
        ("parameters", "tags"),
        [
            pytest.param((A, B), ["a", "b"], id="strings"),
            pytest.param((A, QUERY, ONE, B), ["a", 1, "b"], id="scalars, and others between"),
            pytest.param((A, B, LIST), ["c"], id="a list at last"),
            pytest.param((LIST, B), "b", id="a list at first"),
            pytest.param((LIST, A, B), ["a", "b"], id="a list, and then several"),
        ],
    )
    def test_of_an_array(self, parameters: tuple[str, ...], tags: object, calls: Any) -> None:
        message = self.read(*parameters, calls=calls)
        ((name, arguments),) = calls_of(message)
        assert (name, arguments["tags"]) == ("search", tags)
        assert set(kinds_of(message)) == {"duplicate_parameter"}

    def test_the_list_is_the_last_that_the_stream_writes(self) -> None:
        text = "\n".join((BLOCK, invoke("search"), self.A, self.B, ENDS))
        events = events_of([text], thinking=False, tools=self.TOOLS)
        deltas = [event.text for event in events if isinstance(event, dsv4.ArgumentsDelta)]
        assert "".join(deltas) == '{"tags": "a", "tags": ["a", "b"]}'

    def test_a_call_that_is_cut_has_the_list_so_far(self) -> None:
        (call,) = self.read(self.A, self.B, self.QUERY[:-30], end="").incomplete
        assert json.loads(call.arguments)["tags"] == ["a", "b"]

    def test_without_the_token(self) -> None:
        a, b = (f'<parameter name="tags">{value}</parameter>' for value in "ab")
        message = read_everywhere(f'<invoke name="search">{a}{b}</invoke>', tools=self.TOOLS)
        assert calls_of(message) == [("search", {"tags": ["a", "b"]})]

    @pytest.mark.parametrize(
        ("before", "lost"),
        [
            pytest.param(given("query", "a <b\n c"), "a <b\n c", id="a string"),
            pytest.param(given("query", "[1, 2]", "false"), "[1, 2]", id="JSON"),
            pytest.param('{"query": "a"}', '{"query": "a"}', id="a body"),
            pytest.param(
                f'<{DSML}parameter name="query" string="a"/>',
                f'<{DSML}parameter name="query" string="a"/>',
                id="a tag that closes itself",
            ),
        ],
    )
    def test_what_is_lost_is_quoted(self, before: str, lost: str) -> None:
        message = self.read(before, self.QUERY)
        assert calls_of(message) == [("search", {"query": "q"})]
        (found,) = (d for d in message.diagnostics if d.kind == "duplicate_parameter")
        assert found.raw == lost

    def test_a_whole_call_has_each_key_once(self) -> None:
        message = self.read(self.given("query", "a"), self.QUERY, calls="whole")
        assert [call.arguments for call in message.tool_calls] == ['{"query": "q"}']


class TestCallsThatAreNotMade:
    """Rule 28: `message.dropped` has them, in both ways of giving calls."""

    @pytest.mark.parametrize("calls", ["streamed", "whole"])
    @pytest.mark.parametrize("reason", [None, "stop", "eos", "length"])
    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(f"{BLOCK}I should look.{BLOCK_END}", id="prose alone"),
            pytest.param(f"{BLOCK}\nI should look.\n\nWell.", id="prose, and prose behind it"),
            pytest.param(f"{BLOCK}\nI should look.", id="prose in an open block"),
            pytest.param(f"Ok.\n\n{BLOCK}\n", id="an open block"),
            pytest.param(f"{BLOCK}{EOS}", id="an open block before EOS"),
            pytest.param(f"{BLOCK}{BASH[:-3]}", id="a call that breaks off in a block"),
            pytest.param(f"Ok.\n\n{BASH[:-3]}", id="a call that breaks off"),
            pytest.param(f"{BLOCK}{BASH[:-3]}{EOS}", id="a call that breaks off before EOS"),
            pytest.param(f"{BLOCK}{BASH}{COMMAND}ls{PARAMETER_END}{COMMAND[:-9]}", id="half a tag"),
            pytest.param(f"{BLOCK}[1, 2]{BLOCK_END}", id="JSON that is no call"),
        ],
    )
    def test_are_dropped(self, text: str, reason: Any, calls: Any) -> None:
        message = read_everywhere(text, tools=TOOLS, reason=reason, calls=calls)
        assert message.tool_calls == ()
        assert len(message.dropped) == 1

    @pytest.mark.parametrize("calls", ["streamed", "whole"])
    @pytest.mark.parametrize("reason", [None, "stop", "length"])
    @pytest.mark.parametrize("text", [f"{BLOCK}{BASH}", f"{BLOCK}{BASH}{COMMAND}ls"])
    def test_are_cut(self, text: str, reason: Any, calls: Any) -> None:
        message = read_everywhere(text, tools=TOOLS, reason=reason, calls=calls)
        (found,) = message.dropped
        assert (found.kind, message.finish) == ("cut_short", "length")
        assert message.incomplete or found.raw == text.removeprefix(BLOCK)

    @pytest.mark.parametrize("end", [f"{COMMAND[:-9]}{EOS}", COMMAND[:-9]])
    def test_a_call_is_not_made_without_a_parameter_that_breaks_off(self, end: str) -> None:
        text = f"{BLOCK}{BASH}{COMMAND}ls{PARAMETER_END}{end}"
        message = read_everywhere(text, tools=TOOLS, reason="eos")
        assert (message.tool_calls, len(message.dropped)) == ((), 1)
        assert [json.loads(call.arguments) for call in message.incomplete] == [{"command": "ls"}]

    @pytest.mark.parametrize(
        "text",
        [
            block(calling("ping")),
            f"{BLOCK}{calling('ping')}{EOS}",
            f"{BLOCK}{BLOCK_END}",
            f"Calls stand in `{BLOCK}`.",
        ],
    )
    def test_nothing_is_dropped_where_no_call_is_missing(self, text: str) -> None:
        assert read_everywhere(text, tools=TOOLS).dropped == ()


class TestWhiteSpaceBetweenTags:
    """Rule 21: any amount, and the parts of a call stay parts of it."""

    PARTS = (
        *(f"Ok.\n\n{BLOCK}", BASH, f"{COMMAND}ls{PARAMETER_END}"),
        f'<{DSML}parameter name="timeout" string="false">5{PARAMETER_END}',
        *(INVOKE_END, invoke("write_file"), f"{parameter('path')}a{PARAMETER_END}"),
        *(f"{parameter('content')}b{PARAMETER_END}", INVOKE_END, BLOCK_END, EOS),
    )
    CALLS = (
        ("bash", {"command": "ls", "timeout": 5}),
        ("write_file", {"path": "a", "content": "b"}),
    )

    @pytest.mark.parametrize("size", [300, 5_000, 100_000])
    @pytest.mark.parametrize("space", [" ", "\n", " \n\t"])
    def test_may_be_of_any_length(self, space: str, size: int) -> None:
        places = range(1, len(self.PARTS) - 1) if size < 100_000 else (3, 5)
        for place in places:
            between = (space * size)[:size]
            text = "".join(self.PARTS[:place]) + between + "".join(self.PARTS[place:])
            for chunks in ([text], [text[at : at + 97] for at in range(0, len(text), 97)]):
                message = dsv4.assemble(events_of(chunks, **OPTIONS))
                assert (message.content, tuple(calls_of(message))) == ("Ok.", self.CALLS)
                assert not message.diagnostics

    def test_also_behind_a_value_that_was_not_closed_and_behind_eos(self) -> None:
        space = "\n" + " " * 1_000
        text = f"{BLOCK}{BASH}{COMMAND}ls{space}{INVOKE_END}{space}{BLOCK_END}{space}{EOS}{space}"
        message = dsv4.parse(text, **OPTIONS)
        ((name, arguments),) = calls_of(message)
        assert (name, arguments["command"].strip(), message.finish) == ("bash", "ls", "tool_calls")


def test_a_doubtful_call_that_the_prompt_opened_goes_on() -> None:
    prefix = f"{BLOCK}{calling('ping')}x{PARAMETER_END}{BASH}{COMMAND}l"
    message = read_everywhere(f"s{PARAMETER_END}{ENDS}{EOS}", tools=TOOLS, prefix=prefix)
    assert calls_of(message) == [("bash", {"command": "ls"})]


def test_of_two_closes_of_a_parameter_the_first_is_a_part_of_the_value() -> None:
    text = f"{BLOCK}{BASH}{COMMAND}ls{PARAMETER_END}{PARAMETER_END}{ENDS}{EOS}"
    message = read_everywhere(text, tools=TOOLS)
    assert calls_of(message) == [("bash", {"command": f"ls{PARAMETER_END}"})]


def test_the_close_of_a_wrapper_that_was_never_opened_is_no_surplus() -> None:
    text = f'Ok.\n\n{BASH}\n<{DSML}parameter name="command">ls\n{INVOKE_END}\n{BLOCK_END}{EOS}'
    assert calls_of(read_everywhere(text, tools=TOOLS)) == [("bash", {"command": "ls"})]
