"""The verdicts of `dsv4 why`: what a pasted thing is, what is wrong with it, the cause, the fix.

Nothing is decided here. The check decides about requests, the parser about answers, the decoder
about prompts, and the page of errors about errors; this module puts their results into words.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from dsv4._check.check_runner import run_checks
from dsv4._check.findings import FINDING_KINDS, SERVER_PREFIX, Finding
from dsv4._check.fixes import fix_body
from dsv4._decode import decode
from dsv4._inputs.input_files import line_and_column
from dsv4._inputs.request_bodies import RequestOverrides
from dsv4._why import error_page
from dsv4._why.captured_answers import PROTOCOL_WORDS
from dsv4._why.judged_answers import judge_answer
from dsv4._why.pasted_kinds import (
    BrokenJson,
    NotUnderstood,
    Pasted,
    PastedAnswer,
    PastedError,
    PastedExchanges,
    PastedLines,
    PastedPrompt,
    PastedRecords,
    PastedRequest,
    PastedSentence,
    PastedSession,
)
from dsv4._why.recognition import recognise_bytes, recognise_text, recognise_value
from dsv4._why.verdict import Culprit, WhyVerdict, marked
from dsv4.api.api_request import ProtocolName, chosen_dialect
from dsv4.api.body_reader import recognise
from dsv4.errors import Error
from dsv4.profiles.official_api import PROFILE_NAME, RELEASES, is_official_host

# The most lines of a file that are judged.
MOST_LOOKED_AT = 1_000
# Names of models that the official API has, or had.
_OFFICIAL_NAMES = {row.name for row in RELEASES}


def why(source: str | bytes, name: str = "FILE") -> WhyVerdict:
    """The verdict on a text or on the bytes of a file. `name` is its name in commands."""
    pasted = recognise_text(source) if isinstance(source, str) else recognise_bytes(source, name)
    verdict = judge(pasted)
    if isinstance(pasted, PastedRequest) and not _is_whole(pasted.body, source):
        name = "REQUEST.json"
        verdict = replace(verdict, because=verdict.because or f"with its JSON alone in {name}:")
    if isinstance(pasted, PastedPrompt) and not _is_all(pasted.text, source):
        fix = verdict.fix.replace("dsv4 decode", "dsv4 decode --unescape")
        verdict = replace(verdict, fix=fix)
    named = {field: getattr(verdict, field).replace("FILE", name) for field in ("wrong", "fix")}
    return replace(verdict, **named)


def _is_whole(body: object, source: str | bytes) -> bool:
    """Whether a source is nothing but the request, so that other commands can read it."""
    try:
        return bool(json.loads(source) == body)
    except (ValueError, RecursionError):
        return False


def _is_all(text: str, source: str | bytes) -> bool:
    whole = source if isinstance(source, str) else source.decode("utf-8", "replace")
    return text.strip() == whole.strip()


@singledispatch
def judge(pasted: Pasted) -> WhyVerdict:
    """The verdict on something that was recognised."""
    raise TypeError(pasted)


judge.register(PastedAnswer)(judge_answer)


@judge.register
def _judge_nothing(pasted: NotUnderstood) -> WhyVerdict:
    return WhyVerdict(
        kind="unknown", what=pasted.what, because=pasted.hint, more="cli", understood=False
    )


@judge.register
def _judge_sentence(pasted: PastedSentence) -> WhyVerdict:
    words = "a text" if "\n" in pasted.text.strip() else "a sentence"
    verdict = WhyVerdict(
        kind="sentence",
        what=f"{words}, which would be a user's message",
        fix="dsv4 playground    # shows the prompt that it becomes",
        more="playground-guide",
    )
    mentioned = error_page.find_known_error(pasted.text)
    if mentioned is None:
        return verdict
    error, start, end = mentioned
    named = " ".join(pasted.text[start:end].split())
    because = f"it mentions an error that has a section: {error.title}"
    return replace(verdict, because=because, fix=f"dsv4 why {shlex.quote(named)}", more="errors")


@judge.register
def _judge_broken_json(pasted: BrokenJson) -> WhyVerdict:
    is_cut = pasted.at >= len(pasted.text.rstrip()) or "unterminated string" in pasted.problem
    at = min(pasted.at, len(pasted.text))
    return WhyVerdict(
        kind="json",
        what="JSON that breaks off" if is_cut else "JSON with a mistake",
        wrong=pasted.problem,
        place=f"line {pasted.line}, column {pasted.column}",
        marked=marked(pasted.text, at, at + 1),
        who="client",
        sure="likely",
        because="it was cut when it was sent, logged or copied" if is_cut else "no server reads it",
        fix="copy all of it" if is_cut else "correct that place, then: dsv4 why FILE",
        more="cli",
    )


# Requests.


@judge.register
def _judge_request(pasted: PastedRequest) -> WhyVerdict:
    form = pasted.form
    if isinstance(pasted.body, dict):
        form = form.replace("a request", f"a request of {_protocol_words(pasted)}", 1)
    host = urlsplit(pasted.url).hostname or ""
    sent = f", sent to {host}" if host else ""
    verdict = WhyVerdict(
        kind="request",
        what=f"{form}{sent}",
        fix="dsv4 show FILE    # the prompt that it becomes",
        more="checking",
    )
    wrong = _checked(pasted.body, verdict)
    return wrong if wrong.wrong else _as_official(pasted, verdict)


def _as_official(pasted: PastedRequest, verdict: WhyVerdict) -> WhyVerdict:
    """The verdict on a Chat request to the official API, with the error if the API refuses it. The
    address of a request, or the name of its model, tells whether it is sent there."""
    body, is_sent = pasted.body, is_official_host(pasted.url)
    if not isinstance(body, dict) or (_protocol_of(pasted) or recognise(body).protocol) != "chat":
        return verdict
    if not is_sent and (pasted.url.startswith("http") or body.get("model") not in _OFFICIAL_NAMES):
        return verdict
    refused = next(iter(_serious_findings(body, PROFILE_NAME)), None)
    known = error_page.find_known_error(refused.message) if refused else None
    if refused is None:
        return verdict
    return replace(
        verdict,
        wrong=refused.message,
        place=refused.path,
        marked=_quoted_value(body, refused),
        who="client",
        sure="sure" if is_sent else "likely",
        because=known[0].why if known else "so its table of rules says",
        fix=known[0].fix if known else f"dsv4 check --profile {PROFILE_NAME} FILE",
        more=known[0].more if known else "official-api",
    )


def _protocol_words(pasted: PastedRequest) -> str:
    sent_as, found = _protocol_of(pasted), recognise(pasted.body)
    if sent_as is None and found.rules != "body":
        return "dsv4's own form"
    return PROTOCOL_WORDS[sent_as or found.protocol]


def _protocol_of(pasted: PastedRequest) -> ProtocolName | None:
    """The protocol, by the address of the request."""
    path = urlsplit(pasted.url).path.rstrip("/")
    return next((name for end, name in _PROTOCOL_PATHS.items() if path.endswith(end)), None)


_PROTOCOL_PATHS: dict[str, ProtocolName] = {
    "/chat/completions": "chat",
    "/messages": "messages",
    "/responses": "responses",
}


def _checked(body: Any, verdict: WhyVerdict, ignored: Sequence[str] = ()) -> WhyVerdict:
    """The verdict with the first error or warning that `dsv4 check` finds, except those of kinds
    that are `ignored` because they do not apply to this body."""
    ignored = (*ignored, *_untellable(body))
    serious = [each for each in _serious_findings(body) if each.kind not in ignored]
    if not serious:
        return verdict
    if serious[0].kind == "not_a_conversation":
        return replace(verdict, understood=False, because=serious[0].message, fix="")
    first, more = serious[0], len(serious) - 1
    others = f" (and {more} more: dsv4 check FILE)" if more else ""
    can_fix = first not in _serious_findings(fix_body(body).body)
    fix = "dsv4 check --fix -o fixed.json FILE"
    return replace(
        verdict,
        wrong=f"{first.message} [{first.kind}]{others}",
        place=first.path,
        marked=_quoted_value(body, first),
        who=_BLAMED.get(first.kind, "client"),
        sure="sure" if first.level == "error" else "likely",
        because=_reason(first),
        fix=fix if can_fix else f"change {first.path or 'the request'}, then: dsv4 check FILE",
        more="checking",
    )


def _reason(finding: Finding) -> str:
    meaning = FINDING_KINDS[finding.kind].meaning.removesuffix(".")
    return f"{meaning[0].lower()}{meaning[1:]}"


# Findings in a history that are faults of the model or the server; others are faults of the client.
_BLAMED: dict[str, Culprit] = {
    **dict.fromkeys(("arguments_not_json", "invalid_arguments", "undeclared_tool"), "model"),
    **dict.fromkeys(("calls_in_content", "reasoning_in_content"), "server"),
}


def _untellable(body: Any) -> tuple[str, ...]:
    """Kinds of findings that depend on the model (whether it reads pictures and files), if a body
    does not have its exact name."""
    model = body.get("model") if isinstance(body, dict) else None
    unknown = (
        not isinstance(model, str) or model in _OFFICIAL_NAMES or chosen_dialect(None, model)[1]
    )
    return ("unsupported_content",) if unknown else ()


def _serious_findings(body: Any, profile: str | None = None) -> list[Finding]:
    found = run_checks(body, RequestOverrides(), profile=profile)
    serious = [each for each in found if each.level != "note" and not _is_trap(each)]
    return sorted(serious, key=lambda each: each.level != "error")


def _is_trap(finding: Finding) -> bool:
    """Whether a server accepts the request, and only treats it differently from other servers."""
    return finding.kind.startswith(SERVER_PREFIX) and finding.level != "error"


def _quoted_value(body: Any, finding: Finding) -> str:
    """The value at the place of a finding, marked."""
    value = body
    for step in finding.location:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return ""
    if not finding.location or isinstance(value, (dict, list)):
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return marked(text, 0, len(text))


# Prompts.


@judge.register
def _judge_prompt(pasted: PastedPrompt) -> WhyVerdict:
    try:
        decoded = decode(pasted.text)
    except (Error, RecursionError) as error:
        return WhyVerdict(
            kind="prompt", what=f"a prompt that cannot be read: {error}", understood=False
        )
    names = " or ".join(decoded.dialects)
    verdict = WhyVerdict(
        kind="prompt",
        what=f"a prompt of {names} with {len(list(decoded.request.messages))} messages",
        fix="dsv4 decode FILE    # the request that it comes from",
        more="decoding",
    )
    if decoded.exact or not decoded.notes:
        found = _checked(decoded.request, verdict)
        if not found.wrong:
            return found
        fix = "dsv4 decode FILE | dsv4 check -    # what is wrong with its request"
        return replace(found, who="unknown", sure="unknown", fix=fix)
    note = decoded.notes[-1]
    line, column = line_and_column(pasted.text, note.start)
    return replace(
        verdict,
        wrong=note.text,
        place=f"line {line}, column {column}",
        marked=marked(pasted.text, note.start, note.end),
        who="server",
        sure="likely",
        because="no request gives exactly this prompt, so another encoder or a template wrote it",
        fix="dsv4 decode --notes FILE    # the request that comes nearest",
    )


# Errors.


@judge.register
def _judge_error(pasted: PastedError) -> WhyVerdict:
    known = error_page.find_known_error(pasted.text)
    verdict = WhyVerdict(kind="error", what=pasted.form, more="errors")
    if known is not None:
        error, start, end = known
        if error.who == "nobody":
            return replace(verdict, what=error.title, because=error.why, fix=error.fix)
        return error.told(
            verdict,
            what=f"{pasted.form}: {error.title}",
            wrong=error.why,
            marked=marked(pasted.text, start, end),
            because="",
        )
    return _judge_own_error(pasted, verdict) or _judge_status(pasted, verdict)


# The form of dsv4's own messages about wrong input.
_OWN_WORDS = re.compile(r"[\w.\[\]]+: found .{1,300}, expected [^\"\n]{1,200}")


def _judge_own_error(pasted: PastedError, verdict: WhyVerdict) -> WhyVerdict | None:
    """The verdict on an error that dsv4 raised on purpose, or on another exception in dsv4, which
    is a fault of dsv4. None for all other errors."""
    last = pasted.text.rstrip().rpartition("\n")[2]
    own = _OWN_WORDS.search(last)
    if own is not None or last.startswith("dsv4."):
        return replace(
            verdict,
            wrong=own[0] if own else last,
            who="client",
            because="dsv4 names the place, what was found and what was expected",
            fix="change what the message names",
        )
    if "/dsv4/" not in pasted.text.replace("\\", "/") or "Traceback" not in pasted.text:
        return None
    return replace(
        verdict,
        wrong=last,
        who="dsv4",
        sure="likely",
        because="the exception comes out of dsv4, and is not one that it raises on purpose",
        fix="report it, with the input that caused it",
        more="compatibility",
    )


def _judge_status(pasted: PastedError, verdict: WhyVerdict) -> WhyVerdict:
    status = pasted.status or next(error_page.error_statuses(pasted.text), None)
    known = None if status is None else error_page.error_of_status(status)
    if known is None:
        return replace(
            verdict,
            what=f"{pasted.form} that is not in the table of known errors",
            because=error_page.telling_line(pasted.text),
            understood=False,
        )
    return known.told(
        verdict,
        what=f"{pasted.form} with the status {known.title}",
        wrong=known.why,
        because="so its status says; the text is not in the table of known errors",
        more=verdict.more,
    )


# Several things in one input.


def _first_wrong(
    verdicts: Iterable[tuple[str, WhyVerdict]], whole: Callable[[int], str], kind: str
) -> WhyVerdict:
    """The first verdict that something is wrong, with the number of such verdicts. `whole` returns
    a description of the input, for the number of its parts."""
    looked_at = list(islice(verdicts, MOST_LOOKED_AT))
    wrong = [(place, verdict) for place, verdict in looked_at if verdict.status == 1]
    words, number = whole(len(looked_at)), len(looked_at)
    unclear = [verdict for _, verdict in looked_at if not verdict.understood]
    if number and len(unclear) == number:
        return replace(unclear[0], kind=kind, what=f"{words}: {unclear[0].what}")
    if unclear:
        words += f", {len(unclear)} of which cannot be judged"
    if not wrong:
        return WhyVerdict(kind=kind, what=words, more="verify")
    place, verdict = wrong[0]
    many = f"; something is wrong with {len(wrong)} of {number}" if number > 1 else ""
    inside = ", ".join(filter(None, [place, verdict.place]))
    return replace(verdict, kind=kind, what=f"{words}{many}: {verdict.what}", place=inside)


@judge.register
def _judge_exchanges(pasted: PastedExchanges) -> WhyVerdict:
    def verdicts() -> Iterator[tuple[str, WhyVerdict]]:
        for each in pasted.exchanges:
            reply = None if each.reply is None else judge(each.reply)
            if reply is None or reply.status == 0:
                asked = None if each.request is None else judge(each.request)
                reply = asked if asked is not None and asked.wrong else reply or asked
            if reply is not None:
                yield each.place, reply

    counted = len(pasted.exchanges)
    words = f"{pasted.form} with {counted} requests" if counted > 1 else pasted.form
    return _first_wrong(verdicts(), lambda _: words, "exchanges")


@judge.register
def _judge_records(pasted: PastedRecords) -> WhyVerdict:
    def verdicts() -> Iterator[tuple[str, WhyVerdict]]:
        for n, record in enumerate(pasted.records, 1):
            yield f"line {n}", _judge_record(record)

    return _first_wrong(verdicts(), lambda n: f"a log of --record with {n} exchanges", "record")


def _judge_record(record: Any) -> WhyVerdict:
    """The verdict on an exchange that the gateway recorded, with repairs that its client did not
    see."""
    verdict = WhyVerdict(kind="record", what="a completion", more="gateway-operations")
    repairs = [each for each in record.get("diagnostics") or () if isinstance(each, dict)]
    kinds = [str(each.get("kind")) for each in repairs if each.get("kind") != "markup_as_text"]
    if kinds:
        is_server = kinds[0].startswith(("leaked", "broken"))
        return replace(
            verdict,
            wrong=f"{', '.join(dict.fromkeys(kinds))}: dsv4 repaired it for the client",
            marked=_marked_raw(repairs[0], record),
            who="server" if is_server else "model",
            because="the chat server left it in its answer"
            if is_server
            else "so it wrote the text",
            fix="dsv4 replay FILE    # reads every completion again",
        )
    if record.get("finish") in ("length", "error", "aborted"):
        return replace(
            verdict,
            wrong=f"the completion ended with {record['finish']}",
            who="client" if record["finish"] == "length" else "server",
            sure="likely",
            fix="raise max_tokens in the request"
            if record["finish"] == "length"
            else "send it again",
        )
    return verdict


def _marked_raw(repair: dict[str, Any], record: Any) -> str:
    text, start, end = record.get("completion"), repair.get("start"), repair.get("end")
    if not (isinstance(text, str) and isinstance(start, int) and isinstance(end, int)):
        return ""
    return marked(text, start, end)


@judge.register
def _judge_session(pasted: PastedSession) -> WhyVerdict:
    whose = f"a session file of {pasted.agent}" if pasted.agent else "an agent's session"
    what = f"{whose} with {pasted.turns:,} messages"
    if pasted.conversations > 1:
        what += f" in the last of its {pasted.conversations} conversations"
    what = "; ".join((what, *pasted.lost))
    verdict = WhyVerdict(kind="session", what=what, more="datasets")
    # Most agents do not write their declared tools into these files.
    ignored = () if "tools" in pasted.body else ("calls_without_tools",)
    return _checked(pasted.body, verdict, ignored)


@judge.register
def _judge_lines(pasted: PastedLines) -> WhyVerdict:
    looked_at = [recognise_value(value) for value in pasted.values[:MOST_LOOKED_AT]]
    others = any(isinstance(each, _SENT_BACK) for each in looked_at)

    def verdicts() -> Iterator[tuple[str, WhyVerdict]]:
        for n, (found, value) in enumerate(zip(looked_at, pasted.values, strict=False), 1):
            if isinstance(found, _SENT_BACK):
                yield f"line {n}", judge(found)
            else:
                yield f"line {n}", _checked(value, WhyVerdict(kind="lines", what="a conversation"))

    kinds = "JSON lines of several kinds: {}" if others else "JSON lines with {} conversations"
    return _first_wrong(verdicts(), kinds.format, "lines")


_SENT_BACK = (PastedAnswer, PastedError, PastedExchanges)
