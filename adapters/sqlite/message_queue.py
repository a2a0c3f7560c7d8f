"""Named FIFO queues in one SQLite file, with the rules of SQS (ports/message_queue.py; R-106, R-107).

Beside the messages stands one row a group: its first message, and until when that one is hidden (0: it is not). So what
can be handed out is a range of one index, however many messages wait and however many groups are held.
"""

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from adapters.sqlite.database import POLL_SECONDS, Database
from domain.messages import Outgoing, Received
from ports.clock import Clock
from ports.id_source import IdSource

DEDUPLICATION_WINDOW: Final = timedelta(minutes=5)
MAX_HANDOUTS: Final = 100
"""Hand-outs after which a message is taken for one that kills its consumers."""
_FORGET_AT_ONCE: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

# Times are microseconds since 1970. `seq` is never used twice, so it serves as the message's id.
QUEUES: Final = (
    """
    CREATE TABLE messages (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, group_id TEXT NOT NULL, body TEXT NOT NULL,
        hidden_until INTEGER NOT NULL DEFAULT 0, receipt TEXT, receive_count INTEGER NOT NULL DEFAULT 0,
        handouts INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX messages_by_group ON messages (queue, group_id, seq);
    CREATE TABLE groups (
        queue TEXT NOT NULL, group_id TEXT NOT NULL, first INTEGER NOT NULL, hidden_until INTEGER NOT NULL,
        PRIMARY KEY (queue, group_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX groups_by_turn ON groups (queue, hidden_until, first);
    CREATE TABLE published (
        queue TEXT NOT NULL, deduplication_id TEXT NOT NULL, until INTEGER NOT NULL,
        PRIMARY KEY (queue, deduplication_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX published_by_end ON published (until);
    """,
    "ALTER TABLE messages ADD COLUMN sent_at INTEGER;",
)

_FORGET: Final = """
    DELETE FROM published WHERE (queue, deduplication_id) IN
    (SELECT queue, deduplication_id FROM published WHERE until <= ? LIMIT ?)"""
_REMEMBER: Final = """
    INSERT INTO published VALUES (?, ?, ?)
    ON CONFLICT (queue, deduplication_id) DO UPDATE SET until = excluded.until WHERE until <= ?"""
_PUT: Final = "INSERT INTO messages (queue, group_id, body, sent_at) VALUES (?, ?, ?, ?)"
_PUT_GROUP: Final = "INSERT INTO groups VALUES (?, ?, ?, 0) ON CONFLICT (queue, group_id) DO NOTHING"
_REOPEN: Final = "UPDATE groups SET hidden_until = 0 WHERE queue = ? AND hidden_until BETWEEN 1 AND ?"
_READY: Final = """
    SELECT group_id FROM groups INDEXED BY groups_by_turn WHERE queue = ? AND hidden_until = 0 ORDER BY first LIMIT ?"""
_NEXT_END: Final = "SELECT min(hidden_until) FROM groups WHERE queue = ? AND hidden_until > 0"
_PREFIX: Final = """
    SELECT seq, body, hidden_until, receipt, receive_count, handouts, sent_at FROM messages
    WHERE queue = ? AND group_id = ? ORDER BY seq LIMIT ?"""
_TAKE: Final = """
    UPDATE messages SET hidden_until = ?, receipt = ?, receive_count = ?, handouts = handouts + 1 WHERE seq = ?"""
_BURY: Final = """
    UPDATE messages SET queue = ?, hidden_until = 0, receipt = NULL, receive_count = 0, handouts = 0 WHERE seq = ?"""
_DELETE: Final = "DELETE FROM messages WHERE seq = ? AND queue = ? AND receipt = ? AND hidden_until > ?"
_RELEASE: Final = """
    UPDATE messages SET hidden_until = 0, receipt = NULL
    WHERE seq = ? AND queue = ? AND receipt = ? AND hidden_until > ?"""
_FIRST: Final = "SELECT seq, hidden_until FROM messages WHERE queue = ? AND group_id = ? ORDER BY seq LIMIT 1"
_SET_GROUP: Final = """
    INSERT INTO groups VALUES (?, ?, ?, ?)
    ON CONFLICT (queue, group_id) DO UPDATE SET first = excluded.first, hidden_until = excluded.hidden_until"""
_DROP_GROUP: Final = "DELETE FROM groups WHERE queue = ? AND group_id = ?"


class SqliteMessageQueue:
    """One queue of a file opened with `QUEUES`; whoever opened it closes it.

    Args:
        database: the file.
        name: of the queue; a publisher puts messages under the same name.
        clock: what visibility is measured by.
        ids: where receipts come from.
        visibility_seconds: how long a message that was handed out stays hidden.
        max_receives: how often a message may fail before it goes to `dead_letters`. A hand-out that ends by timeout
            says that the consumer died, and nothing of the message: it does not count, up to `MAX_HANDOUTS` times.
        dead_letters: the name of another queue of the file; without one a message is handed out for ever.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        clock: Clock,
        ids: IdSource,
        *,
        visibility_seconds: float = 30,
        max_receives: int = 5,
        dead_letters: str | None = None,
    ) -> None:
        self._database = database
        self._name = name
        self._clock = clock
        self._ids = ids
        self._visibility = timedelta(seconds=visibility_seconds) // _MICROSECOND
        self._max_receives = max_receives
        self._dead_letters = dead_letters

    async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
        """Take messages; see the port. Waiting ends at the first message or after `wait_seconds` of real time."""
        taken, _ = await self._database.write(lambda connection: self._take(connection, limit))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        while not taken and loop.time() < deadline:
            version = await self._database.version()
            taken, reopens = await self._database.write(lambda connection: self._take(connection, limit))
            while (
                not taken
                and (left := deadline - loop.time()) > 0
                and self._now() < reopens
                and version == await self._database.version()
            ):
                await self._database.next_commit(min(left, POLL_SECONDS))
        return taken

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        """Delete handled messages; give back those whose receipt had run out."""
        return await self._database.write(lambda connection: self._change(connection, _DELETE, messages))

    async def release(self, messages: Sequence[Received], /) -> None:
        """Make messages visible at once."""
        await self._database.write(lambda connection: self._change(connection, _RELEASE, messages))

    def _now(self) -> int:
        return microseconds(self._clock.now())

    def _take(self, connection: sqlite3.Connection, limit: int) -> tuple[list[Received], float]:
        """Hand out what is ready; where nothing is, say when the next hidden group opens."""
        now = self._now()
        connection.execute(_REOPEN, (self._name, now))
        taken: list[Received] = []
        # A second round is for groups whose first messages went to the dead-letter queue.
        while len(taken) < limit and (ready := connection.execute(_READY, (self._name, limit - len(taken))).fetchall()):
            for (group_id,) in ready:
                taken += self._take_group(connection, group_id, limit - len(taken), now)
        if taken:
            return taken, 0
        (opens,) = connection.execute(_NEXT_END, (self._name,)).fetchone()
        return taken, float("inf") if opens is None else opens

    def _take_group(self, connection: sqlite3.Connection, group_id: str, limit: int, now: int) -> list[Received]:
        """Hand out the visible prefix of a group, once its spent messages have gone."""
        taken: list[Received] = []
        spent: list[tuple[str | None, int]] = []
        rows = connection.execute(_PREFIX, (self._name, group_id, limit))
        for seq, body, hidden_until, receipt, receive_count, handouts, sent_at in rows:
            if hidden_until > now:
                break
            timed_out = receipt is not None
            failed = receive_count >= self._max_receives and not timed_out
            if self._dead_letters is not None and (failed or handouts >= MAX_HANDOUTS):
                spent.append((self._dead_letters, seq))
            else:
                counted = receive_count if timed_out else receive_count + 1
                taken.append(Received(str(seq), group_id, body, self._ids.new_id(), counted, moment_of(sent_at)))
        if spent:
            connection.executemany(_BURY, spent)
            set_groups(connection, self._dead_letters or "", [group_id], now)
            return self._take_group(connection, group_id, limit, now)
        until = now + self._visibility
        connection.executemany(_TAKE, [(until, m.receipt, m.receive_count, int(m.message_id)) for m in taken])
        set_groups(connection, self._name, [group_id], now)
        return taken

    def _change(self, connection: sqlite3.Connection, statement: str, messages: Sequence[Received]) -> list[Received]:
        """Change messages that are held under their receipts; give back the others."""
        now = self._now()
        stale = [
            message
            for message in messages
            if not connection.execute(statement, (message.message_id, self._name, message.receipt, now)).rowcount
        ]
        set_groups(connection, self._name, dict.fromkeys(message.group_id or "" for message in messages), now)
        return stale


def put(connection: sqlite3.Connection, queue: str, messages: Sequence[Outgoing], now: datetime) -> None:
    """Put messages into a queue, but for those whose deduplication id came in the last five minutes."""
    at = microseconds(now)
    until = at + DEDUPLICATION_WINDOW // _MICROSECOND
    connection.execute(_FORGET, (at, max(_FORGET_AT_ONCE, 2 * len(messages))))
    for message in messages:
        if connection.execute(_REMEMBER, (queue, message.deduplication_id, until, at)).rowcount:
            seq = connection.execute(_PUT, (queue, message.group_id, message.body, at)).lastrowid
            connection.execute(_PUT_GROUP, (queue, message.group_id, seq))


def set_groups(connection: sqlite3.Connection, queue: str, group_ids: Iterable[str], now: int) -> None:
    """Bring the rows of groups up to date with their messages."""
    for group_id in group_ids:
        first = connection.execute(_FIRST, (queue, group_id)).fetchone()
        if first is None:
            connection.execute(_DROP_GROUP, (queue, group_id))
        else:
            seq, hidden_until = first
            connection.execute(_SET_GROUP, (queue, group_id, seq, hidden_until if hidden_until > now else 0))


def moment_of(sent_at: int | None) -> datetime | None:
    """Read the time that a message was sent at; those of earlier versions have none."""
    return None if sent_at is None else _EPOCH + timedelta(microseconds=sent_at)


def microseconds(moment: datetime) -> int:
    """Count a time in microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND
