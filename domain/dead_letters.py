"""What lies in a dead-letter queue, read whichever way it came there (R-503, FC-20).

| it came there | body | what failed, and where |
|---|---|---|
| from a queue, after its last receive | the message itself | not said by SQS |
| from EventBridge, which could not deliver | the event | message attributes `RULE_ARN`, `TARGET_ARN`, `ERROR_CODE`, … |
| from Lambda's failure destination | a record around `requestPayload` | `requestContext`, `responsePayload` |
| from Lambda's own dead-letter queue | the event | message attributes `RequestID`, `ErrorCode`, `ErrorMessage` |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from domain.envelope import framed_digest
from domain.errors import Invalid
from domain.json_reader import read_json, write_json
from domain.times import parse_time

Origin = Literal["queue", "eventbridge", "lambda"]

_WRAPPING: Final = 4
_MAX_REASON: Final = 300


class Attribute(NamedTuple):
    """A message attribute of SQS: its data type, and its value as text or bytes."""

    kind: str
    value: str | bytes


class DeadLetter(NamedTuple):
    """A message in a dead-letter queue.

    Attributes:
        message_id: stays the same while the message lies there.
        receipt: what the adapter needs to take it out.
        group_id: on FIFO queues.
        deduplication_id: the one it was sent with, on FIFO queues that keep it.
        sent_at: when it was sent, or came here, as far as the queue says.
        attributes: of the message; they go back with it.
    """

    message_id: str
    body: str
    receipt: str
    group_id: str | None = None
    deduplication_id: str | None = None
    sent_at: datetime | None = None
    attributes: Mapping[str, Attribute] = {}


class Failure(NamedTuple):
    """What a dead letter says of itself.

    Attributes:
        origin: the way it came.
        event: the text to hand to its consumer again.
        event_type, event_id: of the event or the lifecycle message in it, where one can be read.
        code, reason: of the failure, where somebody noted them; the reason is cut to 300 characters.
        target: ARN of the function or other target that failed.
        attempts: how often it was tried.
        failed_at: when.
    """

    origin: Origin
    event: str
    event_type: str | None = None
    event_id: str | None = None
    code: str | None = None
    reason: str | None = None
    target: str | None = None
    attempts: int | None = None
    failed_at: datetime | None = None


def read_failure(letter: DeadLetter) -> Failure:
    """Say what a dead letter holds, and why it is there. What cannot be read is left out: nothing raises."""
    value = _json(letter.body)
    event_type, event_id = _named(value)
    plain = Failure("queue", letter.body, event_type, event_id)
    texts = {name: given.value for name, given in letter.attributes.items() if isinstance(given.value, str)}
    # Attributes are EventBridge's and Lambda's own; a body that has them was written by whoever sent the event.
    if "ERROR_CODE" in texts or "RULE_ARN" in texts:
        return plain._replace(
            origin="eventbridge",
            code=texts.get("ERROR_CODE"),
            reason=_short(texts.get("ERROR_MESSAGE")),
            target=texts.get("TARGET_ARN"),
            attempts=_whole(texts.get("RETRY_ATTEMPTS")),
        )
    if "RequestID" in texts and "ErrorCode" in texts:
        code, reason = texts["ErrorCode"], _short(texts.get("ErrorMessage"))
        return plain._replace(origin="lambda", code=code, reason=reason)
    if isinstance(value, dict) and "requestPayload" in value and isinstance(value.get("requestContext"), dict):
        return _from_destination(value)
    return plain


def _from_destination(record: Mapping[str, JsonValue]) -> Failure:
    context, response = _object(record.get("requestContext")), _object(record.get("responsePayload"))
    payload = record["requestPayload"]
    event_type, event_id = _named(payload)
    return Failure(
        origin="lambda",
        event=write_json(payload),
        event_type=event_type,
        event_id=event_id,
        code=_text(response.get("errorType")) or _text(context.get("condition")),
        reason=_short(_text(response.get("errorMessage"))),
        target=_text(context.get("functionArn")),
        attempts=_whole(context.get("approximateInvokeCount")),
        failed_at=_time(record.get("timestamp")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which dead letters are meant: those that every given rule holds for.

    Attributes:
        message_ids: any of these.
        event_type: exactly this one.
        contains: text in the body, as it was sent.
        error: text in the code or the reason, in upper or lower case.
        earliest, latest: when it failed, or else was sent; both ends included. What tells neither is not meant.
    """

    message_ids: frozenset[str] = frozenset()
    event_type: str | None = None
    contains: str | None = None
    error: str | None = None
    earliest: datetime | None = None
    latest: datetime | None = None

    def takes(self, letter: DeadLetter, failure: Failure) -> bool:
        """Say whether a letter is meant."""
        told = f"{failure.code or ''} {failure.reason or ''}".lower()
        return (
            (not self.message_ids or letter.message_id in self.message_ids)
            and self.event_type in (None, failure.event_type)
            and (self.contains is None or self.contains in letter.body)
            and (self.error is None or self.error.lower() in told)
            and self._within(failure.failed_at or letter.sent_at)
        )

    def _within(self, at: datetime | None) -> bool:
        if self.earliest is None and self.latest is None:
            return True
        return (
            at is not None
            and (self.earliest is None or self.earliest <= at)
            and (self.latest is None or at <= self.latest)
        )


def redrive_id(letter: DeadLetter) -> str:
    """Give a deduplication id that is the same however often this letter is put back, and nobody else's.

    A letter's own id will not do within five minutes of its first sending: SQS would answer that it took the message,
    and throw it away.
    """
    return framed_digest("redrive", letter.deduplication_id or "", letter.message_id)


def _json(text: str) -> JsonValue:
    try:
        return read_json(text.encode(errors="surrogatepass"), wrapping=_WRAPPING)
    except Invalid:
        return None


def _named(value: JsonValue) -> tuple[str | None, str | None]:
    """Give type and id: of an envelope, an EventBridge event, or a lifecycle message, also inside SNS's envelope."""
    found = _object(value)
    if found.get("Type") == "Notification" and isinstance(inner := found.get("Message"), str):
        found = _object(_json(inner))
    if "kind" in found:
        event = _object(found.get("event"))
        return _text(event.get("type")) or _text(found.get("kind")), _text(event.get("id") or found.get("event_id"))
    return _text(found.get("type") or found.get("detail-type")), _text(found.get("id"))


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _short(text: str | None) -> str | None:
    return None if text is None else text[:_MAX_REASON]


def _whole(value: JsonValue) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time(value: JsonValue) -> datetime | None:
    try:
        return parse_time(value)
    except Invalid:
        return None
