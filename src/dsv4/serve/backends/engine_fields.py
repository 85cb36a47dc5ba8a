"""Fields of requests that belong to an engine and to no protocol: what each engine takes, and under
which name.

A field that an engine takes is forwarded. One that asks for a form of the answer is forwarded
where that form can hold for the whole completion, and refused elsewhere: an engine would apply it
to the reasoning and to the markup of calls as well. All others are ignored and named in
`x-dsv4-ignored`, as in every protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dsv4.api import ApiError
from dsv4.api.request_fields import JsonObject

# The older names of vLLM for the forms of an answer, which clients still send.
_GUIDED = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
}
_FORM = "a `response_format`, which holds for the answer alone"


@dataclass(frozen=True, slots=True)
class EngineFields:
    """What an engine takes beyond the protocols.

    `forwarded` are names of requests with those of the engine; `forms` are fields that ask for a
    form of the answer, likewise; `refused` are fields whose wish nothing here can keep, with what
    would be right.
    """

    forwarded: Mapping[str, str] = field(default_factory=dict)
    forms: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Every field that is read."""
        return frozenset((*self.forwarded, *self.forms, *self.refused))

    def read(self, body: JsonObject, is_answer: bool) -> dict[str, Any]:
        """What the engine gets of a request, by its own names; `is_answer` says that a completion
        is nothing but the text of an answer. Raises an `ApiError`."""
        for name, expected in self.refused.items():
            if body.get(name) not in (None, False):
                raise ApiError(f"this cannot be kept here: expected {expected}", path=name)
        forms = {name: body[name] for name in self.forms if body.get(name) is not None}
        if forms and not is_answer:
            [name, *_] = forms
            problem = "this would hold for reasoning and calls too"
            raise ApiError(f"{problem}: expected {_FORM}", path=name)
        names = {**self.forwarded, **{name: self.forms[name] for name in forms}}
        given = {own: body[name] for name, own in names.items() if body.get(name) is not None}
        return _nested(given)


def fields_of(backend: object) -> EngineFields:
    """What a backend takes; a program's own may say so, in `fields`."""
    found = getattr(backend, "fields", NONE)
    return found if isinstance(found, EngineFields) else NONE


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Values by names in which a dot parts a field from its member."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        outer, dot, member = name.partition(".")
        nested[outer] = {**nested.get(outer, {}), member: value} if dot else value
    return nested


def joined(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """A body for an engine, with what a request adds to it: lists grow, objects get members, and
    nothing that the gateway itself decides is replaced."""
    both = {**extra, **body}
    for name in body.keys() & extra.keys():
        if isinstance(body[name], dict) and isinstance(extra[name], dict):
            both[name] = joined(body[name], extra[name])
        elif isinstance(body[name], list) and isinstance(extra[name], list):
            both[name] = [*body[name], *extra[name]]
    return both


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


NONE = EngineFields(refused=dict.fromkeys(("structured_outputs", *_GUIDED), _FORM))

VLLM = EngineFields(
    forwarded=_same(
        *("min_p", "repetition_penalty", "length_penalty", "min_tokens", "ignore_eos", "bad_words"),
        *("stop_token_ids", "allowed_token_ids", "repetition_detection", "watermarking"),
        *("priority", "cache_salt", "session_id", "vllm_xargs"),
        *("kv_transfer_params", "ec_transfer_params", "stream_interval"),
    ),
    forms={
        "structured_outputs": "structured_outputs",
        **{name: f"structured_outputs.{member}" for name, member in _GUIDED.items()},
    },
    refused={
        "use_beam_search": "false: a completion is streamed as it is sampled",
        "truncate_prompt_tokens": "a prompt that fits: the format decides what it begins with",
        "prompt_embeds": "none: the prompt is made from the messages",
    },
)

# What would run code of the client's in the server, or load files there, is not among them.
SGLANG = EngineFields(
    forwarded={
        **{
            name: f"sampling_params.{name}"
            for name in (
                *("min_p", "repetition_penalty", "ignore_eos", "stop_token_ids", "stop_regex"),
                *("custom_params", "watermark", "stream_interval"),
            )
        },
        **_same("priority", "cache_salt", "extra_key", "session_id", "custom_labels"),
        "min_tokens": "sampling_params.min_new_tokens",
    },
    forms={
        **{
            name: f"sampling_params.{name}"
            for name in ("regex", "ebnf", "json_schema", "structural_tag")
        },
        "guided_regex": "sampling_params.regex",
    },
    refused={
        **dict.fromkeys(("structured_outputs", *(_GUIDED.keys() - {"guided_regex"})), _FORM),
        "input_embeds": "none: the prompt is made from the messages",
    },
)

LLAMACPP = EngineFields(
    forwarded={
        **_same(
            *("min_p", "ignore_eos", "typical_p", "dynatemp_range", "dynatemp_exponent"),
            *("repeat_penalty", "repeat_last_n", "mirostat", "mirostat_tau", "mirostat_eta"),
            *("xtc_probability", "xtc_threshold", "samplers", "min_keep", "cache_prompt"),
            *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
            "id_slot",
        ),
        "repetition_penalty": "repeat_penalty",
    },
    forms=_same("grammar", "json_schema"),
    refused=dict.fromkeys(("structured_outputs", *_GUIDED), _FORM),
)
