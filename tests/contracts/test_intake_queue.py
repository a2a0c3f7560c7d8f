"""The embedded engines and SQS keep the contract of the intake queue."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.embedded.intake_queue import EmbeddedIntakeQueue
from adapters.memory.clock import ManualClock
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.publisher import MemoryPublisher
from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import QUEUES, SqliteMessageQueue
from adapters.sqlite.publisher import SqlitePublisher
from adapters.sqs.intake_queue import SQSIntakeQueue
from adapters.system.id_source import RandomIds
from tests.contracts.intake_queue import Front, IntakeQueueContract
from tests.engines import Engine, standard_queue
from tests.examples import START

pytestmark = pytest.mark.anyio


class TestMemory(IntakeQueueContract):
    adapter = "adapters.embedded.intake_queue"

    @pytest.fixture
    def front(self) -> Front:
        clock, ids = ManualClock(START), RandomIds()
        dead = MemoryQueue(clock, ids)
        queue = MemoryQueue(clock, ids, visibility_seconds=30, max_receives=5, dead_letters=dead)
        return Front(
            EmbeddedIntakeQueue(MemoryPublisher(queue), queue, ids),
            EmbeddedIntakeQueue(MemoryPublisher(dead), dead, ids),
            30,
            5,
            clock.sleep,
            clock.now,
        )


class TestSqlite(IntakeQueueContract):
    adapter = "adapters.embedded.intake_queue"

    @pytest.fixture
    async def front(self, tmp_path: Path) -> AsyncIterator[Front]:
        clock, ids = ManualClock(START), RandomIds()
        database = Database(tmp_path / "queues.db", QUEUES)
        dead = SqliteMessageQueue(database, "intake-dead", clock, ids)
        queue = SqliteMessageQueue(
            database, "intake", clock, ids, visibility_seconds=30, max_receives=5, dead_letters="intake-dead"
        )
        yield Front(
            EmbeddedIntakeQueue(SqlitePublisher(database, "intake", clock), queue, ids),
            EmbeddedIntakeQueue(SqlitePublisher(database, "intake-dead", clock), dead, ids),
            30,
            5,
            clock.sleep,
            clock.now,
        )
        await database.aclose()


@contextmanager
def on_sqs(engine: Engine) -> Iterator[Front]:
    with standard_queue(engine, visibility_seconds=4, max_receives=5) as made:
        yield Front(
            SQSIntakeQueue(engine.aws, made.queue_url),
            SQSIntakeQueue(engine.aws, made.dead_letter_url),
            4,
            5,
            asyncio.sleep,
        )


class TestSQS(IntakeQueueContract):
    adapter = "adapters.sqs.intake_queue"
    after_timeout = 2
    many = 60

    @pytest.fixture
    def front(self, ministack: Engine) -> Iterator[Front]:
        with on_sqs(ministack) as front:
            yield front


class TestSQSOnMoto(IntakeQueueContract):
    adapter = "adapters.sqs.intake_queue"
    after_timeout = 2
    many = 30  # it looks through all messages at each call

    @pytest.fixture
    def front(self, moto: Engine) -> Iterator[Front]:
        with on_sqs(moto) as front:
            yield front
