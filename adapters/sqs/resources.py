"""The intake's queue and its dead-letter queue, made and joined (R-503)."""

import json
from typing import TYPE_CHECKING, Final, NamedTuple

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


def create_standard_queue(sqs: "SQSClient", name: str, *, visibility_seconds: int, max_receives: int = 5) -> QueuePair:
    """Make a standard queue and its dead-letter queue, whose name adds `-dead`.

    Blocks. Calling it again with the same arguments changes nothing.

    Raises:
        Misconfigured: one of this name exists with other attributes, or may not be made.
        Unavailable: SQS did not answer.
    """
    try:
        dead_letters = _create(sqs, f"{name}-dead", {})
        arn = sqs.get_queue_attributes(QueueUrl=dead_letters, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": max_receives})
        queue = _create(sqs, name, {"VisibilityTimeout": str(visibility_seconds), "RedrivePolicy": redrive})
    except (BotoCoreError, ClientError) as error:
        raise translate("SQS", error) from error
    return QueuePair(queue, dead_letters)


def _create(sqs: "SQSClient", name: str, attributes: "Mapping[QueueAttributeNameType, str]") -> str:
    try:
        return sqs.create_queue(
            QueueName=name, Attributes={"MessageRetentionPeriod": str(RETENTION_SECONDS), **attributes}
        )["QueueUrl"]
    except ClientError as error:
        if error_code(error) in {"QueueAlreadyExists", "QueueNameExists"}:
            raise Misconfigured(f"queue {name}", "exists with other attributes; change or remove it") from error
        raise
