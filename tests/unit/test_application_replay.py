"""Replaying what was caught, and writing down what has completed (R-304, R-308)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from adapters.memory.caught_events import MemoryCaughtEvents
from adapters.memory.clock import ManualClock
from adapters.memory.id_source import CountingIds
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.start_ledger import MemoryLedger
from adapters.memory.workflow_catalog import MemoryCatalog
from adapters.memory.workflow_history import MemoryHistory
from adapters.memory.workflow_starter import MemoryStarter
from application.catalog import CatalogReader
from application.remember import LAG, remember_completed
from application.replay import AT_ONCE, PAGE, Replayed, list_caught, replay
from application.route import Router
from domain.errors import Unavailable
from domain.retry import RetryRule
from domain.routing import Handled, Offer, Started, StartRequest
from tests.contracts.caught_events import a_caught
from tests.contracts.workflow_starter import a_request
from tests.entrypoints.http_api import ListedReports
from tests.examples import START

pytestmark = pytest.mark.anyio


class RefusingStarter(MemoryStarter):
    """Does not answer for some events."""

    refused: frozenset[str] = frozenset()

    async def start(self, request: StartRequest, seconds: float, /) -> Started:
        if request.event_id in self.refused:
            raise Unavailable("Temporal", "gone")
        return await super().start(request, seconds)


@dataclass
class World:
    clock: ManualClock
    catalog: MemoryCatalog
    caught: MemoryCaughtEvents
    starter: RefusingStarter
    router: Router
    skipped: dict[str, str]

    async def serve(self, *types: str) -> None:
        names = tuple(f"{one}Workflow" for one in types)
        await self.catalog.publish(Offer("w", names, ("events", "exports"), START + timedelta(hours=1)))
        self.clock.advance(10)

    async def replay(self, event_type: str | None = None, *, dry_run: bool = False) -> dict[str, int]:
        told: list[Replayed] = []
        report = await replay(self.router, self.caught, event_type, lambda: 30.0, told.append, dry_run=dry_run)
        assert report.seen == len(told) == sum(report.fates.values())
        return {str(fate): number for fate, number in report.fates.items()}


@pytest.fixture
def world() -> World:
    clock, metrics = ManualClock(START), MemoryMetrics()
    catalog, starter, skipped = MemoryCatalog(), RefusingStarter(clock, CountingIds()), dict[str, str]()
    router = Router(
        starter,
        CatalogReader(catalog, clock, metrics),
        MemoryLedger(),
        ListedReports(skipped),
        clock,
        CountingIds(),
        metrics,
        lambda: 1.0,
        retry=RetryRule(2, 0.1, 0.1),
    )
    return World(clock, catalog, MemoryCaughtEvents(), starter, router, skipped)


async def test_r308_what_has_a_workflow_by_now_is_started_once_and_the_rest_waits(world: World) -> None:
    for number in range(PAGE + 50):
        await world.caught.record(a_caught(f"e{number:03}"))
    await world.caught.record(a_caught("other", "Unknown"))
    assert await world.replay() == {"waiting": PAGE + 51}
    await world.serve("OrderPlaced")
    assert await world.replay(dry_run=True) == {"started": PAGE + 50, "waiting": 1}
    assert world.starter.calls == 0
    assert await world.replay() == {"started": PAGE + 50, "waiting": 1}
    assert len(world.starter.runs) == PAGE + 50
    assert await world.replay() == {"replayed_before": PAGE + 50, "waiting": 1}
    assert {run.starts for run in world.starter.runs.values()} == {1}
    assert [one.replayed_at is None async for one in list_caught(world.caught, "Unknown")] == [True]


async def test_r308_only_the_type_that_is_asked_for_is_replayed(world: World) -> None:
    for event_type in ("A", "B"):
        await world.caught.record(a_caught("e1", event_type))
    await world.serve("A", "B")
    assert await world.replay("B") == {"started": 1}
    assert set(world.starter.runs) == {"BWorkflow-e1"}


async def test_r308_an_event_that_was_redelivered_meanwhile_is_not_started_twice(world: World) -> None:
    event = a_caught("e1")
    await world.caught.record(event)
    await world.serve("OrderPlaced")
    assert (await world.router.route(event.envelope, lambda: 30.0)).outcome == "started"
    assert await world.replay() == {"already_started": 1}
    assert await world.replay() == {"replayed_before": 1}


async def test_r308_a_failure_is_told_and_the_others_go_on(world: World) -> None:
    for number in range(5):
        await world.caught.record(a_caught(f"e{number}"))
    await world.serve("OrderPlaced")
    world.starter.refused = frozenset({"e1", "e3"})
    assert await world.replay() == {"started": 3, "failed": 2}
    world.starter.refused = frozenset()
    assert await world.replay() == {"started": 2, "replayed_before": 3}


async def test_r308_replaying_stops_when_nothing_can_be_started_any_more(world: World) -> None:
    ids = [f"e{number:03}" for number in range(4 * AT_ONCE)]
    for one in ids:
        await world.caught.record(a_caught(one))
    await world.serve("OrderPlaced")
    world.starter.refused = frozenset(ids[AT_ONCE:])
    report = await replay(world.router, world.caught, None, lambda: 30.0)
    assert report.stopped
    assert report.fates["started"] == AT_ONCE
    assert AT_ONCE <= report.fates["failed"] < 2 * AT_ONCE
    world.starter.refused = frozenset(ids[AT_ONCE:-1:AT_ONCE])
    report = await replay(world.router, world.caught, None, lambda: 30.0)
    assert report == (4 * AT_ONCE, {"replayed_before": 16, "started": 45, "failed": 3}, False)


async def test_r307_a_listed_report_is_not_replayed_while_it_is_listed(world: World) -> None:
    await world.caught.record(a_caught("e1", report_id="R1"))
    await world.serve("OrderPlaced")
    world.skipped["R1"] = "wrong"
    assert await world.replay() == {"skipped": 1}
    world.skipped.clear()
    assert await world.replay() == {"started": 1}


# -------------------------------------------------------------------------------------------------------- remembering
async def test_r304_what_has_completed_is_written_down_and_what_failed_is_not() -> None:
    clock, ledger = ManualClock(START), MemoryLedger()
    server = MemoryStarter(clock, CountingIds())
    for name, state in (("A", "completed"), ("B", "failed"), ("C", "running"), ("D", "completed")):
        await server.start(a_request(name), 1)
        if state == "completed":
            server.close(name, "completed")
        elif state == "failed":
            server.close(name, "failed")
    assert await remember_completed(MemoryHistory(server), ledger, clock) == 2
    assert [await ledger.find(name) is not None for name in "ABCD"] == [True, False, False, True]
    assert await ledger.swept_until() == START - LAG


async def test_r304_a_sweep_begins_where_the_last_one_was_sure_of_the_list() -> None:
    clock, ledger = ManualClock(START), MemoryLedger()
    asked: list[datetime] = []

    class Asked:
        async def completed(self, since: datetime, /) -> AsyncIterator[Handled]:
            asked.append(since)
            for number in range(1200):
                yield Handled(f"A-{number}", "run", START)

    assert await remember_completed(Asked(), ledger, clock) == 1200
    clock.advance(60)
    await remember_completed(Asked(), ledger, clock)
    assert asked[1] == START - LAG
    assert await ledger.find("A-1199") is not None


async def test_r304_a_sweep_that_fails_half_way_is_done_again_from_the_same_place() -> None:
    clock, ledger = ManualClock(START), MemoryLedger()

    class Failing:
        async def completed(self, since: datetime, /) -> AsyncIterator[Handled]:  # noqa: ARG002 - it fails anyway
            yield Handled("A-1", "run", START)
            raise Unavailable("Temporal", "gone")

    with pytest.raises(Unavailable):
        await remember_completed(Failing(), ledger, clock)
    assert await ledger.swept_until() is None
