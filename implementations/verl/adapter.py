"""verl: its encoder of V4, a port of April's. Tools stay on their messages, and a turn is opened
where an answer is to come: its documentation has both."""

import sys
from importlib import import_module
from types import SimpleNamespace

from conform_lines import Unsupported, answer, bare_packages, is_answered

# Its packages import PyTorch and Ray, of which the encoder uses nothing.
bare_packages("verl", "utils", "utils.tokenizer")
FOLDER = "verl.utils.tokenizer"
sys.modules[f"{FOLDER}.continuous_token"] = SimpleNamespace(
    ContinuousTokenBuilder=object, MergeResult=object, require_token_id=None
)
sys.modules[f"{FOLDER}.tokenizer"] = SimpleNamespace(normalize_token_ids=None)
MODULE = import_module(f"{FOLDER}.deepseek")


def encode(request):
    if request.get("context"):
        raise Unsupported("context")
    return MODULE.encode_messages(
        request["messages"],
        add_generation_prompt=not is_answered(request["messages"]),
        add_bos_token=request.get("add_default_bos_token", True),
        enable_thinking=request["thinking_mode"] == "thinking",
        drop_thinking=request.get("drop_thinking", True),
        reasoning_effort=request.get("reasoning_effort"),
    )


answer(["v4"], encode)
