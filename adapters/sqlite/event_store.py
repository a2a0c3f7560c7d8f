"""The event store in one SQLite file (ports/event_store.py; ADR 0002).

Facts and envelopes are only ever inserted: triggers refuse the rest (R-102). The head is the one row that moves; it is
the optimistic lock, and the only thing that lists read (R-109).
"""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from adapters.sqlite.database import Database
from domain.envelope import Envelope
from domain.errors import CorruptHistory, NotFound, VersionConflict
from domain.event import Head, ListQuery, Missed, RecordedEvent, Stream
from domain.lifecycle import Transition
from domain.times import format_time

Row = tuple[Any, ...]

# The same moments come again and again: a head stands since its last fact, and a batch arrives at one time.
_text = lru_cache(maxsize=1024)(format_time)
_time = datetime.fromisoformat  # stored times are in the one format, so they need no check

# Tables of short rows are one tree, clustered by their key. Envelopes may be long, so theirs is a tree of its own.
EVENTS: Final = (
    """
    CREATE TABLE events (
        event_id TEXT NOT NULL UNIQUE, entity TEXT NOT NULL, arrived_at TEXT NOT NULL, source TEXT NOT NULL,
        envelope TEXT NOT NULL
    ) STRICT;
    CREATE TABLE facts (
        event_id TEXT NOT NULL, sequence INTEGER NOT NULL, entity TEXT NOT NULL, from_state TEXT,
        to_state TEXT NOT NULL, at TEXT NOT NULL, actor TEXT NOT NULL, reason TEXT, command_id TEXT NOT NULL,
        PRIMARY KEY (event_id, sequence)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE heads (
        event_id TEXT NOT NULL PRIMARY KEY, entity TEXT NOT NULL, type TEXT NOT NULL, source TEXT NOT NULL,
        occurred_at TEXT NOT NULL, state TEXT NOT NULL, sequence INTEGER NOT NULL, since TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX heads_by_state ON heads (state, occurred_at, event_id);
    CREATE INDEX heads_by_entity ON heads (entity, occurred_at, event_id);
    CREATE TABLE missed (
        event_id TEXT NOT NULL, command_id TEXT NOT NULL, to_state TEXT NOT NULL, at TEXT NOT NULL,
        reason TEXT NOT NULL, PRIMARY KEY (event_id, command_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
    CREATE TRIGGER events_last BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
    CREATE TRIGGER facts_stay BEFORE UPDATE ON facts BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
    CREATE TRIGGER facts_last BEFORE DELETE ON facts BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
    """,
)

_RECORD: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?) ON CONFLICT (event_id) DO NOTHING"
_EVENT: Final = "SELECT event_id, entity, arrived_at, envelope FROM events WHERE event_id = ?"
_SOURCE: Final = "SELECT source FROM events WHERE event_id = ?"
_FIRST_HEAD: Final = "INSERT INTO heads VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (event_id) DO NOTHING"
_MOVE_HEAD: Final = "UPDATE heads SET state = ?, sequence = ?, since = ? WHERE event_id = ? AND sequence = ?"
_APPEND: Final = "INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MISS: Final = "INSERT INTO missed VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_HEADS: Final = "SELECT event_id, entity, type, source, occurred_at, state, sequence, since FROM heads"
_HEAD: Final = f"{_HEADS} WHERE event_id = ?"
_HISTORY: Final = """
    SELECT event_id, entity, from_state, to_state, at, actor, reason, command_id, sequence
    FROM facts WHERE event_id = ? ORDER BY sequence"""
_MISSED: Final = "SELECT event_id, command_id, to_state, at, reason FROM missed WHERE event_id = ?"


class SqliteEventStore:
    """The store over a file opened with `EVENTS`; whoever opened it closes it."""

    def __init__(self, database: Database) -> None:
        """Keep events in this file."""
        self._database = database

    async def record(self, events: Sequence[RecordedEvent], /) -> list[RecordedEvent]:
        """Record each envelope whose id is free; see the port. What this call recorded comes back itself."""
        rows = [
            (event_id, entity, _text(arrived_at), envelope.source, envelope.to_json())
            for event_id, entity, arrived_at, envelope in events
        ]

        def insert(connection: sqlite3.Connection) -> list[RecordedEvent]:
            return [
                event
                if connection.execute(_RECORD, row).rowcount
                else _event(connection.execute(_EVENT, row[:1]).fetchone())
                for event, row in zip(events, rows, strict=True)
            ]

        return await self._database.write(insert)

    async def event(self, event_id: str, /) -> RecordedEvent | None:
        """Give a recorded event."""
        row = await self._database.read(lambda connection: connection.execute(_EVENT, (event_id,)).fetchone())
        return None if row is None else _event(row)

    async def head(self, event_id: str, /) -> Head | None:
        """Give where an event stands."""
        row = await self._database.read(lambda connection: connection.execute(_HEAD, (event_id,)).fetchone())
        return None if row is None else _head(row)

    async def stream(self, event_id: str, /) -> Stream:
        """Give head, history and missed moves, from one consistent read."""
        key = (event_id,)

        def select(connection: sqlite3.Connection) -> tuple[Row | None, list[Row], list[Row]]:
            head = connection.execute(_HEAD, key).fetchone()
            history = [] if head is None else connection.execute(_HISTORY, key).fetchall()
            return head, history, connection.execute(_MISSED, key).fetchall()

        head, history, missed = await self._database.read(select)
        return Stream(
            None if head is None else _head(head),
            tuple(_fact(row) for row in history),
            tuple(sorted((_missed(row) for row in missed), key=lambda miss: (miss.at, miss.command_id))),
        )

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        """Append facts and move the head; see the port.

        Raises:
            CorruptHistory: a fact is there already although the head is before it.
        """
        event_id, expected = head.event_id, facts[0].sequence - 1
        since = _text(head.since)
        rows = [
            (event_id, sequence, entity, from_state, to_state, _text(at), actor, reason, command_id)
            for event_id, entity, from_state, to_state, at, actor, reason, command_id, sequence in facts
        ]

        def insert(connection: sqlite3.Connection) -> None:
            if expected:
                moved = (head.state, head.sequence, since, event_id, expected)
                changed = connection.execute(_MOVE_HEAD, moved).rowcount
            else:
                if connection.execute(_SOURCE, (event_id,)).fetchone() != (head.source,):
                    raise NotFound(event_id)
                first = (*head[:4], _text(head.occurred_at), head.state, head.sequence, since)
                changed = connection.execute(_FIRST_HEAD, first).rowcount
            if not changed:
                raise VersionConflict(event_id, expected)
            try:
                connection.executemany(_APPEND, rows)
            except sqlite3.IntegrityError:
                raise CorruptHistory(event_id, f"holds a transition after {expected}, where its head stands") from None

        await self._database.write(insert)

    async def note_missed(self, missed: Missed, /) -> None:
        """Note a missed move, once a command."""
        row = (missed.event_id, missed.command_id, missed.to, _text(missed.at), missed.reason)
        await self._database.write(lambda connection: connection.execute(_MISS, row).rowcount)

    async def list_heads(self, query: ListQuery, /) -> list[Head]:
        """Give a page of heads from the index that the query names."""
        statement, parameters = list_statement(query)
        rows = await self._database.read(lambda connection: connection.execute(statement, parameters).fetchall())
        return [_head(row) for row in rows]


def list_statement(query: ListQuery) -> tuple[str, list[str | int]]:
    """Write a list as one range of one index, entered where the page starts.

    A query with an entity reads the entity's range, with or without a state: one entity has few events.
    """
    index, equal = ("heads_by_state", "state") if query.entity is None else ("heads_by_entity", "entity")
    conditions = [f"{equal} = ?"]
    parameters: list[str | int] = [(query.state if query.entity is None else query.entity) or ""]
    if query.after is not None:
        conditions.append(f"(occurred_at, event_id) {'<' if query.descending else '>'} (?, ?)")
        parameters += [_text(query.after.occurred_at), query.after.event_id]
    # The page starts after the cursor. The unary plus keeps the window's end, where the list began, from being what
    # enters the index: each page would then read the ones before it ("Disqualifying WHERE clause terms",
    # sqlite.org/optoverview.html).
    if query.earliest is not None:
        conditions.append(f"{'+' if query.after and not query.descending else ''}occurred_at >= ?")
        parameters.append(_text(query.earliest))
    if query.latest is not None:
        conditions.append(f"{'+' if query.after and query.descending else ''}occurred_at <= ?")
        parameters.append(_text(query.latest))
    if query.entity is not None and query.state is not None:
        conditions.append("state = ?")
        parameters.append(query.state)
    parameters.append(query.limit)
    order = "DESC" if query.descending else "ASC"
    ordered = f"ORDER BY occurred_at {order}, event_id {order} LIMIT ?"
    return f"{_HEADS} INDEXED BY {index} WHERE {' AND '.join(conditions)} {ordered}", parameters


def _event(row: Row) -> RecordedEvent:
    event_id, entity, arrived_at, envelope = row
    return RecordedEvent(event_id, entity, _time(arrived_at), Envelope.model_validate_json(envelope))


def _head(row: Row) -> Head:
    event_id, entity, type_, source, occurred_at, state, sequence, since = row
    return Head(event_id, entity, type_, source, _time(occurred_at), state, sequence, _time(since))


def _fact(row: Row) -> Transition:
    event_id, entity, from_state, to_state, at, actor, reason, command_id, sequence = row
    return Transition(event_id, entity, from_state, to_state, _time(at), actor, reason, command_id, sequence)


def _missed(row: Row) -> Missed:
    event_id, command_id, to_state, at, reason = row
    return Missed(event_id, command_id, to_state, _time(at), reason)
