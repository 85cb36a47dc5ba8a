"""A verdict: what something is, what is wrong with it, who caused that, and what fixes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Culprit: TypeAlias = Literal["model", "server", "client", "dsv4", "nobody", "unknown"]
Certainty: TypeAlias = Literal["sure", "likely", "unknown"]

_CULPRITS: dict[Culprit, str] = {
    "model": "the model",
    "server": "the server",
    "client": "the client",
    "dsv4": "dsv4",
    "nobody": "nobody",
    "unknown": "not known",
}


@dataclass(frozen=True, kw_only=True)
class WhyVerdict:
    """The verdict on an input.

    - `kind` and `what`: the kind of the input, as a word and as a description.
    - `wrong`: the fault; empty if there is none. `place` is its place, and `marked` shows it.
    - `who`, `sure`, `because`: who caused it, how sure that is, and the reason.
    - `fix`: a command, or what to change; if nothing is wrong, what to look at next. `more`: the
      page that explains it.
    - `understood`: whether the input was understood at all.
    """

    kind: str
    what: str
    wrong: str = ""
    place: str = ""
    marked: str = ""
    who: Culprit = "nobody"
    sure: Certainty = "sure"
    because: str = ""
    fix: str = ""
    more: str = ""
    understood: bool = True

    @property
    def status(self) -> int:
        """The exit status: 0 if nothing is wrong, 1 if something is, 2 if not understood."""
        return 2 if not self.understood else int(bool(self.wrong))

    def lines(self) -> list[tuple[str, str]]:
        """The lines to show, three to six, each with a word as its label."""
        where = f"{self.place}: " if self.place else ""
        seen = f"  {self.marked}" if self.marked else ""
        nothing = "nothing" if self.understood else "cannot be told"
        shown = [("what", self.what), ("wrong", f"{where}{self.wrong or nothing}{seen}")]
        if self.wrong:
            reason = f": {self.because}" if self.because else ""
            shown.append(("who", f"{_CULPRITS[self.who]}{self._how_sure()}{reason}"))
        elif self.because:
            shown.append(("why", self.because))
        shown += [("fix" if self.wrong else "next", self.fix)] if self.fix else []
        shown += [("more", f"dsv4 docs {self.more}")] if self.more else []
        return [(word, without_keys(text)) for word, text in shown]

    def _how_sure(self) -> str:
        return "" if self.who == "unknown" else f" ({self.sure})"

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON, with `status`."""
        fields = {
            name: without_keys(value) if isinstance(value, str) else value
            for name, value in vars(self).items()
        }
        return {**fields, "status": self.status}


# The number of characters that are shown before and after the place.
_AROUND = 24
_LONGEST_MARK = 60
_LONGEST_KEY = 1_000


def marked(text: str, start: int, end: int) -> str:
    """A place in a text, in ⟦ ⟧, with a little of the text around it, in one line."""
    end = max(start, end)
    inside = text[start:end]
    if len(inside) > _LONGEST_MARK:
        inside = f"{inside[: _LONGEST_MARK - 1]}…"
    # Keys are removed first: a part of a key could not be recognised as one.
    before = without_keys(text[max(0, start - _LONGEST_KEY) : start])[-_AROUND:]
    after = without_keys(text[end : end + _LONGEST_KEY])[:_AROUND]
    front = "…" if start > _AROUND else ""
    back = "…" if len(text) > end + _AROUND else ""
    return re.sub(r"\s*[\r\n]+\s*", "↵", f"{front}{before}⟦{inside}⟧{after}{back}")


# Keys in headers, in curl's options, in JSON, in HAR files and in addresses, and keys that have a
# known beginning. The text of the first group is kept.
_HEADER = (
    r"(?:(?:proxy-)?authorization|[\w-]*api[-_]?key|[\w-]*(?:access|auth)[-_]token|[\w-]*secret)"
)
_SCHEME = "(?:bearer|basic|digest|token|apikey)"
_KEYS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"""({_HEADER}\\?["']?\s*[:=]\s*\\?["']?(?:{_SCHEME}\s+)?)(?!{_SCHEME}\s)[^\s"'&,;\\}}]{{4,}}""",
        rf"""(["']?name\\?["']:\s*\\?["'](?:{_HEADER}|(?:set-)?cookie)\\?["'],\s*\\?["']value\\?["']:\s*\\?["'])[^"'\\]+""",
        r"""((?:^|[\s"'{,;])\\?["']?(?:set-)?cookie\\?["']?\s*[:=]\s*\\?["']?)[^\s"'\\][^"'\\\r\n]{3,}""",
        r"""((?:^|\s)(?:-b|-u|--cookie|--user)[ =]?["']?)[^\s"'][^"'\r\n]*(?=["'\s]|$)""",
        r"([?&;](?:key|token|code|sig|signature|password)=)[^\s\"'&]+",
        r"(\b(?:password|token)=)[^\s\"'&;]{4,}",
        r"(\bhttps?://[^\s/:@\"']+:)[^\s/@\"']+(?=@)",
        r"(\bbearer\s+)[\w.~+/=-]{8,}",
        r"(\b(?:sk|pk|gsk|hf|key|xai)[-_])[\w-]{8,}",
    )
)


def without_keys(text: str) -> str:
    """A text with keys struck out, so that it can be shown or shared."""
    for keys in _KEYS:
        text = keys.sub(r"\1***", text)
    return text
