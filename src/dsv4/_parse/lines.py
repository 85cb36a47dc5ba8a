"""Lines of prose and their code fences: whether a marker would open a line, or stand in a fence.

Fences are Markdown's (recovery.md, rule 15): three or more backticks or tildes, however far
indented. The same character, at least as many times and with nothing else on the line, closes one.
A run that is closed on its own line is not a fence; a run at the end of a line of prose is. A fence
inside a quotation ends with the quotation. A line of tildes under a title opens none.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsv4._completion.patterns import pattern
from dsv4._format.spellings import FENCE_LENGTH, FENCES

_PARTS = pattern(rf"\n|`+|~+|[^\n{FENCES}]+")
# Text allowed before a fence on its line: markers of lists and quotations. And text that may still
# become that.
_MARKERS = r"\s*(?:>\s*|(?:[-*+]|\d{1,3}[.)])\s+)*"
_LEAD = pattern(_MARKERS)
_MAYBE_LEAD = pattern(rf"{_MARKERS}(?:[-*+]|\d{{1,3}}[.)]?)?")
_LONGEST_LEAD = 64
_BACKTICKS, _TILDES = (character * FENCE_LENGTH for character in FENCES)
_FENCE = pattern(f"{_BACKTICKS}|{_TILDES}")
_QUOTATION = ">"
# Text allowed after a fence that is opened at the end of a line of prose: a language's name.
_WORD = pattern(r"[\w+#./-]*[ \t\r]*")
_LONGEST_RUN = 1024
# Languages of a fence that holds Markdown: fences in it have closes of their own (rule 41).
_MARKDOWN = frozenset({"markdown", "md", "mdx"})


def has_fence(text: str) -> bool:
    return _BACKTICKS in text or _TILDES in text


class LineTracker:
    """Follows the lines of prose.

    `blank` is true while the line has nothing but white space, `after_blank` if the line before it
    had nothing else. `fenced` is true inside a code fence, or after text in this line that may be
    one: `fence` is the run that has opened it on an earlier line, `run` a run that may open or
    close one at the end of this line. `holds_text`: the fence has text on earlier lines, not only
    white space.
    """

    blank = True
    after_blank = False
    fence = ""
    holds_text = False
    run = ""
    _nests = False  # the fence holds Markdown, which may have fences of its own
    _nested = 0  # so many of them are open
    _length = 0  # of the line so far, and its last character
    _last = ""
    _above = 0  # the length of the line above, if it may be a title
    _quoted = False  # it stands in a quotation, which a line without its mark ends
    _quoted_line = False  # this line has that mark
    _lead: str | None = ""  # the line so far, while a fence may still come first in it
    _run_lead: str | None = None  # the text before a run, if a fence is allowed there
    _info: str | None = None  # the text after it, if it may open or close a fence
    _finished = ""  # the character of a run that has had its effect, and may go on

    def __init__(self, behind_calls: bool = False) -> None:
        self._behind_calls = behind_calls  # calls were cut out here: the line was not a blank one

    @property
    def fenced(self) -> bool:
        if self._quoted and not self._quoted_line:
            return False
        return bool(self.fence) or len(self.run) >= FENCE_LENGTH

    @property
    def is_indented(self) -> bool:
        """Whether the line has nothing but the indentation of a code block so far."""
        lead = self._lead or ""
        return lead.isspace() and (lead.startswith("    ") or "\t" in lead)

    @property
    def is_quoted(self) -> bool | None:
        """Whether a quotation's mark stands right before this, behind list marks too.

        False: words stand between. None: the line has no such mark.
        """
        if self._lead is not None and _QUOTATION in self._lead:
            return True
        return False if self._quoted_line else None

    @property
    def at_closing_run(self) -> bool:
        """Whether a run of characters that closes the fence stands directly before this."""
        closes = bool(self.fence) and len(self.run) >= FENCE_LENGTH and self._info == ""
        return closes and self._closes() and not self._nested

    def followed(self, text: str) -> Iterator[str]:
        """Goes on through `text`, and yields it in parts. A fence begins or ends only at the end of
        a part: parts are lines, or together all lines before one with a fence."""
        at = 0
        while at < len(text):
            end = 0
            if not (self.run or self._quoted):
                fence = _FENCE.search(text, at)
                end = len(text) if fence is None else text.rfind("\n", at, fence.start()) + 1
            if end <= at:  # the next line has a fence, or each counts
                end = text.find("\n", at) + 1 or len(text)
            part = text[at:end]
            self.follow(part)
            yield part
            at = end

    def follow(self, text: str) -> None:
        """Goes on through `text`."""
        is_plain = not (self.run or self._finished or self._quoted)
        if is_plain and "\n" in text and not has_fence(text):
            text = self._pass_lines(text)
        for part in _PARTS.findall(text):
            if part == "\n":
                self._end_line()
            elif part[0] in FENCES:
                self._extend_run(part)
            else:
                self._extend_text(part)

    def _pass_lines(self, text: str) -> str:
        """Goes on through whole lines without a fence. Returns the rest of the text."""
        *before, line, rest = text.rsplit("\n", 2)  # only the last lines count
        blank = bool(before) or (self.blank and not self._behind_calls)
        if self.fence and not self.holds_text:
            self.holds_text = not self.blank or bool(line.strip() or "".join(before).strip())
        self._length, self._last = len(line) + (0 if before else self._length), line[-1:]
        self._begin_line(blank and (not line or line.isspace()))
        return rest

    def _begin_line(self, after_blank: bool) -> None:
        self._above = 0 if self._last == ":" else self._length
        self._length = 0
        self.after_blank = after_blank
        self.blank = True
        self._behind_calls = False
        self._lead = ""
        self.run = self._finished = ""
        self._info = None
        self._quoted_line = False

    def _extend_text(self, text: str) -> None:
        self._length, self._last = self._length + len(text), text[-1]
        if self.blank and text.lstrip().startswith(_QUOTATION):
            self._quoted_line = True
        self.blank = self.blank and text.isspace()
        self._finished = ""
        if self.run and self._info is not None:
            self._info = (self._info + text)[: _LONGEST_LEAD + 1]
            if self._run_lead is None and not _WORD.fullmatch(self._info):
                self._info = None  # prose goes on, so no fence opens at this line's end
        if self._lead is not None:
            self._lead += text
            if _QUOTATION in self._lead and (lead := _LEAD.match(self._lead)):
                self._quoted_line |= _QUOTATION in lead[0][:_LONGEST_LEAD]
            if len(self._lead) > _LONGEST_LEAD or not _MAYBE_LEAD.fullmatch(self._lead):
                self._lead = None

    def _extend_run(self, run: str) -> None:
        self._length, self._last = self._length + len(run), run[-1]
        self.blank = False
        if self._finished == run[0]:
            return
        if self.run and self._info == "" and run[0] == self.run[0]:  # it was cut in two
            self.run = (self.run + run)[:_LONGEST_RUN]
            return
        if len(self.run) >= FENCE_LENGTH and run[0] == self.run[0] == FENCES[0]:
            self.run, self._info, self._lead = "", None, None
            self._finished = run[0]
            return
        if len(self.run) >= FENCE_LENGTH and run[0] != self.run[0] and self._info is not None:
            self._extend_text(run)  # the other character is text after a fence
            self._finished = run[0]
            return
        leads = self._lead is not None and _LEAD.fullmatch(self._lead)
        self._run_lead = self._lead if leads else None
        self.run, self._info, self._lead = run[:_LONGEST_RUN], "", None
        self._finished = ""

    def _end_line(self) -> None:
        blank = self.blank and not self._behind_calls
        if self._quoted and not self._quoted_line:
            self.fence, self._quoted = "", False
        if len(self.run) >= FENCE_LENGTH and self._info is not None:
            self._end_run(self._info.strip())
        elif self.fence and not self.blank:
            self.holds_text = True
        self._begin_line(blank)

    def _end_run(self, info: str) -> None:
        """A run of characters that may open or close a fence has its line to itself, and `info`."""
        if not self.fence:
            if not self._is_underline:
                self.fence, self.holds_text, self._nested = self.run, False, 0
                self._nests = info.lower() in _MARKDOWN
                self._quoted = self._quoted_line or _QUOTATION in (self._run_lead or "")
        elif not self._closes():
            self.holds_text = True
            is_like = self.run[0] == self.fence[0] and len(self.run) == len(self.fence)
            self._nested += self._nests and is_like and bool(info)
        elif self._nested:
            self._nested -= 1
        else:
            self.fence, self._quoted = "", False

    @property
    def _is_underline(self) -> bool:
        """Whether this line underlines the one above, as reStructuredText does (rule 41)."""
        is_alone = self.run[0] == FENCES[1] and self._run_lead == "" and not self._info
        return is_alone and 0 < self._above <= len(self.run)

    def _closes(self) -> bool:
        same = self.run[0] == self.fence[0] and len(self.run) >= len(self.fence)
        lead = "." if self._run_lead is None else self._run_lead
        around = lead.replace(_QUOTATION, "" if self._quoted else ".") + (self._info or "")
        return same and not around.strip()
