"""Error texts of servers, proxies and clients: the page errors.md is their table.

Each section of the page is one error: its heading is the text, in which `…` stands for anything,
and a list gives other texts (`Also`), who is at fault (`Who`) and why (`Why`). The fix is a block
of code, or the item `Fix`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from dsv4._why.doc_pages import doc_pages, page_text
from dsv4._why.verdict import Certainty, Culprit, WhyVerdict

PAGE = "errors"
# The number of characters that are searched, at the end of a text, where errors are.
_LOOKED_AT = 200_000


@dataclass(frozen=True)
class KnownError:
    """A section of the page: the texts, who is at fault, why, and the fix."""

    title: str
    texts: tuple[str, ...]
    who: Culprit
    sure: Certainty
    why: str
    fix: str
    more: str

    def told(self, verdict: WhyVerdict, **words: Any) -> WhyVerdict:
        """The verdict with the values of the section, except for those in `words`."""
        said = {"who": self.who, "sure": self.sure, "because": self.why, "fix": self.fix}
        return replace(verdict, **{**said, "more": self.more, **words})


_SECTION = re.compile(r"^### ([^\n]+)\n(.*?)(?=^#{1,3} |\Z)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^- (\w+): (.+(?:\n  .+)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MORE = re.compile(r" \(\[more\]\(([\w-]+)\.md\)\)")


@cache
def known_errors() -> tuple[KnownError, ...]:
    """The sections of the page."""
    if PAGE not in doc_pages():
        return ()
    return tuple(_known_error(*match.groups()) for match in _SECTION.finditer(page_text(PAGE)))


def _known_error(title: str, section: str) -> KnownError:
    items = [(name, " ".join(text.split())) for name, text in _ITEM.findall(section)]
    named = dict(items)
    also = [text for name, text in items if name == "Also"]
    who, _, sure = named["Who"].partition(", ")
    block = _BLOCK.search(section)
    more = _MORE.search(named["Why"])
    return KnownError(
        title.replace("`", ""),
        (title, *also),
        cast(Culprit, who),
        cast(Certainty, sure),
        _MORE.sub("", named["Why"]).replace("`", "").removesuffix("."),
        block[1].strip() if block else named["Fix"],
        more[1] if more else PAGE,
    )


def known_error(title: str) -> KnownError:
    """The section with this heading, or one that begins with it and a space."""
    return next(e for e in known_errors() if f"{e.title} ".startswith(f"{title} "))


def error_of_status(status: int) -> KnownError | None:
    """The section about an HTTP status, None if there is none."""
    return next((e for e in known_errors() if e.title.startswith(f"{status} ")), None)


def find_known_error(text: str) -> tuple[KnownError, int, int] | None:
    """The known error in a text, and the place of its words in the text. The longest words win, and
    the last of several places: a stack trace ends with the actual error."""
    begin = max(0, len(text) - _LOOKED_AT)
    looked_at = text[begin:]
    lowered = looked_at.lower()
    places = (
        (len(words.pattern), match.start(), match.end(), error)
        for error in known_errors()
        for longest, words in _patterns(error)
        if longest in lowered
        for match in list(words.finditer(looked_at))[-1:]
    )
    best = max(places, key=lambda each: each[:2], default=None)
    return None if best is None else (best[3], begin + best[1], begin + best[2])


@cache
def _patterns(error: KnownError) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The patterns to search for, each with its longest word, which is found faster."""
    return tuple(
        (max(_WORD.findall(text), key=len).lower(), re.compile(_pattern(text), re.IGNORECASE))
        for text in error.texts
    )


# Words may be separated by line ends, and enclosed in quotation marks of any kind, escaped once or
# twice.
_WORD = re.compile(r"[^\s`'\"…]+")
_PART_PATTERNS = {"…": r".{0,200}?", **dict.fromkeys(" `'\"", r"[\s\\`'\"]+")}


def _pattern(text: str) -> str:
    parts = re.findall(rf"…|[\s`'\"]+|{_WORD.pattern}", text.strip(" `'\"…."))
    inside = "".join(_PART_PATTERNS.get(part[0]) or re.escape(part) for part in parts)
    # Whole words only: ModuleNotFoundError has ENOTFOUND in it.
    return rf"(?<!{_LETTER}){inside}(?:(?<!{_LETTER})|(?!{_LETTER}))"


_LETTER = "[A-Za-z0-9_]"


# Signs that a text is an error, even if the page does not have it.
_SIGNS = re.compile(
    r"^Traceback \(most recent call last\)|\bError code: \d{3}\b|\bAPI Error: \d{3}\b"
    r"|(?:^HTTP/[\d.]+|HTTP/[\d.]+\") [45]\d\d\b"
    r"|^(?:[\w.]*\.)?\w*(?:[Ee]rror|ERROR|Exception)\b(?::| \[|\s*\()"
    r"|\bstatus(?: code)? [45]\d\d\b|^npm ERR!|\bpanicked at\b|\bException in thread\b"
    r"|^[\w./-]+: (?:fatal )?error: |^fatal: |: command not found\b",
    re.MULTILINE,
)


def is_error_text(text: str) -> bool:
    """Whether a text is an error, or is about one that the page knows."""
    if _SIGNS.search(text[-_LOOKED_AT:]):
        return True
    known = find_known_error(text)
    return known is not None and (known[0].who == "nobody" or _is_about(text, *known[1:]))


# So many matching words in a row are not a coincidence.
_MANY_WORDS = 6
_CODE = re.compile(r"[_`|=(){}\[\]]")
_QUOTES = tuple("\"'`“”‘’«»")


def _is_about(text: str, start: int, end: int) -> bool:
    """Whether a text is about an error whose words it contains. Words that a sentence may have by
    chance must be at the beginning, by themselves, in quotation marks or after a colon: a poem may
    mention a timeout."""
    words = text[start:end]
    if _is_technical(words) or len(words.split()) >= _MANY_WORDS:
        return True
    line = text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0].strip()
    before, after = text[:start].rstrip(" "), text[end:]
    is_quoted = before.endswith(_QUOTES) and after.startswith(_QUOTES)
    is_first = not before or before.endswith(("\n", ":"))
    return is_quoted or is_first or len(words) * 2 >= len(line)


def _is_technical(words: str) -> bool:
    """Whether words are spelt as in programs. Names of statuses do not count: prose has them."""
    return not words[0].isdigit() and bool(
        _CODE.search(words) or sum(letter.isupper() for letter in words) > 1
    )


def has_log_level(text: str) -> bool:
    """Whether a text has a line of a log with the level of an error."""
    return bool(_LOG_LEVEL.search(text[-_LOOKED_AT:]))


_LOG_LEVEL = re.compile(
    r"^\W*(?:ERROR|FATAL|CRITICAL)\b|\d:\d\d\b.{0,60}\b(?:ERROR|FATAL|CRITICAL)\b", re.MULTILINE
)


def telling_line(text: str) -> str:
    """The most informative line of an error: the last with the name of an error, else the last."""
    looked_at = text[-_LOOKED_AT:].strip()
    last = max((match.start() for match in _SIGNS.finditer(looked_at)), default=len(looked_at))
    named = looked_at[last:].partition("\n")[0]
    is_heading = not named or named.startswith("Traceback")
    return (looked_at.rpartition("\n")[2] if is_heading else named).strip()[:200]


def error_statuses(text: str) -> Iterator[int]:
    """The HTTP error statuses that a text names, the last first."""
    for match in reversed(list(_STATUS.finditer(text[-_LOOKED_AT:]))):
        yield int(match[1])


_STATUS = re.compile(
    r"(?:Error code:|API Error:|HTTP/[\d.]+\"?|status(?:[ _]?code)?['\"]?[:= ]|<title>|<h1>"
    r"|\bcode['\"]?:|(?=[45]\d\d (?:Client|Server) Error))\s*([45]\d\d)\b",
    re.IGNORECASE,
)
