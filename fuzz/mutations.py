"""Completions that were seen, with something wrong: python fuzz/mutations.py [--count N] [--seed S]

Takes the malformed completions of the tests and well-formed ones, changes each in a few places, or
puts fragments of markup together, and reads the text whole and in pieces, often single characters,
under options chosen at random. Whatever the text is: reading must not raise, must give the same
events however it is cut, arguments must be JSON objects, diagnostics must quote the text, and every
word must be told somewhere. Prints the first text for which something of this does not hold, and
stops.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import dsv4

TESTS = Path(__file__).parent.parent / "tests"
SOURCES = (
    *(
        TESTS / "corpus" / f"{name}.jsonl"
        for name in ("malformed", "second", "third", "fourth", "fifth")
    ),
    *sorted((TESTS / "vectors").glob("parse-*.jsonl")),
)
DSML = "｜DSML｜"
EOS = "<｜end▁of▁sentence｜>"
FRAGMENTS = (
    *("<", ">", "\n", "\n\n", "</", DSML, f"<{DSML}", f"</{DSML}", " ", "   ", "\t", "words "),
    *("<think>", "</think>", "< /think>", EOS, "<｜begin▁of▁sentence｜>", "<｜User｜>"),
    *(f"<{DSML}tool_calls>", f"</{DSML}tool_calls>", f"<{DSML} calls>", f"</{DSML}>"),
    *(f'<{DSML}invoke name="bash">', f'<{DSML}invoke name="zsh">', f"</{DSML}invoke>"),
    *(f'<{DSML}parameter name="command" string="true">', f"</{DSML}parameter>"),
    *(f'<{DSML}parameter name="timeout" string="false">', f'<{DSML}parameter name="x">'),
    *(f'<{DSML}parameter string="true">', f'<{DSML}parameter name="q" string="v"/>'),
    *(f'<{DSML}invoke name="bash" command="ls"/>', f"<{DSML}bash>", f"<{DSML}command>"),
    *(f"</{DSML}command>", f"{DSML}invoke>", "<|DSML|invoke name='bash'>", "</|DSML|invoke>"),
    *('<invoke name="bash">', "</invoke>", '<parameter name="command">', "</parameter>"),
    *("<command>", "</command>", "<tool_call>", "</tool_call>", "<calls>", "</calls>"),
    *('{"a": 1}', '{"a": "', "[", "]", '"', "'", "\\", "“", "name=", "x" * 30, "x" * 300),
    *("<example>", "</example>", "<pre>", "</pre>", '<code class="x">', "</code>", "<!--", "-->"),
    *("「", "」", "„", "“", "”", "‘", "’", "«", "»", "＂", ' "', '" ', " '", "``", "\n> ", "> a "),
    *("\n    ", "it's ", '5" ', "\n\nNow: ", f'<{DSML}arg name="timeout">', f"</{DSML}arg>"),
    *("```\n", "`", "~~~\n", "\n```", " ```js\n", "NaN", "\r\n", "{", "}", ",", "\n{"),
    *('{"name": "bash", "arguments": {"command": "ls"}}', '[{"name": "ping"}]', "STOP"),
    *('<param name="q" value="a b" allowfullscreen>', "<Foo a={b} {...c}>", "<![CDATA[x]]>"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>bash<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
    *("<｜tool▁calls▁end｜>", "> ", "\n> ```\n", f'<{DSML}tool name="bash">', f"</{DSML}tool>"),
    *('<command string="true">', f'<{DSML}arg name="command" string="true">', ' arguments="{"'),
    *('{"name": "bash", "input": {"command": "ls"}}', '{"name": "bash", "args": {}}'),
    # Calls of several lines, which a code fence that was never closed may hold.
    f'\n\n<{DSML}tool_calls>\n<{DSML}invoke name="bash">\n',
    f'<{DSML}parameter name="command" string="true">ls</{DSML}parameter>\n',
    f"</{DSML}invoke>\n</{DSML}tool_calls>",
    f'\n\n<{DSML}tool_calls>\n<{DSML}invoke name="ping">\n</{DSML}invoke>\n</{DSML}tool_calls>',
    *("\n\n```py\n", "\n~~~\n\n", "```", "~~~", "~", "\n> ", "- ", "1. "),
    *("<pre>", "</pre>", "<code>", "</code>", "\u3000", "é", "\nwords"),
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {k: {"type": t} for k, t in of.items()}},
        },
    }
    for name, of in {
        "bash": {"command": "string", "timeout": "integer"},
        "get_weather": {"city": "string", "location": "string", "days": "integer"},
        "write_file": {"path": "string", "content": "string"},
        "edit": {"path": "string", "edits": "array"},
        "ping": {},
    }.items()
]
# Words of the markup itself, which does its work unseen.
MARKUP = frozenset(
    {
        *("DSML", "tool_calls", "function_calls", "calls", "invoke", "parameter", "name", "string"),
        *("true", "false", "think", "begin", "end", "of", "sentence", "CDATA", "tool_call", "js"),
        *("tool", "call", "sep", "function", "json", "value", "arguments", "input", "User"),
        "invokename",
    }
)
WORD = re.compile(r"\w+")


def seeds() -> list[str]:
    texts = []
    for path in SOURCES:
        for line in path.read_text("utf-8").split("\n")[:-1]:
            texts.append(json.loads(line)["text"])
    return texts


def mutated(random: random.Random, texts: list[str]) -> str:
    if random.random() < 0.3:  # nothing but fragments, of which some meet that never do in texts
        return "".join(random.choices(FRAGMENTS, k=random.randint(2, 20)))
    text = random.choice(texts)
    for _ in range(random.randint(1, 5)):
        start = random.randint(0, len(text))
        end = min(len(text), start + random.randint(0, 40))
        change = random.randrange(6)
        if change <= 1:
            text = text[:start] + random.choice(FRAGMENTS) + text[start:]
        elif change == 2:
            text = text[:start] + text[end:]
        elif change == 3:
            text = text[:end] + text[start:]
        elif change == 4:
            text = text[:start] if random.random() < 0.3 else text[:start] + text[end:]
        else:
            other = random.choice(texts)
            text = text[:start] + other[random.randint(0, len(other)) :]
        text = text[:2000]
    return text


def options(random: random.Random) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "thinking": random.random() < 0.4,
        "tools": random.choice((TOOLS, TOOLS, TOOLS, None, [])),
        "tool_choice": random.choice(("auto", "auto", "auto", "none")),
        "dialect": random.choice((None, None, *sorted(dsv4.DIALECTS))),
        "new_id": lambda: "id",
    }
    if random.random() < 0.15:
        chosen |= {"stop": ["STOP", "\n\n", "ls</"], "stop_in": random.choice(("content", "all"))}
    if random.random() < 0.15:
        chosen["calls"] = "whole"
    return chosen


def read(chunks: list[str], chosen: dict[str, Any], reason: Any) -> list[Any]:
    parser = dsv4.StreamParser(**chosen)
    return [*(event for chunk in chunks for event in parser.feed(chunk)), *parser.finish(reason)]


def merged(events: list[Any]) -> list[Any]:
    """The events with adjacent texts of one kind as one."""
    together: list[Any] = []
    for event in events:
        if not hasattr(event, "text"):
            together.append(event)
            continue
        kind = (type(event), getattr(event, "index", None))
        last = together[-1] if together else None
        if isinstance(last, tuple) and last[:2] == kind:
            together[-1] = (*kind, last[2] + event.text)
        else:
            together.append((*kind, event.text))
    return together


def pieces(random: random.Random, text: str) -> list[str]:
    chunks = []
    while text:
        size = random.choice((1, 2, 3, 5, 17, 120))
        chunks.append(text[:size])
        text = text[size:]
    return chunks


def told(events: list[Any], message: dsv4.Message, text: str) -> str:
    parts = [
        str(getattr(event, field))
        for event in events
        for field in ("text", "name", "namespace", "closing", "raw", "string")
        if getattr(event, field, None)
    ]
    for call in (*message.tool_calls, *message.incomplete):
        parts += _strings(json.loads(call.arguments))
    # Of a long turn that was made up only the beginning is quoted (promise 3).
    parts += [text[d.start : d.end] for d in message.diagnostics if d.kind == "made_up_turn"]
    return "\0".join(["".join(parts), *parts])


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for item in pair for text in _strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else [json.dumps(value)]


def check(text: str, chosen: dict[str, Any], reason: Any, random: random.Random) -> None:
    """Raises an AssertionError that says what does not hold."""
    start = ""
    if random.random() < 0.1:
        at = random.randint(0, len(text))
        start, text = text[:at], text[at:]
        chosen["prefix"] = start
    whole = read([text], chosen, reason)
    first = merged(whole)
    cut = list(text) if random.random() < 0.5 else pieces(random, text)
    assert merged(read(cut, chosen, reason)) == first, f"not the same in {len(cut)} pieces"
    message = dsv4.assemble(whole)
    for call in (*message.tool_calls, *message.incomplete):
        assert isinstance(json.loads(call.arguments, parse_constant=_refuse), dict), call
    streams: dict[int, str] = {}
    for event in whole:
        if isinstance(event, (dsv4.ToolCallStart, dsv4.ArgumentsDelta, dsv4.ToolCallAborted)):
            more = getattr(event, "text", "") or getattr(event, "closing", "")
            streams[event.index] = streams.get(event.index, "") + more
    for index, stream in streams.items():
        assert isinstance(json.loads(stream), dict), index
    for diagnostic in message.diagnostics:
        assert 0 <= diagnostic.start <= diagnostic.end <= len(text), diagnostic
        quoted = text[diagnostic.start : diagnostic.end]
        if diagnostic.kind == "made_up_turn":
            quoted = quoted[:1024]
        assert quoted == diagnostic.raw, diagnostic
    if chosen.get("tools") == [] or chosen["tool_choice"] == "none":
        assert not message.tool_calls
        assert not message.incomplete
    if "stop" not in chosen and not start:
        everything = told(whole, message, text)
        for word in set(WORD.findall(text)) - MARKUP:
            assert word in everything, f"the word {word!r} is lost"


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def main() -> int:
    from fuzz_arguments import fuzz_arguments  # beside this program; tests load only its parts

    args = fuzz_arguments(__doc__)
    texts, began, failed = seeds(), time.time(), 0
    for number in range(args.count):
        chance = random.Random(args.seed * 1_000_003 + number)
        text, chosen = mutated(chance, texts), options(chance)
        reason = chance.choice((None, None, None, "stop", "length"))
        try:
            check(text, chosen, reason, chance)
        except Exception as error:
            failed += 1
            shown = {k: v for k, v in chosen.items() if k not in ("new_id", "tools")}
            tools = "TOOLS" if chosen["tools"] is TOOLS else chosen["tools"]
            print(f"{number}: {type(error).__name__}: {error}"[:300])
            print(f"  text = {text!r}\n  options = {shown}, tools={tools}, reason={reason!r}")
            if not args.keep_going:
                return 1
    took = time.time() - began
    print(f"{args.count} mutations in {took:.0f} s, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
