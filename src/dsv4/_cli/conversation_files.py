"""The input of commands: text, JSON, JSON lines and the conversations in them, from files or stdin
(None or "-").

A file holds a list of messages or a Chat request, or one of these on each line.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dsv4
from dsv4._cli import command_options
from dsv4._cli.command_options import EncodingOptions, PromptOptions, dialect_option, profile_option
from dsv4._cli.command_output import FINDINGS, MISUSE, Failure
from dsv4._format.dialects import dialect_served_as
from dsv4._inputs import agent_sessions, input_files
from dsv4._inputs.agent_conversations import AgentConversation
from dsv4._inputs.input_files import InputError
from dsv4._inputs.request_bodies import ReadBody, RequestOverrides
from dsv4.api.api_request import BodyRules
from dsv4.api.body_reader import recognise
from dsv4.api.ignored_fields import server_fields
from dsv4.api.own_bodies import role_of
from dsv4.errors import path_of

if TYPE_CHECKING:
    from dsv4.profiles import Profile


class FileDocument(NamedTuple):
    """A JSON value, and its place: `FILE`, or `FILE:LINE` for one of several lines.

    If no value could be read, `problem` gives the reason, with its place.
    """

    place: str
    value: Any
    problem: InputError | None = None

    @property
    def content(self) -> Any:
        """The value. Raises the problem if there is none."""
        if self.problem is not None:
            raise self.problem
        return self.value


def read_text(path: str | None) -> str:
    """The whole text of a file, with its line ends as they are."""
    with input_files.open_input(path) as file:
        return input_files.decode_utf8(file.read(), input_files.input_name(path))


def hint_at_json(text: str, path: str | None, wanted: str) -> None:
    """Says on stderr that a text is JSON, for a command that reads `wanted`, which is not JSON."""
    if text.lstrip()[:1] not in ("{", "["):
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    kinds = [
        kind for names, kind in _KINDS_OF_JSON if isinstance(value, dict) and names & set(value)
    ]
    kind, *_ = [*kinds, "JSON"]
    print(f"dsv4: {input_files.input_name(path)}: found {kind}, expected {wanted}", file=sys.stderr)


# The kinds of JSON files, by fields that only one of them has.
_KINDS_OF_JSON = (
    ({"completion", "settings"}, "a record of `dsv4 serve --record`, which `dsv4 replay` reads"),
    ({"choices"}, "a Chat response, whose text is in choices[0].message.content"),
    ({"messages", "input"}, "a request, which `dsv4 encode` and `dsv4 show` read"),
)


def read_json(path: str | None) -> Any:
    """The one JSON value of a file."""
    with input_files.open_input(path) as file:
        return _document(file.read(), input_files.input_name(path)).content


def read_documents(path: str | None, lines: bool = False) -> Iterator[FileDocument]:
    """The JSON values of a file: one, or one for each line.

    A file is taken for JSON lines if `lines` or its name says so, or if it is not one JSON value
    but its first line is. The conversations of an agent's session file count as lines.
    """
    if session := read_session(path):
        places = (f"{path}:{n}" for n in count(1))
        return (FileDocument(next(places), conversation.body) for conversation in session)
    if lines or input_files.input_name(path).endswith(".jsonl"):
        return read_json_lines(path)
    with input_files.open_input(path) as file:
        data, name = file.read(), input_files.input_name(path)
    document = _document(data, name)
    if document.problem is None or not input_files.is_json_lines(data):
        return iter([document])
    return _read_lines(data.split(b"\n"), name)


def read_session(path: str | None) -> list[AgentConversation]:
    """The conversations of an agent's session file, which are also described on stderr. The list is
    empty for any other file."""
    if path is None or not Path(path).is_file():
        return []
    with input_files.open_input(path) as file:
        start = agent_sessions.read_start(file)
        if not agent_sessions.is_agent_session(start):
            return []
        found = agent_sessions.read_agent_session(start + file.read(), path)
    if found:
        print(f"dsv4: {path}: {agent_sessions.in_words(found)}", file=sys.stderr)
    return found


def read_json_lines(path: str | None) -> Iterator[FileDocument]:
    """The values of a file of JSON lines, each read when it is requested. Empty lines are skipped;
    at least one line must not be empty.
    """
    with input_files.open_input(path) as file:
        yield from _read_lines(file, input_files.input_name(path))


def _read_lines(lines: Iterable[bytes], name: str) -> Iterator[FileDocument]:
    number = 0
    for number, line in ((n, line) for n, line in enumerate(lines, 1) if line.strip()):
        yield _document(line.rstrip(b"\r\n"), name, number)
    if not number:
        raise InputError(f"{name}: found nothing, expected JSON lines")


def _document(data: bytes, name: str, line: int | None = None) -> FileDocument:
    """The value of a file, or of one of its lines."""
    place = name if line is None else f"{name}:{line}"
    try:
        text = input_files.decode_utf8(data, name, line or 1)
        if line in (None, 1):
            text = text.removeprefix(input_files.BYTE_ORDER_MARK)
        return FileDocument(place, input_files.parse_unambiguous_json(text, name, line))
    except InputError as error:
        return FileDocument(place, None, error)


@dataclass(frozen=True)
class LocatedRequest:
    """A request, and its place. `overrides` were applied to it; `read` is the body it was read
    from, if any. `weights` names the weights that a server runs for its model, if known."""

    place: str
    request: dsv4.Request
    overrides: RequestOverrides
    read: ReadBody | None = None
    weights: str | None = None

    @property
    def messages(self) -> Sequence[Any]:
        return list(self.request.messages)

    @property
    def roles(self) -> list[str]:
        return [str(role_of(message)) for message in self.messages]

    def encode(self) -> dsv4.Prompt:
        """The prompt. An error names the file or the line, and the place in it."""
        try:
            return self.request.encode()
        except dsv4.Error as error:
            raise located_failure(error, self.place, self.overrides, self.read) from None


def located_failure(
    error: dsv4.Error, place: str, overrides: RequestOverrides, read: ReadBody | None = None
) -> Failure:
    """An error with its place. It counts as misuse if an option is wrong, not the conversation."""
    location = input_files.error_location(error)
    is_option = getattr(overrides, str(next(iter(location), None)), None) is not None
    if read is not None and location and not is_option:
        where = path_of(read.place(location))
        return Failure(f"{place}: {where}: {getattr(error, 'problem', error)}", FINDINGS)
    return Failure(f"{place}: {error}", MISUSE if is_option else FINDINGS)


def prompt_overrides(args: PromptOptions) -> RequestOverrides:
    """The options, which apply to every conversation."""
    return replace(encoding_overrides(args), task=args.task)


def encoding_overrides(args: EncodingOptions) -> RequestOverrides:
    """The options, without those of a prompt that the model is to continue."""
    effort = args.effort
    return RequestOverrides(
        thinking=None if args.mode is None else args.mode == "thinking",
        effort=int(effort) if effort is not None and effort.isdecimal() else effort,
        dialect=dialect_option(args),
        tools=None if args.tools is None else read_tools(args.tools),
        drop_thinking=False if args.keep_thinking else None,
        bos=False if args.no_bos else None,
        rules=args.rules,
    )


def read_tools(path: str) -> list[Any]:
    """The tools of a file: a list of them, or a request that has one."""
    value = read_json(path)
    tools = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(tools, list):
        raise Failure(f"{path}: found no tools, expected a list of them, or a request that has one")
    return tools


def input_paths(args: command_options.FilesOptions) -> list[str]:
    """The files to read, in their order."""
    if args.files.count("-") > 1:
        raise Failure("found stdin (-) twice, expected it once at most")
    return args.files or ["-"]


def read_all_documents(args: command_options.FilesOptions) -> Iterator[FileDocument]:
    """The JSON values of all files."""
    for path in input_paths(args):
        yield from read_documents(path, args.jsonl)


def read_requests(args: command_options.ConversationsOptions) -> Iterator[LocatedRequest]:
    """The conversations of all files, with the options applied."""
    if getattr(args, "prompt", False):
        yield from (request_from_prompt(args, path) for path in args.files or ["-"])
        return
    overrides, notes = prompt_overrides(args), ReadingNotes()
    for document in read_all_documents(args):
        yield _located_request(args, document, overrides, notes)


def request_from_prompt(args: PromptOptions, path: str | None) -> LocatedRequest:
    """The request that writes the prompt in a file. Raises for options that would change it."""
    for option in ("mode", "effort", "keep_thinking", "task", "no_bos"):
        if getattr(args, option):
            name = option.replace("_", "-")
            raise Failure(f"--{name}: found it with --prompt, which has these in its text")
    name, text = input_files.input_name(path), read_text(path)
    decoded = dsv4.decode(text, dialect=dialect_option(args))
    if not decoded.exact:
        print(f"dsv4: {name}: {decoded.notes[-1].text}", file=sys.stderr)
    return LocatedRequest(name, decoded.request, prompt_overrides(args))


def request_from_document(document: FileDocument, overrides: RequestOverrides) -> LocatedRequest:
    """The request in a JSON value, with the options applied."""
    body = document.content
    try:
        read = overrides.read(body)
    except InputError as error:
        raise InputError(f"{document.place}: {error}") from None
    except dsv4.Error as error:
        raise located_failure(error, document.place, overrides) from None
    return LocatedRequest(document.place, read.request, overrides, read)


class ReadingNotes:
    """Prints each assumption made in reading to stderr, once: the dialect of an unknown model, and
    the rules a body was read by, if its fields leave that open and it matters. Also prints the
    fields that the prompt does not depend on: those that nothing reads, and a server's."""

    def __init__(self) -> None:
        self._notes: set[str] = set()
        self._named: set[str] = set()
        self._compared = False

    def add(self, place: str, read: ReadBody, overrides: RequestOverrides) -> None:
        """Prints the notes on a body that were not printed before."""
        for note in read.notes:
            self._say(place, note)
        named = (*read.ignored, *server_fields(read.body))
        names = [name for name in named if _bare(name) not in self._named]
        self._named.update(map(_bare, names))
        if names:
            self._say(place, f"not in the prompt: {', '.join(names)}")
        if not (self._compared or overrides.rules or recognise(read.body).certain):
            self._compared = True
            self._compare(place, read, overrides)

    def _compare(self, place: str, read: ReadBody, overrides: RequestOverrides) -> None:
        other: BodyRules = "body" if read.rules == "released" else "released"
        try:
            prompts = [
                each.request.encode()
                for each in (read, replace(overrides, rules=other).read(read.body))
            ]
        except dsv4.Error:
            return
        if prompts[0] != prompts[1]:
            hint = f"--as {other} writes another prompt"
            self._say(place, f"read {RULES_IN_WORDS[read.rules]}; {hint}")

    def name_official(self, request: LocatedRequest) -> None:
        """Prints a note if the model has a name of the official API, whose prompt differs."""
        from dsv4.profiles.official_api import PROFILE_NAME, served_release

        body = None if request.read is None else request.read.body
        model = body.get("model") if isinstance(body, dict) else None
        release = served_release(model)
        # A name without a version was read as the release served under it, which has its own note.
        if release is not None and dialect_served_as(release.name) is None:
            served = f"serves {release.release} as {release.name}"
            self._say(request.place, f"the official API {served}: --profile {PROFILE_NAME}")

    def _say(self, place: str, note: str) -> None:
        if note not in self._notes and sys.stderr is not None:
            self._notes.add(note)
            print(f"dsv4: {place}: {note}", file=sys.stderr)


def _bare(path: str) -> str:
    """A place without its indices."""
    return re.sub(r"\[\d+\]", "", path)


RULES_IN_WORDS = {
    "released": "as the released encoder reads messages (--as released)",
    "body": "as a server reads this request (--as body)",
}


def read_one_request(
    args: command_options.ConversationOptions, *, hint: str = ": choose one with --line N"
) -> LocatedRequest:
    """The one conversation of a file, or that of the requested line."""
    if getattr(args, "prompt", False):
        return request_from_prompt(args, args.file)
    name, line = input_files.input_name(args.file), args.line
    documents = list(
        _few_documents(read_documents(args.file, args.jsonl or line is not None), line)
    )
    if not documents and line is not None:
        raise Failure(f"--line: {name} has no conversation in line {line}")
    if len(documents) > 1 and documents[0].problem is None:
        raise Failure(f"{name}: found several conversations, expected one{hint}")
    return _located_request(args, documents[0], prompt_overrides(args), ReadingNotes())


def _located_request(
    args: PromptOptions, document: FileDocument, overrides: RequestOverrides, notes: ReadingNotes
) -> LocatedRequest:
    """The request of a document. With --profile, the request that writes that server's prompt for
    it."""
    server = getattr(args, "profile", None)
    profile = None if server is None else profile_option(server)
    if profile is not None and profile.dialect_of_body is not None:  # it knows its models by name
        return _as_served(profile, document, overrides, dialect_option(args))
    request = request_from_document(document, overrides)
    if request.read is not None:
        notes.add(request.place, request.read, overrides)
    if profile is not None:
        return _as_served(profile, document, overrides, str(request.request.dialect))
    if hasattr(args, "profile") and overrides.dialect is None:
        notes.name_official(request)
    return request


def _as_served(
    profile: Profile, document: FileDocument, overrides: RequestOverrides, dialect: str | None
) -> LocatedRequest:
    from dsv4._cli.served_prompts import served_request

    request, weights = served_request(profile, document.place, document.content, dialect)
    return LocatedRequest(document.place, request, overrides, weights=weights)


def _few_documents(read: Iterator[FileDocument], line: int | None) -> Iterator[FileDocument]:
    """The document of a line; without a line, the first two, which show if there are several."""
    if line is not None:
        yield from (document for document in read if document.place.endswith(f":{line}"))
        return
    for _ in range(2):
        document = next(read, None)
        if document is not None:
            yield document
