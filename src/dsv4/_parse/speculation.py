"""Attempts: a twin of a reading goes on under an assumption, with its events in a list of its own.

A reader in doubt yields an `Attempt`. A twin of its reading (twins.py) reads the text that is there
and that comes. Once nothing can refute it any more, it replaces the reading that asked, and its
events are given out. If it is refused (`Refused`), it is dropped without a trace, and the reading
that asked goes on from its own position, with another assumption. Text is kept as long as any
reading is at a position before it.

Two assumptions are tried: that calls in an open quotation are calls (rules 24 and 29), and within
those that a value has ended before another call (rule 21).
"""

from __future__ import annotations

from collections.abc import Callable

from dsv4._completion.events import Event
from dsv4._parse.reading import Reading
from dsv4._parse.text_buffer import Refused, Steps


class Speculation:
    """The reading of a completion, and the attempts on top of it."""

    def __init__(self, reading: Reading, read_on: Callable[[Reading], Steps[None]]) -> None:
        self._read_on = read_on
        self._tried = [(reading, read_on(reading))]
        self.certain = reading  # the one at the bottom, below all attempts

    @property
    def reading(self) -> Reading:
        """The reading that goes on."""
        return self._tried[-1][0]

    def run(self) -> None:
        """Reads as far as the text goes."""
        refused: Refused | None = None
        while True:
            reading, steps = self._tried[-1]
            answer, refused = refused, None
            try:
                attempt = steps.send(answer)
            except Refused as found:
                del self._tried[found.level :]
                refused = found
            except StopIteration:
                if len(self._tried) == 1:
                    return
                self._commit()
            else:
                if attempt is None:
                    break
                twin = reading.twin()
                attempt(twin, len(self._tried))
                self._tried.append((twin, self._read_on(twin)))
        while (level := len(self._tried) - 1) and not self._tried[-1][0].is_tried(level):
            self._commit()

    def _commit(self) -> None:
        """Replaces the reading that asked for the last attempt with that attempt."""
        reading, steps = self._tried.pop()
        below = self.reading.events
        if reading.doubt is not None:
            reading.doubt.shown += len(below)
        reading.events = below + reading.events
        self._tried[-1] = reading, steps
        self.certain = self._tried[0][0]

    def trust(self) -> list[Event]:
        """The events of everything tried or doubted. The prompt's own text is not in doubt."""
        while len(self._tried) > 1:
            self._commit()
        reading = self.certain
        reading.doubt, reading.quotations, reading.refuses = None, (), 0
        reading.end_call()
        return self.events()

    def events(self) -> list[Event]:
        """The events that are certain, and have not been given out."""
        reading = self.certain
        events, doubt = reading.events, reading.doubt
        if doubt is None:  # else nothing is tried
            reading.events = []
            return events
        certain, doubt.shown = events[: doubt.shown], 0
        del events[: len(certain)]  # those in doubt are not copied with every piece of text
        return certain
