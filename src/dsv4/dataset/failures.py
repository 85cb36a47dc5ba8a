"""Why a run could not be finished."""

from __future__ import annotations

from dsv4.errors import Error


class DatasetError(Error):
    """Files, options or an installation that do not allow a run, or allow no more of it.

    `kept` is the number of conversations that a run with `resume=True` need not encode again.
    """

    def __init__(self, problem: str, kept: int = 0) -> None:
        super().__init__(problem, kept)
        self.problem = problem
        self.kept = kept

    def __str__(self) -> str:
        if not self.kept:
            return self.problem
        return f"{self.problem} (resume=True goes on after {self.kept} conversations)"


class BadLine(DatasetError):
    """A line that is no conversation, or one that cannot be encoded. Its text says where."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after what was done has been kept: `kept` conversations of it."""

    def __init__(self, kept: int = 0) -> None:
        super().__init__(kept)
        self.kept = kept
