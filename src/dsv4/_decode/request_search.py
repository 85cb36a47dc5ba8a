"""Searches for the request that encodes to a given prompt, over dialects and interpretations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dsv4._decode.dialect_detection import dialects_of
from dsv4._decode.prompt_scan import (
    Decoded,
    Interpretation,
    Note,
    PromptReading,
    ScannedPrompt,
    SpellingMask,
)
from dsv4._decode.reader_v4 import read_v4
from dsv4._decode.reader_v32 import read_v32
from dsv4._encode.prompt import Prompt
from dsv4._format import tokens
from dsv4._format.dialects import DIALECTS, SERVED_AS, Dialect, dialect_named
from dsv4.errors import Error, OptionError, ParseError, mismatch, short_repr
from dsv4.request import Request

# The ways to read a prompt, the plainest first. The first is nearly always right.
INTERPRETATIONS = (
    Interpretation(),
    Interpretation(drop=False),
    Interpretation(drop=True),
    Interpretation(thinking=False),
    Interpretation(thinking=True),
    Interpretation(sections=False),
    Interpretation(results=False),
    Interpretation(sections=False, thinking=False),
    Interpretation(joined=True),
    Interpretation(joined=True, results=False),
)


def decode_prompt(prompt: str | Prompt, dialect: str | Dialect | None, strict: bool) -> Decoded:
    """The result of `dsv4.decode`."""
    source = _PromptSource(prompt)
    if dialect is not None:
        likely: tuple[Dialect, ...] = (dialect_named(dialect),)
        candidates = likely
    else:
        likely = dialects_of(source.text) if source.dialect is None else (source.dialect,)
        candidates = tuple(dict.fromkeys((*likely, *DIALECTS.values())))
    for release, served in SERVED_AS.items():
        if release in candidates and served.tools_open in source.text:
            at = candidates.index(release)
            candidates = (*candidates[:at], served, *candidates[at:])
    first: Decoded | None = None
    for candidate in candidates:
        decoded = _decode_as(source, candidate, likely)
        if decoded.exact:
            return decoded
        first = first or decoded
    assert first is not None
    if strict:
        problem = first.notes[-1]
        raise ParseError(problem.start, problem.text)
    return first


class _PromptSource:
    """A prompt to be read: its text, and the places known to spell tokens that are only text."""

    def __init__(self, prompt: str | Prompt) -> None:
        self.spellings: list[tuple[int, int]] | None = None
        self.dialect: Dialect | None = None
        self.images: Sequence[Mapping[str, Any]] = ()
        if isinstance(prompt, Prompt):
            self.text, self.spellings = str(prompt), prompt.special_text
            self.dialect, self.images = prompt.dialect, prompt.images
        elif isinstance(prompt, str):
            self.text = str.__str__(prompt)
        else:
            raise OptionError("prompt", mismatch(prompt, "text or a Prompt"))
        self.mask = SpellingMask(self.text, [start for start, _ in self.spellings or ()])

    def is_same_text(self, prompt: Prompt | None) -> bool:
        return prompt is not None and str(prompt) == self.text

    def other_token(self, prompt: Prompt) -> tuple[int, int] | None:
        """The first spelling that is a token in one of two prompts of the same text, and text in
        the other; None if there is no difference, or if it is unknown."""
        if self.spellings is None:
            return None
        return min({*self.spellings} ^ {*prompt.special_text}, default=None)


def _decode_as(source: _PromptSource, dialect: Dialect, likely: tuple[Dialect, ...]) -> Decoded:
    """The prompt, decoded as one of a dialect."""
    scan = ScannedPrompt(source.mask.text, dialect, source.images)
    release = next((one for one, served in SERVED_AS.items() if served is dialect), dialect)
    served = release is not dialect
    others = [other for other in likely if other is not release]
    same_text: Decoded | None = None
    first: Decoded | None = None
    for interpretation in _interpretations(source.spellings is not None):
        reading = _READERS[dialect.layout](scan, interpretation)
        try:
            request = reading.request(dialect, source.mask)
            prompt = _maybe_encoded(request)
        except RecursionError:  # tools that are nested too deep: they can stay text
            continue
        differing = None
        if prompt is not None and source.is_same_text(prompt):
            differing = source.other_token(prompt)
            if differing is None:
                others = [other for other in others if _may_be_too(source, other, release)]
        names = (release.name, *(other.name for other in others))
        notes = (*log_notes(source.text, dialect), *reading.notes, *_dialect_notes(names, served))
        if prompt is not None and source.is_same_text(prompt):
            if differing is None:
                return Decoded(request, True, notes, names)
            foreign = _token_note(source.text, differing)
            same_text = same_text or Decoded(request, False, (*notes, foreign), names)
        elif first is None:
            foreign = _foreign_note(source.text, prompt, dialect)
            first = Decoded(request, False, (*notes, foreign), names)
    best = same_text or first
    assert best is not None
    return best


def _may_be_too(source: _PromptSource, other: Dialect, written: Dialect) -> bool:
    """Whether a prompt of one dialect may be of another too, to which no sign in it is contrary.

    If the two differ in whether results ask, which shows only in the parts that are dropped, the
    other one must also write the same prompt.
    """
    if other.results_ask == written.results_ask or other.texts.result_start not in source.text:
        return True
    return _decode_as(source, other, ()).exact


# Prompts as logs and Python's `repr` write them: quoted, with escapes, and other text around them.


_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[nrt\\'\"])")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_STRING_END = {quote: re.compile(rf"(?:[^{quote}\\]|\\.)*") for quote in "'\""}


def log_notes(text: str, dialect: Dialect) -> Iterator[Note]:
    """Notes on signs that a text is not a prompt, but a line of a log or a string with escapes."""
    bos = dialect.tokens.bos
    begin = text.find(bos)
    if begin > 0:
        problem = f"text before {bos}, as of a log, which is read as part of the prompt"
        yield Note("text-before-bos", 0, begin, None, problem)
    escaped = text.find("\\n")
    if escaped >= 0 and "\n" not in text.strip():
        problem = "a backslash and n, and no line end: a string with its escapes (--unescape)"
        yield Note("escaped-text", escaped, escaped + 2, None, problem)


def unescaped_prompt(text: str) -> str:
    """The prompt in a line of a log or in the output of `repr`: without the text around it, and
    with the characters that its escapes stand for."""
    begin = text.find(tokens.BOS)
    quoted = max(begin, 0)
    quote = text[quoted - 1 : quoted] if quoted else text[:1]
    if quote in _STRING_END:
        inside = _STRING_END[quote].match(text, quoted or 1)
        text = inside[0] if inside else ""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(escape: re.Match[str]) -> str:
    letter, code = escape[0][1], escape[0][2:]
    return chr(int(code, 16)) if code else _ESCAPED[letter]


def _interpretations(has_ids: bool) -> Iterator[Interpretation]:
    """The ways to read a prompt, in order. If tokens are known, that is used first."""
    for trusted in (has_ids, not has_ids):
        yield from (replace(each, trusted=trusted) for each in INTERPRETATIONS)


def _maybe_encoded(request: Request) -> Prompt | None:
    try:
        return request.encode()
    except Error:
        return None


def _dialect_notes(names: tuple[str, ...], served: bool) -> Iterator[Note]:
    if served:
        text = "its tools are shown as vLLM and SGLang show them, without blank lines"
        yield Note("served-tools-text", 0, 0, None, text)
    if len(names) > 1:
        yield Note("dialect-ambiguous", 0, 0, None, f"it may be of {', '.join(names)}")


def _foreign_note(text: str, prompt: Prompt | None, dialect: Dialect) -> Note:
    """A note on the place where the prompt deviates from the encoder, and its likely author."""
    ours = "" if prompt is None else str(prompt)
    pairs = enumerate(zip(text, ours, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(text), len(ours)))
    excerpt = short_repr(text[at : at + 30])
    hints = "".join(f"; {hint}" for hint in _hints(text, dialect))
    return Note("not-this-encoder", at, len(text), None, f"no request writes {excerpt} here{hints}")


def _token_note(text: str, place: tuple[int, int]) -> Note:
    """A note for a request that writes the text of the prompt, but not its tokens."""
    spelling = text[slice(*place)]
    problem = f"no request was found that writes this text with the same tokens: {spelling} differs"
    return Note("not-this-encoder", *place, None, problem)


def _hints(text: str, dialect: Dialect) -> Iterator[str]:
    """Habits of other servers (docs/servers.md) that the prompt shows."""
    own, tags = dialect.tokens, dialect.tags
    if own.eos + own.assistant in text:
        yield "it has a header before every answer, as deepseek-recipe and llama.cpp write it"
    if text.endswith(tags.block_open):
        yield "it ends with an open block of calls, as the official API writes it"
    if tags.name_end + tags.invoke_close.lstrip("\n") in text:
        yield "it has no line for a call without arguments, as deepseek-recipe writes it"


_READERS: dict[str, Callable[[ScannedPrompt, Interpretation], PromptReading]] = {
    "v4": read_v4,
    "v3.2": read_v32,
}
