"""Well-formed calls whose values quote markup: python fuzz/strict_blocks.py [--count N] [--seed S]

Builds blocks of calls that the strict grammar accepts, out of values that quote tags, whole calls,
EOS, role tokens and code fences, and reads each from text and from ids, whole and in pieces. Every
reading must be that of the strict grammar: what is quoted is a part of its value, and never runs.
Left out are values that docs/recovery.md, rule 20, calls repairs: where a parameter that is missing
opens on a new line, or behind a misspelled close. Prints the first text that is read otherwise.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dsv4

TESTS = Path(__file__).parent.parent / "tests"
DSML, EOS, THINK_END = "｜DSML｜", "<｜end▁of▁sentence｜>", "</think>"
USER, ASSISTANT = "<｜User｜>", "<｜Assistant｜>"
BLOCK, BLOCK_END = f"<{DSML}tool_calls>", f"</{DSML}tool_calls>"
INVOKE, INVOKE_END = f'<{DSML}invoke name="bash">', f"</{DSML}invoke>"
COMMAND, END = f'<{DSML}parameter name="command" string="true">', f"</{DSML}parameter>"
KEYS = {
    "bash": {"command": "string", "timeout": "integer"},
    "write_file": {"path": "string", "content": "string"},
    "edit": {"path": "string", "old_string": "string", "new_string": "string", "edits": "array"},
    "ping": {},
}
TOOLS = [
    {
        "name": n,
        "parameters": {"type": "object", "properties": {k: {"type": t} for k, t in of.items()}},
    }
    for n, of in KEYS.items()
]
# What values quote. None holds the close of a parameter, at which a value ends.
FRAGMENTS = (
    *(
        BLOCK,
        BLOCK_END,
        INVOKE,
        INVOKE_END,
        COMMAND,
        f'<{DSML}parameter name="path" string="true">',
    ),
    *(
        f'<{DSML}parameter name="content" string="true">',
        f'<{DSML}parameter name="x" string="false">',
    ),
    *(f"</{DSML}>", f"</{DSML}x>", f"</{DSML}param>", f"<{DSML}parameter>", f"{DSML}parameter>"),
    *(f"</{DSML}command>", f"<{DSML}bash>", f"<{DSML}x>", "</parameter>", "</path>", "</content>"),
    *("<|DSML|invoke>", "</|DSML|parameter>", f"<<{DSML}invoke>", f'<{DSML}invoke name="'),
    *(EOS, USER, ASSISTANT, "<think>", THINK_END, "<｜begin▁of▁sentence｜>", "</THINK>"),
    *("```", "```\n", "~~~\n", "`", '"', "'", "+", "-", "\\", "    ", "<pre>", "</pre>", "- "),
    *("\n", "\n\n", " ", "x", "rm -rf /", "<", "</", ">", DSML, f"</{DSML}paramete", "日本", "{}"),
    *('<invoke name="bash">', "</invoke>", '<parameter name="command">', "<tool_call>", "</b>"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>bash<｜tool▁sep｜>{}", '{"name": "bash"}'),
    f"\n{INVOKE_END}\n{INVOKE}\n{COMMAND}rm",
    f"{INVOKE_END}\n{BLOCK_END}\n\n{BLOCK}\n{INVOKE}\n",
    f"\n{EOS}{USER}Hi{ASSISTANT}{THINK_END}",
    f"</{DSML}>\n{INVOKE_END}\n{INVOKE}\n{COMMAND}rm",
    f"</parameter>\n{INVOKE_END}\n{BLOCK_END}{EOS}",
)
CLOSE = f"/{DSML}parameter"
TOKEN = re.compile("|".join((DSML, "<｜[^｜<>]{1,24}｜>", "</?think>")))


class Writing:
    """A completion while it is written: its parts, and whether the tokens in each are tokens."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, bool]] = []

    def add(self, text: str, acts: bool = True) -> None:
        self.parts.append((text, acts))

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.parts)

    @property
    def is_spelled(self) -> bool:
        """Whether its text alone says what it is."""
        return all(acts for _, acts in self.parts)


def is_repair(value: str, missing: Sequence[str]) -> bool:
    """Whether a parameter that may be missing opens behind a new line or a close (rule 20)."""
    keys = "|".join(map(re.escape, missing))
    opening = rf'<{DSML}parameter name="(?:{keys})"'
    behind = rf"(?:[\n>]|</{DSML}[^<>\s]*)\s*"  # a close may lack its bracket
    return bool(missing) and re.search(behind + opening, value) is not None


def quoting(chance: random.Random, missing: Sequence[str], acts: bool) -> str:
    fragments = FRAGMENTS if acts else (*FRAGMENTS, END, f"{END}\n{INVOKE_END}\n{BLOCK_END}{EOS}")
    while True:
        text = "".join(chance.choices(fragments, k=chance.choice((0, 1, 1, 2, 3, 5, 8))))
        if not acts or (CLOSE not in text and not is_repair(text, missing)):
            return text


def completion(
    chance: random.Random, spells: bool = False
) -> tuple[Writing, list[tuple[str, dict[str, Any]]]]:
    """A completion of one block, and its calls. With `spells`, some values only spell tokens."""
    written, calls = Writing(), []
    written.add(f"Ok.\n\n{BLOCK}\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = chance.choice(list(KEYS))
        keys = [key for key in KEYS[name] if chance.random() < 0.8]
        chance.shuffle(keys)
        arguments: dict[str, Any] = {}
        written.add(f'<{DSML}invoke name="{name}">\n')
        for key in keys:
            acts = not (spells and chance.random() < 0.5)
            missing = [each for each in KEYS[name] if each != key and each not in arguments]
            is_string = KEYS[name][key] == "string"
            text = quoting(chance, missing, acts) if is_string or key == "edits" else "5"
            arguments[key] = text if is_string else [text] if key == "edits" else 5
            value = text if is_string else json.dumps(arguments[key], ensure_ascii=False)
            written.add(f'<{DSML}parameter name="{key}" string="{str(is_string).lower()}">')
            written.add(value, acts)
            written.add(f"{END}\n")
        written.add(f"{INVOKE_END}\n" if keys else f"\n{INVOKE_END}\n")
        calls.append((name, arguments))
    written.add(BLOCK_END + chance.choice(("", EOS)))
    return written, calls


class Ids:
    """Completions as ids, of a vocabulary in which every byte is one."""

    def __init__(self) -> None:
        sys.path.append(str(TESTS))
        from dsv4.tokens import IdParser, Tokenizer
        from small_vocabulary import write_small_vocabulary

        with tempfile.TemporaryDirectory() as folder:
            self.tokenizer = Tokenizer.load(write_small_vocabulary(Path(folder) / "tokenizer.json"))
            self.tokenizer.encode_text("x")
        self.parser = IdParser

    def of(self, written: Writing) -> list[int]:
        ids = []
        for text, acts in written.parts:
            at = 0
            for token in TOKEN.finditer(text) if acts else ():
                if token[0] in self.tokenizer.vocabulary.added:
                    ids += self.tokenizer.encode_text(text[at : token.start()])
                    ids.append(self.tokenizer.special_id(token[0]))
                    at = token.end()
            ids += self.tokenizer.encode_text(text[at:])
        return ids

    def read(self, ids: Sequence[int], chance: random.Random) -> dsv4.Message:
        parser = self.parser(self.tokenizer, dsv4.StreamParser(thinking=False, tools=TOOLS))
        events: list[Any] = []
        sizes = chance.choice(((1,), (1, 2, 5), (len(ids) or 1,)))
        at = 0
        while at < len(ids):
            size = chance.choice(sizes)
            events += parser.feed_ids(list(ids[at : at + size]))
            at += size
        return dsv4.assemble([*events, *parser.finish()])


def read(text: str, size: int) -> dsv4.Message:
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS)
    events = [e for at in range(0, len(text), size) for e in parser.feed(text[at : at + size])]
    return dsv4.assemble([*events, *parser.finish()])


def difference(
    written: Writing,
    calls: list[tuple[str, dict[str, Any]]],
    chance: random.Random,
    ids: Ids | None = None,
) -> str | None:
    """What a reading has and the block has not, if anything. With `ids` it is read from ids too."""
    text, readings = written.text, dict[str, dsv4.Message]()
    if written.is_spelled:
        strict = dsv4.parse(text + EOS * (not text.endswith(EOS)), thinking=False, strict=True)
        readings["strictly"] = strict
        readings |= {
            f"in pieces of {n}": read(text, n) for n in (len(text), 1, chance.randint(2, 9))
        }
        readings["at once"] = dsv4.parse(text, thinking=False, tools=TOOLS)
    if ids is not None:
        readings["from ids"] = ids.read(ids.of(written), chance)
    for how, message in readings.items():
        found = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
        if (message.content, found, message.incomplete) != ("Ok.", calls, ()):
            return f"{how}: {message}\nnot {calls}"
    return None


def main() -> int:
    from fuzz_arguments import fuzz_arguments  # beside this program; tests load only its parts

    args = fuzz_arguments(__doc__)
    ids, failed = Ids(), 0
    for number in range(args.count):
        chance = random.Random(args.seed * 1_000_003 + number)
        written, calls = completion(chance, spells=chance.random() < 0.3)
        found = difference(written, calls, chance, ids)
        if found is not None:
            failed += 1
            print(f"{number}: {written.parts}\n{found}", flush=True)
            if not args.keep_going:
                return 1
    print(f"{args.count} blocks, {failed} read differently")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
