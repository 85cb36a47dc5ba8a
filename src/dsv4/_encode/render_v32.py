"""The renderer of the V3.2 layout (docs/format.md, section 11), which merges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from dsv4._encode import inputs
from dsv4._encode import prompt as fragments
from dsv4._encode.inputs import MessageFields, SampledMessage
from dsv4._encode.tools import schemas_text
from dsv4._encode.turns import Conventions, TurnWriter, omissions_v32
from dsv4._format.dialects import Dialect
from dsv4.errors import EncodeError

_ASKING = ("user", "developer")
# Roles whose messages stay before the last user turn, with dropping on.
_SURVIVING_ROLES = ("system", "user", "assistant", "tool")


# A message and its index, which is below 0 for one of the context.
_IndexedMessage: TypeAlias = tuple[int, MessageFields]


class RendererV32(TurnWriter):
    """Writes messages to `flat`, in V3.2's layout.

    `context` is in the prompt already: only `messages` are written. With `dropping`, developer
    turns before the last user turn are left out.
    """

    def __init__(
        self,
        messages: Sequence[MessageFields],
        context: Sequence[MessageFields],
        dialect: Dialect,
        rules: Conventions,
        thinking: bool,
        dropping: bool,
    ) -> None:
        super().__init__(messages, dialect, rules)
        self._own = dialect.made[fragments.FragmentsV32]
        self._thinking = thinking
        turns = list(enumerate([*context, *messages], -len(context)))
        last = _last_asking(turns)
        self._vanished = {
            at for at, message in turns[:last] if dropping and _vanishes(message, rules)
        }
        self._turns = [turn for turn in turns if turn[0] not in self._vanished]
        # The last user turn, among those that stay.
        self._last = _last_asking(self._turns)

    def start(self, bos: bool, preamble: MessageFields | None) -> None:
        """Writes the text before the first turn; `preamble` as for V4's renderer."""
        if bos:
            self.flat.append(self.words.bos)
        if preamble is not None:
            self._extras(preamble, ())

    def render(self, count: float = float("inf")) -> None:
        """Writes the turns that are new: all of them, or the first `count`."""
        if self._vanished and self.messages and self.rules.context_dropped_alone:
            problem = "found a turn that vanishes before the last user turn, expected none: the"
            raise EncodeError(("messages",), f"{problem} released function counts wrongly then")
        # The released function takes the very last message for the one before the first.
        caller = self._turns[-1][1] if self._turns else {}
        results = 0
        for place, (index, message) in enumerate(self._turns):
            if message["role"] == "tool":
                results += 1
                if results > place > 0:  # only the very first result may lack its calls
                    caller = {}
            else:
                caller, results = message, 0
            if 0 <= index < count:
                self._turn(place, index, message, caller, results)

    def omissions(self) -> tuple[fragments.Omission, ...]:
        """The parts that were left out of the prompt."""
        shown_from = self._turns[self._last][0] if self._last >= 0 else -1
        return omissions_v32(
            self.messages,
            self.rules,
            shown_from if self._thinking else float("inf"),
            self._vanished,
        )

    # Turns. Places are counted among the turns that stay.

    def _turn(
        self, place: int, index: int, message: MessageFields, caller: MessageFields, results: int
    ) -> None:
        role = message["role"]
        self._check_tools(message, index)
        if role == "system":
            self.flat.append(fragments.SYSTEM[index])
            self._content(message.get("content"), index)
            self._extras(message, ("messages", index))
        elif role == "user":
            self.flat.append(self.words.user[index])
            self._content(message.get("content"), index)
            self._ask(place)
        elif role == "developer":
            self._developer(message, index)
            self._ask(place)
        elif role == "assistant":
            self._assistant(message, index, thinks=self._thinking and place > self._last)
        elif role == "tool":
            self._result(message, index, place, caller, results)
        else:
            raise inputs.unknown_role(role, ("messages", index, "role"), self.dialect.roles)

    def _check_tools(self, message: MessageFields, index: int) -> None:
        """Checks tools, which must be right even if they are not written."""
        tools = message.get("tools")
        if inputs.is_nonempty(tools) and message["role"] not in ("system", "developer"):
            location = ("messages", index, "tools")
            schemas_text(tools, self.rules.named_tools, self.dialect.namespace_end, location)

    def _ask(self, place: int) -> None:
        asks = (
            self.words.ask_thinking
            if self._thinking and place == self._last
            else self.words.ask_answer
        )
        self.flat.append(asks[self._answer_after(place)])

    def _answer_after(self, place: int) -> int | None:
        """The index of the message that answers the turn at a place, if there is one."""
        if place + 1 == len(self._turns):
            return None
        at, message = self._turns[place + 1]
        return at if message["role"] == "assistant" else None

    def _developer(self, message: MessageFields, index: int) -> None:
        text = inputs.text_of(message.get("content"), ("messages", index, "content"))
        if not text:
            problem = "found nothing, expected the text of a developer turn"
            raise EncodeError(("messages", index, "content"), problem)
        self.flat.append(self.words.user[index])
        self._extras(message, ("messages", index))
        self.flat += self._own.developer_text, text

    def _assistant(self, message: MessageFields, index: int, thinks: bool) -> None:
        reasoning = self._reasoning(message, index)
        if thinks and not reasoning and not inputs.is_nonempty(message.get("tool_calls")):
            location = ("messages", index, self.rules.reasoning_fields[0])
            problem = "found neither reasoning nor calls, expected one after the last user turn"
            raise EncodeError(location, problem)
        if type(message) is SampledMessage:
            own = self.dialect.tokens
            turn = fragments.RawTurn(message.sampled, bool(reasoning), thinks, True, own)
            self._add_sampled(index, turn)
            if turn.text is not None:
                self.flat += turn.entries(index, self.dialect)
                return
        if thinks:
            self.flat += fragments.REASONING[index], reasoning, self.words.reasoning_end
        else:
            self.flat.append(fragments.ANSWER[index])
        self._content(message.get("content"), index)
        self._calls(message.get("tool_calls"), index)
        self.flat.append(self.words.answer_end)

    def _result(
        self, message: MessageFields, index: int, place: int, caller: MessageFields, count: int
    ) -> None:
        """Writes result number `count` after the calls of `caller`, in a block with the others."""
        is_caller = caller.get("role") == "assistant" or place == 0
        calls = len(inputs.maybe_list(caller.get("tool_calls")) or ()) if is_caller else 0
        if count > calls:
            problem = f"found result {count} after {calls} calls, expected one for each call"
            raise EncodeError(("messages", index), problem)
        if count == 1:
            self.flat.append(self._own.results_start[index])
        self.flat.append(self._own.one_result_start[index])
        self._content(message.get("content"), index)
        self.flat.append(self._own.one_result_end)
        if count == calls:
            self.flat.append(self._own.results_end)
            thinks = self._thinking and place >= self._last
            asks = self._own.think_after_results if thinks else self._own.answer_after_results
            self.flat.append(asks[self._answer_after(place)])


def _last_asking(turns: Sequence[_IndexedMessage]) -> int:
    """The place of the last user turn, -1 if there is none."""
    return max(
        (n for n, (_, message) in enumerate(turns) if message["role"] in _ASKING), default=-1
    )


def _vanishes(message: MessageFields, rules: Conventions) -> bool:
    """Whether a turn before the last user turn vanishes. The native API refuses unknown roles."""
    role = message["role"]
    return role not in _SURVIVING_ROLES and (role == "developer" or not rules.known_roles_only)
