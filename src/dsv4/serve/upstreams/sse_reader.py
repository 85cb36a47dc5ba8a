"""Server-sent events, from bytes that are cut anywhere."""

from __future__ import annotations

import re

from dsv4.serve.backend import BackendError

# The experts of a long answer take 60 MB. No server sends a longer event: such data is not events.
LONGEST_EVENT = 64 * 1024 * 1024


# Part of the name of an event that is a failure: `error`, `response.failed`.
_FAILURE = re.compile(rb"error|exception|fail|abort|cancell?ed|interrupted", re.IGNORECASE)
# The end of a stream; other spellings of it, with the name of the field where the answer is JSON;
# and the names of empty events that stand for it.
DONE = b"[DONE]"
END_WORD = re.compile(rb"""(data:)?[\s"'\[<]*(done|end|eo[fs])[\s"'\]>.\0]*""", re.IGNORECASE)
_ENDS = re.compile(rb"event\s*:\s*(done|end|completed?|finish(ed)?|close)\s*", re.IGNORECASE)
_NOTHING = (b"", b"{}")
# The field's name in any case and with spaces around it: programs that read it so also write it so.
_DATA = re.compile(rb"data\s*: ?", re.IGNORECASE)
_EVENT = re.compile(rb"event\s*:", re.IGNORECASE)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# As a number, which is found in an eighth of the time.
_CR = ord("\r")
# Names of comments and fields that are not a part of an answer, and may have anything behind them.
_OTHER_FIELDS = (b"", b"id", b"retry")
# Where a field would have its name: several words or a part of JSON or of a page. Or one word, as
# programs begin their last line.
_NO_NAME = re.compile(
    rb"""[\s"{}\[\]<>]|(errors?|exception|traceback|panic|fatal)\Z""", re.IGNORECASE
)


class ErrorData(bytes):
    """The data of an event whose name marks a failure, whatever it contains."""


class NoField(bytes):
    """A line that is no field of an event: an error's text, a page, or half of an event. It is a
    failure, unless the stream has ended before it."""


class SseReader:
    """Takes bytes, and returns the data of each complete event.

    Line ends may be LF, CRLF or CR, and may be cut anywhere; comments and other fields are skipped;
    data on several lines is one event. Only event names of failures and of the end are read; some
    servers write a field `error` in place of data.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # of a line without an end so far
        self._rest_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._is_error = False
        self._is_end = False  # if it has nothing in it
        self._after_cr = False  # an LF that comes first belongs to the line before

    @property
    def held_size(self) -> int:
        """The bytes of the next event that have come."""
        return self._rest_size + self._data_size

    @property
    def is_between_events(self) -> bool:
        """Whether nothing of the next event has come."""
        return not (self._rest or self._data or self._is_error or self._is_end or self._after_cr)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes."""
        if (  # nearly all chunks: one event, whole, on one line
            self.is_between_events
            and chunk.startswith(b"data: ")
            and chunk.endswith(b"\n\n")
            and chunk.find(b"\n") == len(chunk) - 2
            and _CR not in chunk
        ):
            return [chunk[6:-2]]
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._hold(chunk)
            return []
        first, *lines = chunk.split(b"\n")
        if self._rest:
            first, self._rest, self._rest_size = b"".join((*self._rest, first)), [], 0
        self._hold(lines.pop())
        events: list[bytes] = []
        for line in (first, *lines):
            if not line:
                events += self._dispatched()
                continue
            line = line.removeprefix(BYTE_ORDER_MARK).lstrip(b" ")
            if self._data and self._begins_anew(line):
                events += self._dispatched()
            if line.startswith(b"data:"):
                self._add(line[6:] if line.startswith(b"data: ") else line[5:])
            else:
                events += self._read_field(line)
            # The end has no more lines, so it does not wait for its blank line, which may be lost.
            if len(self._data) == 1 and self._data[0].strip() == DONE:
                events += self._dispatched()
        return events

    def _begins_anew(self, line: bytes) -> bool:
        """Whether a line begins another event although no blank line ended the one before, as some
        servers send none. In JSON, only its end can follow the end of an object or a list."""
        data = _DATA.sub(b"", line, count=1).lstrip() if _DATA.match(line) else line.lstrip()
        is_end = _ENDS.fullmatch(line) or END_WORD.fullmatch(data)
        begins = data.startswith((b"{", b"[", b'"')) or is_end
        return bool(begins) and self._data[-1].rstrip().endswith((b"}", b"]"))

    def _hold(self, piece: bytes) -> None:
        """Keeps a part of a line. It is joined with the others once, when the line ends."""
        if piece:
            self._rest.append(piece)
            self._rest_size += len(piece)
            self._check_size()

    def _add(self, data: bytes) -> None:
        """Keeps a line of the data of an event."""
        self._data.append(data)
        self._data_size += len(data)
        self._check_size()

    def _check_size(self) -> None:
        if self.held_size > LONGEST_EVENT:
            raise BackendError("the backend sent an event without an end")

    def _read_field(self, line: bytes) -> list[bytes]:
        """Reads a line that does not begin with `data:`. If it is no field, it comes back, behind
        the event before it, which may be the end."""
        if match := _EVENT.match(line):
            self._is_error = bool(_FAILURE.search(line, match.end()))
            self._is_end = bool(_ENDS.fullmatch(line))
        elif match := _DATA.match(line):
            self._add(line[match.end() :])
        elif line.startswith(b"error:"):
            self._is_error = True
            self._add(line[6:])
        elif line.strip() == DONE:
            self._add(line)
        elif _is_no_field(line):
            return [*self._dispatched(), NoField(line)]
        return []

    def _dispatched(self) -> list[bytes]:
        """The event that a blank line ends, if there is one."""
        lines, is_error, is_end = self._data, self._is_error, self._is_end
        self._data, self._data_size, self._is_error, self._is_end = [], 0, False, False
        data = b"\n".join(lines)
        if is_error:
            return [ErrorData(data)]
        if is_end and data.strip() in _NOTHING:
            return [DONE]
        return [data] if lines else []

    def end(self) -> list[bytes]:
        """The event that the end of the body ends: some servers leave out the last blank line."""
        return [] if self.is_between_events else self.feed(b"\n\n")


def _is_no_field(line: bytes) -> bool:
    """Whether a line cannot be a field, even one that nobody knows. A brace is a sign of an event
    whose field name was damaged, or that was cut in two."""
    name = line.partition(b":")[0].strip()
    if name in _OTHER_FIELDS:
        return False
    return b"{" in line or b"}" in line or _NO_NAME.search(name) is not None
