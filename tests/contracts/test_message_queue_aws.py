"""SNS FIFO and SQS FIFO keep the contract of publisher and queue, joined as `create_topic_and_queue` joins them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adapters.sns.publisher import SNSPublisher
from adapters.sqs.message_queue import SQSMessageQueue
from tests.contracts.message_queue import Topic, TopicContract
from tests.engines import Engine, is_elsewhere, topic_and_queue

pytestmark = pytest.mark.anyio


@contextmanager
def new_topic(engine: Engine) -> Iterator[Topic]:
    with topic_and_queue(engine, visibility_seconds=2, max_receives=3) as made:
        yield Topic(
            SNSPublisher(engine.aws, made.topic_arn),
            SQSMessageQueue(engine.aws, made.queue_url),
            SQSMessageQueue(engine.aws, made.dead_letter_url),
            visibility_seconds=2,
            max_receives=3,
            let_pass=asyncio.sleep,
        )


class TestSNSAndSQS(TopicContract):
    adapters = ("adapters.sns.publisher", "adapters.sqs.message_queue")
    wait = 5 if is_elsewhere() else 0  # SNS delivers within this time; the local engine, before it answers
    after_timeout = 2

    @pytest.fixture
    def topic(self, ministack: Engine) -> Iterator[Topic]:
        with new_topic(ministack) as topic:
            yield topic


class TestSNSAndSQSOnMoto(TopicContract):
    adapters = ("adapters.sns.publisher", "adapters.sqs.message_queue")
    after_timeout = 2

    @pytest.fixture
    def topic(self, moto: Engine) -> Iterator[Topic]:
        with new_topic(moto) as topic:
            yield topic

    @pytest.mark.xfail(strict=True, raises=AssertionError, reason="moto forgets the id when its message is deleted")
    async def test_r106_a_deduplication_id_is_delivered_once_also_after_its_message_is_deleted(
        self, topic: Topic
    ) -> None:
        await super().test_r106_a_deduplication_id_is_delivered_once_also_after_its_message_is_deleted(topic)
