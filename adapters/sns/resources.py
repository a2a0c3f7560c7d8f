"""The lifecycle topic, its queue and its dead-letter queue, made and joined."""

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import error_code, translate
from domain.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

RETENTION_SECONDS: Final = 14 * 24 * 3600


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
    try:
        dead_letters = _create_queue(sqs, f"{name}-dead.fifo", {})
        redrive = {"deadLetterTargetArn": _arn(sqs, dead_letters), "maxReceiveCount": max_receives}
        queue = _create_queue(
            sqs,
            f"{name}.fifo",
            {"VisibilityTimeout": str(visibility_seconds), "RedrivePolicy": json.dumps(redrive)},
        )
        queue_arn = _arn(sqs, queue)
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(_policy(topic, queue_arn))})
    except (BotoCoreError, ClientError) as error:
        raise translate("SQS", error) from error
    try:
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn, Attributes={"RawMessageDelivery": "true"})
    except (BotoCoreError, ClientError) as error:
        raise translate("SNS", error) from error
    return TopicAndQueue(topic, queue, dead_letters)


def _create_queue(sqs: "SQSClient", name: str, attributes: "Mapping[QueueAttributeNameType, str]") -> str:
    fixed: Mapping[QueueAttributeNameType, str] = {
        "FifoQueue": "true",
        "MessageRetentionPeriod": str(RETENTION_SECONDS),
    }
    try:
        return sqs.create_queue(QueueName=name, Attributes={**fixed, **attributes})["QueueUrl"]
    except ClientError as error:
        if error_code(error) in {"QueueAlreadyExists", "QueueNameExists"}:
            raise Misconfigured(f"queue {name}", "exists with other attributes; change or remove it") from error
        raise


def _arn(sqs: "SQSClient", url: str) -> str:
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def _policy(topic: str, queue: str) -> dict[str, object]:
    """Let this topic, and no other sender of SNS, put messages into the queue."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "sns.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": queue,
                "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
            }
        ],
    }
