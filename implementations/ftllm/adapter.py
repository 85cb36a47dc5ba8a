"""ftllm: copies of the released encoders, of V4 and V4.1."""

from conform_lines import answer, module_in, options_of

MODULES = {
    "v4": module_in("ftllm", "encoding_dsv4.py"),
    "v4.1": module_in("ftllm", "encoding_dsv41.py"),
}


def encode(request):
    module = MODULES[request["dialect"]]
    return module.encode_messages(
        request["messages"], request["thinking_mode"], **options_of(request)
    )


def parse(request):
    module = MODULES[request["dialect"]]
    return module.parse_message_from_completion_text(request["text"], request["thinking_mode"])


answer(MODULES, encode, parse)
