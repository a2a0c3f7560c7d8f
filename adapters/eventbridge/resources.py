"""A queue of events for a worker: the rule that feeds it, and the two nets below it (FC-20)."""

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import error_code, translate
from domain.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

RETENTION_SECONDS: Final = 14 * 24 * 3600
OURS: Final = {"source": [{"anything-but": {"prefix": "aws."}}]}
"""The pattern of a rule for all events that are not AWS's own."""


class EventQueue(NamedTuple):
    """Where they are."""

    rule_arn: str
    queue_url: str
    dead_letter_url: str


def create_event_queue(
    events: "EventBridgeClient",
    sqs: "SQSClient",
    name: str,
    bus: str,
    *,
    visibility_seconds: int = 60,
    max_receives: int = 5,
) -> EventQueue:
    """Make a standard queue, a rule that feeds it with a bus's events but AWS's own, and a dead-letter queue.

    What the rule cannot deliver, and what the worker failed on too often, go to the same dead-letter queue; the bodies
    are events in both cases. Blocks. Calling it again with the same arguments changes nothing.

    Args:
        events: a client of boto3.
        sqs: a client of boto3.
        name: of the rule and the queue; the dead-letter queue adds `-dead`.
        bus: name or ARN of the bus.
        visibility_seconds: after which an undeleted event is handed out again.
        max_receives: after which an event goes to the dead-letter queue (R-503).

    Raises:
        Misconfigured: one of this name exists with other attributes, or may not be made.
        Unavailable: EventBridge or SQS did not answer.
    """
    try:
        dead_letters = _create_queue(sqs, f"{name}-dead", {})
        dead_arn = _arn(sqs, dead_letters)
        redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": max_receives})
        queue = _create_queue(sqs, name, {"VisibilityTimeout": str(visibility_seconds), "RedrivePolicy": redrive})
        queue_arn = _arn(sqs, queue)
    except (BotoCoreError, ClientError) as error:
        raise translate("SQS", error) from error
    try:
        rule = events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps(OURS))["RuleArn"]
        target: Any = {"Id": "queue", "Arn": queue_arn, "DeadLetterConfig": {"Arn": dead_arn}}
        answer = events.put_targets(Rule=name, EventBusName=bus, Targets=[target])
        for refused in answer.get("FailedEntries", []):
            raise Misconfigured(f"rule {name}", f"its target was refused: {refused.get('ErrorCode')}")
    except (BotoCoreError, ClientError) as error:
        raise translate("EventBridge", error) from error
    try:
        for url, arn in ((queue, queue_arn), (dead_letters, dead_arn)):
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(_policy(rule, arn))})
    except (BotoCoreError, ClientError) as error:
        raise translate("SQS", error) from error
    return EventQueue(rule, queue, dead_letters)


def _create_queue(sqs: "SQSClient", name: str, attributes: "Mapping[QueueAttributeNameType, str]") -> str:
    fixed: Mapping[QueueAttributeNameType, str] = {"MessageRetentionPeriod": str(RETENTION_SECONDS)}
    try:
        return sqs.create_queue(QueueName=name, Attributes={**fixed, **attributes})["QueueUrl"]
    except ClientError as error:
        if error_code(error) in {"QueueAlreadyExists", "QueueNameExists"}:
            raise Misconfigured(f"queue {name}", "exists with other attributes; change or remove it") from error
        raise


def _arn(sqs: "SQSClient", url: str) -> str:
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def _policy(rule: str, queue: str) -> dict[str, object]:
    """Let this rule, and no other sender of EventBridge, put messages into the queue."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": queue,
                "Condition": {"ArnEquals": {"aws:SourceArn": rule}},
            }
        ],
    }
