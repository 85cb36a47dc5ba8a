"""smg: its router, with its own tokenizer, in front of a stand-in for an engine."""

import conform_lines as lines
from smg_router import SmgRouter

NAMES = {"v4": "v4", "v4-0731": "v4", "v4.1": "v4.1"}
ROUTERS = {dialect: SmgRouter(dialect, lines.v4_vocabulary()) for dialect in ("v4", "v4.1")}


def encode(request):
    lines.refuse_encoder_options(request)
    dialect, thinking = request["dialect"], request["thinking_mode"] == "thinking"
    keeps, effort = not request.get("drop_thinking", True), request.get("reasoning_effort")
    if keeps and dialect == "v4-0731":
        raise lines.Unsupported("drop_thinking, on V4")
    messages, tools = lines.with_tools_apart(request)
    lines.refuse_parts_but(messages, "text")  # of images it wants the pictures
    if effort is None and dialect == "v4-0731":
        effort = "low"  # which writes nothing; without one it is high here
    options = {"thinking": thinking, "drop_thinking": not keeps}
    options |= {} if effort is None else {"reasoning_effort": effort}
    body = {"messages": messages, "chat_template_kwargs": options}
    body |= {"tools": tools} if tools else {}
    return ROUTERS[NAMES[dialect]].prompt(body)


def parse(request):
    said = lines.seen(request["text"])
    message = ROUTERS[NAMES[request["dialect"]]].message(said, lines.parsed_body(request))
    return lines.read_message(message)


lines.answer(NAMES, encode, parse, encoded=("v4-0731", "v4.1"))
