"""Calls in quotations never run, and calls behind openings that were left open do.

recovery.md, rule 29. Each table has one kind of quotation, with both sides of its boundary; CALL
stands for a call, of whatever form.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import dsv4
from builders import EOS
from completions import BASH, BLOCK, BLOCK_END, COMMAND, DSML, INVOKE_END, PARAMETER_END, TOOLS
from completions import calls_of as made
from completions import read_everywhere as read
from parts import ALL
from rows import each_row

RM = [("bash", {"command": "rm"})]
_VALUE = f"{COMMAND}rm{PARAMETER_END}"
_JSON = json.dumps({"name": "bash", "arguments": {"command": "rm"}})
ONE_LINE = f"{BLOCK}{BASH}{_VALUE}{INVOKE_END}{BLOCK_END}"
FORMS = {
    "one line": ONE_LINE,
    "lines": f"{BLOCK}\n{BASH}\n{_VALUE}\n{INVOKE_END}\n{BLOCK_END}",
    "no wrapper": f"{BASH}\n{_VALUE}\n{INVOKE_END}",
    "plain": '<invoke name="bash"><parameter name="command">rm</parameter></invoke>',
    "plain wrapper": '<tool_calls>\n<invoke name="bash">\n<command>rm</command>\n</invoke>\n'
    "</tool_calls>",
    "native": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{"command": "rm"}'
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "JSON in a block": f"{BLOCK}{_JSON}{BLOCK_END}",
}

# Texts around a call that quote it.
QUOTED = {
    "elements": [
        "<example>\nUser: Clean up.\n\nCALL\nDone.\n</example>\nThat was one.",
        "<pre>CALL</pre> is how.",
        "<code>\nCALL\n</code>",
        '<pre><code class="language-xml">\nCALL\n</code></pre>\n\nSo.',
        "<Example>\n\nCALL\n\n</EXAMPLE>",
        "<few_shot_examples>\nHi.\n\nCALL\n</few_shot_examples>\n",
        '<sample-output lang="en" id=3>\nCALL\n</sample-output>',
        "<samp>a CALL b</samp>",
        "<kbd>CALL</kbd>",
        "<tt>CALL</tt> <q>b</q>",
        "He wrote <q>CALL</q>.",
        "<blockquote>\n<p>It said:</p>\n\nCALL\n</blockquote>",
        "<xmp>\nCALL\n</xmp>",
        "<listing>CALL</listing><plaintext>x",
        "<pre\n  class='x'>\nCALL\n</pre>",
        "`a` <pre\n  class='x'>\nCALL\n</pre>",
        "```\nx\n```\n<pre\n  class='x'>\nCALL\n</pre>",
        '<pre title="a > b">CALL</pre>',
        "示例：\n<example>\n用户：清理。\n\nCALL\n</example>\n以上。",
        "<example>\nCALL\n\nCALL\n</example>",
        "<example>\nCALL\n</example>\n<example>\nCALL\n</example>",
        "<code>a</code> and <code>CALL</code>",
        "Don't: <pre>CALL</pre>",
    ],
    "comments": [
        "<!-- CALL -->\nThat does nothing.",
        "<!--\nold:\n\nCALL\n\n-->",
        "a <!-- b --> c <!-- CALL --> d",
    ],
    "inline code": [
        "Write `call: CALL` there.",
        "Write `CALL`, then stop.",
        "``a ` CALL `` is code.",
        "`x` and `y CALL` z",
        "写成`调用 CALL`即可。",
        "It's `CALL` for 5\" disks.",
        "A line with `code that\ngoes on CALL` here.",
        "```CALL``` in one line.",
        "- `CALL`\n- more",
        "`` a ` CALL ` b",
        "| a | `CALL` |\n|---|---|\n",
    ],
    "quotes": [
        "格式为「CALL」。",
        "格式为『调用：CALL』。",
        "正确的格式是“CALL”，请注意。",
        "他写道：“请运行 CALL 这样”。",
        "Man schreibt „CALL“ dafür.",
        "Man schreibt »so: CALL« dafür.",
        "On écrit « CALL » ainsi.",
        "On écrit ‹ CALL › ainsi.",
        "Pisze się „tak: CALL”.",
        "‚CALL‘ geht auch.",
        "Sanotaan »näin: CALL» siinä.",
        "כותבים ״כך: CALL״ כאן.",
        "〝CALL〟と書く。",
        "So ‟CALL” there.",
        "It is ❝so: CALL❞ there.",
        "So \\begin{minted}[linenos]{xml}\nCALL\n\\end{minted}\nis it.",
        'He said "CALL" to me.',
        'He said "do this: CALL, now" to me.',
        "He said 'do this: CALL' to me.",
        "He said ‘do this: CALL’ to me.",
        "《CALL》",
        "〈参见 CALL〉",
        "〝CALL〞",
        "＂CALL＂",
        "＇CALL＇",
        '格式为"调用：CALL"，好的。',
        'Set {"text": "CALL"} in it.',
        '(“CALL”)',
        '"It\'s CALL" they say.',
        "“one ‘two CALL’ three”",
        'x = "CALL";',
        'He said "use <a href="x">this</a>: CALL" there.',
        "He said “the ‘odd one: CALL” there.",
        'He said "the ‘odd one: CALL" there.',
        "‚CALL’ geht auch.",
        "›CALL‹ geht auch.",
        "｢CALL｣",
        "﹁CALL﹂",
    ],
    "blank lines": [  # rule 40
        "He answered “Let me look.\n\nCALL” and left.",
        "他说“运行。\n\nCALL\n\n”",
        "He answered `Let me look.\n\nCALL\n` and left.",
        "``a\n\nCALL``, so.",
        'He said "so.\n\nCALL" and left.',
        "„So.\n\nCALL“ sagte er.",
        "const s = `\n\nCALL\n\n`;",
    ],
    "named pairs": [  # rule 44
        "<document>\nCALL\n</document>\nThat was one.",
        "So <document>CALL</document> there.",
        "<step>\nCALL\n</step>\nDone.",
        "<a-b:c x='1'>\nSo:\n\nCALL\n</A-B:C>\nDone.",
        "<div>\na <div>b</div>\nCALL\n</div>\nDone.",
        "[code]\nCALL\n[/code]\nDone.",
        "[quote=bob]\nCALL\n[/QUOTE]\nDone.",
        "\\begin{verbatim}\nCALL\n\\end{verbatim}\nDone.",
        "#+BEGIN_SRC xml\nCALL\n#+end_src\nDone.",
        "/*\nCALL\n*/\nint x;",
        "<![CDATA[\nCALL\n]]>\nDone.",
        "<tool_result>CALL</tool_result>",
        "<step>CALL</step>\n<step>CALL</step>\nDone.",
    ],
    "strings of programs": [
        '{"content": "say \\"hi\\" CALL"}',
        'x = "a \\"b\\" c CALL d";',
        "x = 'it\\'s CALL';",
        '\\"CALL\\"',
        '"a": "\\"CALL\\""',
        '"""\nCALL\n"""',
        "'''\nCALL\n'''",
        'x = """It\'s "so.\n\nCALL\n"""\n',
        "``CALL'' in LaTeX.",
        "``so: CALL'' in LaTeX.",
    ],
    "directly before": [
        '5"CALL"',
        "x`CALL`",
        'a"CALL" b',
        "it's'CALL' b",
    ],
    "lines": [
        "The log:\n\n> CALL\n\nI did not run that.",
        "> CALL",
        ">CALL",
        "- > CALL\n",
        "1. > CALL\n2. b",
        "> > CALL\n",
        "> so CALL\n\nNo.",
        "> so CALL he wrote.",
        "- > so CALL he wrote.",
        "1. > `so` CALL he wrote.",
        " 1. > > so CALL\n\nNo.",
        "Usage:\n\n    CALL\n\nFour spaces.",
        "Usage:\n\n\tCALL\n\nA tab.",
    ],
}  # fmt: skip

# Texts around a call that do not.
REAL = {
    "elements": [
        "Use the <pre> tag.\n\nCALL",
        "<action>CALL</action>",
        "<tool>CALL</tool>",
        "<code/>CALL</code>",
        "`<pre>` is a tag.\n\nCALL\n\nClose it with </pre>.",
        "<pre>x</pre>\nCALL\n</pre>",
        "```\n<example>\n```\nCALL\n</example>",
        "<precode>CALL</precode>",
        "<example>\nNow:\n\nCALL",
        "A <code> and a </pre>: CALL </pre>",
        "<pre\n\n  class='x'>\nCALL\n</pre>",
        "`<in\n\nside a='x'> CALL` b",
    ],
    "comments": [
        "<!-- note -->\nCALL\n-->",
        "An arrow --> CALL -->",
        "Comments begin with <!--.\n\nCALL",
    ],
    "inline code": [
        "A stray ` here.\n\nCALL\n\nAnd ` there.",
        "`a` CALL `b`",
        "A tick ` here: CALL",
        "It was `ls`: CALL",
    ],
    "quotes": [
        'He said "do it.\n\nCALL',
        'It\'s 5" wide: CALL',
        'It\'s 5" wide: CALL and 6" high.',
        "It's done, isn't it? CALL It's.",
        'He said "do it.\n\nCALL\n\nHe said "so".',
        "The dogs' bowl: CALL The cats' bowl.",
        "“a” CALL “b”",
        '"a" CALL "b"',
        "「a」CALL「b」",
        "Rock 'n' roll: CALL",
        "„a“ CALL „b“",
        "»a« CALL »b«",
        "»a» CALL »b»",
        "« a » CALL « b »",
        "צה״ל CALL צה״ל",
        "Use \\begin{minted}{xml}\n\nCALL",
        "他说：“好。”\n\nCALL\n\n“完成”。",
        "A 3' board: CALL",
        "“open to the end: CALL",
        "「没有结束 CALL",
        "a ” CALL ”",
    ],
    "blank lines": [
        "He answered “Let me look.\n\nAnd so:\n\nCALL” and left.",
        "He answered “Let me look.\n\nCALL and ” left.",
        "He said “do it.\n\nCALL\n\n“Done”, he said.",
        'He said "do it.\n\nCALL\n\n"Done", he said.',
        "“Let me look.”\n\nCALL” and left.",
    ],
    "named pairs": [
        "<document>\nCALL\n</document>",
        "<step>CALL</step>\n<!-- -->",
        "<p>\nCALL\n</p>\nDone.",
        "<li>CALL</li>\nDone.",
        "<br>\nCALL\n</br>\nDone.",
        "So <document> is one.\n\nCALL\n</document>\nDone.",
        "<document>\nCALL and </document> there.",
        "<document>\nx\n</document>\nCALL\n</document>\nDone.",
        "[link](x)\nCALL\n[/link]\nDone.",
        "See /* it */\nCALL\n*/\nDone.",
        "/* one */\nCALL\n*/\nDone.",
        "\\begin{a}\nCALL\n\\end{b}\nDone.",
    ],
    "strings of programs": [
        '"""a""" CALL """b"""',
        'A """ begins one.\n\nCALL',
        "y''' + y'' = 0: CALL z'''",
        "``a'' CALL ``b''",
        "``CALL’’ is not LaTeX.",
        "x'' = 2: CALL f''",
        'a \\"b\\" CALL \\"c\\"',
    ],
    "lines": [
        "> so CALL",
        "- > so CALL",
        "> A quotation.\n\nCALL",
        "> A quotation.\nCALL",
        "2 > 1: CALL",
        "Usage:\n\n    CALL",
        "- a\n- b\n\nCALL\n",
    ],
}  # fmt: skip


SOME = 5 if ALL else 15


def filled(table: dict[str, list[str]], forms: dict[str, str]) -> list[Any]:
    return [
        pytest.param(text, form, id=f"{kind} {n} {name}")
        for kind, texts in table.items()
        for n, text in enumerate(texts)
        for m, (name, form) in enumerate(forms.items())
        # One form with all texts, and all forms with some of them. Lines are those of one form.
        if m == 0 or (kind != "lines" and n % SOME == m % SOME)
    ]


@each_row("text, form", filled(QUOTED, FORMS))
def test_what_is_quoted_is_text(text: str, form: str) -> None:
    text = text.replace("CALL", form)
    message = read(f"{text}{EOS}")
    assert made(message) == []
    assert message.content == text
    assert message.finish == "stop"
    for reason in (None, "eos", "stop", "length"):
        assert dsv4.parse(text, tools=TOOLS, reason=reason).reasoning == text


@each_row("text, form", filled(REAL, {"one line": ONE_LINE, "lines": FORMS["lines"]}))
def test_what_is_left_open_is_no_quotation(text: str, form: str) -> None:
    text = text.replace("CALL", form)
    message = read(f"{text}{EOS}")
    assert made(message) == RM
    assert DSML not in message.content
    for end in ("", "</think>Good."):
        assert made(dsv4.parse(text + end, tools=TOOLS)) == RM


@each_row(
    "form",
    ["plain", "plain wrapper", "one line", "lines", "no wrapper"],
)
def test_a_name_with_example_in_it_is_no_wrapper(form: str) -> None:
    for name in ("tool_use_example", "function_calls_sample", "tool_examples"):
        text = f"<{name}>\n{FORMS[form]}\n</{name}>"
        message = read(f"{text}{EOS}")
        assert (made(message), message.content) == ([], text)
    assert made(read(f"<tool_use>\n{FORMS[form]}\n</tool_use>{EOS}")) == RM


def test_a_plain_wrapper_directly_behind_a_quote_is_quoted_with_its_call() -> None:
    text = f"print(r'{FORMS['plain wrapper']}')"
    message = read(f"{text}{EOS}")
    assert (made(message), message.content) == ([], text)


@each_row(
    "text, reason, calls",
    [
        ("“run CALL and then", "length", []),
        ("“run CALL and then", "content_filter", []),
        ("“run CALL and then", "stop", []),
        ("“run CALL and then", "failed", []),
        ("“run CALL and then", "eos", RM),
        ("“run CALL and then", None, RM),
        ("“run CALL", "length", RM),
        ("“run CALL\n", "length", RM),
        (f"“run CALL and then{EOS}", "length", RM),
        ("“run CALL\n\nand then", "length", RM),
        ("<pre>\n\nCALL\n\nand then", "length", []),
        ("<pre>\n\nCALL\n\nand then", "tool_calls", RM),
        ("<!-- CALL and", "stop", []),
        ("`CALL and", "max_tokens", []),
        ("“a” CALL and", "length", RM),
        # A fence ends the paragraph, and its quotations, where its line ends.
        ("“CALL a ```js\nb ”c", "length", RM),
        ("“CALL-~~~\nb ”c", "length", RM),
        ("“CALL-~~~\nb ”c", "eos", RM),
        ("“CALL a” ```js\nb", "eos", []),
        ("so ``` a CALL b\n```js\n", "eos", []),
    ],
)
def test_a_cut_in_an_open_quotation(text: str, reason: str | None, calls: Any) -> None:
    text = text.replace("CALL", ONE_LINE)
    message = read(text, reason=reason)
    assert made(message) == calls
    assert calls or message.content == text


@pytest.mark.parametrize("tag", ['<L[">', '<a b["c">', '<a b#"c">', '<i \\"x">'])
def test_a_quote_in_a_tag_closes_nothing_however_it_is_cut(tag: str) -> None:
    message = read(f'"so\n{INVOKE_END}\n{tag}\n')
    assert [one.kind for one in message.diagnostics] == ["orphan_closer"]
    assert message.content == f'"so\n\n{tag}\n'


def test_a_quote_behind_a_token_that_is_taken_out_stands_where_it_stands() -> None:
    text = f"``a <b{EOS}`\n\n<{DSML}tool\n`"
    assert read(text, thinking=True).reasoning == text.replace(EOS, "")


def test_a_close_behind_calls_that_a_fence_may_hold_is_in_the_fence() -> None:
    """Text follows the calls, so they are an example, and the element is never closed."""
    text = f"<command>\n{INVOKE_END}\n~~~\n\n{ONE_LINE}</command>then"
    message = read(text, reason="length")
    assert made(message) == []
    assert [one.kind for one in message.dropped] == []


def test_text_behind_calls_in_a_fence_is_decided_by_what_stands_before_it() -> None:
    """The inner block was tried too, and whether it still was depended on where text was cut."""
    text = f"~~~\n\n{BLOCK}\n{BASH}\n“{BLOCK}{BLOCK_END}```\nx\n"
    assert made(read(text)) == []


OPEN = f"{BLOCK}{BASH}{COMMAND}rm"


@each_row(
    "text",
    [
        f"Write “{OPEN}” there.",
        f"Write “{OPEN}{PARAMETER_END}{INVOKE_END}” there.",
        f"Write “{OPEN}{PARAMETER_END}” there.\n\nMore.",
        f"Write `{OPEN}{PARAMETER_END}{BLOCK_END}` there.",
        f"<pre>\n{OPEN}\n</pre>\nSo.",
        f"<pre>\n{BLOCK}\n...\n{BLOCK_END}\n</pre>\nSo.",
        f"“{BASH}…{_VALUE}…{INVOKE_END}” is one.",
        f'"{OPEN}{PARAMETER_END}" and so on',
        f"Write `so:\n{BLOCK}\nfoo` there.",
        f"Usage:\n\n    {OPEN}{PARAMETER_END}\n    {INVOKE_END}\n\nFour spaces.",
        f"Usage:\n\n    {OPEN}{PARAMETER_END}\n    {INVOKE_END}\n    </x>\n\nFour spaces.",
        f"> {OPEN}{PARAMETER_END}\n> {INVOKE_END}\n\nIn a block quote.",
        f"<pre>\n{OPEN}{PARAMETER_END}{INVOKE_END}{BLOCK}\n</pre>\n\nNo slash.",
        f"格式为「{BLOCK}\n{BASH}\n{_VALUE}\n</{DSML}invo」。",
        f"<!-- {BLOCK}{BASH}{_VALUE}{INVOKE_END}</{DSML}tool --> No bracket.",
        f"He said “so: <{DSML}tool_ca” there.",
        f"„so {BLOCK}\n{BASH}\n<{DSML}para“ da",
    ],
)
def test_nothing_is_implied_in_a_quotation(text: str) -> None:
    for reason in (None, "eos", "length", "stop"):
        message = read(text, reason=reason)
        assert made(message) == []
        assert message.content == text


@each_row(
    "text",
    [
        f"<pre>\n{INVOKE_END}\n</pre>",
        f"“\n{BLOCK_END}\n” ends it.",
        f"<example>\n{_VALUE}\n{INVOKE_END}\n</example>",
        f"<code>\n{BLOCK}\n{BLOCK_END}\n</code>",
        f"Text.\n\n    {INVOKE_END}\n    {BLOCK_END}\n\nFour spaces.",
        f"> {INVOKE_END}\n\nIn a block quote.",
        f"| `<\n{INVOKE_END}\nthink>` |",
        f"a `b\n{INVOKE_END}\n    x` y",
        f"a `b\n{INVOKE_END}\n> x` y",
    ],
)
@pytest.mark.parametrize("tools", [None, []], ids=["tools unknown", "no tools"])
def test_nothing_that_is_quoted_is_removed(text: str, tools: Any) -> None:
    assert read(text, tools=tools).content == text


@each_row("text", ["a `b\n{}\n\nx` y", "a `b\n{}\n```\nx` y", "a “b\n{}\n\nx” y"])
def test_a_paragraph_ends_behind_an_orphan_as_elsewhere(text: str) -> None:
    assert read(text.format(INVOKE_END)).content == text.format("")


def test_what_was_closed_before_is_not_closed_by_a_tag_that_breaks_off() -> None:
    message = read(f"a ``b, ``“c” <{DSML}inv", reason="length")
    assert (message.content, message.finish) == ("a ``b, ``“c” ", "length")


def test_the_quotes_of_an_attribute_close_nothing() -> None:
    message = read(f'He said "so. <{DSML}invoke name="ba', reason="length")
    assert (message.content, message.finish) == ('He said "so. ', "length")


class TestSections:
    def test_reasoning_and_content_are_looked_at_each_for_itself(self) -> None:
        message = read(f"“Hm.</think>{ONE_LINE} said he.”", thinking=True)
        assert made(message) == RM
        message = read(f"<pre>Hm.\n\n{ONE_LINE}</think></pre>", thinking=True)
        assert made(message) == RM

    def test_an_eos_ends_the_search(self) -> None:
        assert made(read(f"<pre>\n\n{ONE_LINE}{EOS}</pre>")) == RM

    def test_a_quoted_call_before_a_real_one(self) -> None:
        text = f"Not “{ONE_LINE}”, but:"
        message = read(f"{text}\n\n{ONE_LINE}{EOS}")
        assert made(message) == RM
        assert message.content == text

    def test_a_real_one_before_a_quoted_one(self) -> None:
        message = read(f"Use <pre>.\n\n{ONE_LINE}\n\nThat was “{ONE_LINE}”.")
        assert made(message) == RM
        assert message.content == f"Use <pre>.\n\nThat was “{ONE_LINE}”."

    def test_what_stands_inside_a_call_closes_nothing(self) -> None:
        inside = ONE_LINE.replace("rm", "echo ”</pre>`")
        calls = [("bash", {"command": "echo ”</pre>`"})]
        for text in ("“a ", "<pre>", "`a "):
            assert made(read(f"{text}{inside}{EOS}")) == calls


IN_PAIRS = (*FORMS.values(), f"<tool_call>{_JSON}</tool_call>")


@each_row("call, marks", [(call, marks) for call in IN_PAIRS for marks in ('""', "“”", "``")])
def test_of_two_calls_in_one_quotation_neither_is_made(call: str, marks: str) -> None:
    text = f"So {marks[0]}{call}\n{call}{marks[1]} there"
    message = read(text)
    assert (made(message), message.content) == ([], text)
