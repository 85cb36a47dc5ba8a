"""An agent: it asks a model, runs the tools that the model calls, and asks again until it answers.

    python examples/agent.py                      # a scripted model: nothing else is needed
    python examples/agent.py --url http://localhost:8000/v1/completions --model NAME "Which day …?"

With a URL, the model is any server that continues a prompt as OpenAI's completions do and streams
what it writes. It must show special tokens: to vLLM and SGLang, `skip_special_tokens` says so.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from typing import Any

import dsv4

Model = Callable[[str], Iterable[str]]  # a prompt -> what the model writes, in pieces


def weekday(day: str) -> str:
    return f"{date.fromisoformat(day):%A}"


def add_days(day: str, days: int) -> str:
    return str(date.fromisoformat(day) + timedelta(days=days))


def described(name: str, description: str, **types: str) -> dict[str, Any]:
    properties = {parameter: {"type": kind} for parameter, kind in types.items()}
    parameters = {"type": "object", "properties": properties, "required": list(types)}
    return {"name": name, "description": description, "parameters": parameters}


TOOLS: dict[str, tuple[Callable[..., str], dict[str, Any]]] = {
    "weekday": (weekday, described("weekday", "The weekday of a date, YYYY-MM-DD.", day="string")),
    "add_days": (
        add_days,
        described("add_days", "The date so many days later.", day="string", days="integer"),
    ),
}


def answer(question: str, model: Model, rounds: int = 8) -> Iterator[dict[str, Any]]:
    """The conversation, message by message. The last one is the answer."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    yield messages[0]
    for _ in range(rounds):
        turn = one_turn(messages, model)
        results = [result_of(call) for call in turn.get("tool_calls", ())]
        for message in (turn, *results):
            messages.append(message)
            yield message
        if not results:
            return
    raise SystemExit(f"no answer after {rounds} rounds")


def one_turn(messages: list[dict[str, Any]], model: Model) -> dict[str, Any]:
    """What the model writes next. Request and parser fit each other, so nothing is said twice."""
    request = dsv4.Request(messages, tools=[schema for _, schema in TOOLS.values()])
    parser = request.parser()
    events = []
    for text in model(str(request.encode())):
        events += parser.feed(text)  # a program with a screen would show these as they come
    events += parser.finish()
    message = dsv4.assemble(events)
    if message.incomplete:
        raise SystemExit(f"cut short in a call of {message.incomplete[0].name}: allow more tokens")
    return message.to_dict()


def result_of(call: dict[str, Any]) -> dict[str, Any]:
    """A tool's result. What goes wrong is for the model to read, and to do better."""
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    try:
        function, _ = TOOLS[name]
        content = function(**arguments)
    except KeyError:
        content = f"error: there is no tool {name!r}, only {', '.join(TOOLS)}"
    except (TypeError, ValueError) as error:
        content = f"error: {error}"
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


# The closing tag of `days` is missing: models do that, and the parser mends it.
SCRIPT = (
    """First the date.</think>

<｜DSML｜tool_calls>
<｜DSML｜invoke name="add_days">
<｜DSML｜parameter name="day" string="true">2026-11-15</｜DSML｜parameter>
<｜DSML｜parameter name="days" string="false">100
</｜DSML｜invoke>
</｜DSML｜tool_calls><｜end▁of▁sentence｜>""",
    """Now the weekday.</think>

<｜DSML｜tool_calls>
<｜DSML｜invoke name="weekday">
<｜DSML｜parameter name="day" string="true">2027-02-23</｜DSML｜parameter>
</｜DSML｜invoke>
</｜DSML｜tool_calls><｜end▁of▁sentence｜>""",
    "That is all.</think>It is a Tuesday.<｜end▁of▁sentence｜>",
)


def scripted() -> Model:
    """A model that knows one conversation, whatever it is asked."""
    replies = iter(SCRIPT)

    def model(prompt: str) -> Iterator[str]:
        reply = next(replies)
        return (reply[start : start + 5] for start in range(0, len(reply), 5))

    return model


def served(url: str, name: str) -> Model:
    """A model behind a server."""

    def model(prompt: str) -> Iterator[str]:
        options = {"max_tokens": 4096, "stream": True, "skip_special_tokens": False}
        body = json.dumps({"model": name, "prompt": prompt, **options}).encode()
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as response:
            for line in response:
                data = line.decode().removeprefix("data:").strip()
                if data and data != "[DONE]":
                    yield json.loads(data)["choices"][0]["text"]

    return model


def line_of(message: dict[str, Any]) -> str:
    calls = [call["function"] for call in message.get("tool_calls", ())]
    shown = [f"{call['name']}({named(json.loads(call['arguments']))})" for call in calls]
    return f"{message['role']}: {' '.join(filter(None, [message['content'], *shown]))}"


def named(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("question", nargs="?", default="Which weekday is 100 days from today?")
    options.add_argument("--url", help="where the model continues prompts; scripted without")
    options.add_argument("--model", default="deepseek-v4", help="its name there")
    args = options.parse_args()
    model = served(args.url, args.model) if args.url else scripted()
    for message in answer(args.question, model):
        print(line_of(message), flush=True)


if __name__ == "__main__":
    main()
