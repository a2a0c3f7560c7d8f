"""SNS FIFO and SQS FIFO keep the contract of publisher and queue, joined as `create_topic_and_queue` joins them."""

import asyncio

import pytest

from adapters.sns.publisher import SNSPublisher
from adapters.sns.resources import create_topic_and_queue
from adapters.sqs.message_queue import SQSMessageQueue
from tests.contracts.message_queue import Topic, TopicContract
from tests.engines import Engine

pytestmark = pytest.mark.anyio


def new_topic(engine: Engine) -> Topic:
    """Give a topic and queue of their own."""
    aws = engine.aws
    places = create_topic_and_queue(
        aws.sns.client(), aws.sqs.client(), engine.fresh_name("lifecycle"), visibility_seconds=2, max_receives=3
    )
    return Topic(
        SNSPublisher(aws, places.topic_arn),
        SQSMessageQueue(aws, places.queue_url),
        SQSMessageQueue(aws, places.dead_letter_url),
        visibility_seconds=2,
        max_receives=3,
        let_pass=asyncio.sleep,
    )


class TestSNSAndSQS(TopicContract):
    adapters = ("adapters.sns.publisher", "adapters.sqs.message_queue")
    wait = 1

    @pytest.fixture
    def topic(self, ministack: Engine) -> Topic:
        return new_topic(ministack)
