"""What is stored of an event: the recorded envelope, its head, what it missed, and the list query.

Sort keys are made here, so that every store orders alike: by a UTC time of fixed width, then by a tie-breaker.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from domain.envelope import Envelope, framed_digest, require_subject
from domain.errors import BadCursor, Invalid
from domain.lifecycle import Transition
from domain.times import format_time, parse_time

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
MAX_EVENT_ID: Final = 129


class RecordedEvent(NamedTuple):
    """An envelope as ingestion recorded it, once (R-105)."""

    event_id: str
    entity: str
    arrived_at: datetime
    envelope: Envelope


class Head(NamedTuple):
    """Where an event stands, beside its facts: the optimistic lock, and what indexes point at (ADR 0002)."""

    event_id: str
    entity: str
    type: str
    source: str
    occurred_at: datetime
    state: str
    sequence: int
    since: datetime


class Missed(NamedTuple):
    """A requested move that never became a fact: refused by the lifecycle, or dead-lettered (FC-48)."""

    event_id: str
    command_id: str
    to: str
    at: datetime
    reason: str


class Stream(NamedTuple):
    """All that one partition holds of an event but its envelope, from one consistent read."""

    head: Head | None
    history: Sequence[Transition]
    missed: Sequence[Missed]


class Position(NamedTuple):
    """A place in a list: after the row with this time and id."""

    occurred_at: datetime
    event_id: str


class ListQuery(NamedTuple):
    """An operator's list (R-109). At least one of `state` and `entity`; both ends of the window are included."""

    state: str | None = None
    entity: str | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    descending: bool = False
    limit: int = DEFAULT_LIMIT
    after: Position | None = None


def recorded(envelope: Envelope, event_id: str, arrived_at: datetime) -> RecordedEvent:
    """Make the record of an envelope under an id.

    Raises:
        Invalid: when the envelope names no subject.
    """
    return RecordedEvent(event_id, require_subject(envelope), arrived_at, envelope)


def first_head(envelope: Envelope, event_id: str, state: str, arrived_at: datetime) -> Head:
    """Make the head that an event has before its first transition: sequence 0.

    Raises:
        Invalid: when the envelope names no subject.
    """
    occurred_at = envelope.occurred_at or arrived_at
    entity = require_subject(envelope)
    return Head(event_id, entity, envelope.type, envelope.source, occurred_at, state, 0, arrived_at)


def event_ids(envelope: Envelope) -> tuple[str, str]:
    """Give the two ids that an event may have here, in the order in which they are tried.

    An envelope's id is unique per source only. The first source to use an id has it; the same id from
    another source goes under a digest of both, 129 characters long, which no envelope's id (at most 128) can be.
    Both are decided by a conditional write and never change, so copies of an event always meet.
    """
    framed = json.dumps([envelope.source, envelope.id], ensure_ascii=False, separators=(",", ":"))
    return envelope.id, "~" + hashlib.sha512(framed.encode()).hexdigest()


def ingest_command_id(envelope: Envelope) -> str:
    """Give the command id of an event's first transition: the same for every copy of the event (R-110)."""
    return framed_digest("event_ingested", envelope.source, envelope.id)


def fact_key(at: datetime, sequence: int) -> str:
    """Give the sort key of a fact: arrival time, then sequence, so that equal times both survive (R-103, FC-52)."""
    return f"{format_time(at)}#{sequence:010d}"


def list_key(occurred_at: datetime, event_id: str) -> str:
    """Give the sort key of a head in the indexes: time of the event, then its id."""
    return f"{format_time(occurred_at)}#{event_id}"


def check_query(query: ListQuery) -> None:
    """Refuse a list that no index answers.

    Raises:
        Invalid: with the name of the parameter.
    """
    if query.state is None and query.entity is None:
        raise Invalid("state", "name a state or an entity: no list reads the whole table")
    if query.entity is not None and not 1 <= len(query.entity) <= 256:  # noqa: PLR2004 - CONTRACTS § 1, `subject`
        raise Invalid("entity", "must have 1 to 256 characters")
    if not 1 <= query.limit <= MAX_LIMIT:
        raise Invalid("limit", f"must lie between 1 and {MAX_LIMIT}")
    if query.earliest and query.latest and query.earliest > query.latest:
        raise Invalid("from", "must not be later than 'to'")


def write_cursor(query: ListQuery, last: Head) -> str:
    """Make the cursor that continues a list after its last row, bound to the query."""
    occurred_at = format_time(last.occurred_at)
    digest = _digest(query, occurred_at, last.event_id)
    text = json.dumps([occurred_at, last.event_id, digest], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(query: ListQuery, cursor: str) -> ListQuery:
    """Continue a query where a cursor points.

    Raises:
        BadCursor: for text that is no cursor, or the cursor of another query.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        occurred_at, event_id, digest = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        str.encode(event_id)  # refuses what is no text, and half of a surrogate pair
        position = Position(parse_time(occurred_at), event_id)
    except (ValueError, TypeError, binascii.Error, RecursionError, Invalid):
        raise BadCursor("cursor", "is not a cursor of this API; take `next_cursor` from the page before") from None
    if len(event_id) > MAX_EVENT_ID or digest != _digest(query, occurred_at, event_id):
        raise BadCursor("cursor", "is damaged or belongs to another query; keep the filters and the order as they were")
    return query._replace(after=position)


def _digest(query: ListQuery, occurred_at: str, event_id: str) -> str:
    times = [format_time(moment) if moment else "" for moment in (query.earliest, query.latest)]
    filters = (query.state or "", query.entity or "", *times, str(query.descending))
    return framed_digest(*filters, occurred_at, event_id)[:16]
