"""Memory, SQLite and EventBridge keep the contract of the event bus."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from adapters.eventbridge.event_bus import EventBridgeBus
from adapters.memory.clock import ManualClock
from adapters.memory.event_bus import MemoryEventBus
from adapters.memory.message_queue import MemoryQueue
from adapters.sqlite.database import Database
from adapters.sqlite.event_bus import SqliteEventBus
from adapters.sqlite.message_queue import QUEUES, SqliteMessageQueue
from adapters.sqs.message_queue import SQSMessageQueue
from adapters.system.id_source import RandomIds
from tests.contracts.event_bus import Bus, EventBusContract
from tests.engines import Engine, event_queue
from tests.examples import START

pytestmark = pytest.mark.anyio


class TestMemoryEventBus(EventBusContract):
    adapter = "adapters.memory.event_bus"

    @pytest.fixture
    def bus(self) -> Bus:
        clock = ManualClock(START)
        queue = MemoryQueue(clock, RandomIds())
        return Bus(MemoryEventBus(queue, clock, RandomIds()), queue)


class TestSqliteEventBus(EventBusContract):
    adapter = "adapters.sqlite.event_bus"

    @pytest.fixture
    async def bus(self, tmp_path: Path) -> AsyncIterator[Bus]:
        clock = ManualClock(START)
        database = Database(tmp_path / "bus.db", QUEUES)
        queue = SqliteMessageQueue(database, "events", clock, RandomIds())
        yield Bus(SqliteEventBus(database, "events", clock, RandomIds()), queue)
        await database.aclose()


class TestEventBridgeBus(EventBusContract):
    adapter = "adapters.eventbridge.event_bus"

    @pytest.fixture
    def bus(self, ministack: Engine) -> Iterator[Bus]:
        with event_queue(ministack) as made:
            yield Bus(EventBridgeBus(ministack.aws, made.bus), SQSMessageQueue(ministack.aws, made.queue_url))


class TestEventBridgeBusOnMoto(EventBusContract):
    adapter = "adapters.eventbridge.event_bus"

    @pytest.fixture
    def bus(self, moto: Engine) -> Iterator[Bus]:
        with event_queue(moto) as made:
            yield Bus(EventBridgeBus(moto.aws, made.bus), SQSMessageQueue(moto.aws, made.queue_url))
