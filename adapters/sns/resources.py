"""The lifecycle topic, its queue and its dead-letter queue, made and joined."""

from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import translate
from adapters.sqs.resources import create_queues, let_send

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient


class TopicAndQueue(NamedTuple):
    """Where they are."""

    topic_arn: str
    queue_url: str
    dead_letter_url: str


def create_topic_and_queue(
    sns: "SNSClient", sqs: "SQSClient", name: str, *, visibility_seconds: int = 30, max_receives: int = 5
) -> TopicAndQueue:
    """Make a FIFO topic, a FIFO queue that it feeds raw, and the queue's FIFO dead-letter queue.

    Blocks. Calling it again with the same arguments changes nothing.

    Args:
        sns: a client of boto3.
        sqs: a client of boto3.
        name: of the topic and the queue, without `.fifo`; the dead-letter queue adds `-dead`.
        visibility_seconds: after which an undeleted message is handed out again.
        max_receives: after which a message goes to the dead-letter queue (R-503).

    Raises:
        Misconfigured: one of this name exists with other attributes, or may not be made.
        Unavailable: SNS or SQS did not answer.
    """
    try:
        topic = sns.create_topic(Name=f"{name}.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    except (BotoCoreError, ClientError) as error:
        raise translate("SNS", error) from error
    made = create_queues(sqs, name, visibility_seconds=visibility_seconds, max_receives=max_receives, fifo=True)
    let_send(sqs, made.queue_url, made.queue_arn, "sns", topic)
    try:
        sns.subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=made.queue_arn, Attributes={"RawMessageDelivery": "true"}
        )
    except (BotoCoreError, ClientError) as error:
        raise translate("SNS", error) from error
    return TopicAndQueue(topic, made.queue_url, made.dead_letter_url)
