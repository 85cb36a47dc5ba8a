"""User turns that follow each other."""

from __future__ import annotations

from dsv4.decoding.plan import Plan


class Neighbours:
    """What keeps user turns apart that follow each other without a header.

    The encoder would join two user messages. So one of them is a developer's, or the first carries
    a task, or an empty system message stands between.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        turns = plan.turns
        self.developers = {
            n
            for n, turn in enumerate(turns if plan.found.sections else ())
            if turn.role == "user" and plan.sections_of(n) and plan.stays(n)
        }
        self.guessed: set[int] = set()
        self.tasked: set[int] = set()
        self.parted: set[int] = set()
        for n in range(1, len(turns)) if plan.walk.has_neighbours else ():
            before = turns[n - 1]
            joined = before.role == turns[n].role == "user" and not (
                before.asked is not None or before.task
            )
            if joined and not (self._is_developer(n - 1) or self._is_developer(n)):
                self._part(n - 1, n)

    def _is_developer(self, n: int) -> bool:
        return n in self.developers or n in self.guessed

    def _part(self, before: int, n: int) -> None:
        if self._may_be_developer(n):
            self.guessed.add(n)
        elif self._may_be_developer(before):
            self.guessed.add(before)
        elif any(self._plan.parts_of(turn)[0].is_result for turn in (before, n)):
            self.parted.add(before)
        else:
            self.tasked.add(before)

    def _may_be_developer(self, n: int) -> bool:
        plan, turn = self._plan, self._plan.turns[n]
        if not plan.has_developers or turn.start == turn.end or not plan.stays(n):
            return False
        return not any(part.is_result for part in plan.parts_of(n))
