"""Server-sent events, read from bytes as they come."""

from __future__ import annotations

from dsv4.serve.backend import BackendError

# No server sends a line this long; one that does is not sending events.
LONGEST_LINE = 64 * 1024 * 1024


class EventReader:
    """Bytes in, the data of each complete event out.

    Line ends may be LF, CRLF or CR, and may be cut anywhere; comments and other fields are passed
    over; the data of several lines is one event.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes."""
        if (  # what nearly all chunks are: one event, whole, on one line
            not self._rest
            and not self._data
            and chunk.startswith(b"data: ")
            and chunk.endswith(b"\n\n")
            and chunk.find(b"\n") == len(chunk) - 2
            and b"\r" not in chunk
        ):
            return [chunk[6:-2]]
        text = self._rest + chunk if self._rest else chunk
        if b"\r" in text:
            # The last CR may be half of a line end.
            held = b"\r" if text.endswith(b"\r") else b""
            text = (
                text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
            )
        *lines, self._rest = text.split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise BackendError("the backend sent a line without an end")
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events

    @property
    def is_between_events(self) -> bool:
        """Whether nothing has begun that has not ended."""
        return not self._rest.strip() and not self._data
