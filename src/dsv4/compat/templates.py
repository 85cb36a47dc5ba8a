"""The Jinja chat template, for each dialect and each engine that renders templates."""

from __future__ import annotations

import json

from dsv4._format import tokens
from dsv4._format.dialects import (
    DIALECTS,
    NAME_END,
    ROLES,
    STRING_FALSE,
    STRING_TRUE,
    Dialect,
    dialect_named,
)
from dsv4._format.texts import RESPONSE_FORMAT, read_text
from dsv4.errors import OptionError, mismatch
from dsv4.types import DialectName

# What renders the template. Only `transformers` has a tag for what the model wrote.
ENGINES = ("transformers", "minijinja", "llama.cpp", "jinja2")
# The dialects that a template writes. V3.2 is another format, with a template of its own release.
TEMPLATED = tuple(name for name, dialect in DIALECTS.items() if dialect.layout == "v4")

# Whether strings can be read as JSON: llama.cpp has neither such a filter nor a test for one.
_READS_JSON: dict[str, str] = dict.fromkeys(
    ("transformers", "minijinja", "jinja2"), '"fromjson" is filter'
)

_GENERATION = ("{%- generation -%}", "{%- endgeneration -%}")


def chat_template(dialect: DialectName | Dialect = "v4", engine: str = "transformers") -> str:
    """The prompt of a dialect, written in Jinja.

    `dialect` is one of `TEMPLATED`. `engine` says what renders the template, one of `ENGINES`: all
    but "transformers" get it without the tag `generation`, which they do not know. Returns the
    template; raises `OptionError` where there is none for a dialect or an engine.
    """
    if not isinstance(engine, str) or engine not in ENGINES:
        raise OptionError("engine", mismatch(engine, f"one of {', '.join(ENGINES)}"))
    dialect = dialect_named(dialect)
    if dialect.name not in TEMPLATED:
        expected = f"one of {', '.join(TEMPLATED)}: those of templates"
        raise OptionError("dialect", mismatch(dialect.name, expected))
    template = read_text("chat_template.jinja")
    if engine != "transformers":
        template = "".join(
            line for line in template.splitlines(keepends=True) if line.strip() not in _GENERATION
        )
    words = [
        *_words(dialect),
        ("READS_JSON", _READS_JSON.get(engine, "false")),
        # llama.cpp sets `enable_thinking` for every request: there, `thinking` counts before it.
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
    """A value as Jinja writes it: as JSON does, but for null."""
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _words(dialect: Dialect) -> list[tuple[str, str]]:
    """What the template is written with: the format's words, and what is peculiar to a dialect."""
    tags = dialect.tags
    efforts = {name: text for name, text in dialect.efforts.items() if name.__class__ is str}
    words: dict[str, object] = {
        **{"BOS": tokens.BOS, "EOS": tokens.EOS, "USER": tokens.USER},
        "ASK_THINKING": tokens.ASSISTANT + tokens.THINK_START,
        "ASK_ANSWER": tokens.ASSISTANT + tokens.THINK_END,
        **{"REASONING_END": tokens.THINK_END, "REMINDER": tokens.LATEST_REMINDER},
        **{"SYSTEM": dialect.system_token or "", "IMAGE": dialect.image_token or ""},
        "URL": tokens.EXTRACTED_URL,
        "TASKS": {task: str(token) for task, token in tokens.TASK_TOKENS.items()},
        "ROLES": list(ROLES),
        **{"RESULT_START": tokens.RESULT_START, "RESULT_END": tokens.RESULT_END},
        **{"CALLS_OPEN": tags.block_open, "CALLS_CLOSE": tags.block_close},
        **{"INVOKE_OPEN": tags.invoke_open, "INVOKE_CLOSE": tags.invoke_close},
        "NAME_END": NAME_END,
        **{"PARAMETER_OPEN": tags.parameter_open, "PARAMETER_CLOSE": tags.parameter_close},
        **{"STRING_TRUE": STRING_TRUE, "STRING_FALSE": STRING_FALSE},
        "TOOLS_OPEN": dialect.tools_open.removesuffix("\n"),
        **{"TOOLS_CLOSE": dialect.tools_close, "RESPONSE_FORMAT": RESPONSE_FORMAT},
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
        "NAMESPACES": dialect.namespaces,
    }
    return [(name, _literal(word)) for name, word in words.items()]


def _around_a_number(dialect: Dialect) -> list[str] | None:
    """What stands around an effort that is a number. None where none is."""
    text = dialect.efforts.get(77)
    return None if text is None else text.split("77")
