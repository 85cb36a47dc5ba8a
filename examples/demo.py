"""What dsv4 does, in two screens: python examples/demo.py, or make demo"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import dsv4
from dsv4.__main__ import main

HERE = Path(__file__).parent
VECTORS = HERE.parent / "tests" / "vectors"


def step(title: str) -> None:
    print(f"\n── {title} {'─' * max(3, 90 - len(title))}\n", flush=True)


def command(*arguments: str) -> None:
    """Runs a command as the shell would."""
    print(f"$ dsv4 {' '.join(arguments)}\n", flush=True)
    main([str(HERE.parent / a) if a.startswith("examples/") else a for a in arguments])


def same_bytes() -> None:
    """A completion becomes a message, and the message the same text in the next prompt."""
    body = json.loads((HERE / "conversation.json").read_text("utf-8"))
    request = dsv4.Request(body["messages"], tools=body["tools"])
    prompt = str(request.encode())
    completion = "It rains until eight.</think>Go to the museum.<｜end▁of▁sentence｜>"
    message = dsv4.parse(completion, tools=body["tools"])
    after = dsv4.Request([*body["messages"], message], tools=body["tools"]).encode()
    assert str(after) == prompt + completion
    print(f"prompt      {len(prompt):,} characters, ending in …{prompt[-20:]!r}")
    print(f"completion  {completion!r}")
    print(f"message     {message.to_dict()}")
    print("encoded again: the prompt and the completion, byte for byte")


def as_a_stream() -> None:
    """The same completion as it would come from a model: a few characters at a time."""
    body = json.loads((HERE / "conversation.json").read_text("utf-8"))
    text = (HERE / "completion.txt").read_text("utf-8").rstrip("\n")
    parser = dsv4.StreamParser(tools=body["tools"])
    chunks = [text[start : start + 9] for start in range(0, len(text), 9)]
    events = [event for chunk in chunks for event in parser.feed(chunk)] + parser.finish()
    assert dsv4.assemble(events) == dsv4.parse(text, tools=body["tools"])
    call = dsv4.assemble(events).tool_calls[0]
    print(f"\nAs a stream of {len(chunks)} chunks: {len(events)} events, and the same message:")
    print(f"{call.name}({call.arguments})")


def as_released() -> None:
    """The recorded prompts of the released encoders, which are among the tests."""
    for dialect in dsv4.DIALECTS:
        lines = (VECTORS / f"encode-{dialect}.jsonl").read_text("utf-8").rstrip("\n").split("\n")
        cases = [case for case in map(json.loads, lines) if is_for_the_native_api(case)]
        same = sum(encoded(case, dialect) == case["prompt"] for case in cases)
        print(f"{dialect:9} {same} of {len(cases)} prompts as released")


def is_for_the_native_api(case: dict[str, Any]) -> bool:
    context = case["options"].get("context") or ()
    roles = {message.get("role") for message in (*case["messages"], *context)}
    known = {"system", "user", "assistant", "tool", "latest_reminder"}
    return "prompt" in case and bool(case["messages"]) and roles <= known


def encoded(case: dict[str, Any], dialect: str) -> str:
    options = case["options"]
    return str(
        dsv4.encode(
            case["messages"],
            thinking=options["thinking_mode"] == "thinking",
            effort=options.get("reasoning_effort"),
            drop_thinking=options.get("drop_thinking", True),
            bos=options.get("add_default_bos_token", True),
            context=options.get("context") or (),
            dialect=dialect,
        )
    )


NEXT = """\
source .venv/bin/activate                    puts dsv4 on your path
dsv4 check examples/mistakes.json            finds mistakes and surprises
dsv4 show --html prompt.html examples/conversation.json
dsv4 diff examples/chat.json examples/chat-next.json
dsv4 dataset examples/training.jsonl -o training.out.jsonl
dsv4 --help                                  lists all commands
"""

if __name__ == "__main__":
    if sys.stdout.isatty() and shutil.get_terminal_size().columns < 60:
        print("(a wider terminal shows more)")
    step("1. The prompt of a conversation, and what each part of it is")
    command("show", "examples/conversation.json")
    step("2. Encode, parse, encode: the same bytes")
    same_bytes()
    step("3. A malformed completion, read all the same")
    tools = ("--tools", "examples/conversation.json")
    command("parse", "--explain", *tools, "examples/completion.txt")
    as_a_stream()
    step("4. Held against the released encoders")
    as_released()
    step("What to try next")
    print(NEXT, end="")
