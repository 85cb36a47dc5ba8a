"""dsv4 diff: the place where two prompts differ and the cause; with --profile, the prompts of two
servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from dsv4._cli import command_options as shared
from dsv4._cli.command_output import DONE, FINDINGS, Failure, Paint, json_text, output, plural
from dsv4._cli.conversation_files import (
    LocatedRequest,
    read_documents,
    read_one_request,
)
from dsv4._cli.option_fields import argument, option, switch
from dsv4._encode.prompt import Prompt
from dsv4._format import tokens
from dsv4._images.image_source import identity
from dsv4._view.characters import terminal_safe
from dsv4._view.image_captions import image_counts
from dsv4.api import convert
from dsv4.api.body_reader import recognise
from dsv4.errors import path_of

if TYPE_CHECKING:
    from dsv4.profiles import Comparison, Side
    from dsv4.tokens import Difference, Tokenizer


# The number of tokens shown before and after the place where prompts differ.
CONTEXT_TOKENS = 10
EXCERPT_TOKENS = 16
END_OF_PROMPT = "(ends)"
# The number of characters shown before and after the place where prompts differ.
CONTEXT_CHARACTERS = 60
EXCERPT_CHARACTERS = 100
# Options that no server takes.
_DSV4_ONLY_OPTIONS = ("mode", "effort", "tools", "keep_thinking", "task", "no_bos", "tokenizer")
# The length of the shown part of a hash, or of an address that a caption has already.
_IDENTITY_LENGTH = len("sha256:") + 12
LAST_TOKEN_DIFFERS = "the last token of A takes in text that follows in B"
SPELLED_TOKEN = "one has a special token where the other has text that spells it"


@dataclass(kw_only=True)
class DiffOptions(shared.PromptOptions, shared.TokenizerOption, shared.ColorOption):
    a: str = argument("A")
    b: str | None = argument("B", "?")
    profile: list[str] = option(default=[], metavar="NAME")
    json: bool = switch()


def run(args: DiffOptions) -> int:
    """Status 0 if B starts with all of A."""
    if args.profile:
        return run_profile_diff(args)
    if args.b is None:
        raise Failure("found one conversation, expected two")
    if args.a == args.b == "-":
        raise Failure("found stdin twice, expected two conversations")
    tokenizer = shared.load_tokenizer(args.tokenizer, (args.a, args.b))
    difference = diff_prompts(_request_in(args, args.a), _request_in(args, args.b), tokenizer)
    lines = _difference_lines(difference, Paint(args.color))
    whole = {"prefix": difference.is_prefix, **asdict(difference)}
    _print([json_text(whole)] if args.json else lines)
    return DONE if difference.is_prefix else FINDINGS


def _print(lines: Iterable[str]) -> None:
    with output() as file:
        file.writelines(f"{line}\n" for line in lines)


def _request_in(args: DiffOptions, path: str) -> LocatedRequest:
    options = {each.name: getattr(args, each.name) for each in fields(shared.PromptOptions)}
    return read_one_request(shared.ConversationOptions(**options, file=path), hint="")


@dataclass(frozen=True)
class DiffSide:
    """One of the prompts: its size, and its text from the first difference on. `picture` describes
    the picture there, if the other prompt has another one."""

    place: str
    tokens: int
    characters: int
    rest: str
    picture: str | None = None

    @property
    def text(self) -> str:
        return self.rest if self.picture is None else f"({self.picture}) {self.rest}"


@dataclass(frozen=True)
class PromptDifference:
    """The common beginning of two prompts, and the cause that ends it.

    `message` and `field` are the place of the first token that only A has; None if there is none.
    """

    a: DiffSide
    b: DiffSide
    tokens: int
    characters: int
    before: str
    message: int | None = None
    field: str | None = None
    cause: str | None = None

    @property
    def is_prefix(self) -> bool:
        return self.cause is None


def diff_prompts(a: LocatedRequest, b: LocatedRequest, tokenizer: Tokenizer) -> PromptDifference:
    from dsv4.tokens import why_not_prefix
    from dsv4.tokens.coder import common_prefix_length
    from dsv4.tokens.prefix_difference import PICTURE

    first, second = a.encode(), b.encode()
    with shared.tokenizer_errors_at(f"{a.place}, {b.place}"):
        tokenizer = tokenizer.with_dialect(first.dialect)
        break_cause = why_not_prefix(first, second, tokenizer)
        ids, other_ids = tokenizer.encode(first), tokenizer.encode(second)
    token = len(ids) if break_cause is None else break_cause.token
    characters = common_prefix_length(str(first), str(second))
    difference = PromptDifference(
        DiffSide(a.place, len(ids), len(first), _excerpt(tokenizer, ids, token)),
        DiffSide(b.place, len(other_ids), len(second), _excerpt(tokenizer, other_ids, token)),
        token,
        characters,
        tokenizer.decode(ids[max(0, token - CONTEXT_TOKENS) : token]),
    )
    if break_cause is None:
        return difference
    if break_cause.cause == PICTURE:
        before = sum(id == tokens.IMAGE.id for id in ids[:token])
        difference = replace(
            difference,
            a=replace(difference.a, picture=_picture_in_words(first, before, tokenizer)),
            b=replace(difference.b, picture=_picture_in_words(second, before, tokenizer)),
            characters=len(tokenizer.decode(ids[:token])),
        )
    cause = _cause_in_order(break_cause.cause, why_not_prefix(second, first, tokenizer))
    if characters == len(first) and break_cause.cause != PICTURE:
        added = tokenizer.vocabulary.added.values()
        spelled = any(id in added for id in (*ids[token:][:1], *other_ids[token:][:1]))
        cause = SPELLED_TOKEN if spelled else LAST_TOKEN_DIFFERS
    return replace(difference, message=break_cause.message, field=break_cause.field, cause=cause)


def _picture_in_words(prompt: Prompt, index: int, tokenizer: Tokenizer) -> str:
    """A picture's caption and its hash, because two screenshots may have the same name and size."""
    name = identity(prompt.images[index])[:_IDENTITY_LENGTH]
    return f"{list(image_counts(prompt, tokenizer))[index].caption}, {name}"


def _cause_in_order(cause: str, reverse: Difference | None) -> str:
    """The cause of the difference. If A is the later conversation and lost a part of B, that is the
    cause."""
    from dsv4.tokens.prefix_difference import DROPPED, VANISHED

    if reverse is not None and reverse.cause in (DROPPED, VANISHED) and cause != reverse.cause:
        return f"{reverse.cause}: A is the later conversation"
    return cause


def _excerpt(tokenizer: Tokenizer, ids: list[int], start: int) -> str:
    return tokenizer.decode(ids[start : start + EXCERPT_TOKENS])


# The output.


def _difference_lines(difference: PromptDifference, paint: Paint) -> Iterator[str]:
    for name, side in (("A", difference.a), ("B", difference.b)):
        size = f"{plural(side.tokens, 'token')}, {side.characters:,} characters"
        yield f"{paint(name, 'bold')}  {terminal_safe(side.place)}: {size}"
    yield ""
    if difference.is_prefix:
        yield paint(_continuation(difference), "green")
        return
    shared = f"{plural(difference.tokens, 'token')}, {difference.characters:,} characters"
    owner = "" if difference.message is None else f"messages[{difference.message}]."
    yield f"They part after {shared}, in {owner}{difference.field}:"
    yield paint(str(difference.cause), "yellow")
    yield ""
    yield from _excerpt_lines(difference.before, difference.a.text, difference.b.text, paint)


def _excerpt_lines(before: str, a: str, b: str, paint: Paint) -> Iterator[str]:
    """The text around the first difference: the common text, then the continuation of each."""
    yield f"both  {paint(terminal_safe(before), 'dim')}"
    yield f"A     {paint(terminal_safe(a) or END_OF_PROMPT, 'red')}"
    yield f"B     {paint(terminal_safe(b) or END_OF_PROMPT, 'green')}"


def _continuation(difference: PromptDifference) -> str:
    new = difference.b.tokens - difference.a.tokens
    return (
        f"B goes on where A ends, with {plural(new, 'token')} more."
        if new
        else "A and B are the same."
    )


# dsv4 diff --profile A --profile B: the prompts that two servers write for one request.


def run_profile_diff(args: DiffOptions) -> int:
    """Status 0 if both servers write the same prompt."""
    from dsv4.profiles import compare

    if len(args.profile) != 2 or args.b is not None:
        requests = 1 if args.b is None else 2
        problem = f"found {plural(len(args.profile), 'server')} and {plural(requests, 'request')}"
        raise Failure(f"--profile: {problem}, expected two servers and one request")
    for name in _DSV4_ONLY_OPTIONS:
        if getattr(args, name):
            raise Failure(f"--{name.replace('_', '-')}: found it with --profile, expected it not")
    servers = [shared.profile_option(name) for name in args.profile]
    body = _only_body(args.a)
    protocol = recognise(body).protocol
    body = body if protocol == "chat" else convert(body, protocol, "chat")
    compared = compare(body, *servers, dialect=_profile_dialect(args, body))
    lines = _comparison_lines(compared, Paint(args.color))
    _print([_comparison_json(compared)] if args.json else lines)
    return DONE if compared.same else FINDINGS


def _only_body(path: str) -> Any:
    documents = list(read_documents(path))
    if len(documents) != 1:
        raise Failure(f"{path}: found {len(documents)} requests, expected one")
    return documents[0].content


def _profile_dialect(args: DiffOptions, body: object) -> str:
    """The dialect, from the options, or else from the request's model."""
    model = body.get("model") if isinstance(body, dict) else None
    return str(shared.dialect_of_request(args, model) or "v4")


def _comparison_json(compared: Comparison) -> str:
    sides = {
        name: {
            "profile": side.profile.name,
            "verified": side.profile.verified,
            "prompt": side.prompt,
            "error": None if side.error is None else str(side.error),
        }
        for name, side in (("a", compared.first), ("b", compared.second))
    }
    reasons = [
        {"kind": reason.kind, "location": list(reason.location), "message": reason.message}
        for reason in compared.reasons
    ]
    result = {"same": compared.same, **sides, "characters": compared.shared, "reasons": reasons}
    return json_text(result)


def _comparison_lines(compared: Comparison, paint: Paint) -> Iterator[str]:
    for name, side in (("A", compared.first), ("B", compared.second)):
        yield f"{paint(name, 'bold')}  {side.profile.server}: {_side_size(side)}"
    yield ""
    if compared.same:
        yield paint("A and B write the same prompt.", "green")
        return
    for reason in compared.reasons:
        kind = paint(reason.kind, "yellow")
        where = f" ({path_of(reason.location)})" if reason.location else ""
        yield f"- {kind}{where}: {reason.message}"
    a, b = compared.first.prompt, compared.second.prompt
    if a is None or b is None:
        return
    at = compared.shared
    yield ""
    yield f"They part after {at:,} characters:"
    before = a[max(0, at - CONTEXT_CHARACTERS) : at]
    rest = slice(at, at + EXCERPT_CHARACTERS)
    yield from _excerpt_lines(before, a[rest], b[rest], paint)


def _side_size(side: Side) -> str:
    return "refused" if side.prompt is None else f"{len(side.prompt):,} characters"
