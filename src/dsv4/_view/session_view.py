"""A session for the eye: its turns one after the other, what was sampled in colour, the shades of
log-probabilities, where chains break and why. For a terminal, and as HTML that needs no other file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from dsv4._view.characters import terminal_safe_lines
from dsv4._view.html_page import PAGE_STYLE
from dsv4._view.style_files import read_style

# Ids -> text.
Decode = Callable[[Sequence[int]], str]
# How sure the model was, as five shades: a token belongs to the first whose bound it is above.
SHADES = (-0.1, -0.7, -2.3, -4.6)
# The same on a terminal, from its calmest green to red; and what is not trained on.
_ANSI = ("32", "92", "93", "33", "31")
_UNTRAINED, _WRITTEN, _NOTE, _HEAD = "35", "90", "3;33", "1"
# Of a long prompt, so many characters are shown at each end unless all are asked for.
_SHOWN = 300


class ShownTurn(NamedTuple):
    """A turn: its call, which trajectory it is in, and its tokens in runs of one shade."""

    trajectory: int
    turn: Mapping[str, Any]
    runs: list[tuple[str, str]]  # (a shade: "written", "untrained" or a number), text


def shown_turns(session: Mapping[str, Any], decode: Decode) -> Iterator[ShownTurn]:
    """Every turn once, in the order of the trajectories: those that share turns come after them."""
    names: set[str] = set()
    for number, one in enumerate(session["trajectories"]):
        for turn in one["turns"]:
            if turn["call"] not in names:
                names.add(turn["call"])
                yield ShownTurn(number, turn, list(_runs(one, turn, decode)))


def _runs(
    one: Mapping[str, Any], turn: Mapping[str, Any], decode: Decode
) -> Iterator[tuple[str, str]]:
    at = turn["prompt"][0]
    for start, end in turn["sampled"]:
        if at < start:
            yield "written", decode(one["input_ids"][at:start])
        places = range(start, end)
        for shade, run in groupby(places, lambda n: _shade(one, n, turn["trained"])):
            yield shade, decode([one["input_ids"][n] for n in run])
        at = end


def _shade(one: Mapping[str, Any], place: int, trained: bool) -> str:
    if not trained:
        return "untrained"
    logprob = one["logprobs"][place]
    sure = 0.0 if logprob is None else logprob
    return str(next((n for n, bound in enumerate(SHADES) if sure > bound), len(SHADES)))


def _facts(turn: Mapping[str, Any]) -> list[str]:
    sampled = sum(end - start for start, end in turn["sampled"])
    facts = [f"+{turn['prompt'][1] - turn['prompt'][0]} prompt, {sampled} sampled"]
    facts += [str(turn[name]) for name in ("protocol", "model") if turn.get(name)]
    facts += [str(turn["state"])] if turn["state"] != "finished" else []
    facts += [] if turn["delivered"] else ["not delivered"]
    facts += [] if turn["trained"] else ["not trained on"]
    return facts + ([f"reward {turn['reward']:g}"] if turn.get("reward") is not None else [])


def _summary(session: Mapping[str, Any]) -> str:
    facts = [
        f"{session['calls']} calls",
        f"{len(session['trajectories'])} trajectories",
        f"{session['sampled_tokens']} tokens sampled",
        "exact" if session["exact"] else "not exact",
    ]
    facts += [] if session["complete"] else ["not complete"]
    facts += ["closed" if session["closed"] else "open"]
    facts += [] if session["reward"] is None else [f"reward {session['reward']:g}"]
    return ", ".join(facts)


def _notes_by_call(session: Mapping[str, Any]) -> dict[str | None, list[Mapping[str, Any]]]:
    notes: dict[str | None, list[Mapping[str, Any]]] = {}
    for note in session["notes"]:
        notes.setdefault(note["call"], []).append(note)
    return notes


def _shortened(text: str, full: bool) -> str:
    if full or len(text) <= 2 * _SHOWN:
        return text
    return f"{text[:_SHOWN]} […{len(text) - 2 * _SHOWN} characters…] {text[-_SHOWN:]}"


def session_facts(session: Mapping[str, Any], decode: Decode) -> dict[str, Any]:
    """The session as JSON, for a page that draws it itself."""
    notes = _notes_by_call(session)
    turns = [
        {
            "trajectory": turn.trajectory + 1,
            "call": turn.turn["call"],
            "facts": ", ".join(_facts(turn.turn)),
            "notes": notes.pop(turn.turn["call"], []),
            "runs": [[shade, _shortened(text, False)] for shade, text in turn.runs],
        }
        for turn in shown_turns(session, decode)
    ]
    rest = [note for rows in notes.values() for note in rows]
    return {"id": session["id"], "summary": _summary(session), "turns": turns, "notes": rest}


# For a terminal.


def session_lines(
    session: Mapping[str, Any], decode: Decode, *, color: bool, full: bool = False
) -> Iterator[str]:
    """The session as lines for a terminal."""

    def styled(text: str, code: str) -> str:
        safe = terminal_safe_lines(text)
        return f"\x1b[{code}m{safe}\x1b[0m" if color and safe else safe

    notes = _notes_by_call(session)
    yield styled(f"session {session['id']}", _HEAD) + f": {_summary(session)}\n"
    before = -1
    for turn in shown_turns(session, decode):
        if turn.trajectory != before:
            yield "\n" + styled(f"── trajectory {turn.trajectory + 1} ", _HEAD) + "\n"
            before = turn.trajectory
        yield styled(f"{turn.turn['call']}  {', '.join(_facts(turn.turn))}\n", _HEAD)
        for note in notes.pop(turn.turn["call"], ()):
            yield styled(f"  {note['kind']}: {note['message']}\n", _NOTE)
        for shade, text in turn.runs:
            code = {"written": _WRITTEN, "untrained": _UNTRAINED}.get(shade)
            text = _shortened(text, full) if shade == "written" else text
            mark = "" if color or shade == "written" else "▸"
            yield mark + styled(text, code or _ANSI[int(shade)])
        yield "\n"
    for note in (note for rest in notes.values() for note in rest):
        yield styled(f"{note['call'] or ''}  {note['kind']}: {note['message']}\n", _NOTE)


# As HTML.


SESSION_STYLE = read_style("session_view")


def session_html(session: Mapping[str, Any], decode: Decode) -> str:
    """The session as a part of a page."""
    return f'<section class="session">{"".join(_html_parts(session, decode))}</section>'


def session_page(session: Mapping[str, Any], decode: Decode) -> str:
    """The session as a whole page."""
    title = escape(f"session {session['id']}")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{PAGE_STYLE}{SESSION_STYLE}</style>'
    body = session_html(session, decode)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _html_parts(session: Mapping[str, Any], decode: Decode) -> Iterator[str]:
    notes = _notes_by_call(session)
    yield f"<h1>session {escape(session['id'])}</h1><p>{escape(_summary(session))}</p>"
    legend = "".join(
        f'<span class="s{n}"> {words} </span>'
        for n, words in enumerate(("p &gt; 0.9", "&gt; 0.5", "&gt; 0.1", "&gt; 0.01", "less"))
    )
    untrained = '<span class="untrained"> not trained on </span>'
    yield f"<p>sampled, by probability: {legend} {untrained}</p>"
    before = -1
    for turn in shown_turns(session, decode):
        if turn.trajectory != before:
            before = turn.trajectory
            yield f"<h2>trajectory {before + 1}</h2>"
        facts = escape(", ".join(_facts(turn.turn)))
        yield f'<p><b>{escape(turn.turn["call"])}</b> <span class="facts">{facts}</span></p>'
        for note in notes.pop(turn.turn["call"], ()):
            yield _html_note(note)
        yield f"<pre>{''.join(_html_run(*run) for run in turn.runs)}</pre>"
    for note in (note for rest in notes.values() for note in rest):
        yield _html_note(note)


def _html_run(shade: str, text: str) -> str:
    name = shade if shade in ("written", "untrained") else f"s{shade}"
    if shade == "written" and len(text) > 2 * _SHOWN:
        start = escape(text[:80])
        return f'<details class="written"><summary>{start}…</summary>{escape(text)}</details>'
    return f'<span class="{name}">{escape(text)}</span>'


def _html_note(note: Mapping[str, Any]) -> str:
    call = escape(note["call"] or "")
    return f'<p class="note">{call} <b>{escape(note["kind"])}</b>: {escape(note["message"])}</p>'
