"""A queue and its dead-letter queue, made and joined, and who else may send to them (R-503)."""

import json
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import error_code, translate
from domain.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

RETENTION_SECONDS: Final = 14 * 24 * 3600


class QueuePair(NamedTuple):
    """Where they are."""

    queue_url: str
    dead_letter_url: str
    queue_arn: str
    dead_letter_arn: str


def create_queues(
    sqs: "SQSClient", name: str, *, visibility_seconds: int, max_receives: int = 5, fifo: bool = False
) -> QueuePair:
    """Make a queue and its dead-letter queue, whose name adds `-dead`.

    Blocks. Calling it again with the same arguments changes nothing.

    Args:
        sqs: a client of boto3.
        name: of the queue, without `.fifo`.
        visibility_seconds: after which an undeleted message is handed out again.
        max_receives: after which a message goes to the dead-letter queue.
        fifo: whether both are FIFO queues, and end with `.fifo`; else both are standard ones.

    Raises:
        Misconfigured: one of this name exists with other attributes, or may not be made.
        Unavailable: SQS did not answer.
    """
    suffix = ".fifo" if fifo else ""
    kind: Mapping[QueueAttributeNameType, str] = {"FifoQueue": "true"} if fifo else {}
    try:
        dead_letters = _create(sqs, f"{name}-dead{suffix}", kind)
        dead_arn = _arn(sqs, dead_letters)
        redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": max_receives})
        own: Mapping[QueueAttributeNameType, str] = {
            "VisibilityTimeout": str(visibility_seconds),
            "RedrivePolicy": redrive,
        }
        queue = _create(sqs, f"{name}{suffix}", {**kind, **own})
        return QueuePair(queue, dead_letters, _arn(sqs, queue), dead_arn)
    except (BotoCoreError, ClientError) as error:
        raise translate("SQS", error) from error


def let_send(sqs: "SQSClient", url: str, arn: str, service: Literal["events", "sns"], source: str) -> None:
    """Let one sender of a service, and no other, put messages into a queue.

    Args:
        sqs: a client of boto3.
        url: of the queue.
        arn: of the queue.
        service: that sends.
        source: ARN of its topic or rule.

    Raises:
        Misconfigured, Unavailable: as `create_queues`.
    """
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": f"{service}.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
                "Condition": {"ArnEquals": {"aws:SourceArn": source}},
            }
        ],
    }
    try:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    except (BotoCoreError, ClientError) as error:
        raise translate("SQS", error) from error


def _create(sqs: "SQSClient", name: str, attributes: "Mapping[QueueAttributeNameType, str]") -> str:
    fixed: Mapping[QueueAttributeNameType, str] = {"MessageRetentionPeriod": str(RETENTION_SECONDS)}
    try:
        return sqs.create_queue(QueueName=name, Attributes={**fixed, **attributes})["QueueUrl"]
    except ClientError as error:
        if error_code(error) in {"QueueAlreadyExists", "QueueNameExists"}:
            raise Misconfigured(f"queue {name}", "exists with other attributes; change or remove it") from error
        raise


def _arn(sqs: "SQSClient", url: str) -> str:
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
