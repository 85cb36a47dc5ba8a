"""One slip in a well-formed block: python fuzz/slips.py [--two N] [--seed S] [--show WORD]

Takes well-formed blocks of many kinds, and loses, doubles or exchanges with its neighbour each
token of their markup: a bracket, the DSML token, a tag's word, `name=`, a quote, `string=`, a line
end; and once more each token as the vocabulary cuts them, where `="` and `">` are one. A reading is
right if it has the calls of the block; or fewer of them, and says so (incomplete, dropped, or cut).
It is wrong if it has a call as complete that was not in the block, and silent if it has fewer and
does not say so. Where the released parser reads the same calls, and each of them keeps to its
schema, nobody can tell: docs/recovery.md lists what these have in common.

`--two` is how many texts with two slips are tried as well. `--show` prints the texts of an outcome,
or of a kind and an outcome: `--show lost/wrong`. Fails if a text with one slip is wrong or silent.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import jsonschema

import dsv4
import encoding_dsv4
import encoding_dsv41

DSML, EOS = "｜DSML｜", "<｜end▁of▁sentence｜>"
Call = tuple[str, dict[str, Any]]
OUTCOMES = ("same", "reported", "untellable", "wrong", "silent")
BAD = frozenset({"wrong", "silent"})


def tool(
    name: str, required: Sequence[str] | None = None, more: Any = None, **properties: Any
) -> dict[str, Any]:
    """A declared tool. A property is a type or a schema; `required` may be missing. `more` says
    whether other properties may be there, if anything does."""
    of = {key: {"type": one} if isinstance(one, str) else one for key, one in properties.items()}
    parameters: dict[str, Any] = {"type": "object", "properties": of}
    if required is not None:
        parameters["required"] = list(required)
    if more is not None:
        parameters["additionalProperties"] = more
    space, _, bare = name.rpartition("::")
    function = {"name": bare, "description": bare, "parameters": parameters}
    return {"type": "function", "function": function, **({"namespace": space} if space else {})}


COLORS = {"type": "string", "enum": ["red", "green", "blue"]}
TOOLS = [
    tool("run", ["script"], script="string", shell="string", seconds="integer"),
    tool("move", ["source", "target"], source="string", target="string", force="boolean"),
    tool("patch", ["file", "hunks"], file="string", hunks={"type": "array"}, dry="boolean"),
    tool("paint", ["shape", "color"], shape="string", color=COLORS, width="number"),
    tool("convert", ["amount", "unit"], amount="number", unit="string", digits="integer"),
    tool("store", ["key", "value"], key="string", value={"type": ["object", "array"]}),
    tool("note", None, title="string", body="string"),  # nothing is said to be required
    tool("wait", [], seconds="integer"),  # one key, and it is optional
    tool("status"),
    tool("translate", ["text", "to"], text="string", to="string"),
    tool("tag", ["labels"], labels={"type": "array", "items": {"type": "string"}}, item="string"),
    tool("any_of", ["x"], x={"anyOf": [{"type": "integer"}, {"type": "null"}]}, y="string"),
]
STEPS = {"type": "array", "items": {"type": "object", "required": ["step"]}}
OTHERS = [
    tool("shell", ["cmd"], more=False, cmd="string", cwd="string", env="object"),
    tool("remember", ["key"], more=True, key="string"),
    tool("label", [], more={"type": "string"}, title="string"),
    tool("write", ["path", "text"], path="string", text="string", mode={"enum": ["w", "a"]}),
    tool("plan", ["steps"], steps=STEPS),
    tool("either", ["v"], v={"type": ["string", "null"]}, w={"type": ["integer", "string"]}),
    tool("untyped", ["a"], a={}, b={"description": "anything"}),
    tool("kill", ["pid", "signal"], pid="integer", signal="integer"),
    tool("switch", None, on="boolean", off="boolean"),
    tool("erase", ["what"], what={"const": "all"}, id="integer"),
    tool("find", None, path="string", line="string"),
    tool("go_to", None, file="string", line="integer"),
    tool("nothing"),
]
SPACES = [
    tool("files::read", ["path"], path="string", lines="integer"),
    tool("db::query", ["sql"], sql="string", limit="integer"),
    tool("plain", ["word"], word="string"),
]
PROGRAM = 'for (i = 0; i < n; i++) {\n\tif (a[i] > b && c) puts("<" + d + ">");\n}\n'
SHELL = 'set -e\nfor f in *.py; do\n  sed -i \'s/<a>/<b>/\' "$f" && echo "$f" >> log\ndone'
PAGE = '<!doctype html>\n<form name="f"><input name="q" value="a=b">\n</form>\n'
HERE = "cat > a.html <<'EOF'\n<a href=\"x\">y</a>\n</EOF>\nEOF\n"
DOCSTRING = 'def f(x):\n    """Doc."""\n    return f"<{x}>" if x else None\n'
MARKDOWN = "# T\n\n```sh\nls\n```\n\n- a\n- b\n"
PLAIN = '<parameter name="q" string="true">v</parameter>'
DIFF = "--- a\n+++ b\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"


# Tools whose names are words of the markup, and values that look like it.
WORDS = [
    tool("invoke", ["parameter"], parameter="string", invoke="boolean", path="string"),
    tool("parameter", [], string="string"),
    tool("string", ["text"], text="string", path="string"),
]


class Block(NamedTuple):
    """A well-formed block of calls, and the text around it."""

    name: str
    calls: list[Call]
    dialect: Literal["v4", "v4.1"] = "v4"
    before: str = ""
    behind: str = EOS
    tools: list[dict[str, Any]] = TOOLS


_NOTHING: Call = ("nothing", {})
BLOCKS = [
    Block("one text", [("run", {"script": "make -j2"})], before="Building."),
    Block("several lines", [("run", {"script": SHELL, "shell": "bash"})]),
    Block("program", [("note", {"title": "loop.c", "body": PROGRAM})], before="Noted:"),
    Block("page, attribute", [("note", {"title": 'name="x"', "body": PAGE})]),
    Block("plain markup", [("note", {"title": "t", "body": PLAIN})]),
    Block("two texts", [("move", {"source": "/tmp/a b", "target": "/tmp/c"})]),
    Block("texts and a flag", [("move", {"source": "a", "force": True, "target": "b"})]),
    Block("list of objects", [("patch", {"file": "x.py", "hunks": [{"at": 3, "text": DIFF}]})]),
    Block("empty list", [("patch", {"file": "x.py", "hunks": [], "dry": False})]),
    Block("enum", [("paint", {"shape": "circle", "color": "green", "width": 0.5})]),
    Block("number first", [("convert", {"amount": -12.5e3, "unit": "km"})], before="So:\n- one"),
    Block("nested object", [("store", {"key": "k", "value": {"a": {"b": [1, {"c": None}]}}})]),
    Block("nothing required", [("note", {"title": "x"}), ("note", {"title": "y", "body": "z"})]),
    Block("optional alone", [("wait", {"seconds": 5}), ("wait", {})]),
    Block("no parameters", [("status", {}), ("status", {})], before="Both."),
    Block("other language", [("translate", {"text": "你好，世界！“再见”", "to": "Français"})]),
    Block("list of texts", [("tag", {"labels": ["a<b", "c>d", 'e"f']}), ("status", {})]),
    Block("null", [("any_of", {"x": None, "y": "null"}), ("any_of", {"x": 3})]),
    Block(
        "dangerous and harmless",
        [("status", {}), ("move", {"source": "/", "target": "/old"}), ("run", {"script": "ls"})],
        before="I will.",
    ),
    Block(
        "same tool, all keys",
        [("translate", {"text": "a", "to": "de"}), ("translate", {"text": "b", "to": "fr"})],
    ),
    Block("later numbers", [("convert", {"unit": "m", "amount": 1, "digits": 0}), ("status", {})]),
    Block("4.1", [("run", {"script": "ls | wc -l", "seconds": 9})], "v4.1", before="Counting."),
    Block("4.1, code", [("note", {"title": "t", "body": PROGRAM}), ("status", {})], "v4.1"),
    Block("4.1, lists", [("patch", {"file": "y", "hunks": [[1, 2], [3]]})], "v4.1"),
    Block("4.1, three", [("status", {}), ("wait", {}), ("run", {"script": "id"})], "v4.1"),
    Block(
        "namespaces",
        [("files::read", {"path": "a.md", "lines": 10}), ("db::query", {"sql": "select 1"})],
        "v4.1",
        tools=SPACES,
    ),
    Block("without EOS", [("run", {"script": "ls"}), ("status", {})], behind=""),
    *(
        Block(name, calls, tools=OTHERS)
        for name, calls in [
            ("here document", [("shell", {"cmd": HERE, "cwd": "/tmp", "env": {"A": "1"}})]),
            ("object last", [("shell", {"cmd": "ls", "env": {"X": {"y": [None]}}}), _NOTHING]),
            ("other keys", [("remember", {"key": "k", "other": "v", "n": 3})]),
            ("other keys, twice", [("remember", {"key": "k"}), ("remember", {"key": "l", "m": 1})]),
            ("other texts", [("label", {"title": "n", "any": "x"}), ("label", {})]),
            ("JSON as text", [("write", {"path": "a.json", "text": '{"a": [1, "</p>"]}'})]),
            ("empty texts", [("write", {"path": "", "text": "\n"}), _NOTHING]),
            ("steps", [("plan", {"steps": [{"step": "a"}, {"step": "b"}]}), _NOTHING]),
            ("null or text", [("either", {"v": None, "w": 3}), ("either", {"v": "x", "w": "3"})]),
            ("without types", [("untyped", {"a": "x", "b": [1]}), ("untyped", {"a": {"c": 1}})]),
            (
                "numbers alone",
                [("kill", {"pid": 1, "signal": 9}), ("kill", {"pid": 2, "signal": 2})],
            ),
            ("flags alone", [("switch", {"on": True, "off": False}), ("switch", {"on": False})]),
            (
                "one key, two types",
                [("find", {"path": "a.py"}), ("go_to", {"file": "b.py", "line": 9})],
            ),
            ("const", [("erase", {"what": "all", "id": 3}), ("erase", {"what": "all"})]),
        ]
    ),
    *(
        Block(name, calls, dialect, tools=WORDS)
        for dialect in ("v4", "v4.1")
        for name, calls in [
            (
                f"{dialect}, words",
                [("invoke", {"parameter": "x", "invoke": True}), ("string", {"text": "y"})],
            ),
            (
                f"{dialect}, more words",
                [("parameter", {}), ("invoke", {"path": "/", "parameter": "name"})],
            ),
            (
                f"{dialect}, attributes",
                [("string", {"text": 'name="text" string="true">', "path": "a"})],
            ),
            (f"{dialect}, ends of tags", [("string", {"text": "  <li>\n  </li>", "path": "|"})]),
        ]
    ),
    Block("4.1, other keys", [("remember", {"key": "k", "x": 1}), _NOTHING], "v4.1", tools=OTHERS),
    Block(
        "4.1, enum behind a program",
        [("write", {"path": "a.py", "text": DOCSTRING, "mode": "a"}), ("switch", {"off": True})],
        "v4.1",
        before="ok",
        tools=OTHERS,
    ),
    Block(
        "prose behind",
        [("write", {"path": "a.md", "text": MARKDOWN}), ("shell", {"cmd": "ls"})],
        before="I write it.",
        behind=f"\n\nIt is `a.md`, I think.{EOS}",
        tools=OTHERS,
    ),
]


class Token(NamedTuple):
    text: str
    is_markup: bool  # names and values are none, and are neither lost nor doubled


def tokens_of(block: Block) -> list[Token]:
    """A block as the model writes it, token by token."""
    gap = " " if block.dialect == "v4.1" else ""
    wrapper = "calls" if gap else "tool_calls"
    tokens: list[Token] = []

    def markup(*texts: str) -> None:
        tokens.extend(Token(text, True) for text in texts)

    def other(text: str) -> None:
        tokens.append(Token(text, False))

    other(block.before)
    markup("\n", "\n", "<", DSML, gap + wrapper, ">", "\n")
    for name, arguments in block.calls:
        markup("<", DSML, f"{gap}invoke", " name=", '"')
        other(name)
        markup('"', ">", "\n")
        for key, value in arguments.items():
            is_text = isinstance(value, str)
            markup("<", DSML, f"{gap}parameter", " name=", '"')
            other(key)
            markup('"', " string=", '"')
            other("true" if is_text else "false")
            markup('"', ">")
            other(value if is_text else json.dumps(value))
            markup("</", DSML, f"{gap}parameter", ">", "\n")
        markup(*([] if arguments else ["\n"]), "</", DSML, f"{gap}invoke", ">", "\n")
    markup("</", DSML, gap + wrapper, ">")
    other(block.behind)
    return tokens


# How the vocabulary cuts markup; names and values stay whole.
_VOCABULARY = re.compile(
    rf'">\n\n|">\n|"></|">|>\n|>|="|"|</|<|\n\n|\n|{DSML}| calls| invoke| parameter'
    r"|tool|_c|alls|inv|oke|parameter| name| string"
)
# What is one token of it with the close of a value that ends so: `<b>x</b>`, and `</`.
_WITH_CLOSE = re.compile(r"(.*?)(\"?>|\}{1,2}|)", re.DOTALL)


def in_vocabulary(tokens: Iterable[Token]) -> list[Token]:
    """The same text in the tokens of the model's vocabulary: `">` and a line end are one.

    So are the last bracket of a value and the one that begins its close.
    """
    found: list[Token] = []
    texts = (token for token in tokens if token.text)
    for is_markup, run in groupby(texts, key=lambda token: token.is_markup):
        if is_markup:
            parts = _VOCABULARY.findall(text_of(run))
            if found and parts[0] == "</" and (match := _WITH_CLOSE.fullmatch(found[-1].text)):
                found[-1:] = [Token(match[1], False)] if match[1] else []
                parts[0] = f"{match[2]}</"
            found += (Token(text, True) for text in parts)
        else:
            found += run
    return found


def cuts_of(block: Block) -> tuple[list[Token], list[Token]]:
    """A block in the parts of its markup, and in tokens of the vocabulary."""
    tokens = tokens_of(block)
    return tokens, in_vocabulary(tokens)


def text_of(tokens: Iterable[Token]) -> str:
    return "".join(token.text for token in tokens)


class Slip(NamedTuple):
    kind: str  # lost, doubled, exchanged
    what: str
    tokens: list[Token]


def slips(tokens: list[Token]) -> Iterator[Slip]:
    """Each slip of one token."""
    for n, token in enumerate(tokens):
        if not token.is_markup:
            continue
        before, behind = tokens[:n], tokens[n + 1 :]
        yield Slip("lost", token.text, before + behind)
        yield Slip("doubled", token.text, [*before, token, token, *behind])
        if behind and behind[0].text not in ("", token.text, EOS) and _may_move(behind[0]):
            moved = [*before, behind[0], token, *behind[1:]]
            yield Slip("exchanged", f"{token.text} {behind[0].text}", moved)


def _may_move(token: Token) -> bool:
    """Whether a token may change places: markup, a name, or a value that looks like one."""
    return token.is_markup or re.fullmatch(r"[\w.:-]+", token.text) is not None


def two_slips(block: Block, chance: random.Random) -> Slip:
    first = chance.choice([*slips(tokens_of(block))])
    second = chance.choice([*slips(first.tokens)])
    what = f"{first.kind} {first.what}, {second.kind} {second.what}"
    return Slip("two", what, second.tokens)


# What becomes of it.


def calls_of(message: dsv4.Message) -> list[Call]:
    return [
        (
            f"{call.namespace}::{call.name}" if call.namespace else call.name,
            json.loads(call.arguments),
        )
        for call in message.tool_calls
    ]


def keeps_to_schema(call: Call, tools: list[dict[str, Any]]) -> bool:
    for one in tools:
        space, function = one.get("namespace"), one["function"]
        if call[0] == (f"{space}::{function['name']}" if space else function["name"]):
            schema = {"additionalProperties": False, **function["parameters"]}
            return bool(jsonschema.Draft202012Validator(schema).is_valid(call[1]))
    return False


def is_untellable(text: str, block: Block, found: list[Call]) -> bool:
    """Whether the released parser reads the same calls, and each of them keeps to its schema."""
    released = {"v4": encoding_dsv4, "v4.1": encoding_dsv41}[block.dialect]
    try:  # prose behind a block it does not read
        whole = text.removesuffix(block.behind) + EOS
        message = released.parse_message_from_completion_text(whole, "chat")
        read = [_released_call(one) for one in message["tool_calls"]]
    except ValueError:  # it leaves the grammar, or a value is no JSON
        return False
    return read == found and all(keeps_to_schema(one, block.tools) for one in found)


def _released_call(call: dict[str, Any]) -> Call:
    name, space = call["function"]["name"], call.get("namespace")
    return (f"{space}::{name}" if space else name, json.loads(call["function"]["arguments"]))


def outcome(text: str, block: Block) -> tuple[str, dsv4.Message]:
    """What became of a text, and how it was read."""
    message = dsv4.parse(text, thinking=False, tools=block.tools, dialect=block.dialect)
    found = calls_of(message)
    # As text, which tells 1 from True.
    left, rest = [*map(repr, block.calls)], [*map(repr, found)]
    if rest == left:
        return "same", message
    for call in rest:
        if call not in left:
            return "untellable" if is_untellable(text, block, found) else "wrong", message
        del left[: left.index(call) + 1]
    says = message.dropped or message.incomplete or message.finish == "length"
    return "reported" if says else "silent", message


class Tried(NamedTuple):
    """A slip that was tried."""

    block: str
    slip: Slip
    outcome: str
    message: dsv4.Message

    @property
    def name(self) -> str:
        return f"{self.slip.kind}/{self.outcome}"

    def __str__(self) -> str:
        found = [*calls_of(self.message)]
        said = [(one.kind, one.raw[:40]) for one in self.message.diagnostics]
        shown = f"{self.name} [{self.block}] {self.slip.what!r}\n  {text_of(self.slip.tokens)!r}"
        return f"{shown}\n  -> {found} {said}".replace(DSML, "D")


def tried(block: Block, all_slips: Iterable[Slip]) -> Iterator[Tried]:
    for slip in all_slips:
        yield Tried(block.name, slip, *outcome(text_of(slip.tokens), block))


def singles(blocks: Sequence[Block] = BLOCKS) -> Iterator[Tried]:
    for block in blocks:
        for tokens in cuts_of(block):
            yield from tried(block, slips(tokens))


def doubles(count: int, seed: int) -> Iterator[Tried]:
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        block = chance.choice(BLOCKS)
        yield from tried(block, [two_slips(block, chance)])


def table(counts: Counter[tuple[str, str]]) -> str:
    kinds = [*dict.fromkeys(kind for kind, _ in counts)]
    rows = [f"{'':12}" + "".join(f"{one:>12}" for one in OUTCOMES)]
    rows += [f"{kind:12}" + "".join(f"{counts[kind, o]:>12}" for o in OUTCOMES) for kind in kinds]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--two", type=int, default=2000, help="texts with two slips")
    parser.add_argument("--seed", type=int, default=0, help="gives other texts with two slips")
    parser.add_argument("--show", default="", help="print the texts of an outcome: lost/wrong")
    args = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    for one in (*singles(), *doubles(args.two, args.seed)):
        counts[one.slip.kind, one.outcome] += 1
        if args.show and args.show in one.name:
            print(one)
    print(table(counts))
    return any(counts[kind, bad] for kind, _ in [*counts] if kind != "two" for bad in BAD)


if __name__ == "__main__":
    sys.exit(main())
