"""The bodies of the lifecycle topic and queue, and how they come wrapped (CONTRACTS § 5, FC-60)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from domain.envelope import Envelope, Text256, TimeText, envelope_from, framed_digest, require_subject
from domain.errors import InterlockError, Invalid, TooLarge, Unavailable
from domain.event import MAX_EVENT_ID, ingest_command_id
from domain.fifo import message_group_id
from domain.json_reader import place_of, read_json, write_json
from domain.lifecycle import Move, StateName
from domain.validation import PROSE, invalid_from, placed

MAX_REASON: Final = 2000

Reason = Annotated[str, Field(max_length=MAX_REASON, pattern=PROSE)]
EventId = Annotated[str, Field(min_length=1, max_length=MAX_EVENT_ID)]
CommandId = Annotated[str, Field(min_length=1, max_length=256)]


class Outgoing(NamedTuple):
    """A message to publish: its group (ordered within), its deduplication id, its JSON body."""

    group_id: str
    deduplication_id: str
    body: str


class Received(NamedTuple):
    """A message taken from a queue.

    Attributes:
        group_id: what it is ordered within; None off FIFO queues.
        receipt: proves that it was handed to us.
        sent_at: when the queue took it, in UTC; None where nobody said.
    """

    message_id: str
    group_id: str | None
    body: str
    receipt: str
    receive_count: int
    sent_at: datetime | None = None


def held_back() -> Unavailable:
    """Say of a message that an earlier one of its group was not taken: sent alone later, it may be."""
    return Unavailable("the topic", "an earlier message of its group was not taken")


def refusals(messages: Sequence[Outgoing], max_bytes: int) -> list[InterlockError | None]:
    """Say of each message why it is not published: too large, or behind one of its group that is; None where it is."""
    answers: list[InterlockError | None] = []
    stopped: set[str] = set()
    for message in messages:
        size = len(message.body.encode())
        if message.group_id in stopped:
            answers.append(held_back())
        elif size > max_bytes:
            stopped.add(message.group_id)
            answers.append(TooLarge("", f"is {size} bytes; the limit is {max_bytes}", size, max_bytes))
        else:
            answers.append(None)
    return answers


class EventIngested(NamedTuple):
    """Ingestion recorded an event."""

    event: Envelope


class TransitionRequested(BaseModel):
    """Someone asks for a move; the consumer decides."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["transition_requested"] = "transition_requested"
    event_id: EventId
    entity: Text256
    to: StateName
    actor: Text256
    reason: Reason | None = None
    command_id: CommandId
    requested_at: TimeText

    def move(self) -> Move:
        """Give the command that this message asks for."""
        return Move(self.event_id, self.entity, self.to, self.actor, self.command_id, self.reason)


LifecycleMessage = EventIngested | TransitionRequested


def ingested_message(envelope: Envelope) -> Outgoing:
    """Make the notification of an ingested event.

    Raises:
        Invalid: when the event names no subject.
    """
    return Outgoing(
        group_id=message_group_id(require_subject(envelope)),
        deduplication_id=ingest_command_id(envelope),
        body=write_json({"kind": "event_ingested", "event": envelope.attributes()}),
    )


def requested_message(request: TransitionRequested) -> Outgoing:
    """Make the message that asks for a move."""
    return Outgoing(
        group_id=message_group_id(request.entity),
        deduplication_id=framed_digest(request.kind, request.command_id),
        body=write_json(request.model_dump()),
    )


def read_message(body: str) -> LifecycleMessage:
    """Read a message, straight from the queue or in the envelope that SNS puts around it.

    A body with a `kind` is ours, whatever else it holds; an SNS envelope never has one. It is taken off once:
    a second layer is malformed, not half-read.

    Raises:
        Invalid: with the place and the reason.
    """
    value = read_json(body.encode(errors="surrogatepass"), wrapping=1)
    if isinstance(value, dict) and "kind" not in value and value.get("Type") == "Notification":
        inner = value.get("Message")
        if not isinstance(inner, str):
            raise Invalid("Message", "the SNS envelope holds no text")
        try:
            value = read_json(inner.encode(errors="surrogatepass"), wrapping=1)
        except Invalid as error:
            raise Invalid("Message", f"is not a JSON message: {error}") from None
        if isinstance(value, dict) and "kind" not in value and value.get("Type") == "Notification":
            raise Invalid("Message", "is wrapped by SNS twice; subscribe the queue to one topic only")
    return _message(value)


def _message(value: JsonValue) -> LifecycleMessage:
    if not isinstance(value, dict):
        raise Invalid("", "a message must be a JSON object")
    match value.get("kind"):
        case "event_ingested":
            if unknown := sorted(value.keys() - {"kind", "event"}):
                raise Invalid(place_of([unknown[0]]), "is not a field of this message")
            try:
                envelope = envelope_from(value.get("event"), max_bytes=None)
                require_subject(envelope)
            except Invalid as error:
                raise placed(error, ("event", *error.steps)) from None
            return EventIngested(envelope)
        case "transition_requested":
            try:
                return TransitionRequested.model_validate(value)
            except ValidationError as error:
                raise invalid_from(error) from None
        case _:
            raise Invalid("kind", "must be event_ingested or transition_requested")
