"""One SQLite file for callers on an event loop: group commit, a few reading threads, one place for driver errors.

Writes go to one thread. It takes all that wait, runs them inside one transaction, each in a savepoint of its own,
commits once and then answers: an answer means that the change is on the disk (WAL, synchronous=FULL). Reads run beside
it and see the last commit. Other processes may have the same file open.

Callers that ask for more than the disk gives: what nobody waits for any more when its turn comes is not run, a
transaction takes no further operation after a tenth of a second, so that its first callers are answered, and where very
many calls wait, more are refused. So the file is behind by what its callers still want, never by what they gave up.
"""

import asyncio
import contextlib
import random
import sqlite3
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from domain.errors import InterlockError, Misconfigured, Unavailable

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]

POLL_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 0.001
_READERS: Final = 2
_READS_AT_ONCE: Final = 32
_WRITES_AT_ONCE: Final = 512
_BATCH_SECONDS: Final = 0.1
_MOST_WAITING: Final = 16_384
_LATER: Final = {
    sqlite3.SQLITE_BUSY: "another process held it too long",
    sqlite3.SQLITE_LOCKED: "another connection held it",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk did not read or write",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_PROTOCOL: "its lock protocol failed",
}
_NEVER: Final = {
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a copy",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the folder and its permissions",
    sqlite3.SQLITE_READONLY: "is read-only: check its permissions",
    sqlite3.SQLITE_PERM: "may not be used: check its permissions",
}


class _Call(NamedTuple):
    operation: Operation[Any]
    future: asyncio.Future[Any]


class _Answer(NamedTuple):
    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


class Database:
    """An open file.

    Args:
        path: the file; it is made where it is missing, its folder too.
        migrations: SQL scripts; the n-th takes the schema from version n to n + 1. Once released, none is changed.
        busy_seconds: how long to wait for other processes before `Unavailable`.

    Raises:
        Misconfigured: the file cannot be used, is no database, or was written by a newer version.
        Unavailable: another process holds the file, or the disk is full.
    """

    def __init__(self, path: Path, migrations: Sequence[str], *, busy_seconds: float = 5.0) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._closing = threading.Lock()
        self._closed = False
        self._writes: SimpleQueue[_Call | None] = SimpleQueue()
        self._reads: SimpleQueue[_Call | None] = SimpleQueue()
        self._signals: dict[asyncio.Future[None], None] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Misconfigured(str(path), f"its folder cannot be made: {error.strerror}") from error
        self._connections: list[sqlite3.Connection] = []
        try:
            writer = self._connect()
            self._patiently(lambda: _prepare(writer, path, migrations))
            readers = [self._connect() for _ in range(_READERS)]
            self._watcher = self._connect()
        except sqlite3.Error as error:
            self._disconnect()
            raise _translated(error, path) from error
        except InterlockError:
            self._disconnect()
            raise
        self._threads = [threading.Thread(target=self._write_all, args=(writer,), name=f"{path.name} writer")]
        self._threads += [
            threading.Thread(target=self._read_all, args=(reader,), name=f"{path.name} reader") for reader in readers
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    async def write(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, and answer once it is durable.

        Where the caller is cancelled while it waits, the operation does not take place, unless its turn had come.

        Args:
            operation: called on the writing thread. What it raises undoes what it did, and nothing else.

        Raises:
            Unavailable: another process held the file too long, the disk is full or failed, or too many calls wait.
            Misconfigured: the file is damaged or read-only.
        """
        return await self._ask(self._writes, operation)

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that only reads, in one consistent view that holds every answered write.

        Raises:
            Unavailable, Misconfigured: as `write`.
        """
        return await self._ask(self._reads, operation)

    async def version(self) -> int:
        """Give a number that is another after each commit to the file, by whichever process."""
        return await self.read(lambda _: int(self._watcher.execute("PRAGMA data_version").fetchone()[0]))

    async def next_commit(self, seconds: float) -> None:
        """Wait for the next commit of this process, at most so long."""
        signal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._signals[signal] = None
        try:
            await asyncio.wait([signal], timeout=seconds)
        finally:
            self._signals.pop(signal, None)

    async def aclose(self) -> None:
        """Finish what somebody waits for, stop the threads and close the file. Closing twice is fine."""
        with self._closing:
            first, self._closed = not self._closed, True
        if first:
            self._writes.put(None)
            self._reads.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        self._disconnect()

    async def _ask(self, lane: SimpleQueue[_Call | None], operation: Operation[T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._closing:
            if self._closed:
                raise Unavailable(self._path.name, "it was closed")
            if lane.qsize() >= _MOST_WAITING:
                raise Unavailable(self._path.name, f"{_MOST_WAITING} calls wait for it already")
            lane.put(_Call(operation, future))
        return await future

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        self._connections.append(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _disconnect(self) -> None:
        for connection in self._connections:
            connection.close()

    def _patiently(self, attempt: Callable[[], T]) -> T:
        """Try until no other process is in the way; SQLite's own waiting backs off and loses to busier writers."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_SECONDS * random.random())  # noqa: S311 - spreads the writers, hides nothing

    def _write_all(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA busy_timeout = 0")
        waiting: deque[_Call] = deque()
        stopping = False
        while waiting or not stopping:
            if not waiting:
                call = self._writes.get()
                if call is None:
                    return
                waiting.append(call)
            taken: list[_Call] = []
            try:
                self._patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
                stopping = _take_waiting(self._writes, waiting, _WRITES_AT_ONCE) or stopping
                answers = self._write_some(connection, waiting, taken)
                connection.execute("COMMIT")
            except Exception as error:  # noqa: BLE001 - it is the callers', each of whom is told
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                stopping = _take_waiting(self._writes, waiting, _WRITES_AT_ONCE) or stopping
                answers = [_Answer(call.future, error=_translated(error, self._path)) for call in (*taken, *waiting)]
                waiting.clear()
            else:
                answers += [_Answer(signal) for signal in list(self._signals)]
            _deliver(answers)

    def _write_some(self, connection: sqlite3.Connection, waiting: deque[_Call], taken: list[_Call]) -> list[_Answer]:
        """Move calls from those that wait to those that were taken, and run them, until a transaction's time is up."""
        answers: list[_Answer] = []
        end = time.monotonic() + _BATCH_SECONDS
        while waiting and (not answers or time.monotonic() < end):
            taken.append(call := waiting.popleft())
            if not call.future.done():  # else its caller has given up
                answers.append(self._write_one(connection, call))
        return answers

    def _write_one(self, connection: sqlite3.Connection, call: _Call) -> _Answer:
        connection.execute("SAVEPOINT operation")
        try:
            answer = _Answer(call.future, call.operation(connection))
        except Exception as error:
            if not connection.in_transaction:  # SQLite has undone everything, as when the disk is full
                raise
            connection.execute("ROLLBACK TO operation")
            answer = _Answer(call.future, error=_translated(error, self._path))
        connection.execute("RELEASE operation")
        return answer

    def _read_all(self, connection: sqlite3.Connection) -> None:
        while (call := self._reads.get()) is not None:
            calls = [call]
            stopping = _take_waiting(self._reads, calls, _READS_AT_ONCE)
            _deliver([self._read_one(connection, call) for call in calls if not call.future.done()])
            if stopping:
                break
        self._reads.put(None)  # for the next reading thread

    def _read_one(self, connection: sqlite3.Connection, call: _Call) -> _Answer:
        try:
            connection.execute("BEGIN")
            try:
                return _Answer(call.future, call.operation(connection))
            finally:
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - it is the caller's
            return _Answer(call.future, error=_translated(error, self._path))


def _prepare(connection: sqlite3.Connection, path: Path, migrations: Sequence[str]) -> None:
    """Bring the schema to the newest version, once, whoever comes first."""
    if _version_of(connection, path, migrations) == len(migrations):
        return
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in migrations[_version_of(connection, path, migrations) :]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _version_of(connection: sqlite3.Connection, path: Path, migrations: Sequence[str]) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(migrations):
        raise Misconfigured(
            str(path), f"has schema version {version}; this release knows {len(migrations)}: upgrade it"
        )
    return version


def _statements(script: str) -> list[str]:
    statements, rest = [], ""
    for piece in script.split(";"):
        rest += piece + ";"
        if sqlite3.complete_statement(rest):
            statements.append(rest)
            rest = ""
    return statements


def _take_waiting(lane: SimpleQueue[_Call | None], calls: list[_Call] | deque[_Call], limit: int) -> bool:
    """Add the calls that wait by now; true where the lane was told to stop."""
    while len(calls) < limit and not lane.empty():
        call = lane.get()
        if call is None:
            return True
        calls.append(call)
    return False


def _deliver(answers: Sequence[_Answer]) -> None:
    """Answer the callers with one wake-up for each loop, however many they are."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = defaultdict(list)
    for answer in answers:
        by_loop[answer.future.get_loop()].append(answer)
    for loop, batch in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_settle, batch)


def _settle(answers: Sequence[_Answer]) -> None:
    for future, value, error in answers:
        if future.done():  # cancelled while it waited
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def _translated(error: Exception, path: Path) -> Exception:
    """Say in the terms of domain/errors.py what the driver said; what is no trouble of the file stays as it is.

    Truth table, by SQLite's primary result code:

        BUSY, LOCKED, FULL, IOERR, NOMEM, PROTOCOL   Unavailable    the same call may succeed later
        CORRUPT, NOTADB, CANTOPEN, READONLY, PERM    Misconfigured  somebody must look at the file
        anything else                                as it is       a fault of ours
    """
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return error
    if reason := _LATER.get(code & 0xFF):
        return _because(Unavailable(path.name, reason), error)
    if reason := _NEVER.get(code & 0xFF):
        return _because(Misconfigured(str(path), reason), error)
    return error


def _because(error: InterlockError, cause: Exception) -> InterlockError:
    error.__cause__ = cause
    return error
