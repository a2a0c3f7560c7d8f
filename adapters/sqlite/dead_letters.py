"""Dead letters of a queue in a SQLite file (ports/dead_letters.py): put back and taken out in one transaction."""

import sqlite3
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import microseconds, moment_of, put, set_groups
from domain.dead_letters import DeadLetter, redrive_id
from domain.errors import InterlockError, StaleReceipt
from domain.messages import Outgoing
from ports.clock import Clock

_PAGE: Final = 100
_COUNT: Final = "SELECT count(*), max(seq) FROM messages WHERE queue = ?"
_LOOK: Final = """
    SELECT seq, group_id, body, sent_at FROM messages WHERE queue = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"""
# | the message | rows |
# |---|---|
# | lies here | 1: its group and body |
# | was put back or deleted by somebody else | 0 |
_TAKE: Final = "DELETE FROM messages WHERE seq = ? AND queue = ? RETURNING group_id, body"


class SqliteDeadLetters:
    """A dead-letter queue of a file opened with `QUEUES`; whoever opened it closes it.

    Args:
        database: the file.
        name: of the dead-letter queue.
        queue: where its letters go back to.
        clock: what the queue's own deduplication is measured by.
    """

    def __init__(self, database: Database, name: str, queue: str, clock: Clock) -> None:
        self._database = database
        self._name = name
        self._queue = queue
        self._clock = clock

    async def waiting(self) -> int:
        """Say how many letters there are."""
        return (await self._count())[0]

    async def pages(self) -> AsyncGenerator[Sequence[DeadLetter], None]:
        """Give the letters that are there now, oldest first, each once; nothing is held meanwhile."""
        _, last = await self._count()
        after = 0
        while letters := await self._look(after, last):
            after = int(letters[-1].message_id)
            yield letters

    async def redrive(self, letters: Sequence[DeadLetter], /) -> list[InterlockError | None]:
        """Move letters to the end of their queue, all at once; see the port. `StaleReceipt`: somebody else did."""
        return await self._database.write(lambda connection: [self._move(connection, letter) for letter in letters])

    async def _count(self) -> tuple[int, int]:
        number, last = await self._database.read(
            lambda connection: connection.execute(_COUNT, (self._name,)).fetchone()
        )
        return number, last or 0

    async def _look(self, after: int, last: int) -> list[DeadLetter]:
        rows = await self._database.read(
            lambda connection: connection.execute(_LOOK, (self._name, after, last, _PAGE)).fetchall()
        )
        return [
            DeadLetter(str(seq), body, str(seq), group_id, sent_at=moment_of(sent_at))
            for seq, group_id, body, sent_at in rows
        ]

    def _move(self, connection: sqlite3.Connection, letter: DeadLetter) -> InterlockError | None:
        taken = connection.execute(_TAKE, (letter.receipt, self._name)).fetchone()
        if taken is None:
            return StaleReceipt(letter.message_id)
        group_id, body = taken
        now = self._clock.now()
        put(connection, self._queue, [Outgoing(group_id, redrive_id(letter), body)], now)
        set_groups(connection, self._name, [group_id], microseconds(now))
        return None
