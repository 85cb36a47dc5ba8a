"""The Jinja chat template, for each dialect and each engine that renders templates."""

from __future__ import annotations

import json

from dsv4._format.dialects import DIALECTS, ROLES, Dialect, dialect_named
from dsv4._format.texts import read_text
from dsv4.errors import OptionError, mismatch
from dsv4.types import DialectName

# The engines that render templates. Only `transformers` has a tag for the model's output.
ENGINES = ("transformers", "minijinja", "llama.cpp", "jinja2")
# The dialects that a template writes. V3.2 is another format, with a template of its own release.
TEMPLATED = tuple(name for name, dialect in DIALECTS.items() if dialect.layout == "v4")

_GENERATION = ("{%- generation -%}", "{%- endgeneration -%}")


def chat_template(dialect: DialectName | Dialect = "v4", engine: str = "transformers") -> str:
    """The prompt of a dialect, written in Jinja.

    `dialect` is one of `TEMPLATED`. `engine`, one of `ENGINES`, renders the template: all except
    "transformers" get it without the tag `generation`, which they do not know. Returns the
    template; raises `OptionError` if there is none for a dialect or an engine.
    """
    if not isinstance(engine, str) or engine not in ENGINES:
        raise OptionError("engine", mismatch(engine, f"one of {', '.join(ENGINES)}"))
    dialect = dialect_named(dialect)
    if dialect.layout != "v4":
        expected = f"one of {', '.join(TEMPLATED)}: those of templates"
        raise OptionError("dialect", mismatch(dialect.name, expected))
    template = read_text("chat_template.jinja")
    if engine != "transformers":
        template = "".join(
            line for line in template.splitlines(keepends=True) if line.strip() not in _GENERATION
        )
    words = [
        *_words(dialect),
        # Whether strings can be read as JSON: llama.cpp has no such filter, nor a test for one.
        ("READS_JSON", "false" if engine == "llama.cpp" else '"fromjson" is filter'),
        # llama.cpp sets `enable_thinking` for every request: there, `thinking` takes precedence.
        ("ENABLES_UNASKED", _literal(engine == "llama.cpp")),
    ]
    settings = "".join(f"{{%- set {name} = {word} -%}}\n" for name, word in words)
    for placeholder, text in (
        ("@DIALECT@", dialect.name),
        ("@ENGINE@", engine),
        ("@EFFORTS@", dialect.efforts_described.replace("None", "none")),
        ("{#- @WORDS@ -#}\n", settings),
    ):
        template = template.replace(placeholder, text)
    return template


def _literal(value: object) -> str:
    """A value as Jinja writes it: like JSON, except for null."""
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _words(dialect: Dialect) -> list[tuple[str, str]]:
    """The values that are put into the template: the format's texts, and a dialect's own ones."""
    own, texts, tags = dialect.tokens, dialect.texts, dialect.tags
    efforts = {name: text for name, text in dialect.efforts.items() if name.__class__ is str}
    words: dict[str, object] = {
        **{"BOS": own.bos, "EOS": own.eos, "USER": own.user},
        "ASK_THINKING": own.assistant + own.think_start,
        "ASK_ANSWER": own.assistant + own.think_end,
        **{"REASONING_END": own.think_end, "REMINDER": own.latest_reminder},
        **{"SYSTEM": dialect.system_token or "", "IMAGE": dialect.image_token or ""},
        "URL": own.extracted_url,
        "TASKS": dict(own.tasks),
        "ROLES": list(ROLES),
        **{"RESULT_START": texts.result_start, "RESULT_END": texts.result_end},
        **{"CALLS_OPEN": tags.block_open, "CALLS_CLOSE": tags.block_close},
        **{"INVOKE_OPEN": tags.invoke_open, "INVOKE_CLOSE": tags.invoke_close},
        "NAME_END": tags.name_end,
        **{"PARAMETER_OPEN": tags.parameter_open, "PARAMETER_CLOSE": tags.parameter_close},
        **{"STRING_TRUE": tags.string_true, "STRING_FALSE": tags.string_false},
        "TOOLS_OPEN": dialect.tools_open.removesuffix("\n"),
        **{"TOOLS_CLOSE": dialect.tools_close, "RESPONSE_FORMAT": texts.response_format},
        **{"EFFORTS": efforts, "EFFORT_UNSAID": dialect.efforts[None]},
        "FALSE_IS_UNSAID": dialect.false_efforts_are_none,
        "EFFORT_NUMBERED": _around_a_number(dialect),
        "EFFORTS_DESCRIBED": dialect.efforts_described,
        "LISTS_ARE_BLOCKS": dialect.lists_are_blocks,
        "USERS_KEEP_TOOLS": dialect.users_keep_tools,
        "RESULTS_ASK": dialect.results_ask,
        "RESULT_BLOCKS_NAMED": dialect.result_blocks_named,
        "DEVELOPERS": "developer" in dialect.roles,
        "ANY_ARGUMENTS": dialect.arguments == "anything",
        **{"NAMESPACES": dialect.namespaces, "NAMESPACE_END": tags.namespace_end},
        "UNSUPPORTED_START": texts.unsupported_start,
        "UNSUPPORTED_END": texts.unsupported_end,
    }
    return [(name, _literal(word)) for name, word in words.items()]


def _around_a_number(dialect: Dialect) -> list[str] | None:
    """The texts before and after an effort that is a number. None if the dialect has no such."""
    text = dialect.efforts.get(77)
    return None if text is None else text.split("77")
