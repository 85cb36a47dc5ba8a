"""A request -> the grammar of the completions that the model may write: callable tools, the
response format, the end of the prompt, and the fields in which servers take a grammar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from dsv4._encode.encode import chosen_tool, maybe_response_schema, read_tool_choice, visible_tools
from dsv4._encode.tools import function_location, function_of, qualified_function
from dsv4._format.dialects import DEFAULT, dialect_named
from dsv4.errors import Location, mismatch, refusal, short_repr
from dsv4.grammar import completion_rules
from dsv4.grammar import expressions as ex
from dsv4.grammar.automaton import rest_after
from dsv4.grammar.ebnf_writer import EbnfWriter
from dsv4.grammar.expressions import Expression, Rules
from dsv4.grammar.grammar_writers import GbnfWriter, GrammarWriter, LarkWriter
from dsv4.grammar.json_rules import JsonRules
from dsv4.grammar.schema_shapes import Relaxation, Relaxations, SchemaDocument, Subschema
from dsv4.grammar.value_rules import ValueRules
from dsv4.request import Request

# The response format, which replaces free content.


def answer_rules(
    response_format: object,
    rules: Rules,
    relaxations: Relaxations,
    any_order: bool,
    forbidden: tuple[str, ...],
) -> Expression | None:
    """The values that the format allows, without `forbidden` tokens; None for any text."""
    located = maybe_response_schema(response_format)
    if located is None:
        return None
    schema, location = located
    document = SchemaDocument(schema, location, relaxations)
    values = ValueRules(document, JsonRules(rules, forbidden), rules, any_order)
    rule = values.value((Subschema(schema, location),))
    if rule == ex.NEVER:
        raise refusal(location, "found a schema that no value fits")
    return rule


# The tools that may be called, and whether one must be.


class AllowedTools(NamedTuple):
    """The tools that may be called, and the one that must be: "" for any, None for none."""

    tools: tuple[completion_rules.GrammarTool, ...]
    forced: str | None


def allowed_tools(request: Request) -> AllowedTools:
    """The tools that the request's choice allows."""
    mode, tool = read_tool_choice(request.tool_choice)
    if mode == "none":
        return AllowedTools((), None)
    tools = tuple(_declared(request))
    if mode == "auto":
        return AllowedTools(tools, None)
    own, before, messages = _lists_in(request)
    name = chosen_tool(tool, own, before, messages, dialect_named(request.dialect))
    if name is None:
        return AllowedTools(tools, "")
    return AllowedTools(tuple(tool for tool in tools if tool.name == name), name)


def _lists_in(request: Request) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Tools, context and messages."""
    own = () if request.tools is None else list(request.tools)
    return own, () if request.context is None else list(request.context), list(request.messages)


def _declared(request: Request) -> Iterator[completion_rules.GrammarTool]:
    """The tools that the prompt shows."""
    end = dialect_named(request.dialect).namespace_end
    own, before, messages = _lists_in(request)
    placed = ((("tools", n), tool) for n, tool in enumerate(own))
    for location, tool in (*placed, *visible_tools(before, messages)):
        fields, function = function_of(tool, True, location)
        inside = function_location(fields, function, location)
        if end:
            function = qualified_function(fields, function, location, end)
        yield completion_rules.GrammarTool(function["name"], _parameters(function, inside), inside)


def _parameters(function: Mapping[str, Any], location: Location) -> object:
    """The schema of a tool. One under another name is refused: the prompt would show it, but the
    grammar would not allow its parameters."""
    parameters = function.get("parameters")
    for name, value in function.items() if parameters is None else ():
        if isinstance(value, Mapping) and ("properties" in value or value.get("type") == "object"):
            problem = f"found a schema under {short_repr(name)}, expected it under 'parameters'"
            raise refusal((*location, name), problem)
    return parameters


# The start of a completion, of which the prompt may already hold a part.


class CompletionStart(NamedTuple):
    """The state of a completion at the end of the prompt; `written` is its part in the prompt.

    `reasoning` says whether it begins with reasoning; `task` whether it is the output of a
    quick-instruction task, which has neither reasoning nor calls.
    """

    reasoning: bool
    written: str
    task: bool = False


def completion_start(request: Request, after_reasoning: bool) -> CompletionStart:
    """The start of the completion after the request's prompt, or after the reasoning."""
    ending = request.encode().ending
    if ending.kind == "task":
        return CompletionStart(False, "", task=True)
    if ending.thinking and after_reasoning:
        reasoning_end = dialect_named(request.dialect).tokens.think_end
        return CompletionStart(False, ending.open.partition(reasoning_end)[2])
    return CompletionStart(ending.thinking, ending.open)


# The grammar.


GrammarForm: TypeAlias = Literal["xgrammar", "gbnf", "lark"]
GRAMMAR_WRITERS: dict[str, type[GrammarWriter]] = {
    "xgrammar": EbnfWriter,
    "gbnf": GbnfWriter,
    "lark": LarkWriter,
}


@dataclass(frozen=True)
class Grammar:
    """A grammar of the completions that a model may write.

    `text` is the grammar in the language of its `form`: "xgrammar", "gbnf" or "lark". `relaxed`
    lists the keywords of schemas that it does not enforce. `markers` says how it writes special
    tokens: as "tokens", or as their "text", which a model may then spell with ordinary tokens.
    `visible` are the tokens that a server must neither hide nor split.
    """

    text: str
    form: GrammarForm
    relaxed: tuple[Relaxation, ...] = ()
    markers: completion_rules.Markers = "tokens"
    visible: tuple[str, ...] = completion_rules.visible_tokens(DEFAULT)

    def fields(self, server: str) -> dict[str, Any]:
        """The request fields that pass this grammar to a server.

        `server` is "vllm", "sglang", "sglang-completions" or "llamacpp". Raises an error for a
        server that reads another form.
        """
        # Tokens of the format must neither be hidden in answers nor added to requests.
        ebnf = {"ebnf": self.text, "skip_special_tokens": False}
        servers: dict[str, tuple[tuple[GrammarForm, ...], dict[str, Any]]] = {
            "vllm": (
                ("xgrammar", "lark"),
                {
                    "structured_outputs": {"grammar": self.text},
                    "skip_special_tokens": False,
                    "add_special_tokens": False,
                },
            ),
            "sglang": (("xgrammar",), {"sampling_params": ebnf}),
            "sglang-completions": (("xgrammar",), ebnf),
            "llamacpp": (
                ("gbnf",),
                {"grammar": self.text, "preserved_tokens": list(self.visible)},
            ),
        }
        _check_option("server", server, tuple(servers))
        forms, fields = servers[server]
        if self.form not in forms:
            expected = f"a grammar of the form {forms[0]}"
            problem = f"found {server} for the form {self.form}, expected {expected}"
            raise refusal(("server",), problem)
        return fields


def for_request(
    request: Request,
    form: GrammarForm = "xgrammar",
    *,
    reasoning: Literal["grammar", "server"] = "grammar",
    preamble: bool = True,
    order: Literal["any", "declared"] = "any",
    markup_in_values: bool = True,
    parallel: bool = True,
    exact: bool = False,
    markers: completion_rules.Markers | Mapping[str, int] = "tokens",
) -> Grammar:
    """The grammar of the completions that a model may write after the prompt of `request`.

    Every text that it allows parses with `strict=True`. Calls name declared tools, and their
    arguments fit the schemas, except for the keywords that `relaxed` lists. It begins where the
    prompt ends: after a prefix, in an open turn, or in a block that the prompt has opened for a
    forced call.

    `form` is the engine's language: "xgrammar" (vLLM, SGLang), "gbnf" (llama.cpp) or "lark"
    (llguidance). With `reasoning="server"` the grammar begins after the reasoning, for servers that
    do not constrain it. `preamble` says whether content may come before required calls. `order` is
    the order of parameters and members: "any" (for up to six, in the declared order beyond), or
    "declared". `markup_in_values` says whether a string may hold markup of calls other than the tag
    that closes it. `parallel` says whether there may be several calls. With `exact`, a keyword that
    would be relaxed is an error. `markers` says how special tokens are written: as "tokens", by the
    ids of the dialect's vocabulary or by those of a mapping, such as `Tokenizer.vocabulary.added`;
    or as "text", for engines without tokens in grammars. If an id is unknown, as for V3.2 without a
    mapping, they are written as text.

    Raises an `OptionError` with the path of the part for which no grammar can be made (an
    `EncodeError` if that is in a message).
    """
    _check_option("form", form, tuple(GRAMMAR_WRITERS))
    _check_option("reasoning", reasoning, ("grammar", "server"))
    _check_option("order", order, ("any", "declared"))
    if not isinstance(request, Request):
        raise refusal(("request",), mismatch(request, "a Request"))
    if not isinstance(markers, Mapping):
        _check_option("markers", markers, completion_rules.MARKERS)
    _check_flags(
        preamble=preamble, markup_in_values=markup_in_values, parallel=parallel, exact=exact
    )
    try:
        return _make_grammar(
            *(request, form, reasoning == "server", preamble, order == "any"),
            *(markup_in_values, parallel, exact, markers),
        )
    except RecursionError:
        problem = "found schemas that refer to each other too deeply, expected fewer steps"
        raise refusal(("tools",), problem) from None


def _make_grammar(
    request: Request,
    form: GrammarForm,
    after_reasoning: bool,
    preamble: bool,
    any_order: bool,
    markup_in_values: bool,
    parallel: bool,
    exact: bool,
    markers: completion_rules.Markers | Mapping[str, int],
) -> Grammar:
    dialect = dialect_named(request.dialect)
    ids = completion_rules.marker_ids(dialect, markers)
    markup = completion_rules.CallMarkup(dialect, ids)
    rules, relaxations = Rules(), Relaxations(exact)
    tools, forced = allowed_tools(request)
    begins = completion_start(request, after_reasoning)
    if begins.task:
        tools, forced = (), None
    made = completion_rules.CompletionRules(markup, rules, relaxations, any_order, markup_in_values)
    answer = answer_rules(request.response_format, rules, relaxations, any_order, markup.forbidden)
    invokes = tuple(map(made.invoke, tools))
    required = forced is not None
    calls = made.calls(invokes, parallel)
    whole = made.content_then(answer, calls, required, preamble or not required)
    if begins.reasoning:
        whole = ex.sequence(ex.until(markup.free_text, markup.reasoning_end), whole)
    alive = ex.satisfiable_rules(rules.bodies)
    _check_callable(tools, invokes, alive)
    root, bodies = ex.without_dead_ends(_after(whole, begins.written, rules), rules.bodies, alive)
    if root == ex.NEVER:
        raise refusal(("response_format",), "found a schema that no value fits")
    text = GRAMMAR_WRITERS[form](bodies).grammar(root)
    visible = completion_rules.visible_tokens(dialect)
    return Grammar(text, form, relaxations.listed(), "tokens" if ids else "text", visible)


def _check_callable(
    tools: tuple[completion_rules.GrammarTool, ...],
    invokes: tuple[Expression, ...],
    alive: frozenset[str],
) -> None:
    for tool, invoke in zip(tools, invokes, strict=True):
        is_dead = isinstance(invoke, ex.ReferenceExpr) and invoke.name not in alive
        if invoke == ex.NEVER or is_dead:
            raise refusal((*tool.location, "parameters"), "found a schema that no arguments fit")


def _after(whole: Expression, written: str, rules: Rules) -> Expression:
    """The rest of a completion after the part that the prompt already holds."""
    rest, allowed = rest_after(whole, written, rules)
    if rest == ex.NEVER:
        shown = short_repr(written[allowed : allowed + 40])
        problem = f"found {shown} at character {allowed}, expected what a completion may hold there"
        raise refusal(("prefix",), problem)
    return rest


def _check_flags(**flags: object) -> None:
    for name, flag in flags.items():
        if flag.__class__ is not bool:
            raise refusal((name,), mismatch(flag, "True or False"))


def _check_option(name: str, value: object, values: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in values:
        raise refusal((name,), mismatch(value, f"one of {', '.join(values)}"))
