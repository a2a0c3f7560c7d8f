"""The SQLite engine keeps the contract of topic and queue."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.id_source import CountingIds
from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import DEDUPLICATION_WINDOW, QUEUES, SqliteMessageQueue
from adapters.sqlite.publisher import SqlitePublisher
from domain.messages import Outgoing, Received
from tests.contracts.message_queue import EmbeddedTopicContract, Topic, drain, message, names
from tests.examples import START

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(tmp_path / "queues.db", QUEUES)
    yield database
    await database.aclose()


@pytest.fixture
def topic(database: Database, clock: ManualClock) -> Topic:
    ids = CountingIds()
    dead = SqliteMessageQueue(database, "lifecycle-dead", clock, ids)
    queue = SqliteMessageQueue(
        database, "lifecycle", clock, ids, visibility_seconds=30, max_receives=3, dead_letters="lifecycle-dead"
    )
    return Topic(SqlitePublisher(database, "lifecycle", clock), queue, dead, 30, 3, clock.sleep)


class TestSqliteTopic(EmbeddedTopicContract):
    adapters = ("adapters.sqlite.publisher", "adapters.sqlite.message_queue")


async def test_r107_the_group_reopens_at_once_when_its_first_message_is_released(topic: Topic) -> None:
    await topic.publisher.publish([message("A", "1"), message("A", "2"), message("A", "3")])
    first, second = await topic.queue.receive(2, 0)
    await topic.queue.release([first])
    again = await topic.queue.receive(10, 0)
    assert names(again) == ["1"], "the second is still in flight, so nothing after the first may come"
    assert await topic.queue.receive(10, 0) == []
    assert await topic.queue.delete([second]) == []
    assert await topic.queue.delete(again) == []
    assert names(await topic.queue.receive(10, 0)) == ["3"]


async def test_r107_the_group_reopens_at_once_when_the_time_of_its_first_message_is_over(
    topic: Topic, clock: ManualClock
) -> None:
    await topic.publisher.publish([message("A", "1"), message("A", "2")])
    assert names(await topic.queue.receive(1, 0)) == ["1"]
    clock.advance(29.9)
    assert await topic.queue.receive(10, 0) == []
    clock.advance(0.1)
    assert names(await topic.queue.receive(10, 0)) == ["1", "2"]


async def test_delete_and_release_leave_a_message_whose_receipt_ran_out(topic: Topic, clock: ManualClock) -> None:
    await topic.publisher.publish([message("A", "1"), message("A", "2")])
    late = await topic.queue.receive(10, 0)
    clock.advance(30)
    assert await topic.queue.delete(late) == late, "time was over, although nobody else took them"
    current = await topic.queue.receive(10, 0)
    assert names(current) == ["1", "2"]
    await topic.queue.release(late)
    assert await topic.queue.receive(10, 0) == [], "an old receipt must not open what somebody else holds"
    assert await topic.queue.delete([late[0], current[0], late[1]]) == [late[0], late[1]]
    foreign = Received("no such id", "A", "", "no such receipt", 1)
    assert await topic.queue.delete([foreign]) == [foreign]
    await topic.queue.release(current[1:])
    assert names(await drain(topic.queue)) == ["2"]


async def test_a_deduplication_id_is_forgotten_after_five_minutes(
    topic: Topic, database: Database, clock: ManualClock
) -> None:
    await topic.publisher.publish([message("A", "1")])
    assert names(await drain(topic.queue)) == ["1"]
    clock.advance(DEDUPLICATION_WINDOW.total_seconds() - 0.001)
    await topic.publisher.publish([message("A", "1")])
    assert await topic.queue.receive(1, 0) == []
    clock.advance(0.001)
    await topic.publisher.publish([message("A", "1")])
    assert names(await drain(topic.queue)) == ["1"]
    clock.advance(DEDUPLICATION_WINDOW.total_seconds())
    await topic.publisher.publish([message("B", "1")])
    kept = await database.read(lambda connection: connection.execute("SELECT * FROM published").fetchall())
    assert len(kept) == 1, "what is past its time must not pile up"


async def test_a_file_of_the_first_release_is_brought_up_to_date(tmp_path: Path, clock: ManualClock) -> None:
    def put_as_then(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO messages (queue, group_id, body) VALUES ('old', 'A', '{}')")
        connection.execute("INSERT INTO groups VALUES ('old', 'A', 1, 0)")

    first = Database(tmp_path / "old.db", QUEUES[:1])
    await first.write(put_as_then)
    await first.aclose()
    database = Database(tmp_path / "old.db", QUEUES)
    await SqlitePublisher(database, "old", clock).publish([message("B", "1")])
    found = await SqliteMessageQueue(database, "old", clock, CountingIds()).receive(10, 0)
    assert [(one.group_id, one.sent_at) for one in found] == [("A", None), ("B", START)]
    await database.aclose()


async def test_queues_of_one_file_share_nothing(database: Database, clock: ManualClock) -> None:
    ids = CountingIds()
    queues = {name: SqliteMessageQueue(database, name, clock, ids) for name in ("one", "two")}
    for name in queues:
        assert await SqlitePublisher(database, name, clock).publish([message("A", "1")]) == [None]
    taken = await queues["one"].receive(10, 0)
    assert await queues["two"].delete(taken) == taken
    assert names(await drain(queues["two"])) == ["1"]
    assert await queues["one"].delete(taken) == []


async def test_fc48_a_dead_letter_keeps_its_id_and_starts_its_count_anew(topic: Topic) -> None:
    await topic.publisher.publish([message("A", "1")])
    for _ in range(topic.max_receives - 1):
        await topic.queue.release(await topic.queue.receive(1, 0))
    held = await topic.queue.receive(1, 0)
    assert held[0].receive_count == topic.max_receives
    await topic.queue.release(held)
    assert await topic.queue.receive(1, 0) == []
    (dead,) = await topic.dead_letters.receive(1, 0)
    assert (dead.message_id, dead.group_id, dead.body) == (held[0].message_id, "A", held[0].body)
    assert dead.receive_count == 1
    assert await topic.queue.delete(held) == held, "its old receipt says nothing about the dead letter"
    assert await topic.dead_letters.delete([dead]) == []


async def test_a_queue_without_dead_letters_never_gives_a_message_up(database: Database, clock: ManualClock) -> None:
    queue = SqliteMessageQueue(database, "plain", clock, CountingIds(), max_receives=2)
    await SqlitePublisher(database, "plain", clock).publish([message("A", "1")])
    for expected in range(1, 6):
        (held,) = await queue.receive(1, 0)
        assert held.receive_count == expected
        await queue.release([held])


async def test_older_groups_come_first_and_none_waits_behind_a_blocked_one(topic: Topic) -> None:
    await topic.publisher.publish([message(group, str(number)) for group in "ABCD" for number in range(2)])
    blocked = await topic.queue.receive(4, 0)
    assert [one.group_id for one in blocked] == ["A", "A", "B", "B"]
    assert [one.group_id for one in await topic.queue.receive(4, 0)] == ["C", "C", "D", "D"]


async def test_a_waiting_receive_wakes_when_a_message_comes(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.sqlite.message_queue.POLL_SECONDS", 20)  # so that only the publisher can wake it
    waiting = asyncio.create_task(topic.queue.receive(1, 20))
    await asyncio.sleep(0.05)
    await topic.publisher.publish([message("A", "1")])
    async with asyncio.timeout(5):
        assert names(await waiting) == ["1"]


async def test_a_waiting_receive_wakes_when_its_group_reopens(topic: Topic, clock: ManualClock) -> None:
    await topic.publisher.publish([message("A", "1"), message("A", "2")])
    held = await topic.queue.receive(1, 0)
    waiting = asyncio.create_task(topic.queue.receive(10, 20))
    await asyncio.sleep(0.05)
    clock.advance(30)
    async with asyncio.timeout(5):
        assert names(await waiting) == ["1", "2"]
    assert await topic.queue.delete(held) == held


async def test_a_waiting_receive_sees_what_another_process_publishes(
    topic: Topic, tmp_path: Path, clock: ManualClock
) -> None:
    elsewhere = Database(tmp_path / "queues.db", QUEUES)
    waiting = asyncio.create_task(topic.queue.receive(1, 20))
    await asyncio.sleep(0.05)
    await SqlitePublisher(elsewhere, "lifecycle", clock).publish([message("A", "1")])
    async with asyncio.timeout(5):
        assert names(await waiting) == ["1"]
    await elsewhere.aclose()


async def test_waiting_in_vain_ends_on_time_and_hardly_works_meanwhile(topic: Topic) -> None:
    rivals = [asyncio.create_task(topic.queue.receive(1, 0.5)) for _ in range(4)]
    started, cpu = time.monotonic(), time.process_time()
    assert [await rival for rival in rivals] == [[]] * 4
    assert 0.4 < time.monotonic() - started < 5
    assert time.process_time() - cpu < 0.4, "four waiters for half a second: a busy loop would take all of it"


async def test_a_cancelled_receive_leaves_the_queue_working(topic: Topic) -> None:
    waiting = asyncio.create_task(topic.queue.receive(1, 20))
    await asyncio.sleep(0.03)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await topic.publisher.publish([message("A", "1")])
    assert names(await topic.queue.receive(1, 5)) == ["1"]


async def test_messages_survive_closing_the_file(topic: Topic, database: Database, tmp_path: Path) -> None:
    clock = ManualClock(START)
    await topic.publisher.publish([message("A", str(number)) for number in range(3)])
    held = await topic.queue.receive(1, 0)
    await database.aclose()
    again = Database(tmp_path / "queues.db", QUEUES)
    queue = SqliteMessageQueue(again, "lifecycle", clock, CountingIds())
    assert await queue.receive(10, 0) == [], "the first is still in flight"
    assert await queue.delete(held) == []
    assert names(await drain(queue)) == ["1", "2"]
    await SqlitePublisher(again, "lifecycle", clock).publish([message("A", "1")])
    assert await queue.receive(10, 0) == [], "deduplication ids survive too"
    await again.aclose()


@pytest.mark.parametrize("waiting", [1_000, 20_000])
async def test_receiving_does_as_much_work_however_many_messages_wait(
    database: Database, clock: ManualClock, waiting: int
) -> None:
    publisher = SqlitePublisher(database, "deep", clock)
    queue = SqliteMessageQueue(database, "deep", clock, CountingIds(), dead_letters="deep-dead")
    groups = waiting // 5
    await publisher.publish([Outgoing(f"G{number % groups}", str(number), "{}") for number in range(waiting)])
    held = await queue.receive(waiting // 4, 0)
    assert len(held) == waiting // 4, "a quarter of the groups is in flight, at the front of the queue"
    batch = await queue.receive(10, 0)
    steps = await _steps(database, queue, clock, batch)
    assert len(batch) == 10
    assert steps < 300, "thousands of instructions of SQLite's machine would mean that it scans"


async def _steps(database: Database, queue: SqliteMessageQueue, clock: ManualClock, batch: list[Received]) -> int:
    """Count the instructions, in tens, that SQLite runs to delete a batch, publish one message and take a batch."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    await database.write(lambda connection: connection.set_progress_handler(count, 10))
    assert await queue.delete(batch) == []
    await SqlitePublisher(database, "deep", clock).publish([message("new", "1")])
    assert len(await queue.receive(10, 0)) == 10
    await database.write(lambda connection: connection.set_progress_handler(None, 0))
    assert counted > 0
    return counted


async def test_what_was_expired_is_not_starved_by_newer_groups(topic: Topic, clock: ManualClock) -> None:
    await topic.publisher.publish([message("old", "1")])
    await topic.queue.receive(1, 0)
    await topic.publisher.publish([message(f"new-{number}", "1") for number in range(50)])
    clock.advance(timedelta(seconds=30).total_seconds())
    assert [one.group_id for one in await topic.queue.receive(1, 0)] == ["old"]
