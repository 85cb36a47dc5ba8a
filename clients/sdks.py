"""SDKs and frameworks of Python, each through a loop with a tool, in the environment it needs.

    python sdks.py BASE_URL KEY MODEL [NAME …]

prints a line of JSON for each check: its package, what of it, the seconds, and the failure if one.
A check that needs a package that is not installed here is left to the other environment.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from errand import NO_STORE, Errand, Failure, require

BASE, KEY, MODEL = sys.argv[1:4]
LIMIT = 120

SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string", "description": "The command to run"}},
    "required": ["command"],
    "additionalProperties": False,
}
FUNCTION = {"name": "bash", "description": "Run a command", "parameters": SCHEMA}
CHAT_TOOLS = [{"type": "function", "function": FUNCTION}]
STRICT_CHAT_TOOLS = [{"type": "function", "function": {**FUNCTION, "strict": True}}]
RESPONSES_TOOLS = [{"type": "function", "strict": False, **FUNCTION}]
STRICT_RESPONSES_TOOLS = [{"type": "function", "strict": True, **FUNCTION}]
MESSAGES_TOOLS = [{"name": "bash", "description": "Run a command", "input_schema": SCHEMA}]
THINKING = {"type": "enabled", "budget_tokens": 1024}


class Shell(Errand):
    """An errand with a shell that notes what its commands wrote."""

    def __init__(self) -> None:
        super().__init__()
        self._results: list[str] = []

    def run(self, command: str) -> str:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=LIMIT)
        self._results.append(done.stdout)
        return done.stdout

    def done(self, answer: Any) -> None:
        self.check(self._results, str(answer))


Check = Callable[[Shell], None]


class SdkCheck(NamedTuple):
    """A check of a package. `needs` is another package that tells its environment; `stored` says
    that the server must keep answers, because one is asked for by its id."""

    package: str
    what: str
    needs: str | None
    stored: bool
    function: Check

    def is_for(self, names: list[str]) -> bool:
        """Whether it can run here, and is among those that are asked for."""
        installed = all(version_of(name) for name in (self.package, self.needs) if name)
        kept = not (self.stored and os.environ.get(NO_STORE))
        return installed and kept and (not names or self.package in names)


CHECKS: list[SdkCheck] = []


def check(
    package: str, what: str, *, needs: str | None = None, stored: bool = False
) -> Callable[[Check], Check]:
    """Adds a check."""

    def add(function: Check) -> Check:
        CHECKS.append(SdkCheck(package, what, needs, stored, function))
        return function

    return add


# openai: Chat Completions.


def openai_client() -> Any:
    import openai

    return openai.OpenAI(base_url=f"{BASE}/v1", api_key=KEY, max_retries=0, timeout=LIMIT)


def tool_messages(shell: Shell, calls: Any) -> list[dict[str, Any]]:
    """The results of a Chat message's calls."""
    return [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": shell.run(json.loads(call.function.arguments)["command"]),
        }
        for call in calls
    ]


@check("openai", "chat")
def openai_chat(shell: Shell) -> None:
    messages: list[Any] = [{"role": "user", "content": shell.prompt}]

    def choice() -> Any:
        answer = openai_client().chat.completions.create(
            model=MODEL, messages=messages, tools=CHAT_TOOLS
        )
        usage = answer.usage
        require(usage and usage.prompt_tokens and usage.completion_tokens, f"usage {usage}")
        return answer.choices[0]

    first = choice()
    require(first.finish_reason == "tool_calls", f"finish_reason {first.finish_reason}")
    messages += [first.message, *tool_messages(shell, first.message.tool_calls)]
    second = choice()
    require(second.finish_reason == "stop", f"finish_reason {second.finish_reason}")
    shell.done(second.message.content)


class Collected:
    """A streamed Chat answer, put together by hand as programs do."""

    def __init__(self, chunks: Any) -> None:
        self.content = self.reasoning = ""
        self.calls: dict[int, dict[str, str]] = {}
        self.finish = self.usage = None
        self.chunks = 0
        for chunk in chunks:
            self.chunks += 1
            self.usage = chunk.usage or self.usage
            for choice in chunk.choices:
                self._add(choice)

    def _add(self, choice: Any) -> None:
        self.finish = choice.finish_reason or self.finish
        self.content += choice.delta.content or ""
        self.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        for part in choice.delta.tool_calls or ():
            call = self.calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
            call["id"] = part.id or call["id"]
            call["name"] = part.function.name or call["name"]
            call["arguments"] += part.function.arguments or ""

    def message(self) -> dict[str, Any]:
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in self.calls.values()
        ]
        message = {"role": "assistant", "content": self.content, "tool_calls": calls}
        return {**message, "reasoning_content": self.reasoning} if self.reasoning else message


@check("openai", "chat, streamed")
def openai_chat_streamed(shell: Shell) -> None:
    messages: list[Any] = [{"role": "user", "content": shell.prompt}]

    def answer() -> Collected:
        found = Collected(
            openai_client().chat.completions.create(
                model=MODEL,
                messages=messages,
                tools=CHAT_TOOLS,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        require(found.usage and found.usage.total_tokens > 0, "no usage")
        require(found.chunks > 2, "one chunk alone")
        return found

    first = answer()
    require(first.finish == "tool_calls", f"finish_reason {first.finish}")
    require(first.reasoning, "no reasoning")
    messages.append(first.message())
    for call in first.calls.values():
        result = shell.run(json.loads(call["arguments"])["command"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    second = answer()
    require(second.finish == "stop", f"finish_reason {second.finish}")
    shell.done(second.content)


@check("openai", "chat, .stream() and a strict tool")
def openai_chat_helper(shell: Shell) -> None:
    messages: list[Any] = [{"role": "user", "content": shell.prompt}]

    def answer(expected: str) -> Any:
        with openai_client().chat.completions.stream(
            model=MODEL,
            messages=messages,
            tools=STRICT_CHAT_TOOLS,
            stream_options={"include_usage": True},
        ) as stream:
            kinds = {event.type for event in stream}
            require(expected in kinds, f"no {expected} in {sorted(kinds)}")
            return stream.get_final_completion().choices[0].message

    first = answer("tool_calls.function.arguments.done")
    messages += [first, *tool_messages(shell, first.tool_calls)]
    shell.done(answer("content.done").content)


# openai: Responses.


def outputs(shell: Shell, items: Any) -> list[dict[str, Any]]:
    """The results of a response's calls."""
    return [
        {
            "type": "function_call_output",
            "call_id": item.call_id,
            "output": shell.run(json.loads(item.arguments)["command"]),
        }
        for item in items
        if item.type == "function_call"
    ]


@check("openai", "responses")
def openai_responses(shell: Shell) -> None:
    given: list[Any] = [{"role": "user", "content": shell.prompt}]

    def answer() -> Any:
        found = openai_client().responses.create(
            model=MODEL,
            input=given,
            tools=RESPONSES_TOOLS,
            reasoning={"effort": "high"},
            store=False,
            include=["reasoning.encrypted_content"],
        )
        require(found.status == "completed", f"status {found.status}")
        require(found.usage and found.usage.output_tokens, f"usage {found.usage}")
        return found

    first = answer()
    given += [*first.output, *outputs(shell, first.output)]
    shell.done(answer().output_text)


@check("openai", "responses, streamed")
def openai_responses_streamed(shell: Shell) -> None:
    given: list[Any] = [{"role": "user", "content": shell.prompt}]

    def answer() -> tuple[list[Any], str]:
        events = list(
            openai_client().responses.create(
                model=MODEL, input=given, tools=RESPONSES_TOOLS, stream=True, store=False
            )
        )
        kinds = [event.type for event in events]
        ends = (kinds[0], kinds[-1])
        require(ends == ("response.created", "response.completed"), f"first and last: {ends}")
        numbers = [event.sequence_number for event in events]
        require(numbers == list(range(len(numbers))), f"sequence_number {numbers}, {kinds}")
        items = [e.item for e in events if e.type == "response.output_item.done"]
        response = events[-1].response
        require(response.usage and response.usage.total_tokens, "no usage")
        require(
            [item.id for item in response.output] == [item.id for item in items],
            "the output of response.completed differs from the items",
        )
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        return items, text

    items, _ = answer()
    given += [item.model_dump(exclude_none=True) for item in items]
    given += outputs(shell, items)
    shell.done(answer()[1])


@check("openai", "responses, .stream() and a strict tool")
def openai_responses_helper(shell: Shell) -> None:
    given: list[Any] = [{"role": "user", "content": shell.prompt}]

    def answer() -> Any:
        with openai_client().responses.stream(
            model=MODEL, input=given, tools=STRICT_RESPONSES_TOOLS, store=False
        ) as stream:
            for _ in stream:
                pass
            return stream.get_final_response()

    first = answer()
    given += [
        item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output
    ]
    given += outputs(shell, first.output)
    shell.done(answer().output_text)


@check("openai", "responses, previous_response_id", stored=True)
def openai_responses_continued(shell: Shell) -> None:
    client = openai_client()
    first = client.responses.create(model=MODEL, input=shell.prompt, tools=RESPONSES_TOOLS)
    second = client.responses.create(
        model=MODEL,
        previous_response_id=first.id,
        input=outputs(shell, first.output),
        tools=RESPONSES_TOOLS,
    )
    shell.done(second.output_text)


@check("openai", "models")
def openai_models(shell: Shell) -> None:
    require([model.id for model in openai_client().models.list()], "no models")


# anthropic: Messages.


def anthropic_client() -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0, timeout=LIMIT)


def messages_loop(shell: Shell, answer: Callable[[list[Any]], Any]) -> None:
    """A loop with the tool; `answer` asks the model."""
    messages: list[Any] = [{"role": "user", "content": shell.prompt}]
    first = answer(messages)
    usage = first.usage
    require(first.stop_reason == "tool_use", f"stop_reason {first.stop_reason}")
    require(usage.output_tokens, f"usage {usage}")
    require(usage.input_tokens + (usage.cache_read_input_tokens or 0), f"usage {usage}")
    for block in first.content:
        require(block.type != "thinking" or block.signature, "thinking without a signature")
    results = [
        {
            "type": "tool_result",
            "tool_use_id": block.id,
            "content": shell.run(block.input["command"]),
        }
        for block in first.content
        if block.type == "tool_use"
    ]
    messages.append({"role": "assistant", "content": first.content})
    messages.append({"role": "user", "content": results})
    second = answer(messages)
    require(second.stop_reason == "end_turn", f"stop_reason {second.stop_reason}")
    shell.done("".join(block.text for block in second.content if block.type == "text"))


@check("anthropic", "messages")
def anthropic_messages(shell: Shell) -> None:
    messages_loop(
        shell,
        lambda messages: anthropic_client().messages.create(
            model=MODEL,
            max_tokens=2000,
            messages=messages,
            tools=MESSAGES_TOOLS,
            thinking=THINKING,
        ),
    )


@check("anthropic", "messages, .stream()")
def anthropic_messages_streamed(shell: Shell) -> None:
    def answer(messages: list[Any]) -> Any:
        with anthropic_client().messages.stream(
            model=MODEL,
            max_tokens=2000,
            messages=messages,
            tools=MESSAGES_TOOLS,
            thinking=THINKING,
        ) as stream:
            kinds = [event.type for event in stream]
            ends = (kinds[0], kinds[-1])
            require(ends == ("message_start", "message_stop"), f"first and last: {ends}")
            return stream.get_final_message()

    messages_loop(shell, answer)


@check("anthropic", "beta messages, adaptive thinking")
def anthropic_beta(shell: Shell) -> None:
    def answer(messages: list[Any]) -> Any:
        with anthropic_client().beta.messages.stream(
            model=MODEL,
            max_tokens=2000,
            messages=messages,
            tools=MESSAGES_TOOLS,
            thinking={"type": "adaptive"},
            betas=["interleaved-thinking-2025-05-14"],
        ) as stream:
            return stream.get_final_message()

    messages_loop(shell, answer)


@check("anthropic", "count_tokens")
def anthropic_count(shell: Shell) -> None:
    def count(text: str, **more: Any) -> Any:
        messages = [{"role": "user", "content": text}]
        counted = anthropic_client().messages.count_tokens(model=MODEL, messages=messages, **more)
        return counted.input_tokens

    short, long = count("hi"), count("hi " * 200, tools=MESSAGES_TOOLS, system="Be brief.")
    require(0 < short < short + 200 < long, f"{short} and {long} tokens")


@check("anthropic", "models")
def anthropic_models(shell: Shell) -> None:
    require([model.id for model in anthropic_client().models.list()], "no models")


# LangChain.


def langchain_loop(shell: Shell, model: Any, *, has_usage: bool = True) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    @tool
    def bash(command: str) -> str:
        """Run a command"""
        return shell.run(command)

    bound, messages = model.bind_tools([bash]), [HumanMessage(shell.prompt)]

    def answer() -> Any:
        chunks = list(bound.stream(messages))
        return sum(chunks[1:], chunks[0])

    first = answer()
    require(first.tool_calls and not first.invalid_tool_calls, f"calls {first.tool_calls}")
    messages.append(first)
    messages += [
        ToolMessage(bash.invoke(call["args"]), tool_call_id=call["id"]) for call in first.tool_calls
    ]
    second = answer()
    usage = second.usage_metadata
    require(not has_usage or (usage and usage["total_tokens"]), f"usage {usage}")
    shell.done(second.text if isinstance(second.text, str) else second.text())


@check("langchain-deepseek", "chat")
def langchain_deepseek(shell: Shell) -> None:
    from langchain_deepseek import ChatDeepSeek

    langchain_loop(
        shell,
        ChatDeepSeek(model=MODEL, api_key=KEY, api_base=f"{BASE}/v1", max_retries=0),
        has_usage=False,  # it asks for none in a stream
    )


@check("langchain-openai", "responses")
def langchain_openai(shell: Shell) -> None:
    from langchain_openai import ChatOpenAI

    langchain_loop(
        shell,
        ChatOpenAI(
            model=MODEL,
            api_key=KEY,
            base_url=f"{BASE}/v1",
            use_responses_api=True,
            reasoning={"effort": "high"},
            max_retries=0,
        ),
    )


@check("langchain-anthropic", "messages")
def langchain_anthropic(shell: Shell) -> None:
    from langchain_anthropic import ChatAnthropic

    langchain_loop(
        shell,
        ChatAnthropic(
            model=MODEL,
            api_key=KEY,
            base_url=BASE,
            max_tokens=2000,
            thinking=THINKING,
            max_retries=0,
        ),
    )


# Pydantic AI.


def pydantic_loop(shell: Shell, model: Any, *, streamed: bool) -> None:
    from pydantic_ai import Agent

    agent = Agent(model)

    @agent.tool_plain
    def bash(command: str) -> str:
        """Run a command"""
        return shell.run(command)

    async def answer() -> Any:
        if not streamed:
            return (await agent.run(shell.prompt)).output

        async def read(context: Any, events: Any) -> None:
            async for _ in events:
                pass

        # Not `run_stream`, which takes the first text for the last, even before a call.
        return (await agent.run(shell.prompt, event_stream_handler=read)).output

    shell.done(asyncio.run(answer()))


def pydantic_provider() -> Any:
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIProvider(base_url=f"{BASE}/v1", api_key=KEY)


@check("pydantic-ai-slim", "chat", needs="langchain-deepseek")
def pydantic_chat(shell: Shell) -> None:
    from pydantic_ai.models.openai import OpenAIChatModel

    pydantic_loop(shell, OpenAIChatModel(MODEL, provider=pydantic_provider()), streamed=False)


@check("pydantic-ai-slim", "DeepSeek provider, streamed", needs="langchain-deepseek")
def pydantic_deepseek(shell: Shell) -> None:
    import openai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.deepseek import DeepSeekProvider

    client = openai.AsyncOpenAI(base_url=f"{BASE}/v1", api_key=KEY, max_retries=0)
    provider = DeepSeekProvider(openai_client=client)
    pydantic_loop(shell, OpenAIChatModel(MODEL, provider=provider), streamed=True)


@check("pydantic-ai-slim", "responses, streamed", needs="langchain-deepseek")
def pydantic_responses(shell: Shell) -> None:
    from pydantic_ai.models.openai import OpenAIResponsesModel

    pydantic_loop(shell, OpenAIResponsesModel(MODEL, provider=pydantic_provider()), streamed=True)


@check("pydantic-ai-slim", "messages, streamed", needs="litellm")
def pydantic_messages(shell: Shell) -> None:
    from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
    from pydantic_ai.providers.anthropic import AnthropicProvider

    settings = AnthropicModelSettings(anthropic_thinking=THINKING, max_tokens=2000)
    provider = AnthropicProvider(base_url=BASE, api_key=KEY)
    pydantic_loop(shell, AnthropicModel(MODEL, provider=provider, settings=settings), streamed=True)


# Instructor: the tool is forced by its name, or the schema is a response_format.


def instructor_check(shell: Shell, client: Any, **options: Any) -> None:
    from pydantic import BaseModel

    class bash(BaseModel):
        """Run a command"""

        command: str

    found = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": shell.prompt}],
        response_model=bash,
        max_retries=1,
        **options,
    )
    require(found.command == shell.command, f"command {found.command!r}")


@check("instructor", "chat, forced tool")
def instructor_openai(shell: Shell) -> None:
    import instructor

    instructor_check(shell, instructor.from_openai(openai_client()))


@check("instructor", "messages, forced tool")
def instructor_anthropic(shell: Shell) -> None:
    import instructor

    instructor_check(shell, instructor.from_anthropic(anthropic_client()), max_tokens=500)


@check("instructor", "chat, JSON schema")
def instructor_json(shell: Shell) -> None:
    import instructor
    from pydantic import BaseModel

    class Weather(BaseModel):
        city: str
        celsius: float
        sunny: bool

    client = instructor.from_openai(openai_client(), mode=instructor.Mode.JSON_SCHEMA)
    found = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "The weather, please."}],
        response_model=Weather,
        max_retries=0,
    )
    require(isinstance(found, Weather), f"found {found!r}")


# LiteLLM.


def litellm_loop(shell: Shell, model: str, base: str, *, streamed: bool, **options: Any) -> None:
    import litellm

    litellm.suppress_debug_info = True
    messages: list[Any] = [{"role": "user", "content": shell.prompt}]

    def answer() -> Any:
        asked = dict(
            model=f"{model}/{MODEL}",
            api_base=base,
            api_key=KEY,
            messages=messages,
            tools=CHAT_TOOLS,
            num_retries=0,
            **options,
        )
        if not streamed:
            return litellm.completion(**asked)
        usage = {"include_usage": True}
        chunks = list(litellm.completion(stream=True, stream_options=usage, **asked))
        return litellm.stream_chunk_builder(chunks, messages=messages)

    first = answer().choices[0].message
    messages.append(first.model_dump(exclude_none=True))
    messages += tool_messages(shell, first.tool_calls)
    second = answer()
    require(second.usage and second.usage.total_tokens, f"usage {second.usage}")
    shell.done(second.choices[0].message.content)


@check("litellm", "deepseek/, streamed")
def litellm_deepseek_streamed(shell: Shell) -> None:
    litellm_loop(shell, "deepseek", f"{BASE}/v1", streamed=True)


@check("litellm", "deepseek/")
def litellm_deepseek(shell: Shell) -> None:
    litellm_loop(shell, "deepseek", f"{BASE}/v1", streamed=False)


@check("litellm", "openai/, streamed")
def litellm_openai(shell: Shell) -> None:
    litellm_loop(shell, "openai", f"{BASE}/v1", streamed=True)


@check("litellm", "anthropic/, streamed")
def litellm_anthropic(shell: Shell) -> None:
    litellm_loop(shell, "anthropic", BASE, streamed=True, max_tokens=2000)


@check("litellm", "responses")
def litellm_responses(shell: Shell) -> None:
    import litellm

    given: list[Any] = [{"role": "user", "content": shell.prompt}]

    def answer() -> Any:
        return litellm.responses(
            model=f"openai/{MODEL}",
            api_base=f"{BASE}/v1",
            api_key=KEY,
            input=given,
            tools=RESPONSES_TOOLS,
            num_retries=0,
        )

    first = answer().output
    given += [item.model_dump(exclude_none=True) for item in first]
    given += outputs(shell, first)
    parts = [part for item in answer().output if item.type == "message" for part in item.content]
    shell.done("".join(part.text for part in parts if part.type == "output_text"))


# The run.


class Late(BaseException):
    """A check took too long. No library takes this for a failure of its own."""


def late(*_: Any) -> None:
    raise Late


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def failure_of(function: Check) -> str | None:
    """What went wrong in a check."""
    signal.alarm(LIMIT)
    try:
        function(Shell())
    except Late:
        return f"not done after {LIMIT} s"
    except Failure as failure:
        return str(failure)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.alarm(0)
    return None


def main(names: list[str]) -> None:
    signal.signal(signal.SIGALRM, late)
    warnings.filterwarnings("ignore")
    # Nothing is to be looked up on the network, which is not there.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LANGSMITH_TRACING"] = "false"
    for package, what, _, _, function in filter(lambda each: each.is_for(names), CHECKS):
        began = time.monotonic()
        failure = failure_of(function)
        seconds = time.monotonic() - began
        line = {
            "package": package,
            "version": version_of(package),
            "what": what,
            "seconds": seconds,
        }
        print(json.dumps({**line, "failure": failure}), flush=True)


if __name__ == "__main__":
    main(sys.argv[4:])
