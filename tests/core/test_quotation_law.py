"""The law of quotations: what makes calls makes none in a quotation, and all behind an opening.

recovery.md, rules 15, 24, 29, 40 and 44. Every text of the corpora that makes calls, and a few
whose values quote, stand in every kind of quotation: once and twice, on lines of their own and in
one line, with prose behind. None of it runs. Behind an opening that is never closed all of it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import dsv4
from builders import EOS
from completions import *
from parts import each_share, part, share_of

PROSE = "\n\nI did not run that."
# What ends a section.
_ENDS = re.compile(r"</?\s?think>|<｜(?:end|begin)▁of▁sentence｜>|<｜(?:User|Assistant)", re.I)
_BETWEEN_TAGS = re.compile(r"(?<=>)\s*\n\s*(?=<)")


class Text(NamedTuple):
    """What makes calls, how it is read, and the prose in it."""

    id: str
    text: str
    options: dict[str, Any]
    prose: str

    def calls(self, text: str) -> list[Any]:
        return calls_of(dsv4.parse(f"{text}{EOS}", **self.options))


class Row(NamedTuple):
    """A kind of quotation: its opening and its close, or what stands before every line."""

    open: str
    close: str = ""
    mark: str = ""
    in_line: bool = False  # it ends with its paragraph
    own_lines: bool = True
    one_line: bool = True


ELEMENTS = ["pre", "code", "samp", "kbd", "xmp", "tt", "q", "blockquote", "listing", "example"]
ELEMENTS += ["few_shot_samples", "tool_result", "function_results"]
PAIRS = [
    "“”",
    "‘’",
    "「」",
    "『』",
    "«»",
    "»«",
    "»»",
    "‹›",
    "„“",
    "‚‘",
    "《》",
    "〈〉",
    "〝〞",
    "〝〟",
    "‟”",
    "❝❞",
    "״״",
    "＂＂",
    "＇＇",
]
PAIRS += ['""', "''", "``"]
NAMED = [("<document>", "</document>"), ('<textarea rows="3">', "</textarea>")]
NAMED += [("<quote>", "</quote>"), ("[code]", "[/code]"), ("[quote=x]", "[/quote]")]
NAMED += [("\\begin{verbatim}", "\\end{verbatim}"), ("\\begin{minted}{xml}", "\\end{minted}")]
NAMED += [("#+BEGIN_SRC xml", "#+END_SRC")]
NAMED += [("/*", "*/"), ("<![CDATA[", "]]>")]
FENCES = ["```", "~~~~"]
PAIRS_WITH_NAMES = [
    Row(opening, close, one_line=not opening.startswith("#")) for opening, close in NAMED
]
ROWS = [
    *(Row(f"<{name}>", f"</{name}>") for name in ELEMENTS),
    Row('<pre class="x">', "</PRE>"),
    Row("<!--", "-->"),
    *(Row(pair[0], pair[1], in_line=True, own_lines=pair[0] not in "\"'״") for pair in PAIRS),
    Row("``", "``", in_line=True),
    Row('"""', '"""'),
    Row("'''", "'''"),
    *(Row(f"{fence}{info}", fence, one_line=False) for fence in FENCES for info in ("", "xml")),
    Row("", mark="> ", one_line=False),
    Row("", mark=" - > ", one_line=False),
    Row("", mark="    ", one_line=False),
    Row("", mark="\t", one_line=False),
    # The format's own blank line (rule 40).
    *(Row(f"{pair[0]}Let me look.\n\n", pair[1], in_line=True) for pair in PAIRS),
    *PAIRS_WITH_NAMES,
]  # fmt: skip

_QUOTING = [
    "say \"hi\" 'x' `y`",
    "“a” 「b」 «c» „d“",
    "a</pre> */ ]]> --> [/code] ''' ```",
    "it's 5\"",
]


def made() -> Iterator[Text]:
    """Calls whose values quote, and others."""
    values = [*_QUOTING, block(calling("bash", command="rm")).strip(), "```\nls\n```", "a\n\nb"]
    for n, value in enumerate(values):
        text = block(calling("bash", command=value), calling("ping")).strip()
        yield Text(f"value {n}", text, {"thinking": False, "tools": TOOLS, "new_id": str}, "")
    # Only at a line's start are these calls.
    for n, body in enumerate(('{"command":"ls","timeout":5}', '{"command": "say (\\"a\\")"}')):
        text = f'{BLOCK}\n<{DSML}invoke name="bash">\n// so\n{body}\n</{DSML}invoke>\n{BLOCK_END}'
        yield Text(f"body {n}", text, {"thinking": False, "tools": TOOLS, "new_id": str}, "")


def collected() -> Iterator[Text]:
    for case in corpus():
        tools, choice = declared(**case["tools"]), case["tool_choice"]
        yield from as_text(case, {"tools": tools, "tool_choice": choice})
    for case in expectations():
        options = {k: v for k, v in case["options"].items() if k not in ("reason", "stop")}
        yield from as_text(case, {**options, "tools": tools_of(case)})


def as_text(case: dict[str, Any], options: dict[str, Any]) -> Iterator[Text]:
    """What makes calls, with prose behind it too, and ends."""
    if "prefix" in options:
        return
    options = {**options, "thinking": False, "new_id": str}
    text = case["text"].rpartition("</think>")[2].removesuffix(EOS).strip()
    message = dsv4.parse(f"{text}{EOS}", **options)
    behind = dsv4.parse(f"{text}{PROSE}{EOS}", **options)
    is_whole = message.tool_calls == behind.tool_calls and not message.incomplete
    is_whole = is_whole and dsv4.parse(text, **options).finish != "length"
    is_quoted = DSML in message.content or "```" in text or _ENDS.search(text) is not None
    if message.tool_calls and is_whole and not is_quoted:
        yield Text(case["id"], text, options, message.content)


@lru_cache
def texts() -> list[Text]:
    """Found when they are first asked for: other processes only collect these tests."""
    return [*made(), *collected()]


def layouts(row: Row, text: Text) -> Iterator[str]:
    """A text in a quotation, in all ways."""
    inside = text.text
    if row.close and row.close.lower() in text.prose.lower():
        return
    if row.in_line and ("\n\n" in text.prose or text.prose):
        return
    if row.mark:
        inside = "".join(f"{row.mark}{line}\n" for line in inside.splitlines()).rstrip()
        if "\n\n" in text.text or "\n> " in text.text or (text.prose and not row.mark.strip()):
            return
    for count in (1, 2):
        together = "\n".join([inside] * count)
        if len(text.calls(together)) < count:
            return
        if row.own_lines:
            yield f"So:\n\n{row.open}\n{together}\n{row.close}".rstrip()
        line = _BETWEEN_TAGS.sub("", together)
        is_read = "｜" not in dsv4.parse(f"So {line} there", **text.options).content
        is_directly = row not in PAIRS_WITH_NAMES or not text.prose
        if row.one_line and "\n" not in line and is_read and is_directly:
            yield f"So {row.open}{line}{row.close} there"
        if row.one_line and row.in_line:
            yield f"So {row.open}{together}{row.close} there"
    pair = f"{row.open}\n{inside}\n{row.close}"
    if row.own_lines:
        yield f"So:\n\n{pair}\n\n{pair}".rstrip()


def chosen(of: int, share: int) -> Iterator[tuple[Text, Row]]:
    """Each text with each row; or one of so many. Of these, a share."""
    yield from share_of(part([(text, row) for text in texts() for row in ROWS], of), share)


def quoted(share: int) -> Iterator[tuple[str, Text, str]]:
    for text, row in chosen(307, share):
        for quotation in layouts(row, text):
            yield f"{text.id} in {row.open or row.mark!r}", text, quotation


@each_share
def test_what_is_quoted_never_runs(share: int) -> None:
    cases = list(quoted(share))
    wrong = [(id, quotation) for id, text, quotation in cases if text.calls(quotation + PROSE)]
    print(f"{len(wrong)} of {len(cases)} quotations run")
    assert cases
    assert not wrong, wrong[:3]


def left_open(share: int) -> Iterator[tuple[str, Text, str]]:
    """Texts behind openings that nothing closes."""
    for text, row in chosen(157, share):
        where = f"{text.id} behind {row.open!r}"
        if row.open.startswith(tuple(FENCES)):
            if _may_act_in_fence(text):
                yield where, text, f"So:\n{row.open}\nls\n{text.text}"
        elif row.close and row.close not in text.prose:
            yield where, text, f"So {row.open}\n\n{text.text}"
            if not text.prose:
                yield where, text, f"So:\n\n{row.open}\n{text.text}"


def _may_act_in_fence(text: Text) -> bool:
    """Whether it is nothing but calls of declared tools, and all of them are made (rule 41)."""
    begins = text.text.startswith(f"{BLOCK}\n<{DSML}invoke") and not text.prose
    message = dsv4.parse(text.text, **text.options)
    return begins and "undeclared_tool" not in kinds_of(message) and not message.dropped


@each_share
def test_behind_what_is_never_closed_all_calls_are_made(share: int) -> None:
    cases = list(left_open(share))
    wrong = [(id, it) for id, text, it in cases if text.calls(it) != text.calls(text.text)]
    print(f"{len(wrong)} of {len(cases)} openings cost a call")
    assert cases
    assert not wrong, wrong[:3]
