"""twinkle-kit: a copy of the released encoder of V4."""

from conform_lines import answer, module_in, options_of

MODULE = module_in("twinkle", "template/deepseek_v4_encoding.py")


def encode(request):
    return MODULE.encode_messages(
        request["messages"], request["thinking_mode"], **options_of(request)
    )


def parse(request):
    return MODULE.parse_message_from_completion_text(request["text"], request["thinking_mode"])


answer(["v4"], encode, parse)
