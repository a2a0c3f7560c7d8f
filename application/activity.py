"""Recording platform events as activity, each once (R-401). Reading it is `application.activity_history`'s alone."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from domain.activity import Activity, Pointer, activity_of, unsealed
from domain.envelope import Envelope
from domain.errors import Invalid
from ports.activity_store import ActivityStore
from ports.clock import Clock
from ports.metrics import Metrics
from ports.object_store import ObjectStore

Outcome = Literal["recorded", "duplicate"]


@dataclass(frozen=True, slots=True)
class ActivityFeed:
    """What recording needs.

    Attributes:
        payloads: where envelopes go that are too large for a row; None: the store takes what it can.
        inline_bytes: how large an envelope may be in a row, as UTF-8.
    """

    store: ActivityStore
    payloads: ObjectStore | None
    clock: Clock
    metrics: Metrics
    inline_bytes: int


async def record(
    feed: ActivityFeed, envelopes: Sequence[Envelope], *, account: str | None = None
) -> list[Outcome | Invalid]:
    """Record events, each once (R-401). What is too large for a row is kept first, and then pointed at (FC-33).

    Args:
        feed: the ports.
        envelopes: checked ones.
        account: whose events are that do not say so themselves; None refuses them.

    Returns:
        One answer an event, in order.

    Raises:
        TooLarge: an event that neither a row nor the payload store holds. No row was written.
        Unavailable: a store did not answer; recording again is safe.
    """
    now = feed.clock.now()
    answers: dict[int, Outcome | Invalid] = {}
    rows: dict[int, Activity] = {}
    for index, envelope in enumerate(envelopes):
        try:
            rows[index] = await _placed(feed, activity_of(envelope, now, account=account))
        except Invalid as error:
            answers[index] = error
    for index, is_new in zip(rows, await feed.store.record(list(rows.values())), strict=True):
        answers[index] = "recorded" if is_new else "duplicate"
    tally = Counter(answer if isinstance(answer, str) else "rejected" for answer in answers.values())
    for outcome, number in tally.items():
        feed.metrics.count("activity_events_total", number, outcome=outcome)
    return [answers[index] for index in range(len(envelopes))]


async def _placed(feed: ActivityFeed, activity: Activity) -> Activity:
    """Put an envelope that is too large for a row where it belongs."""
    if feed.payloads is None or isinstance(activity.payload, Pointer):
        return activity
    content = unsealed(activity.payload).encode()
    if len(content) <= feed.inline_bytes:
        return activity
    # Named by its content: two copies that differ never mix, and putting one again changes nothing.
    key = f"activity/{activity.activity_id[:2]}/{activity.activity_id}/{hashlib.sha256(content).hexdigest()}"
    await feed.payloads.put(key, content)
    return activity._replace(payload=Pointer(key, len(content)))
