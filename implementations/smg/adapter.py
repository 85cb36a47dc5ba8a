"""SMG: its router, in front of a stand-in for an engine."""

import conform_lines as lines
from smg_frontend import SmgFrontend

NAMES = {"v4": "v4", "v4-0731": "v4", "v4.1": "v4.1"}
FRONTEND = SmgFrontend(lines.v4_vocabulary())


def encode(request):
    lines.refuse_encoder_options(request)
    messages, tools = lines.with_tools_apart(request)
    options = {"thinking": request["thinking_mode"] == "thinking"}
    options["drop_thinking"] = request.get("drop_thinking", True)
    if (effort := request.get("reasoning_effort")) is not None:
        options["reasoning_effort"] = effort
    elif request["dialect"] == "v4-0731":
        options["reasoning_effort"] = "low"  # which writes nothing; without one it is high here
    body = {"messages": messages, "chat_template_kwargs": options}
    body |= {"tools": tools} if tools else {}
    return FRONTEND.prompt(NAMES[request["dialect"]], body)


def parse(request):
    said = lines.seen(request["text"])
    message = FRONTEND.message(NAMES[request["dialect"]], said, lines.parsed_body(request))
    return lines.read_message(message)


lines.answer(NAMES, encode, parse, encoded=("v4-0731", "v4.1"))
