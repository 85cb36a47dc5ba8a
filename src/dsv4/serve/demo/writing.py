"""An answer as the model would write it: by the encoder, so it is well-formed; then, where that is
asked for, spoiled in one of the ways that are seen in the wild."""

from __future__ import annotations

from collections.abc import Callable

from dsv4._encode.encode import encode
from dsv4._encode.prompt import Prompt
from dsv4._format import tokens
from dsv4._format.dialects import Dialect
from dsv4.serve.demo.answers import Answer
from dsv4.serve.demo.reading import Asked
from dsv4.tokens import Tokenizer


def write_answer(answer: Answer, asked: Asked) -> str:
    """The text that the model would generate after the prompt."""
    text = _turn(answer, asked)
    if answer.broken is not None:
        text = _broken(text, answer.broken, asked.dialect)
    return text


def model_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text that a model wrote, in which special tokens are themselves."""
    ids: list[int] = []
    for part in tokens.markup(text).parts:
        if isinstance(part, tokens.Special):
            ids.append(tokenizer.special_id(part))
        else:
            ids += tokenizer.encode_text(part)
    return ids


def _turn(answer: Answer, asked: Asked) -> str:
    """The answer's own text, without what the prompt has written of it already."""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(answer.calls)
    ]
    message = {"role": "assistant", "content": answer.content, "tool_calls": calls}
    if asked.thinking:
        message["reasoning_content"] = answer.reasoning
    prompt = encode(
        [{"role": "user", "content": ""}, message], thinking=asked.thinking, dialect=asked.dialect
    )
    return _without_start(_written_by_model(prompt), asked.opened)


def _written_by_model(prompt: Prompt) -> str:
    return "".join(p.text for p in prompt.pieces if p.origin == "model" and p.message == 1)


def _without_start(text: str, opened: str) -> str:
    """What is left to write where the prompt has opened a block of calls."""
    return text[len(opened) :] if opened and text.startswith(opened) else text


def _broken(text: str, kind: str, dialect: Dialect) -> str:
    spoil = BROKEN.get(kind)
    if spoil is None:
        known = ", ".join(sorted(BROKEN))
        return (
            text.split(str(tokens.THINK_END))[0]
            + f"{tokens.THINK_END}The kinds are: {known}{tokens.EOS}"
        )
    return spoil(text, dialect)


def _without_wrapper(text: str, dialect: Dialect) -> str:
    tags = dialect.tags
    return text.replace(str(tags.block_open), "\n\n").replace(str(tags.block_close), "")


def _without_closers(text: str, dialect: Dialect) -> str:
    tags = dialect.tags
    for closer in (tags.parameter_close, tags.invoke_close, tags.block_close):
        text = text.replace(str(closer), "")
    return text


def _in_reasoning(text: str, dialect: Dialect) -> str:
    """The block leaks into the reasoning, which is never closed."""
    return text.replace(str(tokens.THINK_END), "")


def _with_plain_bars(text: str, dialect: Dialect) -> str:
    dsml = str(tokens.DSML)
    return text.replace(dsml, dsml.replace(dsml[0], "|"))


def _cut(text: str, dialect: Dialect) -> str:
    """It ends in the middle of an argument."""
    closer = text.rfind(str(dialect.tags.parameter_close))
    return text[: max(closer - 2, 0)] if closer > 0 else text[: len(text) // 2]


def _with_text_after(text: str, dialect: Dialect) -> str:
    return text.removesuffix(str(tokens.EOS)) + f"\n\nThat is it.{tokens.EOS}"


BROKEN: dict[str, Callable[[str, Dialect], str]] = {
    "no-wrapper": _without_wrapper,
    "no-closers": _without_closers,
    "in-reasoning": _in_reasoning,
    "plain-bars": _with_plain_bars,
    "cut": _cut,
    "text-after": _with_text_after,
}
