"""deepseek-recipe: Chat requests, as the official API takes them, and its reader of completions."""

import json

import conform_lines as lines
import deepseek_recipe as recipe

MODELS = {"v4": "DeepSeek-V4-Pro", "v4-0731": "DeepSeek-V4-Pro", "v4.1": "DeepSeek-V4.1-Flash"}
ENCODINGS = {"v4-0731": recipe.DeepseekV4Encoding(), "v4.1": recipe.DeepseekV41Encoding()}


def converted(request, **fields):
    fields |= {"thinking": lines.thinking_of(request), "model": MODELS[request["dialect"]]}
    return recipe.ChatCompletionRequest(json.dumps(fields)).convert(recipe.ConversionOptions())


def encode(request):
    lines.refuse_encoder_options(request)
    messages, tools = lines.with_tools_apart(request)
    lines.refuse_parts_but(messages, "text", "image_url")
    effort = request.get("reasoning_effort")
    if effort is None and request["dialect"] == "v4-0731":
        effort = "low"  # which writes nothing; without one it is high here
    fields = {"tools": tools} if tools else {}
    read = converted(request, messages=messages, reasoning_effort=effort, **fields)
    return ENCODINGS[request["dialect"]].render_conversation(read.conversation).prompt


def parse(request):
    read = converted(request, **lines.parsed_body(request))
    chunks = recipe.ChatCompletionRequest.chunk_generator(read, "id", "m")
    processor = recipe.StreamProcessor(chunks, read.parsing_options)
    processor.push(recipe.InferenceChunk.ready(prompt_usage=recipe.PromptUsage()))
    said = recipe.InferenceChunk.text(lines.seen(request["text"]), 1)
    events = [*processor.push(said), *processor.finish()]
    return lines.read_deltas([json.loads(event.to_json()) for event in events])


lines.answer(MODELS, encode, parse, encoded=ENCODINGS)
