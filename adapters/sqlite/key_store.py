"""A key store in one SQLite file (ports/key_store.py; R-201 to R-209).

A scope's keys belong to a run, and its values to another, each a row that says until when it is good. A run that has
ended, or is forgotten, only loses its row: from then on nobody finds its keys. They are deleted a few at a time by the
writes that come after, always more of them than such a write adds.
"""

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import microseconds
from domain.dedup import Scope, key_hash, key_hashes, scope_digest
from ports.clock import Clock

_MICROSECOND: Final = timedelta(microseconds=1)
_RUNS_AT_ONCE: Final = 4
_ROWS_AT_ONCE: Final = 256

# Times are microseconds since 1970. A run's number is never used twice, so it may outlive its row in `runs`.
KEYS: Final = (
    """
    CREATE TABLE runs (
        run INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, until INTEGER NOT NULL,
        keys INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX runs_by_end ON runs (until);
    CREATE TABLE ended (run INTEGER PRIMARY KEY) STRICT;
    CREATE TABLE keys (run INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (run, hash)) STRICT, WITHOUT ROWID;
    CREATE TABLE vals (
        val INTEGER PRIMARY KEY, run INTEGER NOT NULL, hash BLOB NOT NULL, until INTEGER NOT NULL, value BLOB NOT NULL,
        UNIQUE (run, hash)
    ) STRICT;
    CREATE INDEX vals_by_end ON vals (until);
    """,
)

_RUN: Final = "SELECT run FROM runs WHERE name = ? AND until > ?"
_STALE_RUN: Final = "SELECT run FROM runs WHERE name = ? AND until <= ?"
_OPEN_RUN: Final = """
    INSERT INTO runs (name, until, keys) VALUES (?, ?, 0)
    ON CONFLICT (name) DO UPDATE SET until = max(until, excluded.until) RETURNING run"""
_CLAIM: Final = "INSERT INTO keys VALUES (?, ?) ON CONFLICT DO NOTHING"
_ADD: Final = "UPDATE runs SET keys = keys + ? WHERE run = ?"
_KNOWN: Final = "SELECT 1 FROM keys WHERE run = ? AND hash = ?"
_VALUE: Final = "SELECT value FROM vals WHERE run = ? AND hash = ? AND until > ?"
_VALUED: Final = "SELECT 1 FROM vals WHERE run = ? AND hash = ? AND until > ?"
_PUT: Final = """
    INSERT INTO vals (run, hash, until, value) VALUES (?, ?, ?, ?)
    ON CONFLICT (run, hash) DO UPDATE SET until = excluded.until, value = excluded.value"""
_COUNT: Final = "SELECT keys FROM runs WHERE name = ? AND until > ?"
_OVER: Final = "SELECT run FROM runs WHERE until <= ? LIMIT ?"
_END: Final = "DELETE FROM runs WHERE run = ?"
_NOTE_END: Final = "INSERT INTO ended VALUES (?)"
_ENDED: Final = "SELECT min(run) FROM ended"
_CLEARED: Final = "DELETE FROM ended WHERE run = ?"
_CLEAR_KEYS: Final = """
    DELETE FROM keys WHERE run = ?1 AND hash IN (SELECT hash FROM keys WHERE run = ?1 LIMIT ?2)"""
_CLEAR_VALUES: Final = "DELETE FROM vals WHERE val IN (SELECT val FROM vals WHERE run = ? LIMIT ?)"
_EXPIRE_VALUES: Final = "DELETE FROM vals WHERE val IN (SELECT val FROM vals WHERE until <= ? LIMIT ?)"


class SqliteKeyStore:
    """Keys in a file opened with `KEYS`; whoever opened it closes it. Processes of one machine may share the file.

    Args:
        database: the file.
        clock: what life spans are measured by.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        """Remember keys in one transaction, and say of each whether it is new; see the port."""
        hashes = key_hashes(scope, keys)

        def insert(connection: sqlite3.Connection) -> list[bool]:
            now = self._now()
            run = _open(connection, _keys_of(scope), now, ttl)
            values = _find(connection, _values_of(scope), now)
            added = [connection.execute(_CLAIM, (run, hashed)).rowcount == 1 for hashed in hashes]
            connection.execute(_ADD, (sum(added), run))
            _tidy(connection, now, 2 * len(hashes))
            return [
                new and (values is None or not _has(connection, _VALUED, (values, hashed, now)))
                for new, hashed in zip(added, hashes, strict=True)
            ]

        return await self._database.write(insert)

    async def exist(self, scope: Scope, keys: Sequence[str], /) -> list[bool]:
        """Say of each key whether it is remembered, or has a value."""
        hashes = key_hashes(scope, keys)

        def select(connection: sqlite3.Connection) -> list[bool]:
            now = self._now()
            run, values = (_find(connection, name, now) for name in (_keys_of(scope), _values_of(scope)))
            return [
                (run is not None and _has(connection, _KNOWN, (run, hashed)))
                or (values is not None and _has(connection, _VALUED, (values, hashed, now)))
                for hashed in hashes
            ]

        return await self._database.read(select)

    async def get(self, scope: Scope, key: str, /) -> bytes | None:
        """Give a key's value."""
        hashed = key_hash(scope, key)

        def select(connection: sqlite3.Connection) -> bytes | None:
            now = self._now()
            run, values = (_find(connection, name, now) for name in (_keys_of(scope), _values_of(scope)))
            row: tuple[bytes] | None = connection.execute(_VALUE, (values, hashed, now)).fetchone()
            if row is not None:
                return row[0]
            return b"" if _has(connection, _KNOWN, (run, hashed)) else None

        return await self._database.read(select)

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta, /) -> None:
        """Give a key a value."""
        hashed = key_hash(scope, key)

        def upsert(connection: sqlite3.Connection) -> None:
            now = self._now()
            values = _open(connection, _values_of(scope), now, ttl)
            connection.execute(_PUT, (values, hashed, now + ttl // _MICROSECOND, value))
            _tidy(connection, now, 2)

        await self._database.write(upsert)

    async def count(self, scope: Scope, /) -> int:
        """Give how many keys of a scope were claimed and are remembered: one row says so."""
        return await self._database.read(lambda connection: _count(connection, scope, self._now()))

    async def forget(self, scope: Scope, /) -> int:
        """Forget a scope's keys and values at once, however many they are."""

        def drop(connection: sqlite3.Connection) -> int:
            now = self._now()
            forgotten = _count(connection, scope, now)
            for name in (_keys_of(scope), _values_of(scope)):
                run = _find(connection, name, now)
                if run is not None:
                    _end(connection, run)
            _tidy(connection, now, 0)
            return forgotten

        return await self._database.write(drop)

    def _now(self) -> int:
        return microseconds(self._clock.now())


def _keys_of(scope: Scope) -> str:
    return scope_digest(scope)


def _values_of(scope: Scope) -> str:
    return scope_digest(scope) + "v"


def _find(connection: sqlite3.Connection, name: str, now: int) -> int | None:
    row: tuple[int] | None = connection.execute(_RUN, (name, now)).fetchone()
    return None if row is None else row[0]


def _has(connection: sqlite3.Connection, statement: str, key: tuple[int | bytes | None, ...]) -> bool:
    return connection.execute(statement, key).fetchone() is not None


def _count(connection: sqlite3.Connection, scope: Scope, now: int) -> int:
    row: tuple[int] | None = connection.execute(_COUNT, (_keys_of(scope), now)).fetchone()
    return 0 if row is None else row[0]


def _open(connection: sqlite3.Connection, name: str, now: int, ttl: timedelta) -> int:
    """Give a run to write to, and let it live at least so long. One that has ended makes way for a new one."""
    for (stale,) in connection.execute(_STALE_RUN, (name, now)).fetchall():
        _end(connection, stale)
    run: int
    (run,) = connection.execute(_OPEN_RUN, (name, now + ttl // _MICROSECOND)).fetchone()
    return run


def _end(connection: sqlite3.Connection, run: int) -> None:
    connection.execute(_END, (run,))
    connection.execute(_NOTE_END, (run,))


def _tidy(connection: sqlite3.Connection, now: int, rows: int) -> None:
    """End a few runs that are over, and delete some rows of what has ended: at least `rows`, if there are as many."""
    rows = max(rows, _ROWS_AT_ONCE)
    connection.execute(_EXPIRE_VALUES, (now, rows))
    for (run,) in connection.execute(_OVER, (now, _RUNS_AT_ONCE)).fetchall():
        _end(connection, run)
    for _ in range(_RUNS_AT_ONCE):
        (run,) = connection.execute(_ENDED).fetchone()
        if run is None:
            break
        # A run has keys or values, never both.
        rows -= sum(connection.execute(statement, (run, rows)).rowcount for statement in (_CLEAR_KEYS, _CLEAR_VALUES))
        if rows == 0:
            break
        connection.execute(_CLEARED, (run,))
