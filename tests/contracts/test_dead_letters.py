"""Every engine's dead letters keep the contract."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.dead_letters import MemoryDeadLetters
from adapters.memory.id_source import CountingIds
from adapters.memory.message_queue import MemoryQueue
from adapters.sqlite.database import Database
from adapters.sqlite.dead_letters import SqliteDeadLetters
from adapters.sqlite.message_queue import QUEUES, SqliteMessageQueue
from adapters.sqlite.publisher import SqlitePublisher
from adapters.sqs.dead_letters import SQSDeadLetters, to_queue
from adapters.sqs.message_queue import SQSMessageQueue
from adapters.system.clock import SystemClock
from domain.messages import Outgoing
from tests.contracts.dead_letters import DeadLettersContract, Graveyard, one
from tests.engines import Engine, topic_and_queue
from tests.examples import START

pytestmark = pytest.mark.anyio


@contextmanager
def graveyard_on(engine: Engine) -> Iterator[Graveyard]:
    with topic_and_queue(engine, visibility_seconds=30, max_receives=3) as made:
        sqs, clock = engine.aws.sqs.client(), SystemClock()

        async def bury(messages: Sequence[Outgoing]) -> None:
            for message in messages:
                sqs.send_message(
                    QueueUrl=made.dead_letter_url,
                    MessageBody=message.body,
                    MessageGroupId=message.group_id,
                    MessageDeduplicationId=message.deduplication_id,
                )

        def look() -> SQSDeadLetters:
            return SQSDeadLetters(engine.aws, made.dead_letter_url, to_queue(engine.aws, made.queue_url, clock), clock)

        yield Graveyard(
            look(),
            look(),
            SQSMessageQueue(engine.aws, made.queue_url),
            SQSMessageQueue(engine.aws, made.dead_letter_url),
            bury,
        )


class TestMemoryDeadLetters(DeadLettersContract):
    adapter = "adapters.memory.dead_letters"

    @pytest.fixture
    def graveyard(self) -> Graveyard:
        clock, ids = ManualClock(START), CountingIds()
        dead, queue = MemoryQueue(clock, ids), MemoryQueue(clock, ids)

        async def bury(messages: Sequence[Outgoing]) -> None:
            for message in messages:
                dead.put(message)

        return Graveyard(MemoryDeadLetters(dead, queue), MemoryDeadLetters(dead, queue), queue, dead, bury)


class TestSqliteDeadLetters(DeadLettersContract):
    adapter = "adapters.sqlite.dead_letters"

    @pytest.fixture
    async def graveyard(self, tmp_path: Path) -> AsyncIterator[Graveyard]:
        clock, ids = ManualClock(START), CountingIds()
        database = Database(tmp_path / "queues.db", QUEUES)
        publisher = SqlitePublisher(database, "dead", clock)

        async def bury(messages: Sequence[Outgoing]) -> None:
            assert await publisher.publish(messages) == [None] * len(messages)

        yield Graveyard(
            SqliteDeadLetters(database, "dead", "live", clock),
            SqliteDeadLetters(database, "dead", "live", clock),
            SqliteMessageQueue(database, "live", clock, ids),
            SqliteMessageQueue(database, "dead", clock, ids),
            bury,
        )
        await database.aclose()

    async def test_the_dead_letter_queue_is_still_in_order_after_some_went_back(self, graveyard: Graveyard) -> None:
        await graveyard.bury([one("A", "1"), one("A", "2"), one("A", "3")])
        async with aclosing(graveyard.letters.pages()) as pages:
            page = await anext(pages)
            assert await graveyard.letters.redrive(page[:1]) == [None]
        assert [m.body for m in await graveyard.dead.receive(10, 0)] == ['{"id":"2"}', '{"id":"3"}']


class TestSQSDeadLetters(DeadLettersContract):
    adapter = "adapters.sqs.dead_letters"

    @pytest.fixture
    def graveyard(self, ministack: Engine) -> Iterator[Graveyard]:
        with graveyard_on(ministack) as made:
            yield made
