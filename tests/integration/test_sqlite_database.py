"""The SQLite file itself: group commit, failures of one and of all, schema versions, several processes."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from adapters.sqlite.database import Database
from adapters.sqlite.event_store import EVENTS, SqliteEventStore
from domain.errors import CorruptHistory, Misconfigured, NotFound, Unavailable
from tests.examples import a_record, facts_of, head_after

pytestmark = pytest.mark.anyio

NUMBERS = ("CREATE TABLE numbers (n INTEGER PRIMARY KEY) STRICT;",)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(tmp_path / "numbers.db", NUMBERS, busy_seconds=0.2)
    yield database
    await database.aclose()


def adding(number: int) -> Callable[[sqlite3.Connection], int]:
    return lambda connection: connection.execute("INSERT INTO numbers VALUES (?)", (number,)).rowcount


async def numbers(database: Database) -> list[int]:
    rows = await database.read(lambda connection: connection.execute("SELECT n FROM numbers ORDER BY n").fetchall())
    return [number for (number,) in rows]


class Gate:
    """Holds the writing thread inside an operation, so that others queue behind it, and notes what it runs then."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        self.statements: list[str] = []

    def __call__(self, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(self.statements.append)
        self.entered.set()
        assert self.open.wait(10)


async def test_waiting_writes_share_one_commit_and_a_failed_one_undoes_only_itself(database: Database) -> None:
    gate = Gate()
    holding = asyncio.create_task(database.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)

    def half(connection: sqlite3.Connection) -> None:
        adding(1000)(connection)
        raise NotFound("e1")

    good = [asyncio.create_task(database.write(adding(n))) for n in range(50)]
    bad = asyncio.create_task(database.write(half))
    last = asyncio.create_task(database.write(adding(50)))
    twice = asyncio.create_task(database.write(adding(50)))
    await asyncio.sleep(0)
    gate.open.set()
    with pytest.raises(NotFound):
        await bad
    with pytest.raises(sqlite3.IntegrityError):
        await twice
    assert [await task for task in good] == [1] * 50
    assert await last == 1
    await holding
    assert await numbers(database) == list(range(51))
    commits = gate.statements.count("COMMIT")
    assert commits == 2, "one for the operation that held the thread, one for the 53 that waited"


async def test_an_answered_write_is_committed(database: Database, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "numbers.db")
    for number in range(20):
        await database.write(adding(number))
        assert other.execute("SELECT max(n) FROM numbers").fetchone() == (number,)
        assert await numbers(database) == list(range(number + 1)), "our own readers see it as well"
    other.close()


async def test_a_cancelled_caller_does_not_disturb_the_batch(database: Database) -> None:
    gate = Gate()
    holding = asyncio.create_task(database.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    tasks = [asyncio.create_task(database.write(adding(n))) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    assert (await tasks[0], await tasks[2]) == (1, 1)
    await holding
    assert await numbers(database) == [0, 2], "what nobody waits for any more is not run"


async def test_what_was_given_up_is_no_backlog(database: Database) -> None:
    """A caller that asks for more than the disk gives, and gives up in time, holds up nobody behind it."""
    gate = Gate()
    holding = asyncio.create_task(database.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    for number in range(2000):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await database.write(adding(number))
    wanted = asyncio.create_task(database.write(adding(5000)))
    await asyncio.sleep(0)
    closing = asyncio.create_task(database.aclose())
    gate.open.set()
    assert await wanted == 1
    await holding
    await closing
    inserts = [statement for statement in gate.statements if statement.startswith("INSERT")]
    assert inserts == ["INSERT INTO numbers VALUES (5000)"]


async def test_a_transaction_takes_no_more_than_its_time(database: Database) -> None:
    gate = Gate()
    holding = asyncio.create_task(database.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)

    def slow(_: sqlite3.Connection) -> None:
        time.sleep(0.06)

    tasks = [asyncio.create_task(database.write(slow)) for _ in range(6)]
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(holding, *tasks)
    assert 4 <= gate.statements.count("COMMIT") <= 7, "two slow ones, or one, in each; not all six in one"


@pytest.mark.parametrize("lane", ["read", "write"])
async def test_too_many_waiting_calls_are_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch, lane: str
) -> None:
    monkeypatch.setattr("adapters.sqlite.database._MOST_WAITING", 40)
    gates = [Gate() for _ in range(1 if lane == "write" else 2)]
    ask = database.write if lane == "write" else database.read
    holding = []
    for gate in gates:
        holding.append(asyncio.create_task(ask(gate)))
        await asyncio.to_thread(gate.entered.wait, 10)
    waiting = [asyncio.create_task(ask(lambda _: 1)) for _ in range(40)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="40 calls wait"):
        await ask(lambda _: 1)
    for gate in gates:
        gate.open.set()
    assert await asyncio.gather(*waiting) == [1] * 40
    await asyncio.gather(*holding)


async def test_a_failed_commit_while_closing_still_ends(database: Database) -> None:
    gate = Gate()
    holding = asyncio.create_task(database.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)

    def refuse(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA foreign_keys")
        connection.set_authorizer(
            lambda action, name, *_: (
                sqlite3.SQLITE_DENY if (action, name) == (sqlite3.SQLITE_TRANSACTION, "COMMIT") else sqlite3.SQLITE_OK
            )
        )

    last = asyncio.create_task(database.write(refuse))
    await asyncio.sleep(0)
    closing = asyncio.create_task(database.aclose())
    await asyncio.sleep(0)
    gate.open.set()
    await holding
    with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
        await last
    async with asyncio.timeout(10):
        await closing


async def test_a_file_that_another_process_holds_is_unavailable_and_then_works_again(
    database: Database, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "numbers.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    tasks = [asyncio.create_task(database.write(adding(n))) for n in range(5)]
    for task in tasks:
        with pytest.raises(Unavailable) as caught:
            await task
        assert caught.value.dependency == "numbers.db"
    assert await numbers(database) == [], "reads go on meanwhile"
    other.execute("COMMIT")
    other.close()
    assert await database.write(adding(7)) == 1
    assert await numbers(database) == [7]


async def test_a_full_disk_is_unavailable_undoes_the_batch_and_passes(database: Database) -> None:
    def limit(connection: sqlite3.Connection, pages: int) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    await database.write(lambda connection: limit(connection, 10))
    with pytest.raises(Unavailable, match="full"):
        await database.write(
            lambda connection: connection.executemany("INSERT INTO numbers VALUES (?)", ((n,) for n in range(100_000)))
        )
    assert await numbers(database) == []
    await database.write(lambda connection: limit(connection, 10_000))
    assert await database.write(adding(1)) == 1


async def test_our_own_mistakes_are_not_dressed_up_as_trouble_of_the_file(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await database.read(lambda connection: connection.execute("SELECT * FROM nowhere"))
    with pytest.raises(ZeroDivisionError):
        await database.write(lambda _: 1 // 0)
    assert await database.write(adding(1)) == 1


async def test_a_closed_file_answers_what_waited_and_then_refuses(database: Database) -> None:
    waiting = [asyncio.create_task(database.write(adding(n))) for n in range(20)]
    await asyncio.sleep(0)
    await database.aclose()
    assert [await task for task in waiting] == [1] * 20
    with pytest.raises(Unavailable, match="closed"):
        await database.read(lambda _: None)
    await database.aclose()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("numbers.db")]


def test_one_file_serves_one_loop_after_another(tmp_path: Path) -> None:
    database = Database(tmp_path / "numbers.db", NUMBERS)
    for number in range(3):
        assert asyncio.run(database.write(adding(number))) == 1
    assert asyncio.run(numbers(database)) == [0, 1, 2]
    asyncio.run(database.aclose())


async def test_a_schema_is_made_once_and_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "numbers.db"
    for _ in range(2):
        database = Database(path, NUMBERS)
        await database.aclose()
    newer = (*NUMBERS, "ALTER TABLE numbers ADD COLUMN word TEXT; CREATE INDEX by_word ON numbers (word);")
    database = Database(path, newer)
    await database.write(lambda connection: connection.execute("INSERT INTO numbers VALUES (1, 'one')").rowcount)
    await database.aclose()
    with pytest.raises(Misconfigured, match="schema version 2; this release knows 1"):
        Database(path, NUMBERS)
    database = Database(path, newer)
    assert await numbers(database) == [1]
    await database.aclose()


async def test_many_may_make_the_same_file_at_once(tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as tasks:
        opening = [tasks.create_task(asyncio.to_thread(Database, tmp_path / "events.db", EVENTS)) for _ in range(8)]
    for task in opening:
        assert await SqliteEventStore(task.result()).event("nobody") is None
        await task.result().aclose()


@pytest.mark.parametrize("content", [b"this is no database, it is a text of some length" * 40])
def test_a_file_of_another_kind_is_misconfigured(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events.db"
    path.write_bytes(content)
    with pytest.raises(Misconfigured, match="not a SQLite database"):
        Database(path, EVENTS)
    assert path.read_bytes() == content, "somebody's file must not be touched"
    (tmp_path / "folder").mkdir()
    with pytest.raises(Misconfigured, match="cannot be opened"):
        Database(tmp_path / "folder", EVENTS)
    with pytest.raises(Misconfigured, match="folder cannot be made"):
        Database(path / "below" / "events.db", EVENTS)


async def test_a_damaged_file_is_misconfigured(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    database = Database(path, EVENTS)
    store = SqliteEventStore(database)
    await store.record([a_record(f"e{number}") for number in range(200)])
    await database.aclose()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    database = Database(path, EVENTS)
    store = SqliteEventStore(database)
    with pytest.raises(Misconfigured, match="damaged"):
        await store.event("e1")
    with pytest.raises(Misconfigured, match="damaged"):
        await store.record([a_record("new")])
    await database.aclose()


class TestEventFile:
    """What the event store's schema itself holds."""

    @pytest.fixture
    async def events(self, tmp_path: Path) -> AsyncIterator[Database]:
        database = Database(tmp_path / "events.db", EVENTS)
        store = SqliteEventStore(database)
        record = a_record("e1")
        await store.record([record])
        for fact in facts_of("e1", 3):
            await store.append(head_after(record, fact), [fact])
        yield database
        await database.aclose()

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE facts SET actor = 'someone else'",
            "UPDATE facts SET sequence = 9 WHERE sequence = 3",
            "DELETE FROM facts WHERE sequence = 3",
            "UPDATE events SET envelope = '{}'",
            "DELETE FROM events",
        ],
    )
    async def test_r102_what_was_recorded_cannot_be_changed_even_by_hand(
        self, events: Database, statement: str
    ) -> None:
        before = await SqliteEventStore(events).stream("e1")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            await events.write(lambda connection: connection.execute(statement).rowcount)
        assert await SqliteEventStore(events).stream("e1") == before
        assert await SqliteEventStore(events).event("e1") == a_record("e1")

    async def test_a_head_behind_its_facts_is_reported_and_nothing_is_written(self, events: Database) -> None:
        await events.write(lambda connection: connection.execute("UPDATE heads SET sequence = 2").rowcount)
        fact = facts_of("e1", 3)[2]
        with pytest.raises(CorruptHistory):
            await SqliteEventStore(events).append(head_after(a_record("e1"), fact), [fact])
        head = await SqliteEventStore(events).head("e1")
        assert head is not None
        assert head.sequence == 2, "the head's move was undone with the fact"
