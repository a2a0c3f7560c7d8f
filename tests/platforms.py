"""The lifecycle on the in-memory engine, with parts that a test may replace, count or break."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from adapters.memory.clock import ManualClock
from adapters.memory.event_store import MemoryEventStore
from adapters.memory.id_source import CountingIds
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.publisher import MemoryPublisher
from application.consume import BatchReport, apply_batch
from application.platform import Platform
from domain.errors import InterlockError, Unavailable
from domain.event import Head, ListQuery, Missed, RecordedEvent, Stream
from domain.lifecycle import Transition
from domain.messages import Outgoing
from ports.event_store import EventStore
from ports.publisher import Publisher
from tests.examples import START


@dataclass
class Machine:
    """A platform and the parts behind it."""

    platform: Platform
    store: EventStore
    queue: MemoryQueue
    dead_letters: MemoryQueue
    clock: ManualClock
    metrics: MemoryMetrics
    max_receives: int

    async def work(self, limit: int = 10) -> BatchReport:
        """Do what a worker does with one batch: apply it, delete what is done, release the rest."""
        batch = await self.queue.receive(limit, 0)
        report = await apply_batch(self.platform, batch, max_receives=self.max_receives)
        assert report.received == sum(report.tally.values()) + len(report.returned)
        returned = [message for message in batch if message.message_id in report.returned]
        await self.queue.delete([message for message in batch if message not in returned])
        await self.queue.release(returned)
        return report

    async def drain(self) -> list[BatchReport]:
        """Work until nothing can be had."""
        reports = []
        while (report := await self.work()).received:
            reports.append(report)
        return reports


def a_machine(
    store: EventStore | None = None, publisher: Publisher | None = None, *, max_receives: int = 5, **changes: object
) -> Machine:
    """Give a platform on the in-memory engine; `changes` replace fields of the platform."""
    clock, ids, metrics = ManualClock(START), CountingIds(), MemoryMetrics()
    dead = MemoryQueue(clock, ids)
    queue = MemoryQueue(clock, ids, visibility_seconds=30, max_receives=max_receives, dead_letters=dead)
    used = store or MemoryEventStore()
    platform = Platform(used, publisher or MemoryPublisher(queue), clock, ids, metrics)
    return Machine(replace(platform, **changes), used, queue, dead, clock, metrics, max_receives)  # type: ignore[arg-type]


class WatchedStore(MemoryEventStore):
    """A store that counts its calls, gives way to other tasks before each, and is down for chosen events.

    Attributes:
        calls: how often each method was called.
        limits: how many rows each list was asked for.
        down: ids of events that it neither records nor appends to nor gives the stream of.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.down: set[str] = set()
        self.limits: list[int] = []

    async def _enter(self, name: str, *event_ids: str) -> None:
        self.calls[name] += 1
        await asyncio.sleep(0)
        if self.down.intersection(event_ids):
            raise Unavailable("event store", "is down")

    async def record(self, events: Sequence[RecordedEvent], /) -> list[RecordedEvent]:
        await self._enter("record", *(event.event_id for event in events))
        return await super().record(events)

    async def event(self, event_id: str, /) -> RecordedEvent | None:
        await self._enter("event")
        return await super().event(event_id)

    async def head(self, event_id: str, /) -> Head | None:
        await self._enter("head")
        return await super().head(event_id)

    async def stream(self, event_id: str, /) -> Stream:
        await self._enter("stream", event_id)
        return await super().stream(event_id)

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        await self._enter("append", head.event_id)
        await super().append(head, facts)

    async def note_missed(self, missed: Missed, /) -> None:
        await self._enter("note_missed")
        await super().note_missed(missed)

    async def list_heads(self, query: ListQuery, /) -> list[Head]:
        await self._enter("list_heads")
        self.limits.append(query.limit)
        return await super().list_heads(query)


@dataclass
class WatchedPublisher:
    """A topic that keeps what it was given, or refuses it.

    Attributes:
        refusal: what it answers instead of taking a message.
        published: each call's messages.
    """

    max_bytes: int = 1024 * 1024
    refusal: InterlockError | None = None
    published: list[list[Outgoing]] = field(default_factory=list)

    async def publish(self, messages: Sequence[Outgoing], /) -> list[InterlockError | None]:
        self.published.append(list(messages))
        return [self.refusal for _ in messages]
