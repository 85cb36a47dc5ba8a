"""twinkle-kit: the tokenizer of its `DeepseekV4Template` for a checkpoint with an encoder, which
it loads. The encoder here is April's, from the copy in ftllm 1.9.0."""

from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import conform_lines as lines

COPY = Path(find_spec("ftllm").submodule_search_locations[0], "encoding_dsv4.py")
lines.bare_packages("twinkle", "template")
lines.stand_ins("torch", "twinkle.hub", "twinkle.data_format", "twinkle.utils")
lines.stand_ins("twinkle.template.base", "twinkle.template.tools", "twinkle.template.utils")
from twinkle.template import deepseek_v4  # noqa: E402

FOLDER = Path(mkdtemp())
(FOLDER / "encoding").mkdir()
(FOLDER / "encoding" / "encoding_dsv4.py").write_text(COPY.read_text("utf-8"), "utf-8")
TOKENIZER = deepseek_v4.get_deepseek_v4_tokenizer(lines.v4_tokenizer(), str(FOLDER))


def encode(request):
    if request.get("context") or request.get("add_default_bos_token") is False:
        raise lines.Unsupported("an option of the released encoder")
    return TOKENIZER.apply_chat_template(
        request["messages"],
        thinking=request["thinking_mode"] == "thinking",
        drop_thinking=request.get("drop_thinking", True),
        reasoning_effort=request.get("reasoning_effort"),
        tokenize=False,
    )


lines.answer(["v4"], encode)
