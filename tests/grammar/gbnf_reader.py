"""A reader of GBNF, written from its description: reads a grammar, and says what it allows.

It is as strict as llama.cpp: names of letters, digits and hyphens, no repetition above 2,000, no
rule that begins with itself, and only the escapes that are there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

MOST_REPEATED = 2000
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]"}
_CODES = {"x": 2, "u": 4, "U": 8}
# Tokens by their ids, as the texts that they are: this reader is given text.
_TOKEN = re.compile(r"<\[(\d+)\]>")
_TOKENS = {"128821": "<think>", "128822": "</think>", "128825": "｜DSML｜"}


@dataclass(frozen=True)
class Set:
    ranges: tuple[tuple[str, str], ...]
    negated: bool

    def has(self, character: str) -> bool:
        return any(a <= character <= b for a, b in self.ranges) != self.negated


class GbnfError(ValueError):
    pass


class Gbnf:
    """A grammar. A rule is a list of alternatives, an alternative a tuple of names and sets."""

    def __init__(self, text: str, dsml: str = _TOKENS["128825"]) -> None:
        self.text = text
        self.tokens = {**_TOKENS, "128825": dsml}
        self.at = 0
        self.rules: dict[str, list[tuple[Any, ...]]] = {}
        self.fresh = 0
        self.space(True)
        while self.at < len(text):
            self.rule()
        missing = {s for ways in self.rules.values() for w in ways for s in w if isinstance(s, str)}
        if not missing <= self.rules.keys() or "root" not in self.rules:
            raise GbnfError(f"undefined: {sorted(missing - self.rules.keys())}")
        self.check_left_recursion()

    # Reading.

    def fail(self, what: str) -> GbnfError:
        return GbnfError(f"{what} at {self.at}: {self.text[self.at : self.at + 30]!r}")

    def space(self, lines: bool) -> None:
        pattern = r"(?:[ \t]|\r?\n|#[^\n]*)*" if lines else r"(?:[ \t])*"
        self.at = re.compile(pattern).match(self.text, self.at).end()  # type: ignore[union-attr]

    def take(self, text: str) -> bool:
        found = self.text.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def name(self) -> str:
        found = _NAME.match(self.text, self.at)
        if not found:
            raise self.fail("no name")
        self.at = found.end()
        return found.group()

    def rule(self) -> None:
        name = self.name()
        self.space(False)
        if not self.take("::="):
            raise self.fail("no ::=")
        self.space(True)
        if name in self.rules:
            raise GbnfError(f"{name} is defined twice")
        self.rules[name] = []
        self.rules[name] = self.alternatives(nested=False)
        if self.at < len(self.text) and not re.compile(r"\r?\n").match(self.text, self.at):
            raise self.fail("no end of line")
        self.space(True)

    def alternatives(self, nested: bool) -> list[tuple[Any, ...]]:
        ways = [self.sequence(nested)]
        while self.take("|"):
            self.space(True)
            ways.append(self.sequence(nested))
        return ways

    def sequence(self, nested: bool) -> tuple[Any, ...]:
        parts: list[Any] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)\r\n":
            symbols = self.symbol()
            self.space(nested)
            symbols = self.repeated(symbols, nested)
            parts += symbols
        return tuple(parts)

    def symbol(self) -> tuple[Any, ...]:
        if self.take('"'):
            made = []
            while not self.take('"'):
                character = self.character()
                made.append(Set(((character, character),), False))
            return tuple(made)
        if self.take("["):
            return (self.set(),)
        if token := _TOKEN.match(self.text, self.at):
            self.at = token.end()
            return tuple(Set(((c, c),), False) for c in self.tokens[token.group(1)])
        if self.take("("):
            self.space(True)
            ways = self.alternatives(nested=True)
            if not self.take(")"):
                raise self.fail("no )")
            return (self.new(ways),)
        return (self.name(),)

    def set(self) -> Set:
        negated = self.take("^")
        ranges = []
        while not self.take("]"):
            first = last = self.character()
            if self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1] != "]":
                self.at += 1
                last = self.character()
            if last < first:
                raise self.fail("a range upside down")
            ranges.append((first, last))
        return Set(tuple(ranges), negated)

    def character(self) -> str:
        if self.at >= len(self.text):
            raise self.fail("the end")
        character = self.text[self.at]
        self.at += 1
        if character != "\\":
            return character
        kind = self.text[self.at]
        self.at += 1
        if kind in _CODES:
            digits = self.text[self.at : self.at + _CODES[kind]]
            if not re.fullmatch(r"[0-9a-fA-F]+", digits) or len(digits) != _CODES[kind]:
                raise self.fail("a bad code")
            self.at += len(digits)
            return chr(int(digits, 16))
        if kind not in _ESCAPES:
            raise self.fail(f"unknown escape {kind}")
        return _ESCAPES[kind]

    def repeated(self, symbols: tuple[Any, ...], nested: bool) -> tuple[Any, ...]:
        found = re.compile(r"\*|\+|\?|\{(\d+)(,?)(\d*)\}").match(self.text, self.at)
        if not found:
            return symbols
        self.at = found.end()
        self.space(nested)
        sign = found.group()[0]
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (0, 0))
        if sign == "{":
            least = int(found[1])
            most = (int(found[3]) if found[3] else None) if found[2] else least
        if max(least, most or 0) > MOST_REPEATED:
            raise self.fail("too many repetitions")
        if most is None:
            loop = f"loop {self.fresh}"
            self.fresh += 1
            self.rules[loop] = [(*symbols, loop), ()]
            return (*(symbols * least), loop)
        rest: tuple[Any, ...] = ()
        for _ in range(most - least):
            rest = (self.new([(*symbols, *rest), ()]),)
        return (*(symbols * least), *rest)

    def new(self, ways: list[tuple[Any, ...]]) -> str:
        name = f"part {self.fresh}"
        self.fresh += 1
        self.rules[name] = ways
        return name

    def check_left_recursion(self) -> None:
        empty: set[str] = set()
        while True:
            more = {
                name
                for name, ways in self.rules.items()
                if name not in empty and any(all(s in empty for s in way) for way in ways)
            }
            if not more:
                break
            empty |= more
        begins: dict[str, set[str]] = {}
        for name, ways in self.rules.items():
            found = begins.setdefault(name, set())
            for way in ways:
                for symbol in way:
                    if not isinstance(symbol, str):
                        break
                    found.add(symbol)
                    if symbol not in empty:
                        break
        done: set[str] = set()
        for start in self.rules:
            if start in done:
                continue
            path, stack = [start], [iter(begins[start])]
            on_path = {start}
            while stack:
                following = next(stack[-1], None)
                if following is None:
                    stack.pop()
                    left = path.pop()
                    on_path.discard(left)
                    done.add(left)
                elif following in on_path:
                    raise GbnfError(f"left recursion of {following}")
                elif following not in done:
                    path.append(following)
                    on_path.add(following)
                    stack.append(iter(begins[following]))

    # Matching: every stack of symbols that may still come, as llama.cpp keeps them.

    def start(self) -> set[Any]:
        return self.expanded({("root", None)})

    def expanded(self, stacks: set[Any]) -> set[Any]:
        """Stacks whose top is a set, or that are empty."""
        found, waiting, seen = set(), list(stacks), set(stacks)
        while waiting:
            stack = waiting.pop()
            if stack is None or not isinstance(stack[0], str):
                found.add(stack)
                continue
            symbol, below = stack
            for way in self.rules[symbol]:
                made = below
                for part in reversed(way):
                    made = (part, made)
                if made not in seen:
                    seen.add(made)
                    waiting.append(made)
        return found

    def after(self, stacks: set[Any], character: str) -> set[Any]:
        moved = {s[1] for s in stacks if s is not None and s[0].has(character)}
        return self.expanded(moved)

    def accepts(self, text: str) -> bool:
        stacks = self.start()
        for character in text:
            stacks = self.after(stacks, character)
            if not stacks:
                return False
        return None in stacks
