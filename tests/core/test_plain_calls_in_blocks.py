"""Plain calls in a block: each is a call of its own, and none runs that a value quotes.

recovery.md, rule 31.
"""

from __future__ import annotations

from typing import Any

from builders import EOS
from completions import BLOCK, BLOCK_END, DSML, PARAMETER_END, calls_of, declared, parameter
from completions import read_everywhere as read
from rows import each_row

TOOLS = declared(
    read_file={"path": "string"}, write_file={"path": "string", "content": "string"}, ping={}
)
READ, WRITE = '<invoke name="read_file">', '<invoke name="write_file">'


def plain(key: str, value: str) -> str:
    return f'<parameter name="{key}">{value}</parameter>\n'


def marked(key: str, value: str) -> str:
    return f"{parameter(key)}{value}{PARAMETER_END}\n"


A, B = [("read_file", {"path": name}) for name in ("a", "b")]
PLAIN_A = f"{READ}\n{plain('path', 'a')}</invoke>\n"
PLAIN_B = f"{READ}\n{plain('path', 'b')}</invoke>\n"
MARKED_B = f'<{DSML}invoke name="read_file">\n{marked("path", "b")}</{DSML}invoke>\n'


@each_row(
    "inside, calls",
    [
        (PLAIN_A, [A]),
        (PLAIN_A + PLAIN_B, [A, B]),
        (PLAIN_A + PLAIN_B + PLAIN_A, [A, B, A]),
        (PLAIN_A + MARKED_B, [A, B]),
        (MARKED_B + PLAIN_A, [B, A]),
        (f"{READ}\n{marked('path', 'a')}</invoke>\n{PLAIN_B}", [A, B]),
        (f"{READ}\n{marked('path', 'a')}</invoke>\n{READ}{marked('path', 'b')}</invoke>", [A, B]),
        (f"{READ}\n{plain('path', 'a')}{PLAIN_B}", [A, B]),
        (f"{READ}\n{marked('path', 'a')}{PLAIN_B}", [A, B]),
        (f"{WRITE}{plain('path', 'p')}{plain('content', 'x = 1')}</invoke>\n{PLAIN_A}",
         [("write_file", {"path": "p", "content": "x = 1"}), A]),
        (PLAIN_A.replace("\n", "") + PLAIN_B.replace("\n", ""), [A, B]),
        (f"{READ}<path>a</path></invoke>\n{PLAIN_B}", [A, B]),
        (PLAIN_A.replace("invoke", "INVOKE") + PLAIN_B, [A, B]),
        # The opening once more, with nothing between (rule 28).
        (f"{READ}\n{PLAIN_A}", [A]),
        (f'<tool_call name="read_file">\n<tool_call name="read_file">\n{plain("path", "a")}', [A]),
        # A plain wrapper inside, and its close.
        (f"<tool_calls>\n{PLAIN_A}{PLAIN_B}</tool_calls>\n", [A, B]),
        (f"<function_calls>\n{MARKED_B}</function_calls>\n", [B]),
        # A value that passes over its own close: nobody knows which was which.
        (f"{PLAIN_A}{READ}\n{plain('path', 'b</parameter> c')}</invoke>\n", []),
        # A DSML value does not end at a plain close.
        ((f'<{DSML}invoke name="write_file">\n{marked("path", "p")}'
         f"{marked('content', PLAIN_A + PLAIN_B)}</{DSML}invoke>\n"),
         [("write_file", {"path": "p", "content": PLAIN_A + PLAIN_B})]),
        ((f'<{DSML}invoke name="write_file">\n{marked("path", "p")}'
         f"{marked('content', f'x</parameter></invoke>{READ}')}</{DSML}invoke>\n"),
         [("write_file", {"path": "p", "content": f"x</parameter></invoke>{READ}"})]),
    ],
)  # fmt: skip
def test_reading(inside: str, calls: Any) -> None:
    message = read(f"{BLOCK}\n{inside}{BLOCK_END}{EOS}", tools=TOOLS)
    assert calls_of(message) == calls
    assert DSML not in message.content


def test_outside_of_a_block_a_value_keeps_what_it_quotes() -> None:
    content = "x</parameter>\n</invoke>\nand so on"
    message = read(f"{WRITE}{plain('path', 'p')}{plain('content', content)}</invoke>", tools=TOOLS)
    assert len(message.tool_calls) <= 1
