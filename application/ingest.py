"""Ingestion: check, record the envelope once, publish one notification, return (R-105).

A copy of an event publishes again what was recorded first: its first delivery may have died between the two
steps. The topic's deduplication id and the consumer's command id make the second notification harmless.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from application.platform import Platform
from domain.envelope import Envelope, check_size, with_time
from domain.errors import InterlockError, Invalid
from domain.event import RecordedEvent, event_ids, recorded
from domain.messages import ingested_message


class Ingested(NamedTuple):
    """An event that is recorded and notified."""

    event_id: str
    outcome: Literal["new", "duplicate"]


async def ingest(platform: Platform, envelopes: Sequence[Envelope]) -> list[Ingested | InterlockError]:
    """Ingest events.

    Args:
        platform: the ports and rules.
        envelopes: checked envelopes (`domain.envelope`); each needs a `subject`.

    Returns:
        One answer an event, in order. An `InterlockError` means: not accepted, with the reason; a `Retryable`
        one may be sent again, and is then recognised.

    Raises:
        Unavailable: the store did not answer; nothing is accepted, and sending again is safe.
    """
    now = platform.clock.now()
    answers: dict[int, Ingested | InterlockError] = {}
    checked: dict[int, Envelope] = {}
    for index, envelope in enumerate(envelopes):
        try:
            complete = with_time(envelope, now)
            check_size(len(ingested_message(complete).body.encode()), platform.publisher.max_bytes)
        except Invalid as error:
            answers[index] = error
        else:
            checked[index] = complete

    stored = await record_once(platform, list(checked.values()))
    refusals = await platform.publisher.publish([ingested_message(event.envelope) for event, _ in stored])
    for index, (event, outcome), refusal in zip(checked, stored, refusals, strict=True):
        answers[index] = refusal or Ingested(event.event_id, outcome)

    ordered = [answers[index] for index in range(len(envelopes))]
    tally = Counter(answer.outcome if isinstance(answer, Ingested) else "rejected" for answer in ordered)
    for name, number in tally.items():
        platform.metrics.count("ingested_events_total", number, outcome=name)
    return ordered


async def record_once(
    platform: Platform, envelopes: Sequence[Envelope]
) -> list[tuple[RecordedEvent, Literal["new", "duplicate"]]]:
    """Record events, each under the second of its ids where another source has the first (see `event_ids`).

    Returns:
        For each envelope, in order, what is stored, and whether this call stored it.

    Raises:
        Invalid: when an envelope names no subject.
        Unavailable: the store did not answer; recording again is safe.
    """
    now = platform.clock.now()
    done: dict[int, tuple[RecordedEvent, Literal["new", "duplicate"]]] = {}
    pending = {index: recorded(with_time(it, now), event_ids(it)[0], now) for index, it in enumerate(envelopes)}
    while pending:
        answers = await platform.store.record(list(pending.values()))
        taken: dict[int, RecordedEvent] = {}
        for (index, event), stored in zip(pending.items(), answers, strict=True):
            if (stored.envelope.source, stored.envelope.id) == (event.envelope.source, event.envelope.id):
                done[index] = (stored, "new" if stored is event else "duplicate")
            else:
                taken[index] = event._replace(event_id=event_ids(event.envelope)[1])
        pending = taken
    return [done[index] for index in range(len(envelopes))]
