"""`interlock worker events`: from a queue of EventBridge events to workflows, through failures of every kind."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters.memory.clock import ManualClock
from adapters.memory.event_bus import MemoryEventBus
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.skip_list_store import MemorySkipListStore
from adapters.memory.start_ledger import MemoryLedger
from adapters.memory.workflow_catalog import MemoryCatalog
from adapters.memory.workflow_starter import MemoryStarter
from adapters.system.id_source import RandomIds
from application.catalog import CatalogReader
from application.route import Router
from application.skip_list import SkipListReader, add_reports
from domain.envelope import Envelope
from domain.errors import Invalid, Misconfigured, Unavailable
from domain.messages import Outgoing
from domain.retry import RetryRule
from domain.routing import EVENTS, Offer, Started, StartRequest
from entrypoints.worker.events import Draining, drain
from tests.examples import START, an_envelope
from tests.waiting import until

pytestmark = pytest.mark.anyio

AT_ONCE = RetryRule(attempts=10_000, base=0.001, ceiling=0.002)


class Starter(MemoryStarter):
    """A server that can be down, or refuse."""

    failure: Exception | None = None

    async def start(self, request: StartRequest, seconds: float, /) -> Started:
        if self.failure is not None:
            self.calls += 1
            raise self.failure
        return await super().start(request, seconds)


class World:
    """A bus, its queue, a router and what is around them."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.dead = MemoryQueue(self.clock, RandomIds())
        self.queue = MemoryQueue(self.clock, RandomIds(), visibility_seconds=60, max_receives=3, dead_letters=self.dead)
        self.bus = MemoryEventBus(self.queue, self.clock, RandomIds())
        self.starter = Starter(self.clock, RandomIds())
        self.catalog, self.skips = MemoryCatalog(), MemorySkipListStore()
        metrics = MemoryMetrics()
        self.router = Router(
            starter=self.starter,
            catalog=CatalogReader(self.catalog, self.clock, metrics),
            ledger=MemoryLedger(),
            skips=SkipListReader(self.skips, self.clock, metrics),
            clock=self.clock,
            ids=RandomIds(),
            metrics=metrics,
            spread=lambda: 0.0,
            retry=RetryRule(attempts=2, base=0),
        )
        self.lines: list[Any] = []

    async def offer(self, *names: str) -> None:
        until = START + timedelta(days=1)
        await self.catalog.publish(Offer("w1", tuple(f"{name}Workflow" for name in names), (EVENTS,), until))

    async def publish(self, *events: Envelope) -> None:
        assert await self.bus.publish(events) == [None] * len(events)

    @asynccontextmanager
    async def draining(self, batch: int = 10) -> AsyncIterator["asyncio.Task[None]"]:
        """Run the worker, and stop it at the end."""
        stop = asyncio.Event()
        how = Draining(batch, 2, 0.01, 60, AT_ONCE)
        with capture_logs() as self.lines:
            task = asyncio.create_task(drain(self.router, self.queue, how, stop))
            try:
                yield task
            finally:
                stop.set()
                await asyncio.wait([task])

    def totals(self) -> dict[str, int]:
        """Add up what the worker said of its batches."""
        names = ("received", "started", "already_started", "skipped", "caught", "returned")
        return {name: sum(line[name] for line in self.lines if line["event"] == "batch") for name in names}


def an_event(event_id: str, **more: Any) -> Envelope:
    return an_envelope(event_id, time="2026-01-01T11:59:00Z", **more)


async def test_events_go_where_they_belong_and_every_one_is_counted() -> None:
    world = World()
    await world.offer("FlightDelayed")
    await add_reports(world.skips, world.clock, "", ["R1"], "known bad")
    events = [an_event(f"e{number}") for number in range(20)]
    other = [an_event("o1", type="order placed"), an_event("s1", data={"report_id": "R1"})]
    await world.publish(*events, *events, *other)
    async with world.draining():
        await until(lambda: len(world.queue) == 0)
    assert world.totals() == {
        "received": 42,
        "started": 20,
        "already_started": 20,
        "skipped": 1,
        "caught": 1,
        "returned": 0,
    }
    assert sorted(run.request.envelope.id for run in world.starter.runs.values()) == sorted(
        [*(event.id for event in events), "o1"]
    )


async def test_fc21_any_detail_type_of_the_queue_is_caught() -> None:
    world = World()
    for number, kind in enumerate(["", "order placed", "Order.Placed.v2", "T" * 200, 5]):
        body = {"id": f"i{number}", "source": "s", "detail-type": kind, "detail": {}, "time": "2026-01-01T11:59:00Z"}
        world.queue.put(Outgoing(f"g{number}", f"g{number}", json.dumps(body)))
    async with world.draining():
        await until(lambda: len(world.queue) == 0)
    assert world.totals()["caught"] == 5
    assert len(world.starter.runs) == 5
    assert {run.request.workflow for run in world.starter.runs.values()} == {"UnmatchedEventWorkflow"}


async def test_fc20_dead_letters_of_rule_and_function_are_routed_and_meet() -> None:
    world = World()
    await world.offer("FlightDelayed")
    event = {"id": "i1", "source": "s", "detail-type": "FlightDelayed", "detail": {}, "time": "2026-01-01T11:59:00Z"}
    record = {"requestContext": {"condition": "RetriesExhausted"}, "requestPayload": event}
    for number, body in enumerate((event, record)):
        world.queue.put(Outgoing(f"g{number}", f"g{number}", json.dumps(body)))
    async with world.draining():
        await until(lambda: len(world.queue) == 0)
    assert (world.totals()["started"], world.totals()["already_started"]) == (1, 1)


@pytest.mark.parametrize("body", ["{", "", "null", "[]", '{"id": 5}', '"text"', "[" * 100_000], ids=lambda b: b[:9])
async def test_what_is_no_event_ends_in_the_dead_letters_and_takes_nothing_with_it(body: str) -> None:
    world = World()
    world.queue.put(Outgoing("bad", "bad", body))
    await world.publish(an_event("e1"))
    async with world.draining():
        await until(lambda: len(world.dead) == 1)
        await until(lambda: len(world.queue) == 0)
    assert len(world.starter.runs) == 1
    assert (world.totals()["caught"], world.totals()["returned"]) == (1, 3)
    assert [line["receive_count"] for line in world.lines if line["event"] == "event not routed"] == [1, 2, 3]


async def test_r305_an_outage_costs_the_events_in_hand_one_receive_however_long_it_lasts() -> None:
    world = World()
    await world.offer("FlightDelayed")
    await world.publish(*(an_event(f"e{number}") for number in range(50)))
    world.starter.failure = Unavailable("Temporal", "down")
    async with world.draining():
        await until(lambda: world.starter.calls > 200)
        assert sum(line["event"] == "batch" for line in world.lines) == 2, "each receiver has one batch in hand"
        world.starter.failure = None
        await until(lambda: len(world.queue) == 0)
    assert len(world.dead) == 0
    assert len(world.starter.runs) == 50
    assert {run.starts for run in world.starter.runs.values()} == {1}
    assert world.totals()["returned"] == 20


async def test_an_event_that_is_refused_for_good_is_tried_a_few_times_and_kept() -> None:
    world = World()
    await world.offer("FlightDelayed")
    world.starter.failure = Invalid("", "refused")
    await world.publish(an_event("e1"))
    async with world.draining():
        await until(lambda: len(world.dead) == 1)
    assert world.starter.calls == 3


async def test_a_server_that_does_not_know_us_ends_the_worker_and_empties_nothing() -> None:
    world = World()
    await world.offer("FlightDelayed")
    world.starter.failure = Misconfigured("Temporal", "no such namespace")
    await world.publish(*(an_event(f"e{number}") for number in range(50)))
    async with world.draining() as task:
        await asyncio.wait([task], timeout=10)
    with pytest.raises(Misconfigured, match="namespace"):
        task.result()
    assert (len(world.queue), len(world.dead)) == (50, 0)


async def test_a_mistake_of_ours_is_told_without_content_and_kept() -> None:
    world = World()
    await world.offer("FlightDelayed")
    world.starter.failure = TypeError("secret")
    await world.publish(an_event("e1"))
    async with world.draining():
        await until(lambda: world.starter.calls > 3)
        world.starter.failure = None
        await until(lambda: len(world.queue) == 0)
    assert "secret" not in str(world.lines)
    assert len(world.starter.runs) == 1
