"""The gateway's view of the chat server behind it: the adaptations for requests, and what answers
have shown about the server.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from dsv4._format.dialects import Dialect
from dsv4.api.api_request import ProtocolName
from dsv4.api.protocols import marked_chat_body
from dsv4.api.request_fields import JsonObject
from dsv4.errors import EncodeError
from dsv4.profiles.profile import Profile, profile_named, shielded_prompt
from dsv4.profiles.server_requests import served_name
from dsv4.profiles.text_shields import shielded
from dsv4.serve.backend import BackendError, Model
from dsv4.serve.heal import adaptations
from dsv4.serve.heal.request_adapter import RequestAdapter
from dsv4.serve.heal.upstream_habits import UpstreamHabits
from dsv4.serve.settings import Settings
from dsv4.serve.storage.stored_turns import SampledTurns
from dsv4.serve.storage.turn_stores import MOST_TURNS, MemoryTurnStore
from dsv4.tokens import Tokenizer
from dsv4.verify.token_counts import PromptCounter

_log = logging.getLogger("dsv4.serve")

# The refusal of a turn without its reasoning, by the official API and by servers with its rules.
_ASKS_FOR_REASONING = re.compile(r"reasoning_content\W.{0,60}must be passed back", re.I | re.S)
# The refusal of a role that the server does not know.
_REFUSES_DEVELOPER = re.compile(r"unknown variant\W{1,3}developer\b")


class Healer:
    """The chat server of a gateway, as far as it is known."""

    def __init__(self, settings: Settings, turns: SampledTurns) -> None:
        adaptations.check_ids(settings.skip_adaptations)
        self._settings = settings
        if turns.store is None and settings.replay_store == "sealed":
            # Chat Completions has no field that a sealed turn could travel in.
            memory = MemoryTurnStore(MOST_TURNS, settings.replay_bytes)
            turns = SampledTurns(memory, turns.seal)
        self._turns = turns
        self._dialect: Dialect | None = None
        self._owners: set[str] = set()
        self._has_learned_rules = False
        self.habits: UpstreamHabits = UpstreamHabits(settings.reasoning_in_content)
        self.adapter = RequestAdapter(None, turns, keeps=False)

    def meet(self, dialect: Dialect, models: Sequence[Model]) -> None:
        """Takes in the models that the server serves."""
        self._dialect = dialect
        self._owners = {model.owner for model in models}
        self._adapt_to(adaptations.server_kind(self._settings, models))

    def _adapt_to(self, kind: str) -> None:
        assert self._dialect is not None
        server = adaptations.adapted_server(kind, self._dialect, self._settings)
        # A server may turn out to ask for turns as they were. So they are kept, unless the operator
        # says that it does not.
        keeps = server is not None or self._settings.adapt_for is None
        self.adapter = RequestAdapter(server, self._turns, keeps=keeps)

    @property
    def title(self) -> str:
        """The name of the server that requests are adapted to, or "nothing"."""
        return "nothing" if self.adapter.server is None else self.adapter.server.title

    def learns_from(self, error: BackendError) -> bool:
        """Whether a refusal shows that the server has DeepSeek's rules, so that the request should
        be sent again, adapted to them."""
        if self._settings.adapt_for is not None or error.status != 400 or self._dialect is None:
            return False
        asks_for_reasoning = _ASKS_FOR_REASONING.search(error.message)
        if not asks_for_reasoning and not _REFUSES_DEVELOPER.search(error.message):
            return False
        if self.adapter.server is None:
            self._has_learned_rules = True
            self._adapt_to(adaptations.DEEPSEEK)
            _log.warning(
                "the chat server %s, as the official API does: from now on requests are adapted to "
                "its rules (--for %s)",
                "asks for the reasoning of earlier turns"
                if asks_for_reasoning
                else "knows no developer messages",
                adaptations.DEEPSEEK,
            )
        return True

    @property
    def _profile(self) -> Profile | None:
        """The profile of how the server writes prompts, if known: vLLM and SGLang name
        themselves."""
        if self.adapter.server is not None:
            return self.adapter.server.profile
        owners = self._owners & set(adaptations.SERVER_PROFILES)
        return (
            profile_named(adaptations.SERVER_PROFILES[owners.pop()]) if len(owners) == 1 else None
        )

    def prompt_length(
        self, body: JsonObject, protocol: ProtocolName, tokenizer: Tokenizer | None
    ) -> int | None:
        """The number of tokens in the server's own prompt for a request. None where its prompts are
        unknown, or it would refuse the request."""
        profile, dialect = self._profile, self._dialect
        if profile is None or tokenizer is None or dialect is None:
            return None
        chat_body, _ = marked_chat_body(body, protocol)
        if self.adapter.server is not None:
            chat_body, _ = adaptations.adapted(chat_body, self.adapter.server)
        # The official API's release depends on the model, unless the operator names one.
        by_model = profile.dialect_of_body if self._settings.dialect is None else None
        known = by_model(chat_body) if by_model is not None else None
        if known is None:  # behind another address the model may have another name
            chat_body = {name: value for name, value in chat_body.items() if name != "model"}
        try:
            name = profile.own_dialect(known or served_name(dialect), chat_body)
            prompt = shielded_prompt(shielded(chat_body), profile, name)
        except EncodeError:
            return None
        return PromptCounter(tokenizer).count(prompt, profile.release(name), frozenset())

    def to_dict(self) -> JsonObject:
        """The known facts about the server, for the gateway's operator."""
        return {
            "adapted_to": self.title,
            "learned_rules": self._has_learned_rules,
            "reasoning": self.habits.reasoning_place,
            "unknown_fields": sorted(self.habits.unknown_fields),
        }
