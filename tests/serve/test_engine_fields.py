"""Fields that belong to an engine: which are forwarded, refused, or left to the gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway import TOOLS, gateway, run
from standins import LlamacppServer, SglangServer, StandIn, VllmServer

from dsv4.api import ApiError
from dsv4.serve.backends.engine_fields import LLAMACPP, NONE, SGLANG, VLLM, EngineFields, joined
from dsv4.tokens import Tokenizer

RECORDED = json.loads((Path(__file__).parent / "server_fields.json").read_text("utf-8"))
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}

# What the gateway itself writes, or decides by the format: it is not the client's to say.
OWN = {
    "vllm": """model prompt stream stream_options max_tokens temperature top_p top_k seed stop n
        user logprobs logit_bias presence_penalty frequency_penalty skip_special_tokens
        spaces_between_special_tokens add_special_tokens return_token_ids return_tokens_as_token_ids
        response_format request_id echo suffix""",
    "sglang": """text input_ids stream rid sampling_params return_logprob top_logprobs_num
        return_text_in_logprobs sampling_params.max_new_tokens sampling_params.stop
        sampling_params.n sampling_params.temperature sampling_params.top_p sampling_params.top_k
        sampling_params.frequency_penalty sampling_params.presence_penalty
        sampling_params.skip_special_tokens sampling_params.spaces_between_special_tokens
        sampling_params.logit_bias sampling_params.sampling_seed sampling_params.no_stop_trim""",
}
# What is neither: it would change what an answer looks like, is internal to a server or its
# cluster, runs code or loads files of the client's, or is for other models. The header
# `x-dsv4-ignored` names it.
LEFT = {
    "vllm": """include_stop_str_in_output truncation_side prompt_logprobs logprob_token_ids
        routed_experts_prompt_start return_token_offsets mm_payload return_mm_kwargs
        thinking_token_budget""",
    "sglang": """image_data video_data audio_data mm_hashes mm_content_hashes use_audio_in_video
        video_config watermark logprob_start_len token_ids_logprob return_sampling_mask
        sampling_logprobs_mode return_flat_raw_top_logprobs return_flat_raw_output_top_logprobs
        return_flat_raw_top_logprobs_b64 log_metrics return_hidden_states return_routed_experts
        routed_experts_start_len return_indexer_topk modalities session_params lora_path lora_id
        custom_logit_processor positional_embed_overrides bootstrap_host bootstrap_port
        bootstrap_room bootstrap_pair_key decode_tp_size routed_dp_rank data_parallel_rank
        disagg_prefill_dp_rank routing_key conversation_id http_worker_ipc background
        require_reasoning max_thinking_tokens no_logs return_bytes return_entropy
        return_prompt_token_ids external_trace_header received_time need_wait_for_mm_inputs
        num_items_assigned encoder_urls max_dynamic_patch min_dynamic_patch image_max_dynamic_patch
        video_max_dynamic_patch images_config mm_processor_kwargs multi_item_delimiter_indices
        token_indices_to_pool kv_hints sampling_params.beam_width sampling_params.stop_strs
        sampling_params.stop_regex_strs sampling_params.stop_str_max_len
        sampling_params.stop_regex_max_len sampling_params.is_normalized
        sampling_params.ebnf_full_assistant""",
}


@pytest.mark.parametrize("release", RECORDED)
def test_every_field_of_the_engine_has_its_place(release: str) -> None:
    """A new release shows here what it has added."""
    name = release.partition("==")[0]
    fields = {"vllm": VLLM, "sglang": SGLANG}[name]
    taken = {*fields.forwarded.values(), *fields.forms.values()}
    taken = {each for each in taken if not each.startswith("structured_outputs.")}
    refused = {each for each in fields.refused if each in RECORDED[release]}
    places = [*taken, *refused, *OWN[name].split(), *LEFT[name].split()]
    assert sorted(places) == sorted(set(places))
    assert sorted(places) == sorted(RECORDED[release])


ENGINES: dict[str, tuple[type[StandIn], EngineFields]] = {
    "vllm": (VllmServer, VLLM),
    "sglang": (SglangServer, SGLANG),
    "llamacpp": (LlamacppServer, LLAMACPP),
}


def found_at(body: Any, place: str) -> Any:
    for part in place.split("."):
        body = body[part]
    return body


@pytest.mark.parametrize("backend", ENGINES)
def test_what_the_engine_takes_reaches_it(backend: str, tokenizer: Tokenizer) -> None:
    stand_in, fields = ENGINES[backend]

    async def scenario() -> None:
        upstream = stand_in(tokenizer, "Hm.</think>Hello.")
        async with (
            upstream.running() as url,
            gateway(settings_backend=backend, upstream=url, dialect="v4") as g,
        ):
            for name, place in fields.forwarded.items():
                value: Any = [7] if name.endswith("ids") else 0.25
                body = {**CHAT, name: value}
                status, headers, _ = await g.post("/v1/chat/completions", body)
                assert (status, name) == (200, name)
                assert found_at(upstream.requests[-1], place) == value
                assert "x-dsv4-ignored" not in headers

    run(scenario())


FORMS = {"structured_outputs": {"choice": ["a", "b"]}, "guided_choice": ["a", "b"]}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_kept_where_it_can_be(name: str, tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        upstream = VllmServer(tokenizer, "a")
        async with upstream.running() as url, gateway(settings_backend="vllm", upstream=url) as g:

            async def status(**more: Any) -> int:
                body = {**CHAT, name: FORMS[name], **more}
                found, _, answer = await g.post("/v1/chat/completions", body)
                assert found == 200 or answer["error"]["param"] == name
                return int(found)

            off = {"thinking": {"type": "disabled"}}
            assert await status(**off) == 200
            assert upstream.requests[-1]["structured_outputs"] == {"choice": ["a", "b"]}
            assert await status() == 400
            assert await status(**off, tools=TOOLS) == 400

    run(scenario())


def test_a_wish_that_nothing_here_can_keep_is_refused() -> None:
    with pytest.raises(ApiError, match=r"use_beam_search: .*expected false"):
        VLLM.read({"use_beam_search": True}, is_answer=True)
    with pytest.raises(ApiError, match=r"guided_json: .*expected a `response_format`"):
        NONE.read({"guided_json": {}}, is_answer=True)
    assert VLLM.read({"use_beam_search": False, "min_p": None}, is_answer=True) == {}


def test_nothing_that_the_gateway_decides_is_replaced() -> None:
    body = {"stream": True, "stop_token_ids": [1], "sampling_params": {"stop": ["x"]}}
    extra = {"stream": False, "stop_token_ids": [2], "sampling_params": {"min_p": 0.1, "stop": "y"}}
    assert joined(body, extra) == {
        "stream": True,
        "stop_token_ids": [1, 2],
        "sampling_params": {"stop": ["x"], "min_p": 0.1},
    }
