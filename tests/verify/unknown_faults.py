"""Faults that nobody listed: what a proxy might do to a request, and where that belongs."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
Text = Callable[[str], str]


@dataclass(frozen=True)
class UnknownFault:
    """A change of requests that no hypothesis knows. `groups` are those it may be reported in."""

    id: str
    change: Callable[[Body], Body]
    groups: frozenset[str]


def _messages(change: Callable[[list[Body]], list[Body]]) -> Callable[[Body], Body]:
    return lambda body: {**body, "messages": change(deepcopy(body["messages"]))}


def _texts(change: Text, *roles: str) -> Callable[[Body], Body]:
    """A change of every text of these roles, in parts too."""

    def text(content: Any) -> Any:
        if isinstance(content, str):
            return change(content)
        if isinstance(content, list):
            return [
                {**part, "text": change(part["text"])} if "text" in part else part
                for part in content
            ]
        return content

    return _messages(
        lambda given: [
            {**m, "content": text(m.get("content"))} if m["role"] in roles else m for m in given
        ]
    )


def _arguments(change: Callable[[Body], Body]) -> Callable[[Body], Body]:
    def call(given: Body) -> Body:
        function = given["function"]
        try:
            value = json.loads(function["arguments"])
        except ValueError:
            return given
        written = json.dumps(change(value), ensure_ascii=False, separators=(",", ":"))
        return {**given, "function": {**function, "arguments": written}}

    return _messages(
        lambda given: [
            {**m, "tool_calls": [call(each) for each in m["tool_calls"]]}
            if "tool_calls" in m
            else m
            for m in given
        ]
    )


def _functions(change: Callable[[Body], Body]) -> Callable[[Body], Body]:
    def changed(body: Body) -> Body:
        if not body.get("tools"):
            return body
        tools = [{**tool, "function": change(tool["function"])} for tool in body["tools"]]
        return {**body, "tools": tools}

    return changed


def _described(change: Text) -> Callable[[Body], Body]:
    def function(given: Body) -> Body:
        if "description" not in given:
            return given
        return {**given, "description": change(given["description"])}

    return _functions(function)


def _thinned(given: list[Body]) -> list[Body]:
    return [m for n, m in enumerate(given) if n % 3 != 2]


def _doubled(role: str) -> Callable[[list[Body]], list[Body]]:
    return lambda given: [
        m for each in given for m in ([each, each] if each["role"] == role else [each])
    ]


def _joined(given: list[Body]) -> list[Body]:
    made: list[Body] = []
    for m in given:
        if (
            made
            and made[-1]["role"] == m["role"] == "user"
            and isinstance(made[-1]["content"], str)
        ):
            made[-1] = {**m, "content": f"{made[-1]['content']} | {m['content']}"}
        else:
            made.append(m)
    return made


def _preamble(given: list[Body]) -> list[Body]:
    at = next((n for n, m in enumerate(given) if m["role"] == "user"), 0)
    rule = {"role": "user", "content": "Answer only what is safe and legal to answer."}
    agreed = {"role": "assistant", "content": "Understood."}
    return [*given[:at], rule, agreed, *given[at:]]


def _labelled(given: list[Body]) -> list[Body]:
    return [
        {**m, "content": f"[{m['tool_call_id']}] {m['content']}"} if m["role"] == "tool" else m
        for m in given
    ]


def _effort_in_words(body: Body) -> Body:
    if "reasoning_effort" not in body:
        return body
    told = {"role": "system", "content": f"Think with {body['reasoning_effort']} effort, please."}
    rest = {key: value for key, value in body.items() if key != "reasoning_effort"}
    return {**rest, "messages": [told, *body["messages"]]}


def _choice_in_words(body: Body) -> Body:
    if body.get("tool_choice") in (None, "auto", "none"):
        return body
    told = {"role": "user", "content": "You must call a tool in your answer, whatever it is."}
    rest = {key: value for key, value in body.items() if key != "tool_choice"}
    return {**rest, "messages": [*body["messages"], told]}


def _extra_tool(body: Body) -> Body:
    if not body.get("tools"):
        return body
    extra = {"name": "give_feedback", "description": "Say how well the tools worked."}
    return {**body, "tools": [*body["tools"], {"type": "function", "function": extra}]}


def _property_lost(function: Body) -> Body:
    properties = (function.get("parameters") or {}).get("properties") or {}
    if len(properties) < 2:
        return function
    first = dict(list(properties.items())[:1])
    return {**function, "parameters": {**function["parameters"], "properties": first}}


def _renamed(arguments: Body) -> Body:
    return {("place" if key == "city" else key): value for key, value in arguments.items()}


def _moved(value: Any) -> Any:
    return "Rome" if value == "Paris" else value


def _all(*faults: UnknownFault) -> Mapping[str, UnknownFault]:
    return {fault.id: fault for fault in faults}


def _system(id: str, change: Callable[[Body], Body]) -> UnknownFault:
    return UnknownFault(id, change, frozenset({"system"}))


def _tools(id: str, change: Callable[[Body], Body]) -> UnknownFault:
    return UnknownFault(id, change, frozenset({"tools"}))


def _history(id: str, change: Callable[[Body], Body]) -> UnknownFault:
    return UnknownFault(id, change, frozenset({"history"}))


def _content(id: str, change: Callable[[Body], Body]) -> UnknownFault:
    return UnknownFault(id, change, frozenset({"content"}))


def _everywhere(id: str, change: Callable[[Body], Body]) -> UnknownFault:
    """A change of every request: of the prompt, and of the texts that it is made of."""
    return UnknownFault(id, change, frozenset({"prompt", "content"}))


_DAY = "\nIt is Tuesday, 4 August 2026, in Berlin."

UNKNOWN_FAULTS = _all(
    _system("line-added", _texts(lambda text: text + _DAY, "system")),
    _system("system-twice", _messages(_doubled("system"))),
    _tools("descriptions-cut", _described(lambda text: text[:8])),
    _tools("descriptions-translated", _described(lambda text: f"Beschreibung: {text[::-1]}")),
    _tools("tools-prefixed", _functions(lambda f: {**f, "name": f"functions_{f['name']}"})),
    _tools("tool-added", _extra_tool),
    _tools("properties-lost", _functions(_property_lost)),
    _tools("choice-in-words", _choice_in_words),
    UnknownFault("effort-in-words", _effort_in_words, frozenset({"effort"})),
    _history("every-third-message-lost", _messages(_thinned)),
    _history("results-wrapped", _texts(lambda text: json.dumps({"output": text}), "tool")),
    _history("results-labelled", _messages(_labelled)),
    _history("answers-signed", _texts(lambda text: f"{text} -- the assistant", "assistant")),
    _history("argument-keys-shouted", _arguments(lambda a: {k.upper(): v for k, v in a.items()})),
    _history("argument-added", _arguments(lambda a: {**a, "session_id": "a81bc81b"})),
    _content("users-joined", _messages(_joined)),
    _content("digits-spelled", _texts(lambda text: text.replace("3", "three "), "user")),
    _content("code-fenced", _texts(lambda text: text.replace("def ", "```\ndef "), "user")),
    _content("ascii-only", _texts(lambda text: text.encode("ascii", "ignore").decode(), "user")),
    _everywhere("user-named", _texts(lambda text: f"alice: {text}", "user")),
    _everywhere("user-ends-in-newline", _texts(lambda text: f"{text}\n", "user")),
    _everywhere("preamble", _messages(_preamble)),
)

# Counts do not show these: names and values of as many tokens. Prompts do.
UNCOUNTED_FAULTS = _all(
    _history("argument-renamed", _arguments(_renamed)),
    _history("values-as-texts", _arguments(lambda a: {k: str(v) for k, v in a.items()})),
    _history("arguments-sorted", _arguments(lambda a: dict(sorted(a.items(), reverse=True)))),
    _history("cities-moved", _arguments(lambda a: {k: _moved(v) for k, v in a.items()})),
)


def _cut(most: int) -> Text:
    return lambda text: text[:most]


def _without_repeats(given: list[Body]) -> list[Body]:
    return [m for n, m in enumerate(given) if m not in given[:n]]


def _without_neighbours(given: list[Body]) -> list[Body]:
    return [m for n, m in enumerate(given) if not n or m != given[n - 1]]


def _first_tools(count: int) -> Callable[[Body], Body]:
    return lambda body: {**body, "tools": body["tools"][:count]} if body.get("tools") else body


def _schemas(change: Callable[[Body], Body]) -> Callable[[Body], Body]:
    """A change of the schema of every property of every tool."""

    def function(given: Body) -> Body:
        parameters = given.get("parameters") or {}
        own = {
            name: change(schema) for name, schema in (parameters.get("properties") or {}).items()
        }
        return {**given, "parameters": {**parameters, "properties": own}} if own else given

    return _functions(function)


def _without(key: str) -> Callable[[Body], Body]:
    return lambda given: {k: v for k, v in given.items() if k != key}


def _texts_only(given: Body) -> Body:
    return {key: value for key, value in given.items() if isinstance(value, str)}


def _all_schemas(change: Callable[[Body], Body]) -> Callable[[Body], Body]:
    """A change of every object in the parameters of every tool."""

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(each) for each in value]
        return change({k: walk(v) for k, v in value.items()}) if isinstance(value, dict) else value

    return _functions(
        lambda given: (
            {**given, "parameters": walk(given["parameters"])} if given.get("parameters") else given
        )
    )


def _without_references(body: Body) -> Body:
    """References are replaced by what they refer to."""

    def function(given: Body) -> Body:
        own = deepcopy(given.get("parameters") or {})
        definitions = own.pop("$defs", {})

        def walk(value: Any) -> Any:
            if isinstance(value, list):
                return [walk(each) for each in value]
            if not isinstance(value, dict):
                return value
            if "$ref" in value:
                return walk(definitions[value["$ref"].rpartition("/")[2]])
            return {k: walk(v) for k, v in value.items()}

        return {**given, "parameters": walk(own)} if definitions else given

    return _functions(function)(body)


def _closed(given: Body) -> Body:
    return {**given, "additionalProperties": False} if given.get("type") == "object" else given


def _last(count: int) -> Callable[[list[Body]], list[Body]]:
    """The last so many messages, behind the system messages; a result keeps its call."""

    def change(given: list[Body]) -> list[Body]:
        systems = [m for m in given if m["role"] == "system"]
        rest = [m for m in given if m["role"] != "system"]
        while count < len(rest) and rest[-count]["role"] == "tool":
            rest = rest[:-1]
        return [*systems, *rest[-count:]]

    return change


def _systems_as_users(given: list[Body]) -> list[Body]:
    """Each system text stands before the next user's."""
    made: list[Body] = []
    held: list[str] = []
    for m in given:
        if m["role"] == "system" and isinstance(m["content"], str):
            held.append(m["content"])
        elif m["role"] == "user" and held and isinstance(m["content"], str):
            made.append({**m, "content": "\n\n".join([*held, m["content"]])})
            held = []
        else:
            made.append(m)
    return [*made, *({"role": "user", "content": text} for text in held)]


def _one_system(at: int) -> Callable[[list[Body]], list[Body]]:
    """The first system message alone, or the last."""

    def change(given: list[Body]) -> list[Body]:
        systems = [m for m in given if m["role"] == "system"]
        return [m for m in given if m["role"] != "system" or m is systems[at]]

    return change


def _one_part(at: int) -> Callable[[list[Body]], list[Body]]:
    """The part at an index alone."""
    return lambda given: [
        {**m, "content": [m["content"][at]]} if isinstance(m.get("content"), list) else m
        for m in given
    ]


def _values_kept(arguments: Body) -> Body:
    return {key: value for key, value in arguments.items() if value not in (None, "", [])}


def _typed(change: Callable[[Body], Body]) -> Callable[[Body], Body]:
    """A change of every schema of a plain type."""
    return _schemas(lambda given: change(given) if isinstance(given.get("type"), str) else given)


def _replacing(pattern: str, by: str = "") -> Callable[[Body], Body]:
    return _texts(lambda text: re.sub(pattern, by, text), "user")


def _normal(form: Any) -> Callable[[Body], Body]:
    return _texts(lambda text: unicodedata.normalize(form, text), "user", "system")


# What only long, many or repeated things show, by the request that has all of them.
CROWDED_FAULTS = _all(
    *(_system(f"systems-cut-at-{n}", _texts(_cut(n), "system")) for n in (500, 1000, 2000, 4000)),
    *(_tools(f"tools-cut-at-{n}", _first_tools(n)) for n in (8, 16, 20)),
    *(_tools(f"descriptions-cut-at-{n}", _described(_cut(n))) for n in (256, 500, 1024)),
    _tools("enums-lost", _schemas(_without("enum"))),
    _tools("defaults-lost", _schemas(_without("default"))),
    _tools("names-lowered", _functions(lambda f: {**f, "name": f["name"].lower()})),
    _history("repeats-lost", _messages(_without_repeats)),
    _history("neighbours-lost", _messages(_without_neighbours)),
    _history("values-lost", _arguments(_texts_only)),
)

# The same request shows these, some by as many tokens as others.
CLEANED_FAULTS = _all(
    *(
        _tools(f"{key}-lost", _all_schemas(_without(key)))
        for key in ("title", "minimum", "format", "pattern", "examples", "required", "anyOf")
    ),
    _tools("references-inlined", _without_references),
    _tools("objects-closed", _all_schemas(_closed)),
    *(_history(f"last-{n}-messages", _messages(_last(n))) for n in (4, 6, 10, 20)),
    _system("systems-as-users", _messages(_systems_as_users)),
    _system("systems-lowered", _texts(str.lower, "system")),
    _system("systems-on-one-line", _texts(lambda text: " ".join(text.split()), "system")),
    _system("systems-to-full-stop", _texts(lambda text: text.partition(".")[0], "system")),
    _system("first-system-only", _messages(_one_system(0))),
    _system("last-system-only", _messages(_one_system(-1))),
    _tools("descriptions-lowered", _described(str.lower)),
    _tools("descriptions-to-full-stop", _described(lambda text: text.partition(". ")[0])),
    _tools("descriptions-without-dots", _described(lambda text: text.rstrip("."))),
    _tools("types-with-null", _typed(lambda given: {**given, "type": [given["type"], "null"]})),
    _tools("types-nullable", _typed(lambda given: {**given, "nullable": True})),
    _tools("types-shouted", _typed(lambda given: {**given, "type": given["type"].upper()})),
    _tools(
        "choices-cut",
        _schemas(lambda given: {**given, "enum": given["enum"][:2]} if "enum" in given else given),
    ),
    _history("empty-arguments-lost", _arguments(_values_kept)),
    _history("results-cut-at-1000", _texts(_cut(1000), "tool")),
    _history(
        "results-in-ascii", _texts(lambda text: text.encode("ascii", "ignore").decode(), "tool")
    ),
    _content("last-part-only", _messages(_one_part(-1))),
    _content("texts-composed", _normal("NFC")),
    _content("texts-compatible", _normal("NFKC")),
    *(
        _content(f"{name}-cleaned", _replacing(pattern, by))
        for name, pattern, by in (
            *(("emoji", "[\U0001f300-\U0001faff]", ""), ("zero-width", "\u200b", "")),
            *(("tabs", "\t", "    "), ("returns", "\r\n", "\n"), ("blanks", " {2,}", " ")),
            *(("lines", "\n{3,}", "\n\n"), ("tags", "</?[a-z]+>", ""), ("stars", r"\*\*", "")),
            *(("quotes", "\u2019", "'"), ("brackets", "<", "&lt;")),
            *(("mail", r"\S+@\S+", "[EMAIL]"), ("links", r"https?://\S+", "[URL]")),
            *(("phones", r"\+\d[\d ]+\d", "[PHONE]"), ("marks", "[\u0300-\u036f]", "")),
            *(("dashes", "--", "\u2014"), ("han", "[\u4e00-\u9fff]", ""), ("ids", r"\d{9,}", "#")),
        )
    ),
)
