"""ms-swift: the parsers of its agent templates. Its prompts need PyTorch and a model's folder."""

import sys
from dataclasses import dataclass
from typing import Any

from conform_lines import answer, bare_packages, called, classes_of, seen


@dataclass
class Function:
    """What its parsers make of a call."""

    name: str
    arguments: Any


bare_packages("swift", "agent_template", "infer_engine", "template")
sys.modules["swift.infer_engine"].Function = Function
# The second looks for calls in the words of ReAct, where there is no block of V4's.
vars(sys.modules["swift.template"]).update(Prompt=list, split_str_parts_by=lambda *_: [])
PARSERS = classes_of(
    "swift.agent_template",
    v4=("deepseek_v4", "DeepSeekV4AgentTemplate"),
    v4_1=("deepseek_v41", "DeepSeekV41AgentTemplate"),
)


def parse(request):
    calls = PARSERS[request["dialect"]]().get_toolcall(seen(request["text"]))
    return called([(call.name, call.arguments) for call in calls], None)


answer(PARSERS, parse=parse)
