"""Conversations at random for the tests of decoding: plain and exotic ones, with spelled tokens."""

from __future__ import annotations

import json
import random
from typing import Any

import dsv4
from dsv4._format import tokens

WORDS = (
    *("alpha", "beta", "天气", "{curly}", "1e9", "<b>x</b>", "\n", "\n\n", "🚀", "a\r\nb", "|", ""),
    *("<tool_result>", "</tool_result>", "$PARAMETER_VALUE", "</div>", "'\"", "think"),
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n{}",
)
KEYS = ("a", "b c", "ключ", "x-y")
NUMBERS = (1, -7, 0.1, 1e-7, True, False, None, 2**70, 1e22)
TASKS = ("action", "query", "authority", "domain", "read_url")


class Conversation:
    """A conversation of a dialect. An exotic one has all that the format can write."""

    def __init__(self, seed: int, dialect: str, exotic: bool = False) -> None:
        self._dice = random.Random(seed)
        self._dialect = dsv4.DIALECTS[dialect]
        self._exotic = exotic
        self.messages: list[dict[str, Any]] = []
        self._make()
        self.options = self._options()

    def encode(self) -> dsv4.Prompt:
        return dsv4.encode(self.messages, **self.options)

    def spell(self) -> bool:
        """Puts a special token into the text of a user, if there is one."""
        texts = [m for m in self.messages if m["role"] == "user" and isinstance(m["content"], str)]
        if not texts:
            return False
        spellable = [t for t in self._dialect.special_tokens if t is not tokens.IMAGE]
        message = self._dice.choice(texts)
        text = message["content"]
        place = self._dice.randint(0, len(text))
        spelling = str(self._dice.choice(spellable))
        message["content"] = text[:place] + spelling + text[place:]
        return True

    def _chance(self, probability: float) -> bool:
        return self._dice.random() < probability

    def _rarely(self, probability: float) -> bool:
        return self._exotic and self._chance(probability)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "dialect": self._dialect.name,
            "thinking": self._chance(0.7),
            "drop_thinking": self._chance(0.7),
            "bos": self._chance(0.9),
        }
        if self._chance(0.4):
            options["effort"] = self._dice.choice(list(self._dialect.efforts))
        return options

    def _make(self) -> None:
        if self._chance(0.6):
            self._system(tools=0.5, format=0.2)
        for _ in range(self._dice.randint(1, 5)):
            self._round()
        if self._chance(0.5):
            self.messages.append({"role": "user", "content": self._content()})
        if not self.messages:
            self.messages.append({"role": "user", "content": self._text()})

    def _round(self) -> None:
        if self._rarely(0.15) and self._has("latest_reminder"):
            self.messages.append({"role": "latest_reminder", "content": self._text()})
        if self._rarely(0.12):
            self._system(tools=0.2, format=0)
        if self._rarely(0.15) and self._has("developer"):
            self.messages.append({"role": "developer", "content": self._text() or "d"})
            self._extras(tools=0.3, format=0.2)
        else:
            for _ in range(self._dice.choice((0, 1, 1, 2, 3) if self._exotic else (1, 1, 1, 2))):
                self.messages.append({"role": "user", "content": self._content()})
                self._maybe_task(*TASKS)
        if self._rarely(0.1) and self._has("latest_reminder"):
            self.messages.append({"role": "latest_reminder", "content": self._text()})
        if self._chance(0.85):
            self._answer()

    def _has(self, role: str) -> bool:
        return role in self._dialect.roles

    def _maybe_task(self, *tasks: str) -> None:
        if self._rarely(0.1) and self._dialect.layout == "v4":
            self.messages[-1]["task"] = self._dice.choice(tasks)

    def _system(self, tools: float, format: float) -> None:
        self.messages.append({"role": "system", "content": self._text()})
        self._extras(tools, format)

    def _extras(self, tools: float, format: float) -> None:
        if self._chance(tools):
            listed = [self._tool() for _ in range(self._dice.randint(1, 3))]
            self.messages[-1]["tools"] = listed
        if self._chance(format):
            self.messages[-1]["response_format"] = {"type": "object", "properties": self._object()}

    def _tool(self) -> dict[str, Any]:
        parameters = {"type": "object", "properties": self._object()}
        name = self._dice.choice(("f", "g", "get_weather"))
        function = {"name": name, "description": self._text(), "parameters": parameters}
        return {"type": "function", "function": function}

    def _answer(self) -> None:
        answer: dict[str, Any] = {"role": "assistant", "content": self._text(empty=0.3)}
        self.messages.append(answer)
        if self._chance(0.6) or self._dialect.layout == "v3.2":
            answer["reasoning_content"] = self._text() or "r"
        if self._rarely(0.1) and self._dialect.layout == "v4":
            answer["wo_eos"] = True
        self._maybe_task("title")
        if self._chance(0.35):
            self._calls(answer)

    def _calls(self, answer: dict[str, Any]) -> None:
        answer["tool_calls"] = [self._call(n) for n in range(self._dice.randint(1, 3))]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": self._text()}
            for call in answer["tool_calls"]
        ]
        if self._dialect.image_token is not None and self._chance(0.2):
            results[0]["content"] = [{"type": "text", "text": self._text()}, _image()]
        self._dice.shuffle(results)
        self.messages += results[1:] if self._rarely(0.2) else results
        if self._chance(0.7):
            content, reasoning = self._text(), self._text() or "r"
            self.messages.append(
                {"role": "assistant", "content": content, "reasoning_content": reasoning}
            )

    def _call(self, number: int) -> dict[str, Any]:
        arguments = json.dumps(self._object(), ensure_ascii=False)
        function = {"name": self._dice.choice(("f", "g", "run")), "arguments": arguments}
        return {"id": f"{self._dice.random()}_{number}", "type": "function", "function": function}

    def _text(self, empty: float = 0.1) -> str:
        if self._chance(empty):
            return ""
        return " ".join(self._dice.choice(WORDS) for _ in range(self._dice.randint(1, 6)))

    def _content(self) -> Any:
        if self._dialect.image_token is None or not self._chance(0.3):
            return self._text()
        return [
            _image() if self._chance(0.5) else {"type": "text", "text": self._text()}
            for _ in range(self._dice.randint(0, 4))
        ]

    def _object(self) -> dict[str, Any]:
        return {self._dice.choice(KEYS): self._value() for _ in range(self._dice.randint(0, 3))}

    def _value(self, depth: int = 0) -> Any:
        kind = self._dice.randrange(5)
        if kind < 2 or depth > 2:
            return self._text()
        if kind == 2:
            return self._dice.choice(NUMBERS)
        if kind == 3:
            return [self._value(depth + 1) for _ in range(self._dice.randint(0, 3))]
        return {self._dice.choice(KEYS): self._value(depth + 1) for _ in range(2)}


def _image() -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": "u"}}
