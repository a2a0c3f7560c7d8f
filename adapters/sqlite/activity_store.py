"""The activity store in one SQLite file (ports/activity_store.py, ADR 0015)."""

import json
import secrets
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from adapters.sqlite.database import Database
from domain.activity import Activity, Found, Place, Pointer, Sealed, Stretch, place_key, place_of, unsealed
from domain.times import format_time

Row = tuple[Any, ...]

# Envelopes may be long, so the rows are one tree and what filters read is another: looking past rows reads no envelope.
ACTIVITY: Final = (
    """
    CREATE TABLE activities (
        activity_id TEXT NOT NULL UNIQUE, account TEXT NOT NULL, place TEXT NOT NULL, type TEXT NOT NULL,
        report_id TEXT, envelope TEXT, pointer TEXT, CHECK ((envelope IS NULL) <> (pointer IS NULL))
    ) STRICT;
    CREATE UNIQUE INDEX activities_by_account ON activities (account, place, type, report_id);
    CREATE TABLE secrets (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
    """,
)

_RECORD: Final = "INSERT INTO activities VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_ROWS: Final = "SELECT account, place, type, report_id, envelope, pointer"
_PLACES: Final = "SELECT place"
_MAKE_KEY: Final = "INSERT INTO secrets VALUES ('cursor', ?) ON CONFLICT DO NOTHING"
_KEY: Final = "SELECT value FROM secrets WHERE name = 'cursor'"


class SqliteActivityStore:
    """The store over a file opened with `ACTIVITY`; whoever opened it closes it."""

    def __init__(self, database: Database) -> None:
        """Keep rows in this file."""
        self._database = database

    async def record(self, activities: Sequence[Activity], /) -> list[bool]:
        """Keep rows whose ids are free; see the port."""
        rows = [_row(activity) for activity in activities]
        return await self._database.write(
            lambda connection: [connection.execute(_RECORD, row).rowcount > 0 for row in rows]
        )

    async def find(self, stretch: Stretch, /) -> Found:
        """Look at so many rows; see the port. Only the matches' envelopes are read."""

        def read(connection: sqlite3.Connection) -> tuple[list[Row], str | None]:
            end = None
            if stretch.query.type is not None or stretch.query.report_id is not None:
                last = connection.execute(*last_looked_at(stretch)).fetchone()
                end = None if last is None else str(last[0])
            return connection.execute(*rows_statement(stretch, end)).fetchall(), end

        rows, end = await self._database.read(read)
        found = [_activity(row) for row in rows]
        if len(found) == min(stretch.wanted, stretch.rows):
            return Found(found, place_of(found[-1]))
        return Found(found, None if end is None else _place(end))

    async def cursor_key(self) -> bytes:
        """Give the key that the file holds, made where it holds none."""

        def read(connection: sqlite3.Connection) -> bytes:
            connection.execute(_MAKE_KEY, (secrets.token_bytes(32),))
            return bytes(connection.execute(_KEY).fetchone()[0])

        return await self._database.write(read)


def last_looked_at(stretch: Stretch) -> tuple[str, list[str | int]]:
    """Ask for the place of the last row of a stretch, from the index alone; there is none where the data ends first."""
    within, parameters, order = _within(stretch, None)
    return f"{_PLACES} {within} {order} LIMIT 1 OFFSET ?", [*parameters, stretch.rows - 1]


def rows_statement(stretch: Stretch, end: str | None) -> tuple[str, list[str | int]]:
    """Ask for the matches of a stretch, up to a place."""
    within, parameters, order = _within(stretch, end)
    for column, wanted in (("type", stretch.query.type), ("report_id", stretch.query.report_id)):
        if wanted is not None:
            within += f" AND {column} = ?"
            parameters.append(wanted)
    return f"{_ROWS} {within} {order} LIMIT ?", [*parameters, min(stretch.wanted, stretch.rows)]


def _within(stretch: Stretch, end: str | None) -> tuple[str, list[str | int], str]:
    """Write the range of the index that a stretch covers: one lower and one upper end, so that both enter it."""
    query = stretch.query
    low = format_time(query.earliest) if query.earliest else ""
    high = format_time(query.latest) + "$" if query.latest else "~"
    after = None if stretch.after is None else place_key(stretch.after)
    if query.descending:
        low, high = max(low, end or ""), high if after is None else min(high, after)
        ends = "place >= ? AND place < ?"
    else:
        low, high = low if after is None else max(low, after), min(high, end or high)
        ends = "place > ? AND place <= ?"
    order = f"ORDER BY place {'DESC' if query.descending else 'ASC'}"
    within = f"FROM activities INDEXED BY activities_by_account WHERE account = ? AND {ends}"
    return within, [query.account, low, high], order


def _row(activity: Activity) -> Row:
    payload = activity.payload
    envelope, pointer = (None, json.dumps(payload)) if isinstance(payload, Pointer) else (unsealed(payload), None)
    place = place_key(place_of(activity))
    return activity.activity_id, activity.account, place, activity.type, activity.report_id, envelope, pointer


def _activity(row: Row) -> Activity:
    account, place, type_, report_id, envelope, pointer = row
    payload = Sealed(envelope) if pointer is None else Pointer(*json.loads(pointer))
    return Activity(account, *_place(place), type_, report_id, payload)


def _place(key: str) -> Place:
    time, _, activity_id = key.partition("#")
    return Place(datetime.fromisoformat(time), activity_id)
