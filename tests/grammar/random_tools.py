"""Random tools, and arguments that fit them: the other side of what a grammar must allow."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

NAMES = (
    "path",
    "q",
    "count",
    "mode",
    "x",
    "y_2",
    "limit",
    "with space",
    "日本",
    "a-b",
    "items",
    "to",
)
WORDS = (
    "",
    "a",
    "fast",
    "hello world",
    "naïve ☃",
    "日本語のテキスト",
    "line\nbreak\n",
    'quo"te',
    "\\",
    "\t",
)
# What is close to markup, and is none.
MARKUP_LIKE = (
    "<",
    "</",
    "<think",
    "｜",
    "DSML",
    "｜DSML",
    "/｜",
    "</parameter>",
    "<b>x</b>",
    "a < b && c > d",
)
# A pattern, and texts in which it is found.
PATTERNS = (
    (r"^[a-z]+$", ("a", "hello")),
    (r"^\d{4}-\d{2}-\d{2}$", ("2026-11-15", "0000-99-00")),
    (r"^(GET|POST)$", ("GET", "POST")),
    (r"^#[0-9a-fA-F]{6}$", ("#00ffAA",)),
    (r"^[^\s@]+@[^\s@]+\.[a-z]{2,4}$", ("a@b.de", "ünï@日本.com")),
    (r"^v?\d+(\.\d+)*$", ("1", "v1.20.3")),
    (r"foo", ("foo", "a foo b\nc")),
    (r"^/[\w./-]*$", ("/", "/usr/lib.so/x-1")),
    (r'^"[^"]*"$', ('""', '"a b"')),
    (r"^a|b$", ("abc", "xyb", "a")),
)


@dataclass(frozen=True)
class Made:
    """A schema, and a value that fits it."""

    schema: dict[str, Any]
    value: Any


class Maker:
    """Makes schemas with values, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.defs: dict[str, Any] = {}

    # Schemas.

    def any(self, depth: int) -> Made:
        leaves = [self.string] * 3 + [
            self.integer,
            self.number,
            self.boolean,
            self.enum,
            self.const,
        ]
        inner = [self.array, self.object, self.any_of, self.all_of, self.ref, self.types, self.map]
        kinds = leaves if depth <= 0 else leaves + inner
        made = self.random.choice(kinds)(depth - 1)
        if self.random.random() < 0.2:
            made.schema["description"] = "Some words."
        return made

    def text(self) -> str:
        parts = self.random.choices(WORDS + MARKUP_LIKE, k=self.random.randint(0, 3))
        text = "".join(parts)
        return text if "｜DSML｜" not in text else self.text()

    def string(self, depth: int) -> Made:
        kind = self.random.randrange(8)
        if kind == 0:
            pattern, texts = self.random.choice(PATTERNS)
            return Made({"type": "string", "pattern": pattern}, self.random.choice(texts))
        if kind == 1:
            return Made({"type": "string", "minLength": 1}, self.random.choice(WORDS[1:]))
        if kind == 2:
            return Made({"type": "string", "format": "date"}, "2026-11-15")
        if kind == 3:
            return Made({"type": "string", "minLength": 2, "maxLength": 30}, "between")
        return Made({"type": "string"}, self.text())

    def integer(self, depth: int) -> Made:
        value = self.random.choice(
            [0, 1, -1, 7, 10, 99, 100, 12345, -(10**12), self.random.randint(-300, 300)]
        )
        schema: dict[str, Any] = {"type": "integer"}
        if self.random.random() < 0.6:
            schema["minimum"] = value - self.random.choice([0, 1, 5, 99, 1000])
        if self.random.random() < 0.6:
            schema["maximum"] = value + self.random.choice([0, 1, 5, 99, 1000])
        if self.random.random() < 0.1:
            schema["exclusiveMinimum"] = value - 1
        return Made(schema, value)

    def number(self, depth: int) -> Made:
        value = self.random.choice([0, 1, -2.5, 1e-7, 1e16, 3.14, -1e300, 12])
        schema: dict[str, Any] = {"type": "number"}
        if self.random.random() < 0.3:
            schema["minimum"] = min(value, 0)
        return Made(schema, value)

    def boolean(self, depth: int) -> Made:
        return Made({"type": "boolean"}, self.random.random() < 0.5)

    def enum(self, depth: int) -> Made:
        texts = ["a", "ab", "b c", "日", "", "true", "1", "x\ny"]
        others = [1, True, None, 2.5, {"k": [1]}, [], "<think"]
        values = self.random.sample(texts, 3) + self.random.sample(
            others, self.random.randint(0, 2)
        )
        schema: dict[str, Any] = {"enum": values}
        return Made(schema, self.random.choice(values))

    def const(self, depth: int) -> Made:
        value = self.random.choice(["only", 5, None, {"a": "b"}, "</"])
        return Made({"const": value}, value)

    def types(self, depth: int) -> Made:
        kinds = self.random.sample(["string", "null", "integer", "boolean"], 2)
        values = {"string": self.text(), "null": None, "integer": 12, "boolean": False}
        return Made({"type": kinds}, values[self.random.choice(kinds)])

    def array(self, depth: int) -> Made:
        if self.random.random() < 0.15:
            items = [self.any(depth) for _ in range(2)]
            schema = {"type": "array", "prefixItems": [m.schema for m in items], "items": False}
            count = self.random.randint(0, 2)
            return Made(schema, [m.value for m in items][:count])
        item = self.any(depth)
        count = self.random.randint(0, 3)
        schema = {"type": "array", "items": item.schema}
        if self.random.random() < 0.4:
            schema["minItems"] = self.random.randint(0, count)
        if self.random.random() < 0.4:
            schema["maxItems"] = count + self.random.randint(0, 3)
        return Made(schema, [item.value] * count)

    def map(self, depth: int) -> Made:
        item = self.any(depth)
        schema = {"type": "object", "additionalProperties": item.schema}
        return Made(schema, dict.fromkeys(self.random.sample(NAMES, 2), item.value))

    def object(self, depth: int, most: int = 4) -> Made:
        names = self.random.sample(NAMES, self.random.randint(0, most))
        members = {name: self.any(depth) for name in names}
        required = [name for name in names if self.random.random() < 0.5]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: made.schema for name, made in members.items()},
        }
        if required:
            schema["required"] = required
        if self.random.random() < 0.3:
            schema["additionalProperties"] = False
        given = [name for name in names if name in required or self.random.random() < 0.5]
        if len(names) <= 6:
            self.random.shuffle(given)
        value = {name: members[name].value for name in given}
        if self.random.random() < 0.1:
            schema["additionalProperties"] = {"type": "integer"}
            value["extra"] = 3
        return Made(schema, value)

    def any_of(self, depth: int) -> Made:
        options = [self.any(depth) for _ in range(self.random.randint(1, 3))]
        return Made({"anyOf": [m.schema for m in options]}, self.random.choice(options).value)

    def all_of(self, depth: int) -> Made:
        low, high = self.integer(0), {"maximum": 10**6}
        if low.value > 10**6:
            return low
        if self.random.random() < 0.5:
            return Made({"allOf": [low.schema, high]}, low.value)
        one, other = self.any(0), self.any(0)
        parts = [
            {"type": "object", "properties": {"one": one.schema}, "required": ["one"]},
            {"properties": {"other": other.schema}},
        ]
        return Made({"allOf": parts}, {"other": other.value, "one": one.value})

    def ref(self, depth: int) -> Made:
        if self.random.random() < 0.3:
            self.defs["tree"] = {
                "type": "object",
                "properties": {
                    "v": {"type": "integer"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
                "required": ["v"],
            }
            return Made(
                {"$ref": "#/$defs/tree"}, {"v": 1, "kids": [{"v": 2}, {"kids": [], "v": 3}]}
            )
        made = self.any(depth)
        name = f"d{len(self.defs)}"
        self.defs[name] = made.schema
        return Made({"$ref": f"#/$defs/{name}"}, made.value)

    # Tools.

    def tool(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """A tool, and arguments for it."""
        self.defs = {}
        made = self.object(depth=2, most=self.random.choice([0, 2, 5, 9]))
        if self.defs:
            made.schema["$defs"] = self.defs
        function = {"name": name, "parameters": made.schema}
        tool = (
            {"type": "function", "function": function} if self.random.random() < 0.8 else function
        )
        return tool, made.value
