"""The start ledger in one SQLite file (ports/start_ledger.py)."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import microseconds
from adapters.sqlite.workflow_catalog import moment
from domain.routing import LEDGER_KEEPS, Handled

_FIND: Final = "SELECT workflow_id, run_id, completed_at FROM handled WHERE workflow_id = ?"
_RECORD: Final = "INSERT OR REPLACE INTO handled VALUES (?, ?, ?)"
_NEWEST: Final = "SELECT max(completed_at) FROM handled"
_EXPIRE: Final = """
    DELETE FROM handled WHERE workflow_id IN (SELECT workflow_id FROM handled WHERE completed_at < ? LIMIT ?)"""
_SWEPT: Final = "SELECT until FROM swept"
_NOTE: Final = """
    INSERT INTO swept VALUES (1, ?) ON CONFLICT (only) DO UPDATE SET until = max(until, excluded.until)"""


class SqliteLedger:
    """Completed workflows in a file opened with `ROUTER`; whoever opened it closes it.

    What is older than the newest by more than `LEDGER_KEEPS` is deleted, a few rows with each that are added.
    """

    def __init__(self, database: Database) -> None:
        """Keep the ledger in this file."""
        self._database = database

    async def find(self, workflow_id: str, /) -> Handled | None:
        """Say whether a workflow of this id has completed."""

        def select(connection: sqlite3.Connection) -> Handled | None:
            row = connection.execute(_FIND, (workflow_id,)).fetchone()
            return None if row is None else Handled(row[0], row[1], moment(row[2]))

        return await self._database.read(select)

    async def record(self, handled: Sequence[Handled], /) -> None:
        """Write down completed workflows in one transaction."""
        rows = [(one.workflow_id, one.run_id, microseconds(one.completed_at)) for one in handled]

        def insert(connection: sqlite3.Connection) -> None:
            connection.executemany(_RECORD, rows)
            (newest,) = connection.execute(_NEWEST).fetchone()
            if newest is not None:
                oldest = newest - LEDGER_KEEPS // timedelta(microseconds=1)
                connection.execute(_EXPIRE, (oldest, 2 * len(rows)))

        await self._database.write(insert)

    async def swept_until(self) -> datetime | None:
        """Say until when completed workflows were collected."""

        def select(connection: sqlite3.Connection) -> datetime | None:
            row = connection.execute(_SWEPT).fetchone()
            return None if row is None else moment(row[0])

        return await self._database.read(select)

    async def note_swept(self, until: datetime, /) -> None:
        """Note until when completed workflows were collected."""
        await self._database.write(lambda connection: connection.execute(_NOTE, (microseconds(until),)))
