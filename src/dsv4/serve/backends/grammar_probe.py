"""Which tokens a server applies a grammar to: all of them, or only those after the reasoning.

A vLLM that was started with `--reasoning-parser` lets reasoning pass, and applies structured
outputs from the end of it on, in `/v1/completions` too. A grammar that begins with the reasoning
would then be applied to what follows it, and destroy that. No route says how a server was started,
so it is asked to write one word where a model would think.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, TypeAlias

from dsv4._encode.encode import encode
from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import THINK_END
from dsv4.grammar import Grammar
from dsv4.serve.backend import BackendError, Chunks, Options
from dsv4.serve.backends.http_backend import EngineAnswer
from dsv4.serve.settings import Settings
from dsv4.types import UserMessageParam

# What of a completion a grammar is applied to, in the words of `dsv4.grammar.for_request`: all of
# it ("grammar"), or what the server leaves it ("server"), which is what follows the reasoning. None
# is what no server should do: it applies grammars nowhere, or where nobody can tell.
GrammarScope: TypeAlias = Literal["grammar", "server"] | None
# How the server is asked: a prompt, and the grammar among the options.
AskWord: TypeAlias = Callable[[Prompt, Options], Chunks]

# No model begins a thought, or an answer to this question, with this word.
_QUESTION: list[UserMessageParam] = [{"role": "user", "content": "Is seven a prime number?"}]
_WORD = "zebra"
_OPTIONS = Options(
    # As many tokens as it takes to spell it letter by letter.
    max_tokens=len(_WORD),
    temperature=0.0,
    grammar=Grammar(f'root ::= "{_WORD}"', "xgrammar"),
)


class GrammarProbe:
    """What is known of one server. It is asked again when it may have been restarted."""

    def __init__(self, settings: Settings, ask: AskWord, starts: Callable[[], int]) -> None:
        """`starts` gives another number when the server may be another process than before."""
        setting = settings.upstream_reasoning
        self._setting: GrammarScope = None if setting == "probe" else setting
        self.has_failed = False  # whether the server was asked, and applies no grammars
        self._ask = ask
        self._answer: EngineAnswer[GrammarScope] = EngineAnswer(self._probed, starts)

    async def scope(self) -> GrammarScope:
        """What the server applies a grammar to. Raises a `BackendError` if it does not answer."""
        return await self._answer.get() if self._setting is None else self._setting

    async def fitting(self, prompt: Prompt, options: Options) -> Grammar | None:
        """The grammar to send with a prompt, if any. Raises a `BackendError` where none fits."""
        if options.grammar is None or not _thinks(prompt):
            return options.grammar
        scope = await self.scope()
        if scope == "grammar":
            return options.grammar
        if scope is None or options.grammar_after_reasoning is None:
            raise BackendError("the backend does not apply grammars while the model thinks", 400)
        # A hundred tools take a quarter of a second, in which other streams must go on.
        return await asyncio.to_thread(options.grammar_after_reasoning)

    async def _probed(self) -> GrammarScope:
        self.has_failed = False
        if await self._obeys(thinking=True):
            return "grammar"
        # A server that ignores the field altogether obeys nowhere.
        self.has_failed = not await self._obeys(thinking=False)
        return None if self.has_failed else "server"

    async def _obeys(self, thinking: bool) -> bool:
        text = ""
        try:
            async for chunk in self._ask(encode(_QUESTION, thinking=thinking), _OPTIONS):
                text += chunk.text
        except BackendError as error:
            if error.status == 400:  # it knows no grammars, or not this form
                return False
            raise
        return bool(text) and _WORD.startswith(text)


def _thinks(prompt: Prompt) -> bool:
    """Whether the model's first token belongs to its reasoning."""
    ending = prompt.ending
    return ending.thinking and THINK_END not in ending.open
