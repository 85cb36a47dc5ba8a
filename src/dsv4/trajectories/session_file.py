"""Sessions in a SQLite file, which the workers of one machine write, and which is exported later.

Nothing here waits for a network or keeps a session in memory. Of a call, only the new ids are
stored: its prompt begins with an earlier call's ids, which a digest proves.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from dsv4._inputs.database_file import open_database
from dsv4.trajectories.recorded_calls import (
    ID_BYTES,
    PackedCall,
    PromptBase,
    RecordedCall,
    RecordedPicture,
    SessionSeal,
    WeightsChange,
    WeightsVersion,
    new_digest,
    pack_call,
    packed_ids,
    picture_id,
    seal_of,
    unpack_call,
)

# The bytes of a session in a store besides its calls.
SESSION_BYTES = 512
# The ends of earlier calls that are compared with a prompt together: the first nearly always fits.
ENDS_AT_ONCE = 16
_SCHEMA = Path(__file__).with_name("sessions.sql")
# The statements that upgrade the schema to each version. Version 1 was the first.
_UPGRADES: dict[int, tuple[str, ...]] = {
    2: (
        "ALTER TABLE sessions ADD COLUMN ended INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE sessions ADD COLUMN seal TEXT",
        "ALTER TABLE calls ADD COLUMN ended INTEGER",
    ),
}
_VERSION = max(_UPGRADES)


class SessionRefused(Exception):
    """Raised for a session that cannot be used as requested: this owner has none, it is closed, it
    exists already, or there is no room for it."""

    def __init__(self, why: Literal["unknown", "closed", "exists", "full"]) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session without its calls.

    - `id`, `number`, `owner`, `group`, `metadata`: its name, its place among all sessions, its
      owner, and the values given when it was created.
    - `options`: `sampling`, `limits` and `drop_thinking` for its calls.
    - `reward`, `reward_metadata`, `rewards`: of the whole session, and of single calls by ids.
    - `created`, `touched`, `closed`: times; `closed` is None while it is open.
    - `turns`, `calls`, `sampled`, `size`: requests, completions, tokens and bytes so far.
    - `complete`: whether everything that happened could be recorded.
    - `seal`: count and hash of its sampled tokens when it was closed; None while it is open, or if
      an older release recorded it.
    """

    id: str
    owner: str
    number: int = 0
    group: str | None = None
    metadata: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    reward: float | None = None
    reward_metadata: Any = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    created: float = 0.0
    touched: float = 0.0
    closed: float | None = None
    turns: int = 0
    calls: int = 0
    sampled: int = 0
    size: int = SESSION_BYTES
    complete: bool = True
    seal: SessionSeal | None = None

    @property
    def is_closed(self) -> bool:
        return self.closed is not None

    def to_json(self) -> dict[str, Any]:
        """The session as a value for JSON, for clients that may see it."""
        return {
            **{name: getattr(self, name) for name in ("id", "number", "owner", *SAID_OF_SESSION)},
            **self.options,
            **{name: getattr(self, name) for name in ("created", "complete", "turns", "calls")},
            "closed": self.is_closed,
            "sampled_tokens": self.sampled,
            "bytes": self.size,
            "seal": None if self.seal is None else self.seal.to_json(),
        }


# The fields of a session that trainers set, and get back with its trajectories.
SAID_OF_SESSION = ("group", "metadata", "reward", "reward_metadata")


class Retention(NamedTuple):
    """The limits of a store: bytes in all, seconds that a session is kept after its last call, and
    seconds without a call after which it is closed."""

    size: int
    seconds: float
    idle: float


class CallEnd(NamedTuple):
    """The end of a sequence that a later prompt may begin with: its length, digest and call."""

    length: int
    digest: str
    call: str


# Finds ends of a session that are at most as long as the first number, the longest first; skips as
# many as the second number says.
FindEnds: TypeAlias = Callable[[int, int], Sequence[CallEnd]]


def call_after_base(call: RecordedCall, find_ends: FindEnds) -> tuple[RecordedCall, list[CallEnd]]:
    """A call with a whole prompt, stored as one that begins with an earlier call's ids, if there is
    one; and the ends that it adds."""
    prompt = packed_ids(call.prompt)
    base = _base_of(prompt, find_ends)
    digest = new_digest()
    digest.update(prompt)
    prompt_end = CallEnd(len(call.prompt), digest.hexdigest(), call.id)
    length = 0 if base is None else base.length
    stored = replace(call, prompt=call.prompt[length:], base=base, digest=prompt_end.digest)
    if call.pictures:
        new = set(stored.prompt)
        pictures = tuple(each for each in call.pictures if picture_id(each.name) in new)
        stored = replace(stored, pictures=pictures)
    if call.experts is not None and call.experts.end > length > 1:
        # The base did not read its own last token, so that token's row is the first new one.
        stored = replace(stored, experts=call.experts.between(length - 1, call.experts.end))
    # A call whose experts did not come is not a base: the next call has all of them.
    if not call.sampled or (call.experts is not None and not call.experts.data):
        return stored, []
    for run in call.runs:
        digest.update(packed_ids(run.ids))
    whole = prompt_end.length + sum(len(run.ids) for run in call.runs)
    return stored, [prompt_end, CallEnd(whole, digest.hexdigest(), call.id)]


def _base_of(prompt: bytes, find_ends: FindEnds) -> PromptBase | None:
    count = 0
    while ends := find_ends(len(prompt) // ID_BYTES, count):
        digests = _digests_at(prompt, {end.length for end in ends})
        for end in ends:
            if digests[end.length] == end.digest:
                return PromptBase(end.call, end.length)
        count += len(ends)
    return None


def _digests_at(prompt: bytes, lengths: Iterable[int]) -> dict[int, str]:
    """The digests of the beginnings of a prompt, in one pass."""
    digest, at, digests = new_digest(), 0, {}
    for length in sorted(lengths):
        digest.update(prompt[at : length * ID_BYTES])
        at = length * ID_BYTES
        digests[length] = digest.hexdigest()
    return digests


def new_session_id() -> str:
    """An id that cannot be guessed."""
    return f"s-{secrets.token_hex(16)}"


class SessionFile:
    """The sessions of a file. It is used by one thread.

    `path` is the file, which is created if it is missing; `read_only` opens an existing one.
    Raises an `OSError` or a `sqlite3.Error` for a file that cannot be used.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self._db = open_database(path, timeout=10, must_exist=read_only)
        self._db.row_factory = sqlite3.Row
        self._to_disk: bool | None = None  # whether changes wait for the disk, once that is set
        if not read_only:
            self._db.execute("PRAGMA journal_mode = WAL")
            with self.batch(to_disk=True):
                self._upgrade()
            self._db.executescript(_SCHEMA.read_text("utf-8"))
        self._version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if self._version > _VERSION:
            raise sqlite3.DatabaseError("a newer dsv4 wrote it")

    def _upgrade(self) -> None:
        """Upgrades a file of an older version to this one. A new file has version 0."""
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        for newer in range(version + 1, _VERSION + 1) if version else ():
            for statement in _UPGRADES[newer]:
                self._db.execute(statement)
        if version < _VERSION:
            self._db.execute(f"PRAGMA user_version = {_VERSION}")

    @contextmanager
    def batch(self, *, to_disk: bool) -> Iterator[None]:
        """All changes inside are made together or not at all; `to_disk` waits for the disk."""
        if to_disk is not self._to_disk:
            self._db.execute(f"PRAGMA synchronous = {'FULL' if to_disk else 'NORMAL'}")
            self._to_disk = to_disk
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def step(self) -> Iterator[None]:
        """Changes within a batch that are made together or not at all."""
        self._db.execute("SAVEPOINT step")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # a full disk ends the transaction
                self._db.execute("ROLLBACK TO step")
                self._db.execute("RELEASE step")
            raise
        self._db.execute("RELEASE step")

    # Sessions.

    def session(self, id: str) -> SessionRecord | None:
        """The session with an id; None if there is none."""
        row = self._db.execute("SELECT * FROM sessions WHERE id = ?", (id,)).fetchone()
        return None if row is None else session_of(row)

    def create(self, record: SessionRecord) -> SessionRecord:
        """Creates a session. Raises `SessionRefused` if there is one with this id."""
        now, text = time.time(), json.dumps(description_of(record), ensure_ascii=False)
        size = SESSION_BYTES + len(text)
        try:
            row = self._db.execute(
                "INSERT INTO sessions (id, owner, grouped, said, created, touched, size)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (record.id, record.owner, record.group, text, now, now, size),
            )
        except sqlite3.IntegrityError:
            raise SessionRefused("exists") from None
        number = row.lastrowid or 0
        return replace(record, number=number, created=now, touched=now, size=size)

    def enter(
        self, id: str, owner: str, calls: Sequence[str], keep: Retention
    ) -> tuple[SessionRecord, WeightsVersion]:
        """Begins calls in a session, which is created if there is none. Returns the session as it
        was before, and the version of the weights. Raises `SessionRefused`."""
        session = self.session(id)
        if session is None:
            session = self.create(SessionRecord(id, owner))
        if session.owner != owner:
            raise SessionRefused("unknown")
        now = time.time()
        if session.is_closed or now - session.touched > keep.idle:
            raise SessionRefused("closed")
        # In one statement: between two, the thread may have to wait for all others.
        size, version = self._db.execute(
            "SELECT value, (SELECT version FROM weights ORDER BY number DESC LIMIT 1)"
            " FROM facts WHERE name = 'size'"
        ).fetchone()
        if int(size) > keep.size and not self._make_room(keep.size):
            raise SessionRefused("full")
        weights: WeightsVersion = None if version is None else json.loads(version)
        self._db.executemany(
            "INSERT INTO calls (session, id, head, ids, logprobs) VALUES (?, ?, ?, ?, ?)",
            [
                (session.number, call, *pack_call(RecordedCall.begun(call, 0, weights, now)))
                for call in calls
            ],
        )
        self._db.execute(
            "UPDATE sessions SET turns = turns + 1, calls = calls + ?, touched = ? WHERE id = ?",
            (len(calls), now, id),
        )
        return session, weights

    def abandon(self, id: str, calls: Sequence[str]) -> None:
        """Removes calls that never began because their request was refused."""
        number = self._number(id)
        self._db.executemany(
            "DELETE FROM calls WHERE session = ? AND id = ?", [(number, call) for call in calls]
        )
        self._db.execute(
            "UPDATE sessions SET turns = turns - 1, calls = calls - ? WHERE id = ?",
            (len(calls), id),
        )

    def finish(self, id: str, call: RecordedCall) -> None:
        """Keeps a call that has ended, with its whole prompt. Raises `SessionRefused` if the
        session was deleted."""
        number, is_closed = self._place_of(id)
        if call.arrivals is not None:
            call = call.with_changes(self._changes_since(call.arrivals.began))

        def find_ends(longest: int, after: int) -> list[CallEnd]:
            rows = self._db.execute(
                "SELECT length, digest, call FROM ends WHERE session = ? AND length <= ?"
                " ORDER BY length DESC, digest LIMIT ? OFFSET ?",
                (number, longest, ENDS_AT_ONCE, after),
            )
            return [CallEnd(*row) for row in rows]

        stored, ends = call_after_base(call, find_ends)
        packed = pack_call(stored)
        size = sum(map(len, packed)) + self._keep_pictures(number, stored.pictures)
        self._db.execute(
            "UPDATE sessions SET sampled = sampled + ?, size = size + ?, touched = ?,"
            " ended = ended + 1 WHERE id = ?",
            (call.sampled, size, time.time(), id),
        )
        self._db.execute(
            "UPDATE calls SET head = ?, ids = ?, logprobs = ?,"
            " ended = (SELECT ended FROM sessions WHERE number = ?) WHERE session = ? AND id = ?",
            (*packed, number, number, call.id),
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO ends VALUES (?, ?, ?, ?)", [(number, *end) for end in ends]
        )
        if is_closed:  # it was running when the session was closed
            self._seal(id)

    def _keep_pictures(self, session: int, pictures: Iterable[RecordedPicture]) -> int:
        """Keeps the bytes of new pictures. Returns the number of these bytes."""
        size = 0
        for name, *_, data in pictures:
            if data is not None:
                query = "INSERT OR IGNORE INTO pictures VALUES (?, ?, ?)"
                size += len(data) * self._db.execute(query, (session, name, data)).rowcount
        return size

    def picture(self, id: str, name: str) -> bytes | None:
        """The bytes of a picture in a session; None if they are not kept."""
        query = "SELECT data FROM pictures WHERE session = ? AND name = ?"
        row = self._db.execute(query, (self._number(id), name)).fetchone()
        return None if row is None else bytes(row["data"])

    def undelivered(self, id: str, calls: Sequence[str]) -> None:
        """Notes that the client did not get all of calls that had ended."""
        number = self._number(id)
        self._db.executemany(
            "UPDATE calls SET head = json_set(head, '$.delivered', json('false'))"
            " WHERE session = ? AND id = ?",
            [(number, call) for call in calls],
        )

    def incomplete(self, id: str) -> None:
        """Notes that something of a session could not be recorded."""
        self._db.execute("UPDATE sessions SET complete = 0 WHERE id = ?", (id,))

    def update(self, id: str, change: Callable[[SessionRecord], dict[str, Any]]) -> None:
        """Sets fields of a session to the values that `change` returns: `reward`,
        `reward_metadata`, `rewards`. Raises `SessionRefused` if there is no such session."""
        record = self._existing(id)
        text = json.dumps(description_of(replace(record, **change(record))), ensure_ascii=False)
        self._db.execute("UPDATE sessions SET said = ? WHERE id = ?", (text, id))

    def close_session(self, id: str) -> SessionRecord:
        """Closes a session to further calls. Raises `SessionRefused` if it does not exist."""
        if not self._existing(id).is_closed:
            self._db.execute("UPDATE sessions SET closed = ? WHERE id = ?", (time.time(), id))
            self._seal(id)
        return self._existing(id)

    def _seal(self, id: str) -> None:
        seal = seal_of(self.calls(id))
        self._db.execute("UPDATE sessions SET seal = ? WHERE id = ?", (json.dumps(seal), id))

    def delete(self, id: str) -> bool:
        """Deletes a session with its calls. Returns whether it existed."""
        return bool(self._db.execute("DELETE FROM sessions WHERE id = ?", (id,)).rowcount)

    def sessions(
        self,
        *,
        group: str | None = None,
        closed: bool | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> list[SessionRecord]:
        """A page of sessions, in the order in which they were created, after a number."""
        conditions = ["number > ?"]
        values: list[object] = [after]
        if group is not None:
            conditions.append("grouped = ?")
            values.append(group)
        if closed is not None:
            conditions.append(f"closed IS {'NOT ' if closed else ''}NULL")
        query = f"SELECT * FROM sessions WHERE {' AND '.join(conditions)} ORDER BY number LIMIT ?"
        rows = self._db.execute(query, (*values, limit))
        return [session_of(row) for row in rows]

    def calls(self, id: str) -> Iterator[RecordedCall]:
        """The calls of a session, in the order in which they began. Raises a `ValueError` for one
        that is damaged."""
        session = self.session(id)
        rows = self._db.execute(
            f"SELECT number, id, head, ids, logprobs, {'NULL' if self._version < 2 else 'ended'}"
            " FROM calls WHERE session = ? ORDER BY number",
            (-1 if session is None else session.number,),
        )
        for number, call, head, ids, logprobs, ended in rows:
            yield unpack_call(call, number, PackedCall(head, ids, logprobs), ended)

    def session_with_calls(self, id: str) -> tuple[SessionRecord, list[RecordedCall]] | None:
        """A session and its calls as they were at one moment, even while others write; None if
        there is none. Raises a `ValueError` for a call that is damaged."""
        self._db.execute("BEGIN")
        try:
            record = self.session(id)
            return None if record is None else (record, list(self.calls(id)))
        finally:
            self._db.execute("ROLLBACK")

    # All sessions together.

    def _changes_since(self, began: float) -> list[WeightsChange]:
        """The changes of the weights after a moment. Those before it are not looked at: there may
        be many."""
        rows = self._db.execute("SELECT changed, version FROM weights ORDER BY number DESC")
        recent = takewhile(lambda row: row[0] > began, rows)
        return [WeightsChange(at, json.loads(version)) for at, version in recent][::-1]

    def set_weights(self, version: WeightsVersion) -> None:
        """Notes the version of the weights from now on."""
        self._db.execute(
            "INSERT INTO weights (changed, version) VALUES (?, ?)",
            (time.time(), json.dumps(version)),
        )

    def sweep(self, keep: Retention) -> None:
        """Closes idle sessions, and deletes those that are too old or exceed the size limit."""
        now = time.time()
        idle = "SELECT id FROM sessions WHERE closed IS NULL AND touched < ?"
        for (id,) in self._db.execute(idle, (now - keep.idle,)).fetchall():
            self.close_session(id)
        self._db.execute(
            "DELETE FROM sessions WHERE closed IS NOT NULL AND touched < ?", (now - keep.seconds,)
        )
        self._make_room(keep.size)

    def _make_room(self, size: int) -> bool:
        """Deletes closed sessions, the oldest first. Returns whether the rest fits."""
        while self._size() > size:
            deletion = self._db.execute(
                "DELETE FROM sessions WHERE number = (SELECT number FROM sessions"
                " WHERE closed IS NOT NULL ORDER BY touched LIMIT 1)"
            )
            if not deletion.rowcount:
                return False
        return True

    def _size(self) -> int:
        return int(self._db.execute("SELECT value FROM facts WHERE name = 'size'").fetchone()[0])

    def _number(self, id: str) -> int:
        """The number of a session, read without its other fields."""
        return self._place_of(id)[0]

    def _place_of(self, id: str) -> tuple[int, bool]:
        """The number of a session, and whether it is closed."""
        query = "SELECT number, closed IS NOT NULL FROM sessions WHERE id = ?"
        row = self._db.execute(query, (id,)).fetchone()
        if row is None:
            raise SessionRefused("unknown")
        return int(row[0]), bool(row[1])

    def _existing(self, id: str) -> SessionRecord:
        session = self.session(id)
        if session is None:
            raise SessionRefused("unknown")
        return session

    def close(self) -> None:
        """Closes the file."""
        self._db.close()


# The fields of a session in one column: they are rarely written, and never queried by their parts.
_DESCRIPTION = ("metadata", "options", "reward", "reward_metadata", "rewards")


def description_of(record: SessionRecord) -> dict[str, Any]:
    """The fields of a session that are kept in one column."""
    return {name: getattr(record, name) for name in _DESCRIPTION}


def session_of(row: Mapping[str, Any] | sqlite3.Row) -> SessionRecord:
    """The session in a row."""
    description = json.loads(row["said"])
    same = ("id", "owner", "number", "created", "touched", "closed", "turns", "calls", "sampled")
    return SessionRecord(
        **{name: row[name] for name in same},
        **{name: description.get(name, getattr(_EMPTY, name)) for name in _DESCRIPTION},
        group=row["grouped"],
        size=row["size"],
        complete=bool(row["complete"]),
        seal=_seal_in(row),
    )


def _seal_in(row: Mapping[str, Any] | sqlite3.Row) -> SessionSeal | None:
    text = row["seal"] if "seal" in row.keys() else None  # noqa: SIM118  # rows are not mappings
    values = json.loads(text) if text else None
    return None if values is None else SessionSeal(*values)


_EMPTY = SessionRecord("", "")
