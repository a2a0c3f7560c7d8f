"""A queue of events for a worker: the rule that feeds it, and the two nets below it (FC-20)."""

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import translate
from adapters.sqs.resources import create_queues, let_send
from domain.errors import Misconfigured

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_sqs import SQSClient

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
    made = create_queues(sqs, name, visibility_seconds=visibility_seconds, max_receives=max_receives)
    try:
        rule = events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps(OURS))["RuleArn"]
        target: Any = {"Id": "queue", "Arn": made.queue_arn, "DeadLetterConfig": {"Arn": made.dead_letter_arn}}
        answer = events.put_targets(Rule=name, EventBusName=bus, Targets=[target])
        for refused in answer.get("FailedEntries", []):
            raise Misconfigured(f"rule {name}", f"its target was refused: {refused.get('ErrorCode')}")
    except (BotoCoreError, ClientError) as error:
        raise translate("EventBridge", error) from error
    for url, arn in ((made.queue_url, made.queue_arn), (made.dead_letter_url, made.dead_letter_arn)):
        let_send(sqs, url, arn, "events", rule)
    return EventQueue(rule, made.queue_url, made.dead_letter_url)
