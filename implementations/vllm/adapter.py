"""vLLM: its copies of the encoders. Its parsers need PyTorch: `make test-vllm` measures them."""

from conform_lines import Unsupported, answer, module_in, options_of

MODULES = {
    "v4-0731": module_in("vllm", "tokenizers/deepseek_v4_encoding.py"),
    "v4.1": module_in("vllm", "tokenizers/deepseek_v41_encoding.py"),
}


def flat(message):
    """A message as its tokenizer gives it to the encoder: lists of texts are joined before."""
    parts = message.get("content")
    if "content_blocks" in message:
        raise Unsupported("content_blocks")
    if isinstance(parts, list):
        if any(not isinstance(part, dict) or part.get("type") != "text" for part in parts):
            raise Unsupported("parts that are no text")
        message = {**message, "content": "\n\n".join(part["text"] for part in parts)}
    return message


def encode(request):
    options = options_of(request)
    if options.get("context"):
        options["context"] = [flat(message) for message in options["context"]]
    messages = [flat(message) for message in request["messages"]]
    module = MODULES[request["dialect"]]
    return module.encode_messages(messages, request["thinking_mode"], **options)


answer(MODULES, encode)
