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
from dsv4.profiles import prompt_changes, request_changes
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
    "bos-twice": by_prompt(prompt_changes.bos_twice),
    "bos-missing": by_prompt(prompt_changes.bos_missing),
    "no-header": by_prompt(prompt_changes.no_header),
    "think-token-missing": by_prompt(prompt_changes.think_token_missing),
    "trailing-newline": by_prompt(prompt_changes.trailing_newline),
    "template-v3": by_prompt(
        prompt_changes.template_v3(think_token=False), prompt_changes.template_v3(think_token=True)
    ),
    "template-chatml": by_prompt(
        prompt_changes.template_chatml(bos=False), prompt_changes.template_chatml(bos=True)
    ),
    "format-v3.2": by_prompt(prompt_changes.format_v3_2(), prompt_changes.format_v3_2(V3_2)),
    # System messages.
    "system-dropped": by_request(request_changes.system_dropped),
    "system-default-added": by_request(
        request_changes.default_system(DEFAULT_SYSTEM, "system", "developer"),
        request_changes.default_system(DEFAULT_SYSTEM, "system"),
    ),
    "developer-text-added": by_request(
        request_changes.system_for_developers(DEFAULT_SYSTEM),
        request_changes.developer_text_added(DEFAULT_SYSTEM),
    ),
    "date-added": by_request(
        request_changes.system_text_added(DATE, before=True),
        request_changes.system_text_added(DATE, before=False),
        request_changes.system_text_added(DATE.rstrip("."), before=True),
        request_changes.system_text_added(DATE.rstrip("."), before=False),
    ),
    "system-moved": by_request(
        request_changes.later_systems_in_front, request_changes.systems_in_first_user
    ),
    "developer-dropped": by_request(request_changes.developer_dropped),
    "developer-as-system": by_request(request_changes.developer_as_system),
    "billing-kept": by_request(request_changes.billing_kept),
    # Thinking.
    "thinking-never": by_request(request_changes.thinking_set(False)),
    "thinking-always": by_request(request_changes.thinking_set(True)),
    "thinking-off-by-default": by_request(
        request_changes.template_default(thinking=False), request_changes.thinking_by_default(False)
    ),
    "thinking-on-by-default": by_request(
        request_changes.template_default(thinking=True), request_changes.thinking_by_default(True)
    ),
    "thinking-kwargs-ignored": by_request(request_changes.without("chat_template_kwargs")),
    "thinking-type-ignored": by_request(request_changes.without("thinking")),
    "thinking-as-effort": by_request(request_changes.thinking_as_effort),
    # Efforts.
    "effort-ignored": by_request(
        request_changes.without("reasoning_effort"), request_changes.effort_as_switch
    ),
    # As the default of a template, `high` is what thinking is by default.
    "effort-high-by-default": by_request(request_changes.effort_by_default("high")),
    **{
        f"effort-{name}-by-default": by_request(
            request_changes.effort_by_default(name),
            request_changes.template_default(thinking=True, reasoning_effort=name),
        )
        for name in ("low", "max")
    },
    "effort-unwritten": by_prompt(prompt_changes.effort_unwritten),
    "effort-always-high": by_request(
        request_changes.effort_as(None, "high"), request_changes.effort_always("high")
    ),
    "effort-always-max": by_request(
        request_changes.effort_as(None, "max"), request_changes.effort_always("max")
    ),
    "effort-april": by_prompt(prompt_changes.effort_april),
    # Tools.
    "tools-dropped": by_request(request_changes.tools_dropped),
    "tools-refused": by_request(request_changes.tools_refused),
    "tools-wrapped": by_prompt(prompt_changes.tools_wrapped),
    "tools-compact": by_prompt(prompt_changes.tools_compact),
    "tools-indented": by_prompt(prompt_changes.tools_indented, prompt_changes.tools_indented_more),
    "tools-sorted": by_prompt(prompt_changes.tools_sorted),
    "tools-ascii": by_prompt(prompt_changes.tools_ascii),
    "tools-descriptions-stripped": by_request(
        request_changes.descriptions_stripped,
        request_changes.descriptions_stripped_inside,
        request_changes.descriptions_stripped_everywhere,
    ),
    "tools-reversed": by_request(request_changes.tools_reversed),
    "tools-strict-lost": by_request(request_changes.strict_lost),
    "additional-properties-lost": by_request(
        request_changes.closed_and_strict_lost, request_changes.additional_properties_lost
    ),
    "tools-kept-at-none": by_request(request_changes.choice_none_lost),
    "tool-choice-ignored": by_request(request_changes.without("tool_choice")),
    "response-format-unseen": by_request(request_changes.without("response_format")),
    # Earlier turns.
    "reasoning-dropped": by_request(request_changes.reasoning_dropped),
    "reasoning-kept": (
        *by_request(request_changes.old_reasoning_kept),
        *by_prompt(
            prompt_changes.reasoning_written(where_missing=False),
            prompt_changes.reasoning_written(where_missing=True),
        ),
    ),
    "reasoning-dropped-in-loop": by_request(request_changes.reasoning_dropped_in_loop),
    "reasoning-other-field": by_request(
        request_changes.only_reasoning, request_changes.only_reasoning_content
    ),
    "reasoning-space": by_request(
        request_changes.space_for_reasoning_of_calls, request_changes.space_for_reasoning
    ),
    "calls-dropped": by_request(
        request_changes.calls_dropped,
        request_changes.calls_and_results_dropped,
        request_changes.calling_turns_dropped,
    ),
    "one-call-kept": by_request(
        request_changes.one_call_kept(0, results_too=False),
        request_changes.one_call_kept(0, results_too=True),
        request_changes.one_call_kept(-1, results_too=False),
        request_changes.one_call_kept(-1, results_too=True),
    ),
    "arguments-lost": by_request(request_changes.arguments_lost),
    "arguments-twice-encoded": by_request(request_changes.arguments_twice_encoded),
    "arguments-reserialised": by_prompt(prompt_changes.arguments_compact),
    "floats-rounded": by_request(request_changes.floats_rounded),
    "parameters-all-strings": by_request(request_changes.parameters_all_strings),
    "empty-content-none": by_request(
        request_changes.empty_content_none, request_changes.null_content_none
    ),
    "result-tags-missing": by_prompt(prompt_changes.result_tags_missing),
    "results-reserialised": by_request(
        request_changes.results_written(ensure_ascii=False),
        request_changes.results_written(ensure_ascii=False, indent=2),
        request_changes.results_written(ensure_ascii=False, separators=(",", ":")),
        request_changes.results_written(ensure_ascii=False, indent=4),
    ),
    # Contents.
    "last-newline-lost": by_request(
        request_changes.last_newline_lost, request_changes.last_newline_of_results_lost
    ),
    "parts-joined-by-nothing": by_request(request_changes.parts_joined("")),
    "parts-joined-by-newline": by_request(request_changes.parts_joined("\n")),
    "first-part-only": by_request(request_changes.parts_joined(None)),
    "texts-stripped": by_request(request_changes.texts_stripped),
    **{
        f"effort-{source}-as-{target}": by_request(request_changes.effort_as(source, target))
        for source in EFFORT_NAMES
        for target in EFFORT_TARGETS
        if source != target
    },
    "effort-none-as-high": by_request(
        request_changes.effort_as("none", "high"), request_changes.no_effort_as_switch
    ),
}
# Faults with a limit, and the usual limits.
_FAMILIES: Mapping[str, tuple[FaultFamily, tuple[int, ...]]] = {
    "history-truncated": (request_changes.history_truncated, KEPT_MESSAGES),
    "long-texts-truncated": (request_changes.texts_truncated, KEPT_CHARACTERS),
    "results-truncated": (request_changes.results_truncated, KEPT_CHARACTERS),
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
