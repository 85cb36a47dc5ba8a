"""The options that several commands share, and the values they stand for: dialects, efforts,
outputs, the tokenizer.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import dsv4
from dsv4._cli.command_output import FINDINGS, Failure
from dsv4._cli.option_fields import argument, option, switch
from dsv4._format.dialects import dialect_served_as
from dsv4._format.tokens import TASK_TOKENS
from dsv4._inputs.input_files import os_error_reason
from dsv4.api.api_request import BodyRules
from dsv4.types import DialectName

if TYPE_CHECKING:
    from dsv4.profiles import Profile
    from dsv4.tokens import Tokenizer


@dataclass(kw_only=True)
class FilesOptions:
    """One file or several."""

    files: list[str] = argument("FILE", "*")
    jsonl: bool = switch()


@dataclass(kw_only=True)
class FileOptions:
    """One conversation."""

    file: str | None = argument("FILE", "?")
    jsonl: bool = switch()
    line: int | None = option(metavar="N")


@dataclass(kw_only=True)
class DialectOptions:
    """The release of the format, by its name or by that of a model."""

    dialect: DialectName | None = option(choices=tuple(dsv4.DIALECTS), group="dialect")
    model: str | None = option(metavar="NAME", group="dialect")


@dataclass(kw_only=True)
class ModeOption:
    mode: Literal["thinking", "chat"] | None = option()


@dataclass(kw_only=True)
class EncodingOptions(ModeOption, DialectOptions):
    """The options of encoding. Each overrides what a conversation says itself."""

    effort: str | None = option(metavar="EFFORT")
    rules: BodyRules | None = option("--as")
    tools: str | None = option(metavar="FILE")
    keep_thinking: bool = switch()
    no_bos: bool = switch()


@dataclass(kw_only=True)
class PromptOptions(EncodingOptions):
    """The options of encoding a conversation that the model is to continue."""

    task: str | None = option(choices=tuple(TASK_TOKENS))


@dataclass(kw_only=True)
class ConversationsOptions(FilesOptions, PromptOptions):
    """The conversations of files, and the options of encoding them."""


@dataclass(kw_only=True)
class ConversationOptions(FileOptions, PromptOptions):
    """One conversation of a file, and the options of encoding it."""


@dataclass(kw_only=True)
class TokenizerOption:
    tokenizer: str | None = option(metavar="PATH")


def image_size(text: str) -> tuple[int, int]:
    """1920x1080"""
    width, _, height = text.lower().replace("×", "x").partition("x")
    if width.isdecimal() and height.isdecimal() and int(width) and int(height):
        return int(width), int(height)
    raise argparse.ArgumentTypeError(f'found "{text}", expected a size such as 1920x1080')


@dataclass(kw_only=True)
class OutputOption:
    output: str | None = option("-o", "--output", metavar="OUT")


@dataclass(kw_only=True)
class ColorOption:
    color: Literal["auto", "always", "never"] = option(default="auto")


@dataclass(kw_only=True)
class ShownPromptOptions(TokenizerOption, ColorOption):
    """The choice of the prompt to look at: of a conversation, of a server, or a finished one."""

    prompt: bool = switch()
    profile: str | None = option(metavar="SERVER")
    image_size: tuple[int, int] | None = option(metavar="WIDTHxHEIGHT", type=image_size)


def dialect_option(args: DialectOptions) -> DialectName | None:
    """The dialect that the options name."""
    if args.model is None:
        return args.dialect
    try:
        dialect = dialect_served_as(args.model) or dsv4.dialect_for(args.model)
    except dsv4.UnknownModel as error:
        raise Failure(f"--model: {getattr(error, 'problem', error)}") from None
    return cast("DialectName", dialect.name)


def dialect_of_request(args: DialectOptions, model: object) -> str | None:
    """The dialect of the options, or else that of a request's model, if its name tells one."""
    dialect = dialect_option(args)
    if dialect is None and isinstance(model, str):
        with suppress(dsv4.UnknownModel):
            return (dialect_served_as(model) or dsv4.dialect_for(model)).name
    return dialect


def profile_option(name: str) -> Profile:
    """The server that an option names: a profile, or a file that `dsv4 verify --save` wrote.

    Raises if it is neither.
    """
    from dsv4.profiles.profile import profile_named
    from dsv4.profiles.saved_profile import load

    try:
        return load(name) if name.endswith(".json") else profile_named(name)
    except OSError as error:
        raise Failure(f"--profile: {name}: {os_error_reason(error)}") from None
    except dsv4.Error as error:
        raise Failure(f"--{error}") from None


# The tokenizer of a command: optional, and with errors that name the file or the conversation.


# For larger inputs, the faster engine is worth the time it takes to load.
LARGE_INPUT = 1_000_000


def load_tokenizer(path: str | None = None, inputs: Iterable[str | None] = ()) -> Tokenizer:
    """The tokenizer of the bundled vocabulary, or of a file or folder, for the given inputs."""
    from dsv4.tokens import Tokenizer

    engine = "auto" if sum(map(_file_size, inputs)) > LARGE_INPUT else "one-shot"
    try:
        with vocabulary_errors():
            return Tokenizer.load(path, engine)
    except (OSError, UnicodeDecodeError) as error:
        problem = os_error_reason(error) if isinstance(error, OSError) else "not UTF-8"
        raise Failure(f"{path}: {problem}") from None


def _file_size(path: str | None) -> int:
    try:
        return 0 if path is None else os.stat(path).st_size
    except OSError:
        return 0


@contextmanager
def vocabulary_errors() -> Iterator[None]:
    """Reports a vocabulary that is missing or lacks a token as a failure of its own, because the
    conversation is not at fault."""
    from dsv4.tokens.vocabulary import VocabularyError

    try:
        yield
    except VocabularyError as error:
        hint = "give the tokenizer.json of a model of this dialect with --tokenizer"
        raise Failure(f"{error}; {hint}" if "does not fit" in str(error) else str(error)) from None


@contextmanager
def tokenizer_errors_at(place: str) -> Iterator[None]:
    """Adds the place to errors of the tokenizer."""
    try:
        with vocabulary_errors():
            yield
    except Failure as failure:
        raise Failure(f"{place}: {failure}", failure.status) from None
    except dsv4.Error as error:
        raise Failure(f"{place}: {error}", FINDINGS) from None


def load_fitting_tokenizer(path: str | None, prompt: dsv4.Prompt) -> Tokenizer | None:
    """The requested tokenizer; if none was, the bundled one, if it is installed and fits."""
    try:
        tokenizer = load_tokenizer(path)
        with vocabulary_errors():
            tokenizer.encode(prompt)
    except Failure:
        if path is not None:
            raise
        return None
    return tokenizer
