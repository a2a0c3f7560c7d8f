"""AWS: DynamoDB, an SNS FIFO topic and an SQS FIFO queue."""

import asyncio
import os
from typing import TYPE_CHECKING

from adapters.aws.clients import Aws
from adapters.dynamodb.event_store import DynamoDBEventStore
from domain.errors import Misconfigured
from entrypoints.settings import Settings, variable

if TYPE_CHECKING:
    from adapters.sns.publisher import SNSPublisher
    from adapters.sqs.message_queue import SQSMessageQueue


class AwsEngine:
    """Ports over boto3. Nothing is called, and no client made, before the first use of a port."""

    def __init__(self, settings: Settings) -> None:
        """Address, region and credentials come from the AWS SDK's own variables."""
        self.batch = 10
        self.receivers = 4
        self.wait_seconds = 5.0
        # boto3 itself reads `AWS_DEFAULT_REGION` only; `AWS_REGION` is what the other SDKs read.
        self.aws = Aws(region=os.environ.get("AWS_REGION") or None)
        self._settings = settings

    @property
    def store(self) -> DynamoDBEventStore:
        """The event store."""
        events = self._settings.events
        return DynamoDBEventStore(self.aws, events.table, shards=events.state_shards)

    @property
    def queue(self) -> "SQSMessageQueue":
        """The lifecycle queue.

        Raises:
            Misconfigured: its URL is not set.
        """
        from adapters.sqs.message_queue import SQSMessageQueue  # noqa: PLC0415 - functions have AWS receive for them

        return SQSMessageQueue(self.aws, _required(self._settings.lifecycle.queue_url, "queue_url"))

    @property
    def publisher(self) -> "SNSPublisher":
        """The lifecycle topic.

        Raises:
            Misconfigured: its ARN is not set.
        """
        from adapters.sns.publisher import SNSPublisher  # noqa: PLC0415 - the transition consumer publishes nothing

        return SNSPublisher(self.aws, _required(self._settings.lifecycle.topic_arn, "topic_arn"))

    async def aclose(self) -> None:
        """Wait for the calls that run, then close the connections."""
        await asyncio.to_thread(self.aws.close)


def _required(value: str | None, name: str) -> str:
    if value is None:
        raise Misconfigured(
            variable(("lifecycle", name)), "is not set; set it to what `interlock tables create` prints"
        )
    return value
