"""A session to look at: its turns in order, sampled text in colour, log-probabilities as shades,
the places where chains break and the causes. For a terminal, and as HTML without other files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain, groupby
from typing import Any, NamedTuple

from dsv4._view.characters import terminal_safe_lines
from dsv4._view.html_page import PAGE_STYLE
from dsv4._view.style_files import read_style

# Ids -> text.
Decode = Callable[[Sequence[int]], str]
# The bounds of five shades for the model's certainty: a token has the first shade whose bound its
# log-probability is above.
SHADES = (-0.1, -0.7, -2.3, -4.6)
# The shades on a terminal, from green to red; and text that is not trained on, or not sampled.
_SHADE_CODES = {
    **{str(n): code for n, code in enumerate(("32", "92", "93", "33", "31"))},
    **{"untrained": "35", "written": "90"},
}
_NOTE, _HEAD = "3;33", "1"
# The number of characters shown at each end of a long prompt, unless all of it is requested.
_SHOWN = 300


class ShownTurn(NamedTuple):
    """A turn: the number of its trajectory, its call, facts about it, remarks on it, and its tokens
    in runs of one shade."""

    trajectory: int
    call: str
    facts: str
    notes: Sequence[Mapping[str, Any]]
    runs: Sequence[tuple[str, str]]  # (a shade: "written", "untrained" or a number), text


class ShownSession(NamedTuple):
    """Every turn once, in the order of the trajectories, and the remarks that concern no turn."""

    turns: list[ShownTurn]
    notes: list[Mapping[str, Any]]


def shown_session(session: Mapping[str, Any], decode: Decode) -> ShownSession:
    """The turns and remarks to show. Turns that trajectories share are listed in the first one."""
    notes: dict[str | None, list[Mapping[str, Any]]] = {}
    for note in session["notes"]:
        notes.setdefault(note["call"], []).append(note)
    turns: dict[str, ShownTurn] = {}
    for number, one in enumerate(session["trajectories"], 1):
        for turn in one["turns"]:
            call = turn["call"]
            if call not in turns:
                facts, runs = ", ".join(_facts(turn)), list(_runs(one, turn, decode))
                turns[call] = ShownTurn(number, call, facts, notes.pop(call, []), runs)
    return ShownSession(list(turns.values()), list(chain.from_iterable(notes.values())))


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


def _shortened(text: str, full: bool) -> str:
    if full or len(text) <= 2 * _SHOWN:
        return text
    return f"{text[:_SHOWN]} […{len(text) - 2 * _SHOWN} characters…] {text[-_SHOWN:]}"


def session_facts(session: Mapping[str, Any], decode: Decode) -> dict[str, Any]:
    """The session as JSON, for a page that draws it itself."""
    shown = shown_session(session, decode)
    turns = [
        {**turn._asdict(), "runs": [[shade, _shortened(text, False)] for shade, text in turn.runs]}
        for turn in shown.turns
    ]
    facts = {"id": session["id"], "summary": _summary(session)}
    return {**facts, "turns": turns, "notes": shown.notes}


# For a terminal.


def session_lines(
    session: Mapping[str, Any], decode: Decode, *, color: bool, full: bool = False
) -> Iterator[str]:
    """The session as lines for a terminal."""

    def styled(text: str, code: str) -> str:
        safe = terminal_safe_lines(text)
        return f"\x1b[{code}m{safe}\x1b[0m" if color and safe else safe

    shown = shown_session(session, decode)
    yield styled(f"session {session['id']}", _HEAD) + f": {_summary(session)}\n"
    for trajectory, turns in groupby(shown.turns, lambda turn: turn.trajectory):
        yield "\n" + styled(f"── trajectory {trajectory} ", _HEAD) + "\n"
        for turn in turns:
            yield styled(f"{turn.call}  {turn.facts}\n", _HEAD)
            for note in turn.notes:
                yield styled(f"  {note['kind']}: {note['message']}\n", _NOTE)
            for shade, text in turn.runs:
                text = _shortened(text, full) if shade == "written" else text
                mark = "" if color or shade == "written" else "▸"
                yield mark + styled(text, _SHADE_CODES[shade])
            yield "\n"
    for note in shown.notes:
        yield styled(f"{note['call'] or ''}  {note['kind']}: {note['message']}\n", _NOTE)


# As HTML.


SESSION_STYLE = read_style("session_view")


def session_page(session: Mapping[str, Any], decode: Decode) -> str:
    """The session as a whole page."""
    title = escape(f"session {session['id']}")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{PAGE_STYLE}{SESSION_STYLE}</style>'
    body = f'<section class="session">{"".join(_html_parts(session, decode))}</section>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _html_parts(session: Mapping[str, Any], decode: Decode) -> Iterator[str]:
    shown = shown_session(session, decode)
    yield f"<h1>session {escape(session['id'])}</h1><p>{escape(_summary(session))}</p>"
    legend = "".join(
        f'<span class="s{n}"> {words} </span>'
        for n, words in enumerate(("p &gt; 0.9", "&gt; 0.5", "&gt; 0.1", "&gt; 0.01", "less"))
    )
    untrained = '<span class="untrained"> not trained on </span>'
    yield f"<p>sampled, by probability: {legend} {untrained}</p>"
    for trajectory, turns in groupby(shown.turns, lambda turn: turn.trajectory):
        yield f"<h2>trajectory {trajectory}</h2>"
        for turn in turns:
            facts = f'<span class="facts">{escape(turn.facts)}</span>'
            yield f"<p><b>{escape(turn.call)}</b> {facts}</p>"
            yield from map(_html_note, turn.notes)
            yield f"<pre>{''.join(_html_run(*run) for run in turn.runs)}</pre>"
    yield from map(_html_note, shown.notes)


def _html_run(shade: str, text: str) -> str:
    name = shade if shade in ("written", "untrained") else f"s{shade}"
    if shade == "written" and len(text) > 2 * _SHOWN:
        start = escape(text[:80])
        return f'<details class="written"><summary>{start}…</summary>{escape(text)}</details>'
    return f'<span class="{name}">{escape(text)}</span>'


def _html_note(note: Mapping[str, Any]) -> str:
    call = escape(note["call"] or "")
    return f'<p class="note">{call} <b>{escape(note["kind"])}</b>: {escape(note["message"])}</p>'
