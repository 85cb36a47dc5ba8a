"""The table of faults: what each does, what that does to the answers, and what fixes it.

The words are in fault_texts.json. What a fault does is here: a change of the request before the
server reads it, or of the prompt that it writes. Some come in several variants, which have the same
name, effect and cure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from dsv4._format.dialects import V3_2
from dsv4.profiles import prompt_changes as prompt
from dsv4.profiles import request_changes as request
from dsv4.profiles.fault_values import FaultFamily, ServerFault, by_prompt, by_request
from dsv4.profiles.table_files import read_table

KEPT_MESSAGES = (1, 2, 3, 4, 5, 6, 8, 10, 20)
# Round numbers. What the counts show is searched besides.
KEPT_CHARACTERS = (250, 500, 1000, 2000, 4000, 8000)
HIGHEST_LIMIT = 10_000_000
DEFAULT_SYSTEM = "You are a helpful assistant."
DATE = "Current date: 2026-08-06."

EFFORT_NAMES = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
# One name for each text that an effort can write, and for thinking that is off.
EFFORT_TARGETS = ("none", "low", "high", "max")

# Faults that the prompts show, and not only the counts, by their ids.
_CHANGES = {
    "bos-twice": by_prompt(prompt.bos_twice),
    "bos-missing": by_prompt(prompt.bos_missing),
    "no-header": by_prompt(prompt.no_header),
    "think-token-missing": by_prompt(prompt.think_token_missing),
    "trailing-newline": by_prompt(prompt.trailing_newline),
    "template-v3": by_prompt(
        prompt.template_v3(think_token=False), prompt.template_v3(think_token=True)
    ),
    "template-chatml": by_prompt(
        prompt.template_chatml(bos=False), prompt.template_chatml(bos=True)
    ),
    "format-v3.2": by_prompt(prompt.format_v3_2(), prompt.format_v3_2(V3_2)),
    # System messages.
    "system-dropped": by_request(request.system_dropped),
    "system-default-added": by_request(
        request.default_system(DEFAULT_SYSTEM, "system", "developer"),
        request.default_system(DEFAULT_SYSTEM, "system"),
    ),
    "developer-text-added": by_request(
        request.system_for_developers(DEFAULT_SYSTEM), request.developer_text_added(DEFAULT_SYSTEM)
    ),
    "date-added": by_request(
        request.system_text_added(DATE, before=True),
        request.system_text_added(DATE, before=False),
        request.system_text_added(DATE.rstrip("."), before=True),
        request.system_text_added(DATE.rstrip("."), before=False),
    ),
    "system-moved": by_request(request.later_systems_in_front, request.systems_in_first_user),
    "developer-dropped": by_request(request.developer_dropped),
    "developer-as-system": by_request(request.developer_as_system),
    "billing-kept": by_request(request.billing_kept),
    # Thinking.
    "thinking-never": by_request(request.thinking_set(False)),
    "thinking-always": by_request(request.thinking_set(True)),
    "thinking-off-by-default": by_request(
        request.template_default(thinking=False), request.thinking_by_default(False)
    ),
    "thinking-on-by-default": by_request(
        request.template_default(thinking=True), request.thinking_by_default(True)
    ),
    "thinking-kwargs-ignored": by_request(request.without("chat_template_kwargs")),
    "thinking-type-ignored": by_request(request.without("thinking")),
    "thinking-as-effort": by_request(request.thinking_as_effort),
    # Efforts.
    "effort-ignored": by_request(request.without("reasoning_effort"), request.effort_as_switch),
    # As the default of a template, `high` is what thinking is by default.
    "effort-high-by-default": by_request(request.effort_by_default("high")),
    **{
        f"effort-{name}-by-default": by_request(
            request.effort_by_default(name),
            request.template_default(thinking=True, reasoning_effort=name),
        )
        for name in ("low", "max")
    },
    "effort-unwritten": by_prompt(prompt.effort_unwritten),
    "effort-always-high": by_request(
        request.effort_as(None, "high"), request.effort_always("high")
    ),
    "effort-always-max": by_request(request.effort_as(None, "max"), request.effort_always("max")),
    "effort-april": by_prompt(prompt.effort_april),
    # Tools.
    "tools-dropped": by_request(request.tools_dropped),
    "tools-refused": by_request(request.tools_refused),
    "tools-wrapped": by_prompt(prompt.tools_wrapped),
    "tools-compact": by_prompt(prompt.tools_compact),
    "tools-indented": by_prompt(prompt.tools_indented, prompt.tools_indented_more),
    "tools-sorted": by_prompt(prompt.tools_sorted),
    "tools-ascii": by_prompt(prompt.tools_ascii),
    "tools-descriptions-stripped": by_request(
        request.descriptions_stripped,
        request.descriptions_stripped_inside,
        request.descriptions_stripped_everywhere,
    ),
    "tools-reversed": by_request(request.tools_reversed),
    "tools-strict-lost": by_request(request.strict_lost),
    "additional-properties-lost": by_request(
        request.closed_and_strict_lost, request.additional_properties_lost
    ),
    "tools-kept-at-none": by_request(request.choice_none_lost),
    "tool-choice-ignored": by_request(request.without("tool_choice")),
    "response-format-unseen": by_request(request.without("response_format")),
    # Earlier turns.
    "reasoning-dropped": by_request(request.reasoning_dropped),
    "reasoning-kept": (
        *by_request(request.old_reasoning_kept),
        *by_prompt(
            prompt.reasoning_written(where_missing=False),
            prompt.reasoning_written(where_missing=True),
        ),
    ),
    "reasoning-dropped-in-loop": by_request(request.reasoning_dropped_in_loop),
    "reasoning-other-field": by_request(request.only_reasoning, request.only_reasoning_content),
    "reasoning-space": by_request(
        request.space_for_reasoning_of_calls, request.space_for_reasoning
    ),
    "calls-dropped": by_request(
        request.calls_dropped, request.calls_and_results_dropped, request.calling_turns_dropped
    ),
    "one-call-kept": by_request(
        request.one_call_kept(0, results_too=False),
        request.one_call_kept(0, results_too=True),
        request.one_call_kept(-1, results_too=False),
        request.one_call_kept(-1, results_too=True),
    ),
    "arguments-lost": by_request(request.arguments_lost),
    "arguments-twice-encoded": by_request(request.arguments_twice_encoded),
    "arguments-reserialised": by_prompt(prompt.arguments_compact),
    "floats-rounded": by_request(request.floats_rounded),
    "parameters-all-strings": by_request(request.parameters_all_strings),
    "empty-content-none": by_request(request.empty_content_none, request.null_content_none),
    "result-tags-missing": by_prompt(prompt.result_tags_missing),
    "results-reserialised": by_request(
        request.results_written(ensure_ascii=False),
        request.results_written(ensure_ascii=False, indent=2),
        request.results_written(ensure_ascii=False, separators=(",", ":")),
        request.results_written(ensure_ascii=False, indent=4),
    ),
    # Contents.
    "last-newline-lost": by_request(
        request.last_newline_lost, request.last_newline_of_results_lost
    ),
    "parts-joined-by-nothing": by_request(request.parts_joined("")),
    "parts-joined-by-newline": by_request(request.parts_joined("\n")),
    "first-part-only": by_request(request.parts_joined(None)),
    "texts-stripped": by_request(request.texts_stripped),
    **{
        f"effort-{source}-as-{target}": by_request(request.effort_as(source, target))
        for source in EFFORT_NAMES
        for target in EFFORT_TARGETS
        if source != target
    },
    "effort-none-as-high": by_request(
        request.effort_as("none", "high"), request.no_effort_as_switch
    ),
}
# Faults with a limit, and the usual limits.
_FAMILIES: Mapping[str, tuple[FaultFamily, tuple[int, ...]]] = {
    "history-truncated": (request.history_truncated, KEPT_MESSAGES),
    "long-texts-truncated": (request.texts_truncated, KEPT_CHARACTERS),
    "results-truncated": (request.results_truncated, KEPT_CHARACTERS),
}


def _faults() -> Iterator[ServerFault]:
    table = read_table("fault_texts")
    mends = table["mends"]
    for row in table["faults"]:
        row["mend"] = mends.get(row["mend"], row["mend"])
        for texts in _swapped_efforts(row) if "{source}" in row["id"] else [row]:
            family, usual = _FAMILIES.get(texts["id"], (None, ()))
            changes = _CHANGES.get(texts["id"], ())
            yield ServerFault(**texts, variants=changes, family=family, usual=usual)


def _swapped_efforts(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The row of one effort for another, for each pair of them."""
    for source in EFFORT_NAMES:
        for target in EFFORT_TARGETS:
            if source != target:
                words = {"source": source, "target": target, "effect": _effect(source, target)}
                yield {name: text.format(**words) for name, text in row.items()}


def _effect(source: str, target: str) -> str:
    if target == "none":
        return "the model does not think at all"
    is_less = EFFORT_NAMES.index(target) < EFFORT_NAMES.index(source)
    return f"the model thinks {'less' if is_less else 'more'} than you asked for"


FAULTS: Mapping[str, ServerFault] = MappingProxyType({fault.id: fault for fault in _faults()})
"""Every fault that is known, by its id."""
