"""SQS events in, partial batch answers out (CONTRACTS § 5; R-107, FC-48)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from application.consume import BatchReport
from domain.errors import Invalid
from domain.messages import Received
from domain.times import from_milliseconds
from entrypoints.aws_lambda.runtime import Context, log
from entrypoints.failures import code_of, reason_of

MARGIN: Final = 0.2
"""The part of the time left in which no further message is started, so that the last one can end."""

LEAST_MARGIN: Final = timedelta(seconds=1)


def read_records(event: object, context: Context) -> list[Received]:
    """Read the messages of an SQS event, in order.

    Raises:
        Invalid: for an event of another kind, which is never taken for an empty batch; and for a record without a
            message id, because its failure could not be answered. The whole batch is then delivered again.
    """
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        raise Invalid("Records", "is missing: this function takes events of an SQS queue")
    return [_received(record, index, context) for index, record in enumerate(records)]


def _received(record: object, index: int, context: Context) -> Received:
    place = f"Records[{index}]"
    if not isinstance(record, Mapping) or record.get("eventSource") != "aws:sqs":
        raise Invalid(f"{place}.eventSource", "must be aws:sqs: this function takes events of an SQS queue")
    message_id, body = record.get("messageId"), record.get("body")
    if not isinstance(message_id, str) or not message_id:
        log("error", "record without a message id", context, place=place)
        raise Invalid(f"{place}.messageId", "is missing, so that its outcome could not be answered")
    attributes: Mapping[str, Any] = record.get("attributes") or {}
    return Received(
        message_id=message_id,
        group_id=attributes.get("MessageGroupId"),
        body=body if isinstance(body, str) else "",
        receipt=record.get("receiptHandle") or "",
        receive_count=_count(attributes.get("ApproximateReceiveCount", "1"), place),
        sent_at=_sent_at(attributes.get("SentTimestamp"), place),
    )


def _count(text: object, place: str) -> int:
    if not isinstance(text, str) or not text.isascii() or not text.isdigit():
        raise Invalid(f"{place}.attributes.ApproximateReceiveCount", "must be a number in text")
    return int(text)


def _sent_at(text: object, place: str) -> datetime | None:
    if text is None:
        return None
    place = f"{place}.attributes.SentTimestamp"
    if not isinstance(text, str) or not text.isascii() or not text.isdigit():
        raise Invalid(place, "must be milliseconds since 1970 in text")
    return from_milliseconds(int(text[:20]), place)


def deadline_of(context: Context, now: datetime) -> datetime:
    """Say when to start no further message: before AWS stops the function, with a margin."""
    left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    return now + left - max(left * MARGIN, LEAST_MARGIN)


def answer(report: BatchReport, batch: Sequence[Received], context: Context) -> dict[str, list[dict[str, str]]]:
    """Log what became of a batch, and name the messages that go back: all of them where all failed."""
    tell_failures(report.failures, batch, context)
    log("info", "batch", context, received=report.received, **report.tally, returned=len(report.returned))
    return going_back(report.returned)


def tell_failures(failures: Mapping[str, Exception], batch: Sequence[Received], context: Context) -> None:
    """Log why messages of a batch failed, by id, and how often they were received."""
    counts = {message.message_id: message.receive_count for message in batch}
    for message_id, error in failures.items():
        log(
            "error",
            "message failed",
            context,
            message_id=message_id,
            receive_count=counts[message_id],
            code=code_of(error),
            reason=reason_of(error),
        )


def going_back(message_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Name the messages that go back, as AWS wants to be told (FC-39)."""
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in message_ids]}
