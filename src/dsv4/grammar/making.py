"""A request -> its grammar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dsv4._format.dialects import dialect_named
from dsv4.errors import refusal, short_repr
from dsv4.grammar.answers import answer
from dsv4.grammar.calls import Calls, Tool
from dsv4.grammar.cleaning import cleaned, possible
from dsv4.grammar.completion import Completion
from dsv4.grammar.derivative import after
from dsv4.grammar.ebnf import EbnfWriter
from dsv4.grammar.fields import fields_for
from dsv4.grammar.gbnf import GbnfWriter
from dsv4.grammar.lark import LarkWriter
from dsv4.grammar.markup import Markup
from dsv4.grammar.relaxed import Relaxation, Relaxations
from dsv4.grammar.rules import NEVER, Expression, Reference, Rules
from dsv4.grammar.standing import standing
from dsv4.grammar.wanted import wanted
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
    """The grammar of what a model may write after the prompt of `request`.

    What it allows parses with `strict=True`. Calls name declared tools, and their arguments fit the
    schemas but for what `relaxed` lists. It begins where the prompt ends: after a prefix, in an
    open turn, or in a block that the prompt has opened for a forced call.

    `form` is the engine's language: "xgrammar" (vLLM, SGLang), "gbnf" (llama.cpp) or "lark"
    (llguidance). With `reasoning="server"` the grammar begins after the reasoning, for servers that
    let that pass by themselves. `preamble` says whether content may stand before calls that are
    required. `order` is the order of parameters and members: "any" (for up to six, in the declared
    order beyond), or "declared". `markup_in_values` says whether a string may hold markup of calls
    other than the tag that closes it. `parallel` says whether there may be several calls. With
    `exact`, what would be relaxed is an error.

    Raises an `OptionError` with the path of what no grammar can be made for (an `EncodeError` where
    that stands in a message).
    """
    _check_option("form", form, tuple(WRITERS))
    _check_option("reasoning", reasoning, ("grammar", "server"))
    _check_option("order", order, ("any", "declared"))
    if not isinstance(request, Request):
        raise refusal(("request",), f"found {short_repr(request)}, expected a Request")
    _check_flags(
        preamble=preamble, markup_in_values=markup_in_values, parallel=parallel, exact=exact
    )
    try:
        return _made(
            *(request, form, reasoning == "server", preamble, order == "any"),
            *(markup_in_values, parallel, exact),
        )
    except RecursionError:
        problem = "found schemas that refer to each other too deeply, expected fewer steps"
        raise refusal(("tools",), problem) from None


def _made(
    request: Request,
    form: Form,
    after_reasoning: bool,
    preamble: bool,
    any_order: bool,
    markup_in_values: bool,
    parallel: bool,
    exact: bool,
) -> Grammar:
    markup = Markup.of(dialect_named(request.dialect))
    rules, relaxations = Rules(), Relaxations(exact)
    tools, forced = wanted(request)
    begins = standing(request)
    if begins.task:
        tools, forced = (), None
    if after_reasoning:
        begins = begins.without_reasoning()
    calls = Calls(markup, rules, relaxations, any_order, markup_in_values)
    completion = Completion(
        reasoning=begins.reasoning,
        answer=answer(request.response_format, rules, relaxations, any_order),
        invokes=tuple(map(calls.invoke, tools)),
        calls_required=forced is not None,
        preamble=preamble or forced is None,
        parallel=parallel,
    )
    whole = completion.expression(markup, rules)
    kept = possible(rules.bodies)
    _check_callable(tools, completion.invokes, kept)
    root, bodies = cleaned(_after(whole, begins.written, rules), rules.bodies, kept)
    if root == NEVER:
        raise refusal(("response_format",), "found a schema that no value fits")
    return Grammar(WRITERS[form](bodies).grammar(root), form, relaxations.found())


def _check_callable(
    tools: tuple[Tool, ...], invokes: tuple[Expression, ...], kept: frozenset[str]
) -> None:
    for tool, invoke in zip(tools, invokes, strict=True):
        if invoke == NEVER or (isinstance(invoke, Reference) and invoke.name not in kept):
            raise refusal((*tool.location, "parameters"), "found a schema that no arguments fit")


def _after(whole: Expression, written: str, rules: Rules) -> Expression:
    """What is left of a completion after what the prompt holds of it."""
    rest, allowed = after(whole, written, rules)
    if rest == NEVER:
        found = short_repr(written[allowed : allowed + 40])
        problem = f"found {found} at character {allowed}, expected what a completion may hold there"
        raise refusal(("prefix",), problem)
    return rest


def _check_flags(**flags: Any) -> None:
    for name, flag in flags.items():
        if flag.__class__ is not bool:
            raise refusal((name,), f"found {short_repr(flag)}, expected True or False")


def _check_option(name: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise refusal((name,), f"found {short_repr(value)}, expected one of {', '.join(known)}")
