"""dsv4 cache: how much a prefix cache can reuse over a whole log, and the causes that break it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import dsv4
from dsv4._cli import command_options as shared
from dsv4._cli.command_output import DONE, FINDINGS, Failure, Paint, json_text, output, plural
from dsv4._cli.conversation_files import FileDocument, read_json_lines, read_session
from dsv4._cli.option_fields import argument, option, switch
from dsv4._view.characters import terminal_safe

if TYPE_CHECKING:
    from dsv4.profiles import Profile
    from dsv4.verify.cache_breaks import CacheSummary, CacheTurn

OWN = "dsv4"
SHORT_LOG = 4_000_000


@dataclass(kw_only=True)
class CacheOptions(shared.DialectOptions, shared.ColorOption):
    log: str = argument("LOG")
    profile: str = option(default=OWN, metavar="SERVER")
    only_breaks: bool = switch()
    json: bool = switch()


def run(args: CacheOptions) -> int:
    """Status 1 if a request could not reuse all of the prompt before it."""
    from dsv4.verify.cache_breaks import CacheSummary

    profile = shared.profile_option(args.profile)
    summary, refused = CacheSummary(), 0
    paint = Paint(args.color)
    with output() as file, shared.vocabulary_errors():
        for n, (place, turn) in enumerate(_turns(args, profile)):
            if not args.json and n == 0:
                file.write(f"{paint(_HEAD, 'bold')}\n")
            if isinstance(turn, str):
                refused += 1
                file.write(_refusal(place, turn, args.json))
                continue
            summary.add(turn)
            if args.only_breaks and not (turn.lost or turn.forgotten):
                continue
            text = _turn_json(place, turn) if args.json else _turn_line(place, turn, paint)
            file.write(f"{text}\n")
        if not summary.requests:
            raise Failure(f"{args.log}: found no request, expected JSON lines with some")
        text = _summary_json(summary) if args.json else "\n".join(_summary_lines(summary, paint))
        file.write(f"{text}\n")
    return FINDINGS if summary.lost or refused else DONE


def _turns(args: CacheOptions, profile: Profile) -> Iterator[tuple[str, CacheTurn | str]]:
    from dsv4.tokens import Tokenizer
    from dsv4.verify.cache_breaks import CacheForecast
    from dsv4.verify.recorded import logged_request
    from dsv4.verify.token_counts import PromptCounter

    forecasts: dict[str, CacheForecast] = {}
    counter = PromptCounter(Tokenizer.load(engine="one-shot" if _is_short(args.log) else "auto"))
    for document in _documents(args.log):
        request = logged_request(document.content)
        if request is None:
            continue
        dialect = _dialect(args, profile, request.body.get("model"))
        if dialect not in forecasts:
            forecasts[dialect] = CacheForecast(profile, dialect, counter)
        try:
            yield document.place, forecasts[dialect].add(request.body, request.cached)
        except dsv4.Error as error:
            yield document.place, str(error)


def _documents(log: str) -> Iterator[FileDocument]:
    """The lines of a log, or the requests of an agent's session file, numbered."""
    session = read_session(log)
    if not session:
        return read_json_lines(log)
    bodies = (body for conversation in session for body in conversation.requests())
    return (FileDocument(f"{log}:{n}", body) for n, body in enumerate(bodies, 1))


def _is_short(log: str) -> bool:
    """Whether a log is so short that the engine that loads faster is done before the one that
    encodes faster."""
    try:
        return os.path.getsize(log) < SHORT_LOG
    except OSError:
        return True


def _dialect(args: CacheOptions, profile: Profile, model: object) -> str:
    """The dialect of the options, or of the model, as this server names it."""
    named = shared.dialect_of_request(args, model)
    return profile.dialects[0] if named is None else profile.own_dialect(str(named))


# The output.

_HEAD = f"{'line':>7} {'tokens':>9} {'reusable':>9} {'':>5} {'reused':>9}  what was lost"


def _turn_line(place: str, turn: CacheTurn, paint: Paint) -> str:
    share = f"{turn.reusable / max(turn.tokens, 1):.0%}"
    reused = "" if turn.reused is None else f"{turn.reused:,}"
    line = place.rpartition(":")[2]
    head = f"{line:>7} {turn.tokens:>9,} {turn.reusable:>9,} {share:>5}"
    return f"{head} {reused:>9}  {paint(_loss(turn), 'yellow')}".rstrip()


def _loss(turn: CacheTurn) -> str:
    from dsv4.verify.cache_breaks import FORGOTTEN

    if turn.lost:
        detail = f" ({terminal_safe(turn.detail)})" if turn.detail else ""
        return f"{plural(turn.lost, 'token')}: {turn.cause}{detail}"
    if turn.forgotten:
        return f"{plural(turn.forgotten, 'token')}: {FORGOTTEN}"
    return turn.cause


def _refusal(place: str, problem: str, as_json: bool) -> str:
    if as_json:
        return f"{json_text({'place': place, 'refused': problem})}\n"
    return f"{terminal_safe(place)}: refused: {terminal_safe(problem)}\n"


def _turn_json(place: str, turn: CacheTurn) -> str:
    return json_text({"place": place, **asdict(turn)})


def _summary_json(summary: CacheSummary) -> str:
    causes = [asdict(each) for each in summary.lost]
    fields: dict[str, Any] = {
        "requests": summary.requests,
        "tokens": summary.tokens,
        "reusable": summary.reusable,
        "reused": summary.reused if summary.reported else None,
        "lost": causes,
    }
    return json_text({"summary": fields})


def _summary_lines(summary: CacheSummary, paint: Paint) -> Iterator[str]:
    def share(tokens: int) -> str:
        return f"{tokens:,} ({tokens / max(summary.tokens, 1):.0%})"

    reused = f", {share(summary.reused)} were" if summary.reported else ""
    total = f"{plural(summary.requests, 'request')}, {plural(summary.tokens, 'token')}"
    yield ""
    yield f"{total}: {share(summary.reusable)} could be reused{reused}"
    if not summary.lost:
        yield paint("Nothing was lost.", "green")
    for each in summary.lost:
        requests = plural(each.requests, "request")
        yield f"{share(each.tokens):>18} in {requests}: {each.cause}"
