"""`transformers`' `apply_chat_template` and `parse_response`, by the encoder and the parser.

Text from outside never becomes a special token here, arguments may be JSON strings, and all
dialects are supported. Options that `transformers` also has mean the same as there.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from dsv4._completion.message import Message, assemble
from dsv4._encode.inputs import as_inputs, as_message, maybe_dict
from dsv4._encode.prompt import Prompt, maybe_open_reasoning, without_final_header
from dsv4._encode.turns import NATIVE
from dsv4._format.dialects import Dialect, dialect_named
from dsv4._parse.parser import StreamParser
from dsv4.compat import hf_tokenizers
from dsv4.compat.hf_tokenizers import dialect_of
from dsv4.compat.templates import TEMPLATED, chat_template
from dsv4.errors import EncodeError, OptionError, mismatch, short_repr
from dsv4.request import Request
from dsv4.tokens import IdParser
from dsv4.types import DialectName, Effort, ToolInput
from dsv4.version import how_to_install

__all__ = [
    "apply_chat_template",
    "dialect_of",
    "install",
    "parse_response",
    "response_template",
]

_Tokenizer = TypeVar("_Tokenizer")


# Responses: from the model's output to a message in the form of `transformers`.


def parse_response(
    tokenizer: object,
    response: hf_tokenizers.WrittenBatch,
    *,
    prefix: hf_tokenizers.WrittenBatch | None = None,
    tools: Iterable[hf_tokenizers.HfTool] | None = None,
    dialect: DialectName | Dialect | None = None,
) -> Any:
    """The message that a model wrote, or a list of them for a batch.

    `tokenizer` is a fast tokenizer of `transformers`. `response` is text or ids, one or a batch of
    them; `prefix` is the prompt before it, in the same form: it tells whether the model was asked
    to think. `tools` are those that may be called, None for any. `dialect` is the one whose markup
    is expected, None for all. Returns dicts with `role`, `content`, and if there are any
    `reasoning_content` and `tool_calls`, with arguments as objects. Malformed calls are read as
    `dsv4.parse` reads them, and never raise.
    """
    responses, batched = _rows(response)
    prefixes, one_each = _rows([] if prefix is None else prefix)
    if not one_each or len(prefixes) != len(responses):
        prefixes = prefixes[:1] * len(responses)
    listed = None if tools is None else list(tools)
    parsed = [
        _message(tokenizer, row, before, listed, dialect)
        for row, before in zip(responses, prefixes, strict=True)
    ]
    return parsed if batched else parsed[0]


def _rows(batch: hf_tokenizers.WrittenBatch) -> tuple[list[hf_tokenizers.Written], bool]:
    """Texts or lists of ids, and whether they came as a batch."""
    to_list = getattr(batch, "tolist", None)
    rows: Any = batch if to_list is None else to_list()
    if isinstance(rows, (list, tuple)) and rows and not isinstance(rows[0], int):
        return list(rows), True
    return [rows], False


def _message(
    tokenizer: object,
    response: hf_tokenizers.Written,
    prefix: hf_tokenizers.Written,
    tools: list[hf_tokenizers.HfTool] | None,
    dialect: DialectName | Dialect | None,
) -> dict[str, Any]:
    ours = hf_tokenizers.tokenizer_over(tokenizer)
    before = prefix if isinstance(prefix, str) else ours.decode(prefix)
    reader = StreamParser(
        thinking=_began_thinking(
            before, response if isinstance(response, str) else ours.decode(response), dialect
        ),
        tools=_tool_schemas(tools),
        dialect=dialect,
    )
    parser = IdParser(ours, reader)
    fed = parser.feed(response) if isinstance(response, str) else parser.feed_ids(response)
    return _as_transformers(assemble([*fed, *parser.finish()]))


def _began_thinking(prefix: str, response: str, dialect: DialectName | Dialect | None) -> bool:
    """Whether the model began by thinking: the prompt tells, otherwise the response."""
    own = dialect_named(dialect or "v4").tokens
    _, header, after = prefix.rpartition(own.assistant)
    if header:
        return own.think_end not in after
    return own.think_end in response


def _as_transformers(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
    if message.reasoning:
        fields["reasoning_content"] = message.reasoning
    if message.tool_calls:
        fields["tool_calls"] = [
            {
                "type": "function",
                "function": {"name": call.name, "arguments": json.loads(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return fields


def response_template(dialect: DialectName | Dialect) -> dict[str, Any]:
    """A `response_template` of `transformers`: well-formed answers, read without dsv4.

    `dialect` is a dialect or its name. In such a template a parameter is read as JSON if possible,
    regardless of the type that the model gave; with tools, their schemas decide.
    """
    own, tags = dialect_named(dialect).tokens, dialect_named(dialect).tags
    block_open, block_close = re.escape(tags.block_open), re.escape(tags.block_close)
    invoke_open, name_end = re.escape(tags.invoke_open), re.escape(tags.name_end)
    spellings = (re.escape(tags.string_true), re.escape(tags.string_false))
    value = f"(?:{'|'.join(spellings)})(?P<value>.*?){re.escape(tags.parameter_close)}"
    return {
        "defaults": {"role": "assistant"},
        "start_anchor_pattern": f"{re.escape(own.assistant)}(?:{re.escape(own.think_end)})?",
        "fields": {
            "reasoning_content": {
                "open": str(own.think_start),
                "close": str(own.think_end),
                "content": "text",
            },
            "tool_calls": {
                "open_pattern": f"(?:{block_open}|\n)?{invoke_open}(?P<name>[^\n]*?){name_end}",
                "close_pattern": f"{re.escape(tags.invoke_close)}(?:{block_close})?",
                "repeats": True,
                "content": "xml-inline",
                "content_args": {
                    "tag_pattern": f"{re.escape(tags.parameter_open)}(?P<key>.*?){value}",
                    "value_parser": {"name": "json", "args": {"allow_non_json": True}},
                },
                "transform": {
                    "type": "function",
                    "function": {"name": "{name}", "arguments": "{content}"},
                },
            },
            "content": {"close": str(own.eos), "content": "text"},
        },
    }


# Prompts.


_log = logging.getLogger("dsv4")


_REASONING_FIELDS = NATIVE.reasoning_fields


def apply_chat_template(
    tokenizer: object,
    messages: hf_tokenizers.Chats,
    tools: Iterable[hf_tokenizers.HfTool] | None = None,
    *,
    tokenize: bool = True,
    add_generation_prompt: bool = False,
    continue_final_message: bool | str = False,
    padding: bool | str = False,
    truncation: bool = False,
    max_length: int | None = None,
    return_tensors: str | None = None,
    return_dict: bool = True,
    return_assistant_tokens_mask: bool = False,
    thinking: bool | None = None,
    enable_thinking: bool | None = None,
    reasoning_effort: Effort | None = None,
    drop_thinking: bool = Request.drop_thinking,
    response_format: Mapping[str, Any] | None = Request.response_format,
    tokenizer_kwargs: dict[str, Any] | None = None,
    dialect: DialectName | Dialect | None = None,
    add_default_bos_token: bool = Request.bos,
    **chat_template_kwargs: object,
) -> Any:
    """The prompt of a conversation, or of each in a list of them, as ids or as text.

    `tokenizer` is a fast tokenizer of `transformers`, or a processor that has one; for text output
    it may be None. `dialect` is recognised by it, unless you give one. `messages`, `tools` and the
    options of `transformers` mean the same as there; `docs/template.md` has the others. Returns the
    same as `transformers`. Raises `EncodeError` with the place in `messages`, `OptionError` with
    the name of the option, and `TypeError` for unknown options.
    """
    processor: Any = tokenizer
    tokenizer = getattr(processor, "tokenizer", processor)
    _check_keywords(chat_template_kwargs)
    _check_outputs(tokenize, return_dict, return_assistant_tokens_mask)
    _check_ends(add_generation_prompt, continue_final_message, return_assistant_tokens_mask)
    more = _padding_options(tokenizer_kwargs)
    with _transformers_names():
        request = Request(
            (),
            tools=_tool_schemas(tools),
            response_format=response_format,
            thinking=_thinking_option(thinking, enable_thinking),
            effort=reasoning_effort,
            drop_thinking=drop_thinking,
            bos=add_default_bos_token,
            dialect=dialect_of(tokenizer, dialect),
        )
    ends = (add_generation_prompt, continue_final_message)
    prompts, batched = _prompts(messages, ends, request)
    if not tokenize:
        texts = [str(prompt) for prompt in prompts]
        return texts if batched else texts[0]
    masked = return_assistant_tokens_mask
    form = _OutputForm(padding, truncation, max_length, return_tensors, return_dict, masked)
    if processor is not tokenizer and any(prompt.images for prompt in prompts):
        return form.processed(processor, prompts)
    return form.encoded(tokenizer, prompts, batched, more)


def _prompts(
    messages: hf_tokenizers.Chats, ends: tuple[bool, bool | str], request: Request
) -> tuple[list[Prompt], bool]:
    """The prompts of all conversations, and whether there is a list of them."""
    chats, batched = _conversations(messages)
    prompts = []
    for n, chat in enumerate(chats):
        with _transformers_names(n if batched else None):
            prompts.append(_prompt(chat, *ends, request))
    return prompts, batched


@dataclass(frozen=True)
class _OutputForm:
    """The form in which ids are returned, by the options of `transformers`."""

    padding: bool | str
    truncation: bool
    max_length: int | None
    tensors: str | None
    as_dict: bool
    masked: bool

    def processed(self, processor: Any, prompts: list[Prompt]) -> Any:
        """The output of a processor for prompts with images: it reads the images, and adds ids for
        them."""
        _check_for_processor(prompts, self.masked, self.truncation)
        encoded = processor(
            text=[str(prompt) for prompt in prompts],
            images=[[_source(record) for record in prompt.images] for prompt in prompts],
            padding=self.padding,
            max_length=self.max_length,
            add_special_tokens=False,
            return_tensors=self.tensors,
        )
        return encoded if self.as_dict else encoded["input_ids"]

    def encoded(
        self, tokenizer: Any, prompts: list[Prompt], batched: bool, more: dict[str, Any]
    ) -> Any:
        """The ids of prompts. `more` are further options of padding."""
        part = self._kept(tokenizer) if self.truncation else slice(None)
        ids, masks = _ids_and_masks(tokenizer, prompts, self.masked, part)
        is_single = not batched and not self.tensors
        rows = ids[0] if is_single else ids
        if not (self.as_dict or self.padding or self.tensors):
            return rows
        if not hasattr(tokenizer, "pad"):
            problem = mismatch(tokenizer, "a tokenizer of transformers")
            install = how_to_install("hf")
            raise OptionError("tokenizer", f"{problem} ({install}), or return_dict=False")
        options = {"padding": self.padding, "max_length": self.max_length, **more}
        padded = tokenizer.pad({"input_ids": rows}, **options)
        if self.masked:
            side = more.get("padding_side") or tokenizer.padding_side
            padded["assistant_masks"] = _aligned(masks, padded, side, is_single)
        if self.tensors:
            padded.convert_to_tensors(self.tensors)
        return padded if self.as_dict else padded["input_ids"]

    def _kept(self, tokenizer: Any) -> slice:
        length = self.max_length or tokenizer.model_max_length
        return slice(length) if tokenizer.truncation_side == "right" else slice(-length, None)


def install(
    tokenizer: _Tokenizer, dialect: DialectName | Dialect | None = None, **defaults: Any
) -> _Tokenizer:
    """Replaces `apply_chat_template` and `parse_response` of a tokenizer by ours, and returns it.

    `tokenizer` may also be a processor. `dialect` is recognised by the vocabulary and by the name
    of the checkpoint, unless you give one; `dialect_of` tells which it is, and so does the log.
    `defaults` are options of `apply_chat_template` for calls without them: reinforcement learning
    needs `drop_thinking=False`, so that a turn stays the same when more turns follow. The
    `chat_template` and `response_template` are replaced as well, for programs that look there.
    Raises `OptionError` for anything but a tokenizer, `TypeError` for a default that is not an
    option, and `VocabularyError` if the vocabulary does not fit the dialect.
    """
    unknown = [name for name in defaults if name not in _DEFAULTS]
    if unknown:
        raise TypeError(f"install() found {unknown[0]}, expected {', '.join(_DEFAULTS)}")
    if not hasattr(tokenizer, "apply_chat_template"):
        raise OptionError("tokenizer", mismatch(tokenizer, "a tokenizer of transformers"))
    named = dialect_of(getattr(tokenizer, "tokenizer", tokenizer), dialect)
    _log.info("%s gets prompts of the dialect %s", hf_tokenizers.name_of(tokenizer), named)
    for one in (tokenizer, getattr(tokenizer, "tokenizer", None)):
        if one is not None:
            _install_on(one, named, defaults)
    return tokenizer


_DEFAULTS = ("thinking", "enable_thinking", "reasoning_effort", "drop_thinking", "response_format")


def _install_on(tokenizer: Any, dialect: Dialect, defaults: dict[str, Any]) -> None:
    if dialect.name in TEMPLATED:
        tokenizer.chat_template = chat_template(dialect)
    # Partials of functions, because a tokenizer may be pickled or copied, and these with it.
    apply = _apply_processor if hasattr(tokenizer, "tokenizer") else _apply_installed
    setattr(
        tokenizer,
        hf_tokenizers.INSTALLED,
        partial(apply, tokenizer, dialect=dialect.name, **defaults),
    )
    tokenizer.response_template = response_template(dialect)
    tokenizer.parse_response = partial(
        _parse_installed, tokenizer, cast("DialectName", dialect.name)
    )


def _parse_installed(
    tokenizer: object,
    dialect: DialectName,
    response: hf_tokenizers.WrittenBatch,
    schema: object = None,
    *,
    prefix: hf_tokenizers.WrittenBatch | None = None,
    tools: Iterable[hf_tokenizers.HfTool] | None = None,
) -> Any:
    """`parse_response` with the parameters of the method that it replaces; ignores `schema`."""
    inner = getattr(tokenizer, "tokenizer", tokenizer)
    return parse_response(inner, response, prefix=prefix, tools=tools, dialect=dialect)


def _apply_installed(
    tokenizer: object,
    conversation: hf_tokenizers.Chats,
    tools: Iterable[hf_tokenizers.HfTool] | None = None,
    **options: Any,
) -> Any:
    """`apply_chat_template` with the parameter names of the method that it replaces."""
    return apply_chat_template(tokenizer, conversation, tools, **options)


def _apply_processor(
    processor: object,
    conversation: hf_tokenizers.Chats,
    chat_template: str | None = None,
    tools: Iterable[hf_tokenizers.HfTool] | None = None,
    **options: Any,
) -> Any:
    """The same for a processor, whose method returns text unless ids are requested."""
    options = {"tokenize": False, "return_dict": False, **options}
    named = options.pop("processor_kwargs", None)
    if named:
        options["tokenizer_kwargs"] = {**named, **(options.get("tokenizer_kwargs") or {})}
    if chat_template is not None:
        options["chat_template"] = chat_template
    return apply_chat_template(processor, conversation, tools, **options)


# Options.


def _check_outputs(tokenize: bool, return_dict: bool, masked: bool) -> None:
    if masked and not (tokenize and return_dict):
        problem = "found True, expected it with tokenize=True and return_dict=True"
        raise OptionError("return_assistant_tokens_mask", problem)


def _check_ends(add_generation_prompt: bool, continued: bool | str, masked: bool) -> None:
    if continued and add_generation_prompt:
        problem = "found it with add_generation_prompt, expected one of them"
        raise OptionError("continue_final_message", problem)
    if continued and masked:
        problem = "found it with return_assistant_tokens_mask, expected one of them"
        raise OptionError("continue_final_message", problem)
    if continued not in (True, False, None, "content", *_REASONING_FIELDS):
        problem = mismatch(continued, 'True, "content" or "reasoning_content"')
        raise OptionError("continue_final_message", problem)


def _thinking_option(thinking: bool | None, enable_thinking: bool | None) -> bool:
    if thinking is None:
        return Request.thinking if enable_thinking is None else enable_thinking
    if enable_thinking is not None and enable_thinking != thinking:
        problem = f"found {short_repr(thinking)} and enable_thinking={enable_thinking!r}"
        raise OptionError("thinking", f"{problem}, expected one of them")
    return thinking


# Options that are always on: text never becomes a control token here.
_ALWAYS_ON = ("sanitize_control_tokens",)
# Parameters of the method in `transformers` that are accepted only if they are empty.
_EMPTY_ONLY = ("documents", "chat_template")
# Options for the tokenizer that are accepted: those of padding, and those with a fixed value.
_PADDING = ("pad_to_multiple_of", "padding_side", "return_attention_mask", "verbose")
_FIXED_OPTIONS = {"add_special_tokens": False}


def _check_keywords(keywords: Mapping[str, object]) -> None:
    """Refuse further keywords that are unknown."""
    for name, value in keywords.items():
        if name in _EMPTY_ONLY and value:
            raise TypeError(f"apply_chat_template() found {name}, which dsv4 has no use for")
        if name not in (*_ALWAYS_ON, *_EMPTY_ONLY):
            expected = "thinking, reasoning_effort, drop_thinking, response_format, dialect"
            raise TypeError(
                f"apply_chat_template() found the unknown keyword {name!r}, expected options of "
                f"transformers, or {expected}, add_default_bos_token"
            )


def _padding_options(tokenizer_kwargs: dict[str, Any] | None) -> dict[str, Any]:
    named = maybe_dict({} if tokenizer_kwargs is None else tokenizer_kwargs)
    if named is None:
        raise OptionError("tokenizer_kwargs", mismatch(tokenizer_kwargs, "a dict of options"))
    for name, value in named.items():
        if name not in _PADDING and (name not in _FIXED_OPTIONS or value != _FIXED_OPTIONS[name]):
            expected = ", ".join(_PADDING)
            problem = f"found {name}={short_repr(value)}, expected {expected}"
            raise TypeError(f"apply_chat_template() tokenizer_kwargs: {problem}")
    return {name: value for name, value in named.items() if name in _PADDING}


# Conversations -> prompts.


def _conversations(messages: hf_tokenizers.Chats) -> tuple[list[hf_tokenizers.Chat], bool]:
    """The conversations, and whether they came as a list."""
    listed: Any = messages
    if hasattr(listed, "messages"):
        return [listed.messages], False
    if not isinstance(listed, (list, tuple)) or not listed:
        raise EncodeError(("messages",), mismatch(listed, "a conversation or a list of them"))
    if isinstance(listed[0], (list, tuple)) or hasattr(listed[0], "messages"):
        return [chat.messages if hasattr(chat, "messages") else chat for chat in listed], True
    return [listed], False


# Options of the encoder -> their names in `transformers`.
_TRANSFORMERS_NAMES = {"effort": "reasoning_effort", "bos": "add_default_bos_token"}


@contextmanager
def _transformers_names(index: int | None = None) -> Iterator[None]:
    """Makes errors name the caller's arguments, with the `index` in a list of conversations."""
    try:
        yield
    except (EncodeError, OptionError) as error:
        first, *rest = error.location
        if first == "messages" and index is not None:
            rest = [index, *rest]
        location = (_TRANSFORMERS_NAMES.get(str(first), first), *rest)
        raise type(error)(location, error.problem) from None


def _tool_schemas(tools: Iterable[hf_tokenizers.HfTool] | None) -> Iterable[ToolInput] | None:
    """Tools as a `Request` takes them, which refuses anything but a list."""
    if isinstance(tools, (list, tuple)):
        return [hf_tokenizers.as_schema(tool) for tool in tools]
    return cast("Iterable[ToolInput] | None", tools)


def _prompt(
    messages: hf_tokenizers.Chat, asks: bool, continued: bool | str, request: Request
) -> Prompt:
    """The prompt of one conversation."""
    if not continued:
        prompt = replace(request, messages=messages).encode()
        return prompt if asks else without_final_header(prompt)
    inside_reasoning = continued in _REASONING_FIELDS
    opened_end = _with_open_end(messages, inside_reasoning)
    prompt = replace(request, messages=opened_end).encode()
    if not inside_reasoning:
        return prompt
    opened = maybe_open_reasoning(prompt)
    if opened is None:
        problem = f"found {short_repr(continued)}, but the last message shows no reasoning"
        raise OptionError("continue_final_message", problem)
    return opened


def _with_open_end(messages: hf_tokenizers.Chat, inside_reasoning: bool) -> hf_tokenizers.Chat:
    """The messages, the last one without its end. Parts that would follow its text are refused."""
    index = len(messages) - 1
    place = ("messages", index)
    if index < 0:
        raise EncodeError(("messages",), "found none, expected a message to continue")
    last = as_message(messages[-1], place)
    if last.get("role") != "assistant":
        role = short_repr(last.get("role"))
        raise EncodeError((*place, "role"), f'found {role}, expected "assistant" to continue')
    for field in ("tool_calls", "task", *(("content",) if inside_reasoning else ())):
        if last.get(field):
            problem = mismatch(last[field], "nothing after the text to continue")
            raise EncodeError((*place, field), problem)
    return [*messages[:-1], *as_inputs([{**last, "wo_eos": True}])]


# Prompts -> ids.


def _ids_and_masks(
    tokenizer: object, prompts: list[Prompt], masked: bool, part: slice
) -> tuple[list[list[int]], list[list[int]]]:
    ours = hf_tokenizers.tokenizer_over(tokenizer)
    if not masked:
        return [ours.encode(prompt)[part] for prompt in prompts], []
    weighed = [ours.encode_masked(prompt, "assistant") for prompt in prompts]
    masks = [[int(weight) for weight in weights[part]] for _, weights in weighed]
    return [ids[part] for ids, _ in weighed], masks


def _check_for_processor(prompts: list[Prompt], masked: bool, truncated: bool) -> None:
    """Refuses options that do not work with images: a processor converts the text itself."""
    for prompt in prompts:
        if prompt.special_text:
            start, end = prompt.special_text[0]
            problem = f"found {str(prompt)[start:end]} in a text beside images"
            raise EncodeError(("messages",), f"{problem}, which a processor takes for the token")
    if masked or truncated:
        name = "return_assistant_tokens_mask" if masked else "truncation"
        raise OptionError(name, "found it with images, expected a conversation without")


def _source(record: object) -> object:
    """The address or the data of an image."""
    if not isinstance(record, dict):
        return record
    return next(record[name] for name in ("url", "data", "source") if record.get(name))


def _aligned(
    masks: list[list[int]], padded: Any, side: str, is_single: bool
) -> list[int] | list[list[int]]:
    """The masks, with zeros over the padding."""
    rows = [padded["input_ids"]] if is_single else padded["input_ids"]
    filled = []
    for mask, row in zip(masks, rows, strict=True):
        padding = [0] * (len(row) - len(mask))
        filled.append(mask + padding if side == "right" else padding + mask)
    return filled[0] if is_single else filled
