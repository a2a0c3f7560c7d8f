"""Routing one event: attempts, time, the ledger, and what a warm event costs (R-301 to R-307)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.id_source import CountingIds
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.start_ledger import MemoryLedger
from adapters.memory.workflow_catalog import MemoryCatalog
from adapters.memory.workflow_starter import MemoryStarter
from application.catalog import CatalogReader
from application.route import Router
from domain.envelope import Envelope
from domain.errors import InterlockError, Invalid, Misconfigured, TooLarge, Unavailable
from domain.retry import RetryRule
from domain.routing import Handled, Offer, Started, StartRequest
from tests.examples import START, an_envelope

pytestmark = pytest.mark.anyio

TYPE = "ReportRunCompletedEvent"
WORKFLOW = f"{TYPE}Workflow"


@dataclass
class Skips:
    reasons: dict[str, str] = field(default_factory=dict)
    asked: int = 0

    async def reason(self, event_type: str, report_id: str | None, /) -> str | None:  # noqa: ARG002 - see the class
        self.asked += 1
        return None if report_id is None else self.reasons.get(report_id)


class CountingCatalog(MemoryCatalog):
    """Counts how often it is read, and fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.is_away = False

    async def offers(self) -> list[Offer]:
        self.reads += 1
        if self.is_away:
            raise Unavailable("catalog", "away")
        return await super().offers()


class CountingLedger(MemoryLedger):
    """Counts how often it is read, and fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.is_away = False

    async def find(self, workflow_id: str, /) -> Handled | None:
        self.reads += 1
        if self.is_away:
            raise Unavailable("ledger", "away")
        return await super().find(workflow_id)


class FaultyStarter(MemoryStarter):
    """Fails as it is told, before it starts or after; then it works."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, CountingIds())
        self.faults: list[InterlockError] = []
        self.loses_answers = False
        self.seconds: list[float] = []
        self._clock_of_test = clock

    async def start(self, request: StartRequest, seconds: float, /) -> Started:
        self.seconds.append(seconds)
        if not self.faults:
            return await super().start(request, seconds)
        if self.loses_answers:
            await super().start(request, seconds)
        else:
            self.calls += 1
        raise self.faults.pop(0)


@dataclass
class World:
    clock: ManualClock
    catalog: CountingCatalog
    ledger: CountingLedger
    starter: FaultyStarter
    skips: Skips
    metrics: MemoryMetrics
    router: Router

    def left(self, seconds: float = 30) -> Callable[[], float]:
        end = self.clock.now() + timedelta(seconds=seconds)
        return lambda: (end - self.clock.now()) / timedelta(seconds=1)


@pytest.fixture
async def world() -> World:
    clock, metrics = ManualClock(START), MemoryMetrics()
    catalog, ledger, starter, skips = CountingCatalog(), CountingLedger(), FaultyStarter(clock), Skips()
    await catalog.publish(Offer("w", (WORKFLOW,), ("events", "exports"), START + timedelta(hours=1)))
    reader = CatalogReader(catalog, clock, metrics)
    router = Router(
        starter, reader, ledger, skips, clock, CountingIds(), metrics, lambda: 1.0, retry=RetryRule(5, 0.2, 5.0)
    )
    return World(clock, catalog, ledger, starter, skips, metrics, router)


def an_event(
    envelope_id: str = "e1", event_type: str = TYPE, *, age: timedelta = timedelta(), **data: object
) -> Envelope:
    time = (START - age).isoformat()
    return an_envelope(envelope_id, type=event_type, time=time, data=data)


async def test_r302_an_event_starts_the_workflow_of_its_name_with_itself_as_argument(world: World) -> None:
    event = an_event()
    result = await world.router.route(event, world.left())
    assert (result.outcome, result.workflow, result.workflow_id) == ("started", WORKFLOW, f"{WORKFLOW}-e1")
    assert (result.task_queue, result.attempts) == ("events", 1)
    run = world.starter.runs[f"{WORKFLOW}-e1"]
    assert (run.run_id, run.request.envelope, run.request.event_id) == (result.run_id, event, "e1")


async def test_r304_a_redelivery_is_told_as_such_and_a_failed_one_starts_again(world: World) -> None:
    first = await world.router.route(an_event(), world.left())
    second = await world.router.route(an_event(), world.left())
    assert (second.outcome, second.run_id, second.attempts) == ("already_started", first.run_id, 1)
    world.starter.close(f"{WORKFLOW}-e1", "failed")
    third = await world.router.route(an_event(), world.left())
    assert third.outcome == "started"
    assert third.run_id != first.run_id
    world.starter.close(f"{WORKFLOW}-e1", "completed")
    assert (await world.router.route(an_event(), world.left())).outcome == "already_started"


async def test_fc14_copies_and_republished_events_are_one_workflow(world: World) -> None:
    async with asyncio.TaskGroup() as tasks:
        copies = [an_event("same"), an_event("same"), an_event("one", event_id="E"), an_event("two", event_id="E")]
        routed = [tasks.create_task(world.router.route(copy, world.left())) for copy in copies]
    outcomes = [task.result().outcome for task in routed]
    assert outcomes == ["started", "already_started", "started", "already_started"]
    assert set(world.starter.runs) == {f"{WORKFLOW}-same", f"{WORKFLOW}-E"}
    assert [task.result().event_id_from for task in routed] == ["envelope", "envelope", "detail", "detail"]


async def test_r303_an_event_without_a_workflow_is_caught_and_a_copy_is_not_caught_twice(world: World) -> None:
    first = await world.router.route(an_event(event_type="order placed"), world.left())
    assert (first.outcome, first.workflow) == ("caught", "UnmatchedEventWorkflow")
    assert (await world.router.route(an_event(event_type="order placed"), world.left())).outcome == "already_started"


async def test_r307_a_listed_report_starts_nothing(world: World) -> None:
    world.skips.reasons["R1"] = "wrong"
    result = await world.router.route(an_event(report_id="R1"), world.left())
    assert (result.outcome, result.run_id, result.attempts) == ("skipped", None, 0)
    assert (result.workflow, result.why) == (WORKFLOW, "on the skip list: wrong")
    assert world.starter.calls == 0


# ------------------------------------------------------------------------------------------------------------ attempts
async def test_r305_failures_that_may_pass_are_tried_again_with_growing_waits(world: World) -> None:
    world.starter.faults = [Unavailable("Temporal", "UNAVAILABLE: gone")] * 4
    result = await world.router.route(an_event(), world.left())
    assert (result.outcome, result.attempts) == ("started", 5)
    assert (world.clock.now() - START).total_seconds() == pytest.approx(0.2 + 0.4 + 0.8 + 1.6)


async def test_r305_attempts_are_bounded_and_the_last_reason_is_told(world: World) -> None:
    world.starter.faults = [Unavailable("Temporal", f"reason {number}") for number in range(9)]
    with pytest.raises(Unavailable, match=r"Temporal is unavailable: reason 4 \(asked 5 times\)"):
        await world.router.route(an_event(), world.left())
    assert world.starter.calls == 5
    assert world.metrics.counters["router_failed_attempts_total", ()] == 5


async def test_r305_no_attempt_begins_after_the_time_is_over(world: World) -> None:
    world.starter.faults = [Unavailable("Temporal", "gone")] * 9
    with pytest.raises(Unavailable, match="asked 3 times"):
        await world.router.route(an_event(), world.left(1.0))
    assert (world.clock.now() - START).total_seconds() == pytest.approx(0.6)
    assert world.starter.seconds == pytest.approx([1.0, 0.8, 0.4])
    with pytest.raises(Unavailable, match="no time was left to ask"):
        await world.router.route(an_event(), world.left(0))


@pytest.mark.parametrize(
    "fault", [Invalid("", "refused"), Misconfigured("Temporal", "no such namespace"), TooLarge("", "too large", 9, 8)]
)
async def test_r305_what_can_never_succeed_is_tried_once(world: World, fault: InterlockError) -> None:
    world.starter.faults = [fault] * 2
    with pytest.raises(type(fault)) as raised:
        await world.router.route(an_event(), world.left())
    assert raised.value is fault
    assert world.starter.calls == 1


async def test_r304_a_lost_answer_to_our_own_first_try_is_a_start(world: World) -> None:
    world.starter.faults = [Unavailable("Temporal", "CANCELLED: Timeout expired")]
    world.starter.loses_answers = True
    result = await world.router.route(an_event(), world.left())
    assert (result.outcome, result.attempts) == ("started", 2)
    assert world.starter.runs[f"{WORKFLOW}-e1"].starts == 1


# -------------------------------------------------------------------------------------------------------- what it costs
async def test_g26_a_warm_event_costs_one_call_to_the_server_and_none_to_a_store(world: World) -> None:
    await world.router.route(an_event("first"), world.left())
    reads, calls = world.catalog.reads, world.starter.calls
    for number in range(50):
        await world.router.route(an_event(f"e{number}"), world.left())
        await world.router.route(an_event(f"e{number}"), world.left())
    assert (world.catalog.reads, world.ledger.reads) == (reads, 0)
    assert world.starter.calls == calls + 100


async def test_r302_a_new_workflow_is_found_within_a_second_and_unknown_types_cost_no_more_reads(world: World) -> None:
    for _ in range(20):
        await world.router.decide("New", None, None)
    assert world.catalog.reads == 1
    await world.catalog.publish(Offer("w2", ("NewWorkflow",), ("events",), START + timedelta(hours=1)))
    assert (await world.router.decide("New", None, None)).outcome == "catch_all"
    world.clock.advance(1)
    assert (await world.router.decide("New", None, None)).outcome == "start"
    assert world.catalog.reads == 2


async def test_r302_a_worker_that_is_gone_is_forgotten_with_its_lease(world: World) -> None:
    assert (await world.router.decide(TYPE, None, None)).outcome == "start"
    world.clock.advance(3600)
    assert (await world.router.decide(TYPE, None, None)).outcome == "catch_all"


async def test_a_catalog_that_went_away_is_used_as_it_was_last_known_and_said_to_be_stale(world: World) -> None:
    await world.router.route(an_event("e1"), world.left())
    world.catalog.is_away = True
    world.clock.advance(7200)  # the offer would have ended meanwhile
    assert (await world.router.route(an_event("e2"), world.left())).outcome == "started"
    assert world.router.catalog.is_stale
    assert world.metrics.counters["router_catalog_stale_total", ()] == 1
    world.catalog.is_away = False
    world.clock.advance(5)
    assert (await world.router.decide(TYPE, None, None)).outcome == "catch_all"
    assert not world.router.catalog.is_stale


async def test_a_catalog_that_never_answered_sends_nothing_to_the_catch_all(world: World) -> None:
    world.catalog.is_away = True
    with pytest.raises(Unavailable, match="catalog"):
        await world.router.route(an_event(), world.left())
    assert world.starter.calls == 0


async def test_of_many_events_at_once_one_reads_the_catalog(world: World) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(30):
            tasks.create_task(world.router.route(an_event(f"e{number}"), world.left()))
    assert world.catalog.reads == 1
    assert len(world.starter.runs) == 30


# ---------------------------------------------------------------------------------------------------------- the ledger
OLD = timedelta(hours=20)


async def test_r304_an_old_event_that_was_handled_is_not_started_again(world: World) -> None:
    handled = Handled(f"{WORKFLOW}-e1", "run-of-old", START - OLD)
    await world.ledger.record([handled])
    result = await world.router.route(an_event(age=OLD), world.left())
    assert (result.outcome, result.run_id, result.attempts) == ("already_started", "run-of-old", 0)
    assert world.starter.calls == 0


async def test_r304_an_old_event_that_was_never_handled_starts(world: World) -> None:
    assert (await world.router.route(an_event(age=OLD), world.left())).outcome == "started"
    assert world.ledger.reads == 1


async def test_r304_a_young_event_is_not_looked_up_and_one_without_a_time_is(world: World) -> None:
    await world.router.route(an_event("e1", age=OLD - timedelta(seconds=1)), world.left())
    assert world.ledger.reads == 0
    await world.router.route(Envelope(specversion="1.0", id="e2", source="/s", type=TYPE), world.left())
    assert world.ledger.reads == 1
    world.router = replace(world.router, remembered=timedelta())
    for event in (an_event("e3"), an_event("e4", age=timedelta(seconds=-1))):
        await world.router.route(event, world.left())
    assert world.ledger.reads == 3


@pytest.mark.parametrize(("ahead", "reads"), [(299, 0), (300, 1), (86_400 * 3650, 1)])
async def test_r304_a_time_that_lies_ahead_makes_no_event_young(world: World, ahead: int, reads: int) -> None:
    await world.router.route(an_event(age=timedelta(seconds=-ahead)), world.left())
    assert world.ledger.reads == reads


async def test_r304_an_old_event_waits_for_the_ledger_and_is_never_started_without(world: World) -> None:
    world.ledger.is_away = True
    with pytest.raises(Unavailable, match="ledger"):
        await world.router.route(an_event(age=OLD), world.left())
    assert world.starter.calls == 0
    assert (await world.router.route(an_event(), world.left())).outcome == "started"


async def test_every_outcome_is_counted(world: World) -> None:
    world.skips.reasons["R1"] = "wrong"
    for event in (an_event(), an_event(), an_event("e2", "odd"), an_event("e3", report_id="R1")):
        await world.router.route(event, world.left())
    counted = {labels: count for (name, labels), count in world.metrics.counters.items() if "events" in name}
    assert counted == {(("outcome", one),): 1 for one in ("started", "already_started", "caught", "skipped")}
