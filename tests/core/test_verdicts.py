"""What a tag means inside a value (recovery.md, rules 3, 4, 11, 12 and 13)."""

from __future__ import annotations

import pytest
from dsv4._parse.value_readers import TextValueReader, ValueBuilder

import dsv4
from completions import (
    BLOCK,
    BLOCK_END,
    DSML,
    INVOKE_END,
    PARAMETER_END,
    declared,
    invoke,
    parameter,
)
from dsv4._parse.tag import Tag
from dsv4._parse.value_ends import Verdict

TOOLS = declared(bash={"command": "string", "timeout": "integer"}, read={"path": "string"})
EOS = "<｜end▁of▁sentence｜>"
BASH = invoke("bash")
READ = f"{invoke('read')}{parameter('path')}"

CLOSE, IMPLIED, TEXT = Verdict.CLOSE, Verdict.IMPLIED, Verdict.TEXT
WAIT = Verdict.WAIT
QUOTE, SPELLED, WAIT = Verdict.QUOTE, Verdict.SPELLED, Verdict.WAIT


def value_of(text: str, start: str = BLOCK + BASH + parameter("command")) -> ValueBuilder:
    """A value that is open, with `text` ahead of it."""
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    parser.feed(start)
    machine = parser._machine
    machine.source.append(text)
    reader = machine.reader
    assert isinstance(reader, TextValueReader)
    return reader.value


def verdict(text: str, final: bool = False) -> Verdict:
    """On the first tag in a value."""
    value = value_of(text)
    source = value.machine.source
    source.final = final
    tag = source.tag_at(source.next_mark(source.pos))
    assert isinstance(tag, Tag)
    return value.judge.judge(tag)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (f"\n{INVOKE_END}", CLOSE),
        (f"\n{BLOCK_END}", CLOSE),
        (f"\n{parameter('timeout')}", CLOSE),
        (f"\n{READ}", CLOSE),
        (EOS, WAIT),
        (f"{EOS}, as it is called" + "x" * 300, SPELLED),
        (f" and then{INVOKE_END}", CLOSE),  # a remark
        (f" and then{PARAMETER_END}", SPELLED),
        (" and then " + "x" * 300, SPELLED),
        ("", WAIT),
        ("\n", WAIT),
        ("\n<", WAIT),
    ],
)
def test_the_parameters_close_counts_by_what_follows(after: str, expected: Verdict) -> None:
    assert verdict(f"ls{PARAMETER_END}{after}") is expected


def test_at_the_end_of_all_text_a_close_is_one() -> None:
    assert verdict(f"ls{PARAMETER_END}", final=True) is CLOSE
    assert verdict(f"ls{PARAMETER_END} and so on", final=True) is SPELLED
    assert verdict(f"ls{PARAMETER_END}{EOS}", final=True) is CLOSE
    assert verdict(f"ls{INVOKE_END}\n{BLOCK_END}{EOS}\n", final=True) is IMPLIED


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (f"{INVOKE_END}\n{BLOCK_END}{EOS}", WAIT),
        (f"{INVOKE_END}\n{BLOCK_END}{EOS} in the text", TEXT),
        (f"{INVOKE_END}\n{READ}", IMPLIED),
        (f"{INVOKE_END} in the text", TEXT),
        (f"{BLOCK_END}{EOS}", WAIT),
        (f"{BLOCK_END} in the text", TEXT),
        (EOS + "<｜User｜>", WAIT),
        (f"{EOS}<｜User｜>{PARAMETER_END}", TEXT),
        (f"{EOS} in the text", TEXT),
        (f"\n{parameter('timeout')}", IMPLIED),
        (parameter("timeout"), TEXT),  # not at the start of a line
        (f"\n{parameter('command')}", TEXT),  # its own key
        (f"\n{parameter('other')}", TEXT),  # nobody's key
        (f"{READ}x", QUOTE),
        (f"{BLOCK}\n{READ}", QUOTE),
        (f"{BLOCK} in the text", TEXT),
        ("</think>", TEXT),
        ("<div>", TEXT),
    ],
)
def test_other_tags_end_the_value_or_are_in_it(tag: str, expected: Verdict) -> None:
    assert verdict(f"ls{tag}") is expected


@pytest.mark.parametrize(
    ("closes", "expected"),
    [
        (f"</{DSML}>\n{INVOKE_END}", CLOSE),
        (f"</{DSML}thing>\n</{DSML}>\n{BLOCK_END}", CLOSE),
        (f"</parameter>\n</invoke>{EOS}", CLOSE),
        (f"<{DSML}parameter>\n{INVOKE_END}", CLOSE),
        (f"</{DSML}> in the text", TEXT),
        (f"</parameter>\n</div>{EOS}", TEXT),
        (f"</{DSML}>\n", WAIT),
    ],
)
def test_odd_closes_close_in_a_run_alone(closes: str, expected: Verdict) -> None:
    assert verdict(f"ls{closes}") is expected


class TestQuotedRegions:
    def test_their_tags_are_text_until_their_own_close(self) -> None:
        quoted = f"{READ}x{PARAMETER_END}{INVOKE_END}"
        value = value_of(f"{quoted}{PARAMETER_END}{INVOKE_END}{BLOCK_END}{EOS}")
        source, at, found = value.machine.source, value.machine.source.pos, []
        while len(found) < 5:
            at = source.next_mark(at)
            tag = source.tag_at(at)
            assert isinstance(tag, Tag)
            found.append(value.judge.judge(tag))
            if found[-1] is QUOTE:
                value.judge.open_quote(tag)
            at = tag.end
        assert found == [QUOTE, TEXT, TEXT, TEXT, CLOSE]

    def test_after_one_nothing_is_implied(self) -> None:
        value = value_of(f"{INVOKE_END}\n{READ}")
        source = value.machine.source
        tag = source.tag_at(source.pos)
        assert isinstance(tag, Tag)
        assert value.judge.judge(tag) is IMPLIED
        value.judge.quoted = True
        assert value.judge.judge(tag) is TEXT
