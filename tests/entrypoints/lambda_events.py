"""Events and contexts as AWS gives them to Lambda functions."""

import json
from collections.abc import Sequence
from typing import Any

from domain.messages import Received


class Context:
    """An invocation with so much time left."""

    def __init__(self, milliseconds: int = 30_000) -> None:
        self.aws_request_id = "request-1"
        self._milliseconds = milliseconds

    def get_remaining_time_in_millis(self) -> int:
        """Give the time left."""
        return self._milliseconds


def a_record(message_id: str, body: str, *, group: str | None = "A", receive_count: int = 1) -> dict[str, Any]:
    """Give a record of an SQS event."""
    attributes = {"ApproximateReceiveCount": str(receive_count), "SentTimestamp": "1767268800000"}
    if group is not None:
        attributes |= {"MessageGroupId": group, "MessageDeduplicationId": message_id, "SequenceNumber": "1"}
    return {
        "messageId": message_id,
        "receiptHandle": f"receipt-{message_id}",
        "body": body,
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:lifecycle.fifo",
        "awsRegion": "us-east-1",
    }


def an_sqs_event(*records: dict[str, Any]) -> dict[str, Any]:
    """Give an SQS event."""
    return {"Records": list(records)}


def from_queue(messages: Sequence[Received]) -> dict[str, Any]:
    """Give the event that AWS makes of received messages."""
    return an_sqs_event(
        *(a_record(m.message_id, m.body, group=m.group_id, receive_count=m.receive_count) for m in messages)
    )


def in_sns(body: str) -> str:
    """Wrap a body as SNS does without raw delivery."""
    topic = "arn:aws:sns:us-east-1:000000000000:lifecycle.fifo"
    return json.dumps({"Type": "Notification", "MessageId": "m", "TopicArn": topic, "Message": body})


def failed_ids(answer: dict[str, Any]) -> list[str]:
    """Give the message ids of a partial batch answer."""
    assert set(answer) == {"batchItemFailures"}
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
