"""The SQLite queue and the in-memory queue answer the same random program alike (R-106, R-107)."""

import asyncio
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.memory.clock import ManualClock
from adapters.memory.id_source import CountingIds
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.publisher import MemoryPublisher
from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import QUEUES, SqliteMessageQueue
from adapters.sqlite.publisher import SqlitePublisher
from domain.messages import Outgoing, Received
from ports.message_queue import MessageQueue
from tests.examples import START

Handed = tuple[Received, Received]

GROUPS = "AB"
PROGRAMS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.integers(0, 7), min_size=1, max_size=6)),
        st.tuples(st.just("receive"), st.just(100)),
        st.tuples(st.just("again"), st.lists(st.integers(0, 5), min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["delete", "release"]), st.lists(st.integers(0, 5), min_size=1, max_size=4)),
        st.tuples(st.just("pass"), st.sampled_from([1, 15, 30, 299, 300])),
        st.tuples(st.just("dead"), st.just(100)),
    ),
    min_size=10,
    max_size=40,
)


def by_group(messages: Sequence[Received]) -> dict[str | None, list[tuple[str, int]]]:
    """Which group comes first is nobody's promise; the order within a group is."""
    found: dict[str | None, list[tuple[str, int]]] = {}
    for one in messages:
        found.setdefault(one.group_id, []).append((one.body, one.receive_count))
    return found


class Twins:
    """Both engines, on one clock."""

    def __init__(self, database: Database) -> None:
        self.clock = ManualClock(START)
        ids = CountingIds()
        self.dead = MemoryQueue(self.clock, ids), SqliteMessageQueue(database, "dead", self.clock, ids)
        memory = MemoryQueue(self.clock, ids, visibility_seconds=30, max_receives=3, dead_letters=self.dead[0])
        sqlite = SqliteMessageQueue(
            database, "q", self.clock, ids, visibility_seconds=30, max_receives=3, dead_letters="dead"
        )
        self.publishers = MemoryPublisher(memory), SqlitePublisher(database, "q", self.clock)
        self.queues: tuple[MessageQueue, MessageQueue] = memory, sqlite
        self.handed: list[Handed] = []
        self.bodies = count()

    async def publish(self, numbers: list[int]) -> None:
        # Each body is another, so that messages of the two engines can be told apart and paired.
        messages = [Outgoing(GROUPS[n % len(GROUPS)], f"id-{n}", f"{n}, {next(self.bodies)}") for n in numbers]
        first, second = [await publisher.publish(messages) for publisher in self.publishers]
        assert first == second

    async def take(self, queues: tuple[MessageQueue, MessageQueue], limit: int) -> list[Handed]:
        first, second = [await queue.receive(limit, 0) for queue in queues]
        if queues is self.dead:  # one keeps the order in which messages were sent, the other that in which they died
            for found in (first, second):
                found.sort(key=lambda one: one.body)
        assert by_group(first) == by_group(second)
        second.sort(key=lambda one: [other.body for other in first].index(one.body))
        return list(zip(first, second, strict=True))

    async def delete(self, chosen: list[Handed]) -> None:
        first = await self.queues[0].delete([one for one, _ in chosen])
        second = await self.queues[1].delete([one for _, one in chosen])
        assert [one.body for one in first] == [one.body for one in second]

    async def release(self, chosen: list[Handed]) -> None:
        await self.queues[0].release([one for one, _ in chosen])
        await self.queues[1].release([one for _, one in chosen])

    async def step(self, name: str, argument: list[int] | int) -> None:
        match name, argument:
            case "publish", list():
                await self.publish(argument)
            case "receive", int():
                self.handed += await self.take(self.queues, argument)
            case "dead", int():
                await self.take(self.dead, argument)
            case "pass", int():
                self.clock.advance(argument)
            case "again", list():
                await self.step("receive", 100)
                await self.step("release", argument)
            case _, list():
                chosen = [self.handed[-1 - n] for n in dict.fromkeys(argument) if n < len(self.handed)]
                await (self.delete(chosen) if name == "delete" else self.release(chosen))
            case _:
                raise AssertionError(name)


async def run(program: list[tuple[str, list[int] | int]], path: Path) -> None:
    database = Database(path, QUEUES)
    try:
        twins = Twins(database)
        for name, argument in program:
            await twins.step(name, argument)
        twins.clock.advance(30)
        await twins.take(twins.queues, 100)
        await twins.take(twins.dead, 100)
    finally:
        await database.aclose()


@settings(max_examples=100, deadline=None)
@given(PROGRAMS)
def test_r107_both_engines_hand_out_the_same_messages_in_the_same_order(
    program: list[tuple[str, list[int] | int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(program, Path(folder) / "queues.db"))
