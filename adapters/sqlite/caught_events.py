"""What the catch-all recorded, in one SQLite file (ports/caught_events.py)."""

import sqlite3
from datetime import datetime
from typing import Any, Final

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import microseconds
from adapters.sqlite.workflow_catalog import moment
from domain.envelope import envelope_from
from domain.json_reader import read_json
from domain.routing import Caught

_RECORD: Final = "INSERT INTO caught VALUES (?, ?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING"
# One step in the primary key for each type, however many events there are.
_TYPES: Final = """
    WITH RECURSIVE types (type) AS (
        SELECT min(type) FROM caught
        UNION ALL SELECT (SELECT min(type) FROM caught WHERE caught.type > types.type) FROM types WHERE type NOTNULL
    ) SELECT type FROM types WHERE type NOTNULL"""
_OF_TYPE: Final = """
    SELECT workflow_id, caught_at, envelope, why, replayed_at FROM caught
    WHERE type = ? AND workflow_id > ? ORDER BY workflow_id LIMIT ?"""
_REPLAYED: Final = """
    UPDATE caught SET replayed_at = ? WHERE type = ? AND workflow_id = ? AND replayed_at IS NULL"""


class SqliteCaughtEvents:
    """Caught events in a file opened with `ROUTER`; whoever opened it closes it."""

    def __init__(self, database: Database) -> None:
        """Keep events in this file."""
        self._database = database

    async def record(self, caught: Caught, /) -> None:
        """Keep an event."""
        envelope = caught.envelope
        row = (envelope.type, caught.workflow_id, microseconds(caught.caught_at), envelope.to_json(), caught.why)
        await self._database.write(lambda connection: connection.execute(_RECORD, row))

    async def types(self) -> list[str]:
        """Give the types of which an event was ever caught."""

        def select(connection: sqlite3.Connection) -> list[str]:
            return [event_type for (event_type,) in connection.execute(_TYPES).fetchall()]

        return await self._database.read(select)

    async def of_type(self, event_type: str, after: str, limit: int, /) -> list[Caught]:
        """Give events of a type past an id: a range of the primary key."""

        def select(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(_OF_TYPE, (event_type, after, limit)).fetchall()

        return [_caught(*row) for row in await self._database.read(select)]

    async def mark_replayed(self, caught: Caught, at: datetime, /) -> None:
        """Note that a workflow of its own was started for an event."""
        row = (microseconds(at), caught.envelope.type, caught.workflow_id)
        await self._database.write(lambda connection: connection.execute(_REPLAYED, row))


def _caught(workflow_id: str, caught_at: int, envelope: str, why: str, replayed_at: int | None) -> Caught:
    return Caught(
        workflow_id,
        moment(caught_at),
        envelope_from(read_json(envelope.encode()), max_bytes=None),
        why,
        None if replayed_at is None else moment(replayed_at),
    )
