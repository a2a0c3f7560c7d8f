"""A skip list in one SQLite file (ports/skip_list_store.py)."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import microseconds
from domain.skip_list import SkipEntry, SkipKey, SkipListQuery

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Times are microseconds since 1970. SQLite compares texts by their UTF-8, which is the order of their code points.
SKIP_LIST: Final = (
    """
    CREATE TABLE skip_list (
        event_type TEXT NOT NULL, report_id TEXT NOT NULL, reason TEXT NOT NULL, added_at INTEGER NOT NULL,
        PRIMARY KEY (event_type, report_id)
    ) STRICT, WITHOUT ROWID;
    """,
)

_ADD: Final = "INSERT INTO skip_list VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_REMOVE: Final = "DELETE FROM skip_list WHERE event_type = ? AND report_id = ?"
_SELECT: Final = "SELECT event_type, report_id, reason, added_at FROM skip_list"
_IN_ORDER: Final = " ORDER BY event_type, report_id LIMIT ?"


class SqliteSkipListStore:
    """Entries in a file opened with `SKIP_LIST`; whoever opened it closes it. Processes may share the file."""

    def __init__(self, database: Database) -> None:
        """Keep entries in this file."""
        self._database = database

    async def add(self, entries: Sequence[SkipEntry], /) -> int:
        """List entries in one transaction; see the port."""
        rows = [(*entry.key, entry.reason, microseconds(entry.added_at)) for entry in entries]
        return await self._database.write(lambda connection: connection.executemany(_ADD, rows).rowcount)

    async def remove(self, keys: Sequence[SkipKey], /) -> int:
        """Take entries off the list in one transaction."""
        return await self._database.write(lambda connection: connection.executemany(_REMOVE, keys).rowcount)

    async def page(self, query: SkipListQuery, /) -> list[SkipEntry]:
        """Give a page: a range of the primary key."""
        after = query.after or SkipKey("", "")
        if query.event_type is None:
            where, values = " WHERE (event_type, report_id) > (?, ?)", (*after,)
        else:
            where, values = " WHERE event_type = ? AND report_id > ?", (query.event_type, after.report_id)
        return await self._entries(_SELECT + where + _IN_ORDER, (*values, query.limit))

    async def everything(self) -> list[SkipEntry]:
        """Give the whole list."""
        return await self._entries(_SELECT, ())

    async def _entries(self, statement: str, values: tuple[str | int, ...]) -> list[SkipEntry]:
        def select(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(statement, values).fetchall()

        return [
            SkipEntry(SkipKey(event_type, report_id), reason, _EPOCH + timedelta(microseconds=added_at))
            for event_type, report_id, reason, added_at in await self._database.read(select)
        ]
