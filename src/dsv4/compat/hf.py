"""`transformers`' `apply_chat_template`, written by the encoder and not by a template.

Text from outside never becomes a special token here, arguments may be JSON strings, and all
dialects are there. Options that `transformers` has too mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from dsv4.compat import chat_template
from dsv4.encoding.conventions import NATIVE
from dsv4.encoding.door import as_message
from dsv4.encoding.endings import maybe_open_reasoning, without_final_header
from dsv4.encoding.prompt import Prompt
from dsv4.errors import EncodeError, OptionError, shown
from dsv4.format.dialects import Dialect
from dsv4.request import Request
from dsv4.version import how_to_install

_REASONING_FIELDS = NATIVE.reasoning_fields


def apply_chat_template(
    tokenizer: Any,
    messages: Any,
    tools: Iterable[Any] | None = None,
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
    reasoning_effort: str | int | None = None,
    drop_thinking: bool = Request.drop_thinking,
    response_format: Mapping[str, Any] | None = Request.response_format,
    dialect: str | Dialect = Request.dialect,
    **chat_template_kwargs: Any,
) -> Any:
    """The prompt of a conversation, or of each in a list of them, as ids or as text.

    `tokenizer` is a fast tokenizer of `transformers`; for text alone it may be None.
    """
    _check_outputs(tokenize, return_dict, return_assistant_tokens_mask)
    _check_ends(add_generation_prompt, continue_final_message, return_assistant_tokens_mask)
    request = Request(
        (),
        tools=None if tools is None else [_as_schema(tool) for tool in tools],
        response_format=response_format,
        thinking=_thinks(thinking, enable_thinking),
        effort=reasoning_effort,
        drop_thinking=drop_thinking,
        bos=_bos(chat_template_kwargs),
        dialect=dialect,
    )
    conversations, batched = _conversations(messages)
    prompts = [
        _prompt(conversation, add_generation_prompt, continue_final_message, request)
        for conversation in conversations
    ]
    if not tokenize:
        texts = [str(prompt) for prompt in prompts]
        return texts if batched else texts[0]
    cut = _truncation(tokenizer, max_length) if truncation else None
    ids, masks = _ids_and_masks(tokenizer, prompts, return_assistant_tokens_mask, cut)
    alone = not batched and not return_tensors
    if not (return_dict or padding or return_tensors):
        return ids[0] if alone else ids
    padded = _padded(tokenizer, ids[0] if alone else ids, padding, max_length)
    if return_assistant_tokens_mask:
        padded["assistant_masks"] = _aligned(masks, padded, tokenizer.padding_side, alone)
    if return_tensors:
        padded.convert_to_tensors(return_tensors)
    return padded if return_dict else padded["input_ids"]


def install(tokenizer: Any) -> Any:
    """Makes `tokenizer.apply_chat_template` ours, and returns the tokenizer.

    Its `chat_template` becomes our Jinja template, for programs that look there.
    """
    if not hasattr(tokenizer, "apply_chat_template"):
        raise OptionError(
            "tokenizer", f"found {shown(tokenizer)}, expected a tokenizer of transformers"
        )
    tokenizer.chat_template = chat_template()
    # A partial of a function, because a tokenizer may be pickled or copied, and this with it.
    tokenizer.apply_chat_template = partial(_apply_installed, tokenizer)
    return tokenizer


def _apply_installed(
    tokenizer: Any, conversation: Any, tools: Iterable[Any] | None = None, **options: Any
) -> Any:
    """With the parameter names of the method that it replaces."""
    return apply_chat_template(tokenizer, conversation, tools, **options)


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
        problem = f'found {shown(continued)}, expected True, "content" or "reasoning_content"'
        raise OptionError("continue_final_message", problem)


def _thinks(thinking: bool | None, enable_thinking: bool | None) -> bool:
    if thinking is None:
        return Request.thinking if enable_thinking is None else enable_thinking
    if enable_thinking is not None and enable_thinking != thinking:
        problem = f"found {shown(thinking)} and enable_thinking={enable_thinking!r}"
        raise OptionError("thinking", f"{problem}, expected one of them")
    return thinking


# The template's variable for whether there is a BOS.
_BOS = "add_default_bos_token"
# What asks for nothing that is not done: text never becomes a control token here.
_ALWAYS_SO = ("sanitize_control_tokens",)
# Parameters of the method in `transformers` that may stand there with nothing in them.
_EMPTY_ONLY = ("documents", "chat_template", "tokenizer_kwargs")


def _bos(given: dict[str, Any]) -> bool:
    """The one option among further keywords, all of which must be known."""
    for name, value in given.items():
        if name in _EMPTY_ONLY and value:
            raise TypeError(f"apply_chat_template() found {name}, which dsv4 has no use for")
        if name not in (_BOS, *_ALWAYS_SO, *_EMPTY_ONLY):
            expected = "thinking, reasoning_effort, drop_thinking, response_format, dialect"
            raise TypeError(
                f"apply_chat_template() found the unknown keyword {name!r}, expected options of "
                f"transformers, or {expected}, {_BOS}"
            )
    return given.get(_BOS, Request.bos)  # type: ignore[no-any-return]


def _as_schema(tool: Any) -> Any:
    """Tools may be functions, which `transformers` can describe."""
    if not callable(tool):
        return tool
    try:
        from transformers.utils import get_json_schema
    except ImportError as error:
        raise ImportError(
            f"a function as a tool needs transformers: {how_to_install('hf')}"
        ) from error
    return get_json_schema(tool)


# Conversations -> prompts.


def _conversations(messages: Any) -> tuple[list[Any], bool]:
    """The conversations, and whether there were many."""
    if hasattr(messages, "messages"):
        return [messages.messages], False
    if not isinstance(messages, (list, tuple)) or not messages:
        found = shown(messages)
        raise EncodeError(
            ("messages",), f"found {found}, expected a conversation or a list of them"
        )
    if isinstance(messages[0], (list, tuple)) or hasattr(messages[0], "messages"):
        return [getattr(chat, "messages", chat) for chat in messages], True
    return [messages], False


def _prompt(messages: Sequence[Any], asks: bool, continued: bool | str, request: Request) -> Prompt:
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
        problem = f"found {shown(continued)}, but the last message shows no reasoning"
        raise OptionError("continue_final_message", problem)
    return opened


def _with_open_end(messages: Sequence[Any], inside_reasoning: bool) -> list[Any]:
    """The messages, the last one without its end. What would come after its text is refused."""
    index = len(messages) - 1
    place = ("messages", index)
    if index < 0:
        raise EncodeError(("messages",), "found none, expected a message to continue")
    last = as_message(messages[-1], place)
    if last.get("role") != "assistant":
        found = shown(last.get("role"))
        raise EncodeError((*place, "role"), f'found {found}, expected "assistant" to continue')
    for field in ("tool_calls", "task", *(("content",) if inside_reasoning else ())):
        if last.get(field):
            problem = f"found {shown(last[field])}, expected nothing after the text to continue"
            raise EncodeError((*place, field), problem)
    return [*messages[:-1], {**last, "wo_eos": True}]


# Prompts -> ids.

# To read a vocabulary takes long, so each tokenizer's is read once.
_known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def _tokenizer_over(tokenizer: Any) -> Any:
    from dsv4.tokens import Tokenizer

    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    try:
        known = _known.get(tokenizer)
    except TypeError:  # no weak reference to it can be made
        return Tokenizer.wrap(tokenizer)
    if known is None:
        known = _known[tokenizer] = Tokenizer.wrap(tokenizer)
    return known


def _ids_and_masks(
    tokenizer: Any, prompts: list[Prompt], masked: bool, cut: slice | None
) -> tuple[list[list[int]], list[list[int]]]:
    ours = _tokenizer_over(tokenizer)
    kept = cut or slice(None)
    if not masked:
        return [ours.encode(prompt)[kept] for prompt in prompts], []
    weighed = [ours.encode_masked(prompt, "assistant") for prompt in prompts]
    masks = [[int(weight) for weight in weights[kept]] for _, weights in weighed]
    return [ids[kept] for ids, _ in weighed], masks


def _truncation(tokenizer: Any, max_length: int | None) -> slice:
    length = max_length or tokenizer.model_max_length
    return slice(length) if tokenizer.truncation_side == "right" else slice(-length, None)


def _padded(tokenizer: Any, ids: list[Any], padding: bool | str, max_length: int | None) -> Any:
    pad: Callable[..., Any] | None = getattr(tokenizer, "pad", None)
    if pad is None:
        found = shown(tokenizer)
        problem = f"found {found}, expected a tokenizer of transformers ({how_to_install('hf')})"
        raise OptionError("tokenizer", f"{problem}, or return_dict=False")
    return pad({"input_ids": ids}, padding=padding, max_length=max_length)


def _aligned(masks: list[list[int]], padded: Any, side: str, alone: bool) -> Any:
    """The masks, with nothing over the padding."""
    rows = [padded["input_ids"]] if alone else padded["input_ids"]
    filled = [
        mask + [0] * (len(row) - len(mask))
        if side == "right"
        else [0] * (len(row) - len(mask)) + mask
        for mask, row in zip(masks, rows, strict=True)
    ]
    return filled[0] if alone else filled
