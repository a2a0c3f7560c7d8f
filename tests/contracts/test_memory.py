"""The in-memory engine keeps every contract."""

import asyncio

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.event_store import MemoryEventStore
from adapters.memory.id_source import CountingIds
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.publisher import MemoryPublisher
from domain.messages import Outgoing
from tests.contracts.event_store import ConcurrentEventStoreContract, EventStoreContract
from tests.contracts.message_queue import EmbeddedTopicContract, Topic
from tests.examples import START

pytestmark = pytest.mark.anyio


class TestMemoryEventStore(EventStoreContract, ConcurrentEventStoreContract):
    adapter = "adapters.memory.event_store"

    @pytest.fixture
    def store(self) -> MemoryEventStore:
        return MemoryEventStore()


class TestMemoryTopic(EmbeddedTopicContract):
    adapters = ("adapters.memory.publisher", "adapters.memory.message_queue")

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock(START)

    @pytest.fixture
    def topic(self, clock: ManualClock) -> Topic:
        ids = CountingIds()
        dead = MemoryQueue(clock, ids)
        queue = MemoryQueue(clock, ids, visibility_seconds=30, max_receives=3, dead_letters=dead)
        return Topic(MemoryPublisher(queue), queue, dead, 30, 3, clock.sleep)

    async def test_r107_the_group_reopens_at_once_when_its_first_message_is_released(self, topic: Topic) -> None:
        await topic.publisher.publish([_message("1"), _message("2")])
        first, second = await topic.queue.receive(10, 0)
        await topic.queue.release([first])
        again = await topic.queue.receive(10, 0)
        assert [one.message_id for one in again] == [first.message_id]
        assert await topic.queue.receive(10, 0) == []
        assert await topic.queue.delete([second]) == []

    async def test_a_waiting_receive_wakes_when_a_message_comes(self, topic: Topic) -> None:
        waiting = asyncio.create_task(topic.queue.receive(1, 5))
        await asyncio.sleep(0)
        await topic.publisher.publish([_message("1")])
        async with asyncio.timeout(1):
            assert len(await waiting) == 1


def _message(name: str) -> Outgoing:
    return Outgoing("A", name, "{}")
