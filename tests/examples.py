"""Values that tests start from, each a valid one to break or vary."""

from datetime import UTC, datetime, timedelta

from domain.envelope import Envelope, envelope_from
from domain.event import Head, RecordedEvent, first_head
from domain.lifecycle import Transition

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
STATES = ("to_review", "open", "scheduled", "under_watch", "closed")


def an_envelope(
    event_id: str = "e1", *, entity: str = "N14228", source: str = "/flights/nyc", **more: object
) -> Envelope:
    """Give a valid envelope; `more` adds or replaces attributes."""
    return envelope_from(
        {
            "specversion": "1.0",
            "id": event_id,
            "source": source,
            "type": "FlightDelayed",
            "subject": entity,
            "time": "2026-01-01T10:00:00Z",
            "data": {"minutes": 42},
            **more,  # type: ignore[dict-item]
        }
    )


def a_record(event_id: str = "e1", *, arrived_at: datetime = START, **more: str) -> RecordedEvent:
    """Give a recorded event."""
    envelope = an_envelope(event_id, **more)
    return RecordedEvent(event_id, envelope.subject or "", arrived_at, envelope)


def facts_of(event_id: str, number: int, *, entity: str = "N14228", start: datetime = START) -> list[Transition]:
    """Give the first transitions of an event, one second apart."""
    return [
        Transition(
            event_id=event_id,
            entity=entity,
            from_state=STATES[index - 1] if index else None,
            to_state=STATES[index],
            at=start + timedelta(seconds=index),
            actor="ada",
            reason=None if index % 2 else f"because {index}",
            command_id=f"command-{event_id}-{index}",
            sequence=index + 1,
        )
        for index in range(number)
    ]


def head_after(record: RecordedEvent, fact: Transition) -> Head:
    """Give the head of an event after one of its facts."""
    seed = first_head(record.envelope, record.event_id, fact.to_state, record.arrived_at)
    return seed._replace(sequence=fact.sequence, since=fact.at)
