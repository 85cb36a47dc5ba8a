"""The table of faults: what each does, what that does to the answers, and what mends it.

A fault is a few lines: a change of the request before the server reads it, or of the prompt that it
writes. Some come in several variants, which have the same name, effect and cure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dsv4._format.dialects import V3_2
from dsv4.profiles import prompt_changes, request_changes
from dsv4.profiles.fault_values import ServerFault, by_prompt, by_request

_ENCODER = "have the server use the encoder that was released with the model"
_TEMPLATE = "start the server with the model's own chat template"
_PROXY = "look for a proxy in front of the server that rewrites requests, and bypass it"
_MIDDLE = "send the request directly to the server, or put `dsv4 serve` in front of it"

KEPT_MESSAGES = (1, 2, 3, 4, 5, 6, 8, 10, 20)
# Round numbers. What the counts show is searched besides.
KEPT_CHARACTERS = (250, 500, 1000, 2000, 4000, 8000)
HIGHEST_LIMIT = 10_000_000
DEFAULT_SYSTEM = "You are a helpful assistant."
DATE = "Current date: 2026-08-06."

_PROMPT_FAULTS = (
    ServerFault(
        "bos-twice",
        "prompt",
        "the prompt begins with two BOS tokens",
        "the model sees a start that it was not trained on; quality drops a little everywhere",
        "the tokenizer adds BOS to a template that has one: switch one of them off",
        by_prompt(prompt_changes.bos_twice),
    ),
    ServerFault(
        "bos-missing",
        "prompt",
        "the prompt has no BOS token",
        "the model sees a start that it was not trained on; long answers derail",
        "let the template or the tokenizer add BOS (`add_special_tokens`)",
        by_prompt(prompt_changes.bos_missing),
    ),
    ServerFault(
        "no-header",
        "prompt",
        "the prompt ends without the header of an answer",
        "the model has to begin the answer's turn itself, and may write the user's turn instead",
        "set `add_generation_prompt` to true",
        by_prompt(prompt_changes.no_header),
    ),
    ServerFault(
        "think-token-missing",
        "prompt",
        "the header of the answer has no think token",
        "the model decides for itself whether it thinks, and reasoning ends up in the answer",
        _ENCODER,
        by_prompt(prompt_changes.think_token_missing),
    ),
    ServerFault(
        "trailing-newline",
        "prompt",
        "the prompt ends with a line break",
        "the first token of the answer is sampled from a state the model was not trained on",
        "strip the line break at the end of the template",
        by_prompt(prompt_changes.trailing_newline),
    ),
    ServerFault(
        "other-vocabulary",
        "prompt",
        "the tokens are counted with another vocabulary",
        "the model or the counter is not the one that was asked for; limits and bills are off",
        "check which model is served, and which tokenizer counts",
    ),
    ServerFault(
        "history-truncated",
        "prompt",
        "only the last messages reach the model",
        "the model forgets the start of the conversation",
        "raise the limit of messages in the proxy, or its memory",
        family=request_changes.history_truncated,
        usual=KEPT_MESSAGES,
    ),
    ServerFault(
        "long-texts-truncated",
        "prompt",
        "long texts are cut",
        "files and results that are read lose their end, and the model guesses",
        "raise the limit of characters in the proxy",
        family=request_changes.texts_truncated,
        usual=KEPT_CHARACTERS,
    ),
    ServerFault(
        "template-v3",
        "prompt",
        "the prompt is written with the template of DeepSeek-V3",
        "efforts, reasoning and tools are not as the model was trained",
        _TEMPLATE,
        by_prompt(
            prompt_changes.template_v3(think_token=False),
            prompt_changes.template_v3(think_token=True),
        ),
        replaces_prompt=True,
    ),
    ServerFault(
        "template-chatml",
        "prompt",
        "the prompt is written as ChatML",
        "the model sees turns that it was not trained on",
        _TEMPLATE,
        by_prompt(
            prompt_changes.template_chatml(bos=False), prompt_changes.template_chatml(bos=True)
        ),
        replaces_prompt=True,
    ),
    ServerFault(
        "format-v3.2",
        "prompt",
        "the prompt is written in the format of DeepSeek-V3.2",
        "efforts are lost, and tools and results have another markup than the model knows",
        _ENCODER,
        by_prompt(prompt_changes.format_v3_2(), prompt_changes.format_v3_2(V3_2)),
        replaces_prompt=True,
    ),
)

_SYSTEM_FAULTS = (
    ServerFault(
        "system-dropped",
        "system",
        "system messages are dropped",
        "instructions have no effect",
        _PROXY,
        by_request(request_changes.system_dropped),
    ),
    ServerFault(
        "system-default-added",
        "system",
        "a system text is added where the request has none",
        "the model follows instructions that you did not give",
        "send a system message of your own, or have the default removed",
        by_request(
            request_changes.default_system(DEFAULT_SYSTEM, "system", "developer"),
            request_changes.default_system(DEFAULT_SYSTEM, "system"),
        ),
        any_length=True,
    ),
    ServerFault(
        "developer-text-added",
        "system",
        "a text is added to requests that have a developer message",
        "the model follows instructions that you did not give",
        "send system messages in place of developer messages",
        by_request(
            request_changes.system_for_developers(DEFAULT_SYSTEM),
            request_changes.developer_text_added(DEFAULT_SYSTEM),
        ),
        any_length=True,
    ),
    ServerFault(
        "date-added",
        "system",
        "a text, such as the date, is added to the system text of every request",
        "the prompt changes every day, so that no prefix cache outlives it",
        "have the text removed, or put it into the last message",
        by_request(
            request_changes.system_text_added(DATE, before=True),
            request_changes.system_text_added(DATE, before=False),
            request_changes.system_text_added(DATE.rstrip("."), before=True),
            request_changes.system_text_added(DATE.rstrip("."), before=False),
        ),
        any_length=True,
    ),
    ServerFault(
        "system-moved",
        "system",
        "system messages are moved to another place",
        "later instructions come too early, or count as the user's",
        "send one system message, at the start",
        by_request(request_changes.later_systems_in_front, request_changes.systems_in_first_user),
    ),
    ServerFault(
        "developer-dropped",
        "system",
        "developer messages are dropped",
        "instructions have no effect",
        "send them as system messages",
        by_request(request_changes.developer_dropped),
    ),
    ServerFault(
        "developer-as-system",
        "system",
        "developer messages become system messages",
        "instructions have the rank of a system text",
        "send them as system messages, so that every server agrees",
        by_request(request_changes.developer_as_system),
    ),
    ServerFault(
        "billing-kept",
        "system",
        "the billing line of Claude Code stays in the system text",
        "it changes with each version, so that no prefix cache is shared",
        "set CLAUDE_CODE_ATTRIBUTION_HEADER=0 in the client",
        by_request(request_changes.billing_kept),
    ),
)

_THINKING_FAULTS = (
    ServerFault(
        "thinking-never",
        "thinking",
        "the model never thinks",
        "hard questions get worse answers",
        "look for a switch of the server or proxy that turns thinking off",
        by_request(request_changes.thinking_set(False)),
    ),
    ServerFault(
        "thinking-always",
        "thinking",
        "the model always thinks",
        "short answers are slow and expensive",
        "look for a switch of the server or proxy that turns thinking on",
        by_request(request_changes.thinking_set(True)),
    ),
    ServerFault(
        "thinking-off-by-default",
        "thinking",
        "thinking is off where a request does not ask for it",
        "requests that say nothing of thinking get answers without it",
        "ask for it, with `reasoning_effort` or `chat_template_kwargs`; vLLM has the default in "
        "`--default-chat-template-kwargs`",
        by_request(
            request_changes.template_default(thinking=False),
            request_changes.thinking_by_default(False),
        ),
    ),
    ServerFault(
        "thinking-on-by-default",
        "thinking",
        "thinking is on where a request does not ask for it",
        "short answers are slower and more expensive than on a server of this kind",
        "switch it off, with `chat_template_kwargs` or the effort `none`",
        by_request(
            request_changes.template_default(thinking=True),
            request_changes.thinking_by_default(True),
        ),
    ),
    ServerFault(
        "thinking-kwargs-ignored",
        "thinking",
        "`chat_template_kwargs` is ignored",
        "thinking cannot be switched with it",
        "send `reasoning_effort`, or `thinking` where the server reads it",
        by_request(request_changes.without("chat_template_kwargs")),
    ),
    ServerFault(
        "thinking-type-ignored",
        "thinking",
        "`thinking.type` is ignored",
        "thinking cannot be switched with it",
        "send `reasoning_effort`, or `chat_template_kwargs.thinking`",
        by_request(request_changes.without("thinking")),
    ),
    ServerFault(
        "thinking-as-effort",
        "thinking",
        "`thinking.type` becomes an effort: `enabled` arrives as `minimal`",
        "whoever asks for thinking gets none, or little of it",
        "litellm 1.108 does it (`hosted_vllm`): send `reasoning_effort`, and not `thinking`",
        by_request(request_changes.thinking_as_effort),
    ),
)

EFFORT_NAMES = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
# One name for each text that an effort can write, and for thinking that is off.
EFFORT_TARGETS = ("none", "low", "high", "max")


def _effort_swapped(source: str, target: str) -> ServerFault:
    return ServerFault(
        f"effort-{source}-as-{target}",
        "effort",
        f"`{source}` arrives as `{target}`",
        "the model does not think at all"
        if target == "none"
        else "the model thinks "
        + ("less" if EFFORT_NAMES.index(target) < EFFORT_NAMES.index(source) else "more")
        + " than you asked for",
        "a proxy in front changes it (litellm 1.108 does): " + _MIDDLE,
        by_request(request_changes.effort_as(source, target)),
    )


_EFFORT_FAULTS = (
    ServerFault(
        "effort-ignored",
        "effort",
        "`reasoning_effort` is ignored",
        "every request has the server's default effort",
        "a proxy in front drops it (litellm 1.108 does): " + _MIDDLE,
        by_request(request_changes.without("reasoning_effort"), request_changes.effort_as_switch),
    ),
    *(
        ServerFault(
            f"effort-{name}-by-default",
            "effort",
            f"a request without an effort has the effort `{name}`",
            "answers are not what a server of this kind gives by default",
            "send `reasoning_effort`",
            by_request(
                request_changes.effort_by_default(name),
                request_changes.template_default(thinking=True, reasoning_effort=name),
            ),
        )
        for name in ("low", "high", "max")
    ),
    ServerFault(
        "effort-unwritten",
        "effort",
        "the text about effort is never written",
        "every effort is the lowest",
        _ENCODER,
        by_prompt(prompt_changes.effort_unwritten),
    ),
    ServerFault(
        "effort-always-high",
        "effort",
        "every effort is `high`",
        "`low` is slower, and `max` worse, than it should be",
        _PROXY,
        by_request(request_changes.effort_as(None, "high"), request_changes.effort_always("high")),
    ),
    ServerFault(
        "effort-always-max",
        "effort",
        "every effort is `max`",
        "answers are slow and expensive",
        _PROXY,
        by_request(request_changes.effort_as(None, "max"), request_changes.effort_always("max")),
    ),
    ServerFault(
        "effort-april",
        "effort",
        "efforts arrive one step low: the texts are those of April",
        "`high` writes nothing, and `max` what `high` should",
        "update the server's encoder to the release of 31 July",
        by_prompt(prompt_changes.effort_april),
    ),
    *(
        _effort_swapped(source, target)
        for source in EFFORT_NAMES
        for target in EFFORT_TARGETS
        if source != target
    ),
)

_TOOL_FAULTS = (
    ServerFault(
        "tools-dropped",
        "tools",
        "tools do not reach the model",
        "no tool is ever called",
        _PROXY,
        by_request(request_changes.tools_dropped),
    ),
    ServerFault(
        "tools-refused",
        "tools",
        'requests with tools are refused, unless `tool_choice` is "none"',
        "whoever sends tools gets an error in place of an answer",
        "start vLLM with `--enable-auto-tool-choice` and `--tool-call-parser`",
        by_request(request_changes.tools_refused),
    ),
    ServerFault(
        "tools-wrapped",
        "tools",
        "each schema is written inside `function`",
        "the model sees schemas in a form that it was not trained on",
        _ENCODER,
        by_prompt(prompt_changes.tools_wrapped),
    ),
    ServerFault(
        "tools-compact",
        "tools",
        "schemas are written without spaces",
        "the model sees schemas in a form that it was not trained on",
        _ENCODER,
        by_prompt(prompt_changes.tools_compact),
    ),
    ServerFault(
        "tools-indented",
        "tools",
        "schemas are written with indentation",
        "tools cost more tokens, in a form that the model was not trained on",
        _ENCODER,
        by_prompt(prompt_changes.tools_indented, prompt_changes.tools_indented_more),
    ),
    ServerFault(
        "tools-sorted",
        "tools",
        "the keys of schemas are sorted",
        "descriptions and names change places with what they describe",
        "serialise requests without `sort_keys`",
        by_prompt(prompt_changes.tools_sorted),
    ),
    ServerFault(
        "tools-ascii",
        "tools",
        "schemas are written with \\u escapes",
        "descriptions in other scripts are hard to read and cost several times the tokens",
        "serialise schemas with `ensure_ascii=False`",
        by_prompt(prompt_changes.tools_ascii),
    ),
    ServerFault(
        "tools-descriptions-stripped",
        "tools",
        "descriptions of tools are lost",
        "the model guesses what tools and parameters are for",
        _PROXY,
        by_request(
            request_changes.descriptions_stripped,
            request_changes.descriptions_stripped_inside,
            request_changes.descriptions_stripped_everywhere,
        ),
    ),
    ServerFault(
        "tools-reversed",
        "tools",
        "tools are written in another order",
        "prefix caches are missed where the order changes",
        _PROXY,
        by_request(request_changes.tools_reversed),
    ),
    ServerFault(
        "tools-strict-lost",
        "tools",
        "`strict` of a tool is lost",
        "arguments may break their schema",
        _PROXY,
        by_request(request_changes.strict_lost),
    ),
    ServerFault(
        "additional-properties-lost",
        "tools",
        "`additionalProperties: false` of tools is lost, and so may be `strict`",
        "arguments that the schema forbids are not told to the model, and not refused",
        "litellm 1.108 does it (`hosted_vllm`): send the request past it",
        by_request(
            request_changes.closed_and_strict_lost, request_changes.additional_properties_lost
        ),
    ),
    ServerFault(
        "tools-kept-at-none",
        "tools",
        'tools stay in the prompt at `tool_choice: "none"`',
        "they cost tokens, and the model may call one all the same",
        "send no tools",
        by_request(request_changes.choice_none_lost),
    ),
    ServerFault(
        "tool-choice-ignored",
        "tools",
        "`tool_choice` does not change the prompt",
        "the model does not read which call is wanted; whether one is forced is not for counts to "
        "tell",
        "send only the tools that may be called",
        by_request(request_changes.without("tool_choice")),
    ),
    ServerFault(
        "response-format-unseen",
        "tools",
        "the model does not see `response_format`",
        "it does not know the schema that its answer is held to",
        "repeat the schema in the system text",
        by_request(request_changes.without("response_format")),
    ),
)

_HISTORY_FAULTS = (
    ServerFault(
        "reasoning-dropped",
        "history",
        "reasoning of earlier answers is lost",
        "the model starts thinking anew after each tool result",
        "send `reasoning_content` back, and check that each proxy keeps it",
        by_request(request_changes.reasoning_dropped),
    ),
    ServerFault(
        "reasoning-kept",
        "history",
        "reasoning of finished turns stays in the prompt",
        "prompts are longer than the model was trained on",
        "leave `drop_thinking` at its default",
        (
            *by_request(request_changes.old_reasoning_kept),
            *by_prompt(
                prompt_changes.reasoning_written(where_missing=False),
                prompt_changes.reasoning_written(where_missing=True),
            ),
        ),
    ),
    ServerFault(
        "reasoning-dropped-in-loop",
        "history",
        "reasoning between tool calls is lost",
        "the model forgets its plan after each tool result",
        "send `reasoning_content` back with each call, and check that each proxy keeps it",
        by_request(request_changes.reasoning_dropped_in_loop),
    ),
    ServerFault(
        "reasoning-other-field",
        "history",
        "reasoning is read from another field",
        "reasoning that you send back is lost",
        "send both `reasoning` and `reasoning_content`",
        by_request(request_changes.only_reasoning, request_changes.only_reasoning_content),
    ),
    ServerFault(
        "reasoning-space",
        "history",
        "answers without reasoning get a space for it",
        "the model sees a turn that nobody wrote; prefix caches are missed",
        "litellm 1.108 does it: send reasoning back, or send the request past litellm",
        by_request(
            request_changes.space_for_reasoning_of_calls, request_changes.space_for_reasoning
        ),
    ),
    ServerFault(
        "calls-dropped",
        "history",
        "calls of earlier answers are lost",
        "the model does not know what it has called, and calls it again",
        _PROXY,
        by_request(
            request_changes.calls_dropped,
            request_changes.calls_and_results_dropped,
            request_changes.calling_turns_dropped,
        ),
    ),
    ServerFault(
        "one-call-kept",
        "history",
        "of parallel calls only one is kept",
        "results have no call, and the model repeats the others",
        "set `parallel_tool_calls` to false",
        by_request(
            request_changes.one_call_kept(0, results_too=False),
            request_changes.one_call_kept(0, results_too=True),
            request_changes.one_call_kept(-1, results_too=False),
            request_changes.one_call_kept(-1, results_too=True),
        ),
    ),
    ServerFault(
        "arguments-lost",
        "history",
        "arguments of earlier calls are lost",
        "the model does not know what it has asked for",
        _PROXY,
        by_request(request_changes.arguments_lost),
    ),
    ServerFault(
        "arguments-twice-encoded",
        "history",
        "arguments of earlier calls are JSON inside JSON",
        "the model copies the wrong form into its next call",
        "send arguments as the text that the model wrote",
        by_request(request_changes.arguments_twice_encoded),
    ),
    ServerFault(
        "arguments-reserialised",
        "history",
        "arguments of earlier calls are written by another hand",
        "prefix caches are missed after each call",
        _ENCODER,
        by_prompt(prompt_changes.arguments_compact),
    ),
    ServerFault(
        "floats-rounded",
        "history",
        "floats in arguments lose digits",
        "the model sees other numbers than it wrote",
        "send such numbers as text",
        by_request(request_changes.floats_rounded),
    ),
    ServerFault(
        "parameters-all-strings",
        "history",
        "every parameter of earlier calls is written as text",
        "the model learns from its own history to quote numbers",
        _ENCODER,
        by_request(request_changes.parameters_all_strings),
    ),
    ServerFault(
        "empty-content-none",
        "history",
        "empty content is written as `None`",
        "the model sees, and repeats, an answer that nobody wrote",
        'send `""` in place of null, and mend the template',
        by_request(request_changes.empty_content_none, request_changes.null_content_none),
    ),
    ServerFault(
        "result-tags-missing",
        "history",
        "results of tools have no tags around them",
        "the model takes results for the user's words",
        _ENCODER,
        by_prompt(prompt_changes.result_tags_missing),
    ),
    ServerFault(
        "results-reserialised",
        "history",
        "results that hold JSON are written by another hand",
        "the model sees other text than the tool gave",
        _PROXY,
        by_request(
            request_changes.results_written(ensure_ascii=False),
            request_changes.results_written(ensure_ascii=False, indent=2),
            request_changes.results_written(ensure_ascii=False, separators=(",", ":")),
            request_changes.results_written(ensure_ascii=False, indent=4),
        ),
    ),
)

_CONTENT_FAULTS = (
    ServerFault(
        "results-truncated",
        "history",
        "long results of tools are cut",
        "files and pages that were read lose their end, and the model guesses",
        "raise the limit of characters for results in the proxy",
        family=request_changes.results_truncated,
        usual=KEPT_CHARACTERS,
    ),
    ServerFault(
        "last-newline-lost",
        "content",
        "line breaks at the end of texts are lost",
        "files and results that end in a line break are not what the model wrote or read",
        _PROXY,
        by_request(request_changes.last_newline_lost, request_changes.last_newline_of_results_lost),
    ),
    ServerFault(
        "parts-joined-by-nothing",
        "content",
        "parts of a content list are joined without a separator",
        "the last word of a part runs into the first of the next",
        "send one text for each message",
        by_request(request_changes.parts_joined("")),
    ),
    ServerFault(
        "parts-joined-by-newline",
        "content",
        "parts of a content list are joined with one line break",
        "paragraphs run together",
        "send one text for each message",
        by_request(request_changes.parts_joined("\n")),
    ),
    ServerFault(
        "first-part-only",
        "content",
        "only the first part of a content list is read",
        "the rest of the message is lost",
        "send one text for each message",
        by_request(request_changes.parts_joined(None)),
    ),
    ServerFault(
        "texts-stripped",
        "content",
        "white space around texts is cut",
        "code and diffs lose their first indentation",
        _PROXY,
        by_request(request_changes.texts_stripped),
    ),
)

_COUNTING_FAULTS = (
    ServerFault(
        "counts-estimated",
        "counting",
        "`prompt_tokens` is an estimate, or rounded",
        "bills and limits are off, and prompts cannot be told by counting",
        "count with `dsv4 count`",
    ),
    ServerFault(
        "counts-constant",
        "counting",
        "every request has the same `prompt_tokens`",
        "nothing can be told by counting, and bills and limits are not by use",
        "count with `dsv4 count`",
    ),
    ServerFault(
        "counts-without-cached",
        "counting",
        "`prompt_tokens` leaves out what was cached",
        "whoever reads it as the length of the prompt finds prompts shorter than they are",
        "add `cached_tokens` to it",
    ),
    ServerFault(
        "counts-offset",
        "counting",
        "every count is off by the same number of tokens",
        "a hidden text, or a counter that adds something",
        "ask what is added; only differences of counts are used here",
    ),
    ServerFault(
        "counts-include-completion",
        "counting",
        "`prompt_tokens` includes the tokens of the answer",
        "bills count the answer twice",
        "subtract `completion_tokens`",
    ),
    ServerFault(
        "counts-vary",
        "counting",
        "the same request is answered in different ways, and no two known servers explain it",
        "behaviour, or counting, changes from request to request",
        "send such a request several times, and ask who answers",
    ),
    ServerFault(
        "two-servers",
        "counting",
        "the same request is counted in two ways, as two known servers would",
        "two servers, or two versions, answer in turn: behaviour changes from request to request",
        "ask for one of them, or pin the version",
    ),
)


def _injection(id: str, what: str) -> ServerFault:
    return ServerFault(
        id,
        "safety",
        f"special tokens in {what} become control tokens",
        "whoever writes that text can forge turns of the system, the user and the model",
        "put `dsv4 serve` in front of the raw completions route, or escape the tokens",
    )


_SAFETY_FAULTS = (
    _injection("inject-user", "user text"),
    _injection("inject-result", "tool results"),
    _injection("inject-tool", "tool descriptions"),
    _injection("inject-history", "earlier answers"),
)

FAULTS: Mapping[str, ServerFault] = MappingProxyType(
    {
        fault.id: fault
        for fault in (
            *_PROMPT_FAULTS,
            *_SYSTEM_FAULTS,
            *_THINKING_FAULTS,
            *_EFFORT_FAULTS,
            *_TOOL_FAULTS,
            *_HISTORY_FAULTS,
            *_CONTENT_FAULTS,
            *_COUNTING_FAULTS,
            *_SAFETY_FAULTS,
        )
    }
)
"""Every fault that is known, by its id."""
