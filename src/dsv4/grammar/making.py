"""A request -> its grammar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dsv4.encoding.tools import function_of
from dsv4.errors import shown
from dsv4.format.dialects import Dialect, dialect_named
from dsv4.grammar.calls import Calls, Tool
from dsv4.grammar.cleaning import cleaned, possible
from dsv4.grammar.completion import Completion
from dsv4.grammar.derivative import after
from dsv4.grammar.ebnf import EbnfWriter
from dsv4.grammar.fields import fields_for
from dsv4.grammar.gbnf import GbnfWriter
from dsv4.grammar.json_text import JsonText
from dsv4.grammar.lark import LarkWriter
from dsv4.grammar.markup import FORBIDDEN, Markup
from dsv4.grammar.relaxed import Relaxation, Relaxations, refusal
from dsv4.grammar.rules import NEVER, Expression, Reference, Rules
from dsv4.grammar.shapes import Document, Subschema
from dsv4.grammar.standing import standing
from dsv4.grammar.values import Values
from dsv4.grammar.writing import Writer
from dsv4.request import Request

Form: TypeAlias = Literal["xgrammar", "gbnf", "lark"]
WRITERS: dict[str, type[Writer]] = {"xgrammar": EbnfWriter, "gbnf": GbnfWriter, "lark": LarkWriter}


@dataclass(frozen=True)
class Grammar:
    """A grammar of what a model may write.

    `text` is the grammar in the language of its `form`: "xgrammar", "gbnf" or "lark". `relaxed`
    lists the keywords of schemas that it does not enforce.
    """

    text: str
    form: Form
    relaxed: tuple[Relaxation, ...] = ()

    def fields(self, server: str) -> dict[str, Any]:
        """The fields by which a server takes this grammar.

        `server` is "vllm", "sglang", "sglang-completions" or "llamacpp". Raises an error for a
        server that reads another form.
        """
        return fields_for(server, self.form, self.text)


def for_request(
    request: Request,
    form: Form = "xgrammar",
    *,
    reasoning: Literal["grammar", "server"] = "grammar",
    preamble: bool = True,
    order: Literal["any", "declared"] = "any",
    markup_in_values: bool = True,
    parallel: bool = True,
    exact: bool = False,
) -> Grammar:
    """The grammar of what a model may write after a request's prompt.

    What it allows parses with `strict=True`. Calls name declared tools, and their arguments fit the
    schemas but for what `relaxed` lists. It begins where the prompt ends: after a prefix, in an open
    turn, or in a block that the prompt has opened for a forced call.

    `form` is the engine's language: "xgrammar" (vLLM, SGLang), "gbnf" (llama.cpp) or "lark"
    (llguidance). With `reasoning="server"` the grammar begins after the reasoning, for servers that
    let that pass by themselves. `preamble` says whether content may stand before calls that are
    required. `order` is the order of parameters and members: "any" (for up to six, in the declared
    order beyond), or "declared". `markup_in_values` says whether a string may hold markup of calls
    other than the tag that closes it. `parallel` says whether there may be several calls. With
    `exact`, what would be relaxed is an error.

    Raises an `EncodeError` with the path of what no grammar can be made for.
    """
    _check_option("form", form, tuple(WRITERS))
    _check_option("reasoning", reasoning, ("grammar", "server"))
    _check_option("order", order, ("any", "declared"))
    dialect = dialect_named(request.dialect)
    markup, rules, relaxations = Markup.of(dialect), Rules(), Relaxations(exact)
    wanted = _wanted(request, dialect)
    begins = standing(request, wanted.forced, markup)
    if reasoning == "server":
        begins = begins.without_reasoning()
    calls = Calls(
        markup, rules, relaxations, any_order=order == "any", markup_in_values=markup_in_values
    )
    tools = () if begins.task else wanted.tools
    invokes = [calls.invoke(tool) for tool in tools]
    completion = Completion(
        reasoning=begins.reasoning,
        answer=_answer(request, rules, relaxations, order == "any"),
        invokes=tuple(invokes),
        calls_required=wanted.forced is not None and not begins.task,
        preamble=preamble or wanted.forced is None,
        parallel=parallel,
    )
    whole = completion.expression(markup, rules)
    kept = possible(rules.bodies)
    for tool, invoke in zip(tools, invokes, strict=True):
        if invoke == NEVER or (isinstance(invoke, Reference) and invoke.name not in kept):
            raise refusal((*tool.location, "parameters"), "found a schema that no arguments fit")
    rest, allowed = after(whole, begins.written, rules)
    if rest == NEVER:
        found = shown(begins.written[allowed : allowed + 40])
        problem = f"found {found} at character {allowed}, expected what a completion may hold there"
        raise refusal(("prefix",), problem)
    root, bodies = cleaned(rest, rules.bodies, kept)
    if root == NEVER:
        raise refusal(("response_format",), "found a schema that no value fits")
    text = WRITERS[form](bodies).grammar(root)
    return Grammar(text, form, tuple(relaxations))


def _check_option(name: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise refusal((name,), f"found {shown(value)}, expected one of {', '.join(known)}")


# Which tools may be called.


@dataclass(frozen=True)
class _Wanted:
    """The tools that may be called, and the one that must be: "" for any, None for none."""

    tools: tuple[Tool, ...]
    forced: str | None


def _wanted(request: Request, dialect: Dialect) -> _Wanted:
    choice = _chosen(request.tool_choice)
    if choice == "none":
        return _Wanted((), None)
    tools = tuple(_declared(request, dialect))
    if choice == "auto":
        return _Wanted(tools, None)
    if choice == "required":
        if not tools:
            raise refusal(("tool_choice",), "found required, expected tools to be declared")
        return _Wanted(tools, "")
    named = tuple(tool for tool in tools if tool.name == choice)
    if not named:
        known = ", ".join(tool.name for tool in tools) or "none at all"
        problem = f"found {shown(choice)}, expected a declared tool: {known}"
        raise refusal(("tool_choice",), problem)
    return _Wanted(named, choice)


def _chosen(choice: Any) -> str:
    """ "auto", "none", "required", or a name: also in OpenAI's form."""
    if isinstance(choice, Mapping):
        function = choice.get("function", choice)
        choice = function.get("name") if isinstance(function, Mapping) else None
    if choice is None:
        return "auto"
    if not isinstance(choice, str):
        expected = 'expected "auto", "none", "required" or a tool\'s name'
        raise refusal(("tool_choice",), f"found {shown(choice)}, {expected}")
    return choice


def _declared(request: Request, dialect: Dialect) -> Iterable[Tool]:
    """The tools of the request, or of its messages."""
    if request.tools is not None:
        yield from _tools(request.tools, ("tools",), dialect)
        return
    for name, messages in (("context", request.context), ("messages", request.messages)):
        for n, message in enumerate(messages or ()):
            tools = message.get("tools") if isinstance(message, Mapping) else None
            if tools and message.get("role") in ("system", "developer"):
                yield from _tools(tools, (name, n, "tools"), dialect)


def _tools(tools: Any, location: tuple[str | int, ...], dialect: Dialect) -> Iterable[Tool]:
    for n, tool in enumerate(tools):
        place = (*location, n)
        function = function_of(tool, True, f"tools[{n}]")
        inside = place if function is tool else (*place, "function")
        yield Tool(function["name"], function.get("parameters"), inside)


# What stands in place of free content.


def _answer(
    request: Request, rules: Rules, relaxations: Relaxations, any_order: bool
) -> Expression | None:
    schema, location = _response_schema(request.response_format)
    if schema is None:
        return None
    document = Document(schema, location, relaxations)
    values = Values(document, JsonText(rules, FORBIDDEN), rules, any_order)
    found = values.value((Subschema(schema, location),))
    if found == NEVER:
        raise refusal(location, "found a schema that no value fits")
    return found


def _response_schema(response_format: Any) -> tuple[Any, tuple[str | int, ...]]:
    """The schema of an answer, and where it stands. None: any text."""
    location = ("response_format",)
    if response_format is None:
        return None, location
    if not isinstance(response_format, Mapping):
        raise refusal(location, f"found {shown(response_format)}, expected a JSON schema")
    kind = response_format.get("type")
    if kind == "text":
        return None, location
    if kind == "json_object":
        return {"type": "object"}, location
    if kind != "json_schema":
        return response_format, location
    wrapper = response_format.get("json_schema")
    schema = wrapper.get("schema") if isinstance(wrapper, Mapping) else None
    location = (*location, "json_schema", "schema")
    if not isinstance(schema, Mapping):
        raise refusal(location, f"found {shown(schema)}, expected a JSON schema")
    return schema, location
