"""The model behind the gateway: the release of the format that it was trained on, as far as the
backend shows it, the beginning of its prompts, and their maximum length.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from dsv4._encode.prompt import Prompt
from dsv4._format import dialects
from dsv4._format.dialects import Dialect
from dsv4.api import ApiRequest
from dsv4.api.api_request import ApiSettings, ProtocolName, dialect_effort
from dsv4.api.protocols import PROTOCOLS
from dsv4.api.request_fields import JsonObject
from dsv4.errors import UnknownModel
from dsv4.profiles import official_api
from dsv4.serve.backend import ImageSupport, Model
from dsv4.serve.settings import Settings
from dsv4.tokens import Tokenizer, VocabularyError

# Names of models that carry no information.
UNNAMED = ("", "default", "None")
# The most characters of a long text that are shown.
_SHOWN = 60


def model_asked_for(models: Sequence[Model], name: str | None) -> Model:
    """The model of a backend that requests are sent to: the one asked for by `name`, else the first
    with a known name, else the first."""
    if name is None:
        candidates = (model for model in models if dialect_of_model(model) is not None)
        return next(candidates, models[0] if models else Model("default"))
    return next((model for model in models if model.name == name), Model(name))


def dialect_of_model(model: Model, reported: str | None = None) -> Dialect | None:
    """The dialect that the names of a model show; None where they show none.

    Its checkpoint comes first, because the name that requests use is often made up; `reported` is
    the name that clients see, if the operator gave one.
    """
    for name in (*model.checkpoints, model.name, reported):
        try:
            return dialects.dialect_for(name or "")
        except UnknownModel:
            pass
    return None


def dialect_problem(model: Model, settings: Settings) -> str:
    """The problem where no name shows the dialect. Empty where the backend names no model, or its
    model was not trained at all."""
    if settings.backend == "demo" or model.name in UNNAMED:
        return ""
    names = ", ".join(map(repr, dict.fromkeys((model.name, *model.checkpoints))))
    return (
        f"no dialect is known for the model {names} of the backend, "
        f"expected --dialect with one of {', '.join(dialects.DIALECTS)}"
    )


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """The common facts of all prompts: the dialect, the effort where a request names none, and the
    text that this effort writes."""

    dialect: str
    effort: str
    effort_text: str

    @property
    def in_short(self) -> str:
        """All facts in one line of ASCII, which every answer has in a header."""
        return f"{self.dialect}, effort {self.effort}, {self.effort_text}"


def prompt_facts(dialect: Dialect, settings: Settings) -> PromptFacts:
    """The facts of a gateway."""
    if not settings.thinking:
        return PromptFacts(str(dialect), "none", "no text: thinking is off")
    return PromptFacts(str(dialect), settings.effort, effort_text(dialect, settings.effort))


def effort_text(dialect: Dialect, effort: str) -> str:
    """The text that an effort writes in a dialect, in quotes and shortened; "no text" for none."""
    text = dialect.efforts[dialect_effort(effort, dialect, "effort")].strip()
    if not text:
        return "no text"
    line = " ".join(text.split())
    excerpt = line if len(line) <= _SHOWN else f"{line[:_SHOWN].rstrip()}..."
    return f'"{excerpt}"'


class ServedModel:
    """The model behind a gateway: by the settings, until the backend has told more."""

    def __init__(
        self, settings: Settings, tokenizer: Tokenizer | None, *, makes_prompts: bool
    ) -> None:
        """Without `makes_prompts`, prompts are only counted and shown, because a chat server makes
        its own."""
        self._settings = settings
        self.tokenizer = tokenizer
        self._makes_prompts = makes_prompts
        default = official_api.LISTED_NAMES[0] if self.is_official else "deepseek-v4"
        self._public = Model(settings.model or default, settings.context)
        self.engine_model = self._public  # the engines' name for it
        # Other models that are served, and that clients may ask for.
        self._others: tuple[str, ...] = ()
        if settings.stand_in is not None:
            self._public = Model(official_api.LISTED_NAMES[0], official_api.CONTEXT)
            self._others = official_api.LISTED_NAMES[1:]
        self.dialect: Dialect = dialects.dialect_named(settings.dialect or "v4")
        self._use_names_of_dialect()
        self.dialect_problem = ""  # the reason, if the dialect is a guess
        self.facts = prompt_facts(self.dialect, settings)
        self.api_settings = ApiSettings(
            thinking=settings.thinking,
            effort=settings.effort,
            later_system=settings.systems,
            # A chat server gets images unchanged. An engine gets them if it supports them.
            read_images=False if makes_prompts else "unchecked",
            unsupported_images=settings.images,
            # On a backend that cannot enforce a call after the reasoning, the gateway begins the
            # call.
            grammars=True,
            reasoning_field=settings.reasoning_field,
            calls=settings.calls,
            fit_arguments=settings.fit_arguments == "on",
            strip_markup=settings.strip_markup,
            model=self.name,
        )
        self.is_known = False

    def note(self, models: Sequence[Model]) -> None:
        """Takes in the models that the backend serves, as far as the settings leave them open."""
        settings = self._settings
        if settings.stand_in is not None:
            self.is_known = True
            return
        usual = official_api.LISTED_NAMES[0]
        is_listed = self.is_official and any(model.name == usual for model in models)
        asked = settings.upstream_model or (usual if is_listed else None)
        main = self.engine_model = model_asked_for(models, asked)
        self._public = Model(settings.model or main.name, settings.context or main.context)
        if not (self._makes_prompts or settings.model or settings.upstream_model):
            self._others = tuple(model.name for model in models if model is not main)
        if settings.dialect is None:
            dialect = self._official_dialect(main.name) or dialect_of_model(main, settings.model)
            self.dialect = dialect or self.dialect
            self._use_names_of_dialect()
            self.dialect_problem = dialect_problem(main, settings) if dialect is None else ""
            self.facts = prompt_facts(self.dialect, settings)
        self.api_settings = replace(self.api_settings, model=self.name)
        self.is_known = True

    def note_images(self, support: ImageSupport) -> None:
        """Takes in whether the engines are sent images."""
        self.api_settings = replace(self.api_settings, read_images=support.reads)

    def facts_of(self, dialect: Dialect) -> PromptFacts:
        """The facts of a prompt: the official API has models of several dialects."""
        return self.facts if dialect == self.dialect else prompt_facts(dialect, self._settings)

    def _use_names_of_dialect(self) -> None:
        with suppress(VocabularyError):  # `vocabulary_problem` reports it
            self.tokenizer = self.tokenizer and self.tokenizer.with_dialect(self.dialect)

    @property
    def is_official(self) -> bool:
        """Whether DeepSeek's own API is behind, or a server that copies it."""
        settings = self._settings
        return settings.adapt_for == official_api.PROFILE_NAME or any(
            map(official_api.is_official_host, settings.upstream)
        )

    @property
    def name(self) -> str:
        """The model's name for clients."""
        return self._public.name

    @property
    def names(self) -> tuple[str, ...]:
        """Every model that clients are shown, the usual one first."""
        return self.name, *self._others

    @property
    def context(self) -> int:
        return self._public.context or self.dialect.context

    @property
    def reads_images(self) -> bool:
        """Whether requests may have pictures, whose bytes are checked."""
        return self.api_settings.read_images is True and self.dialect.image_token is not None

    def read(self, body: JsonObject, protocol: ProtocolName) -> ApiRequest:
        """The request in a body. Raises an `ApiError`."""
        dialect = self._official_dialect(body.get("model")) or self.dialect
        return PROTOCOLS[protocol].read(body, dialect=dialect, settings=self.api_settings)

    def _official_dialect(self, model: object) -> Dialect | None:
        """The dialect of a model of the official API, which has several, if that is the backend."""
        if self._settings.dialect is not None:
            return None
        name = official_api.meant_name(model) if isinstance(model, str) else ""
        release = official_api.served_release(name) if self.is_official else None
        return None if release is None else dialects.dialect_named(str(release.dialect))

    @property
    def guesses_dialect(self) -> bool:
        """Whether prompts would be made for a release that is only a guess."""
        return bool(self.dialect_problem) and self._makes_prompts

    def ids_of(self, prompt: Prompt) -> list[int] | None:
        """The ids of a prompt, where there is a tokenizer. Raises a `VocabularyError` for a
        tokenizer that does not fit the dialect, unless the ids would only be counted."""
        tokenizer = self.tokenizer
        if tokenizer is None or (not self._makes_prompts and self.vocabulary_problem):
            return None
        return tokenizer.encode(prompt)

    @property
    def vocabulary_problem(self) -> str:
        """The reason why the vocabulary does not fit the dialect; empty where it does."""
        try:
            if self.tokenizer is not None:
                self.tokenizer.dialect_for(self.dialect)
        except VocabularyError as error:
            return f"{error}; --tokenizer names another"
        return ""
