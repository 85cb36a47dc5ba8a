"""ftllm: its copies of the released encoders, of V4 (April) and of V4.1 (17 October)."""

from conform_lines import answer, module_in, options_of

MODULES = {
    "v4": module_in("ftllm", "encoding_dsv4.py"),
    "v4.1-1017": module_in("ftllm", "encoding_dsv41.py"),
}


def encode(request):
    module = MODULES[request["dialect"]]
    return module.encode_messages(
        request["messages"], request["thinking_mode"], **options_of(request)
    )


def parse(request):
    module = MODULES.get(request["dialect"], MODULES["v4.1-1017"])
    return module.parse_message_from_completion_text(request["text"], request["thinking_mode"])


answer([*MODULES, "v4.1"], encode, parse, encoded=MODULES)
