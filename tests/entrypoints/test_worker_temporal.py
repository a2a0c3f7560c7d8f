"""The Temporal worker as a process: what it serves, what it says, and how it ends (R-302, R-303)."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.worker import Worker

from adapters.memory.metrics import MemoryMetrics
from adapters.memory.workflow_catalog import MemoryCatalog
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from adapters.temporal.connection import Target, Temporal, connect
from application.replay import list_caught
from domain.errors import Misconfigured, Unavailable
from domain.retry import RetryRule
from domain.routing import Offer
from entrypoints.engines.router import RouterStores, make_router, make_starter
from entrypoints.groups.router import TemporalSettings
from entrypoints.settings import Settings
from entrypoints.worker import taking
from entrypoints.worker import temporal as worker
from entrypoints.worker.temporal import Serving, load_modules, serve_workflows
from tests import temporal_engines
from tests.entrypoints.http_api import ListedReports
from tests.examples import an_envelope
from tests.redis_engines import free_port
from tests.temporal_engines import TemporalServer
from tests.waiting import until

pytestmark = pytest.mark.anyio

MODULE = "tests.temporal_workflows"
NAMES = ("ExportRequestedWorkflow", "ReportRunCompletedEventWorkflow")


def serving() -> Serving:
    return Serving(*load_modules([MODULE]))


@asynccontextmanager
async def running(
    address: str, stores: RouterStores, what: Serving, *, namespace: str = "default"
) -> AsyncIterator[tuple["asyncio.Task[None]", asyncio.Event]]:
    """Run a worker, and stop it at the end."""
    stop = asyncio.Event()
    server = Temporal(Target(address, namespace))
    task = asyncio.create_task(serve_workflows(server, stores, what, SystemClock(), RandomIds(), stop))
    try:
        yield task, stop
    finally:
        stop.set()
        await asyncio.wait([task], timeout=30)
        assert task.done()


@pytest.fixture
def stores() -> RouterStores:
    return RouterStores(Settings(engine="memory"))


async def is_offered(stores: RouterStores) -> bool:
    return bool(await stores.catalog.offers())


async def test_r302_it_says_what_it_serves_and_the_router_starts_it(
    temporal_address: str, stores: RouterStores
) -> None:
    settings = Settings(engine="memory", temporal=TemporalSettings(address=temporal_address))
    router = make_router(settings, stores, make_starter(settings), ListedReports({}), MemoryMetrics())
    event_id = uuid.uuid4().hex
    unmatched = an_envelope(f"{event_id}-2", type="Order placed", data={"amount": 7})
    async with running(temporal_address, stores, serving()):
        await until(lambda: is_offered(stores))
        (offer,) = await stores.catalog.offers()
        assert (offer.workflows, offer.task_queues) == (NAMES, ("events", "exports"))
        assert timedelta(seconds=280) < offer.until - SystemClock().now() <= timedelta(seconds=300)
        started = [
            await router.route(an_envelope(event_id, type=event_type, data={}), lambda: 30.0)
            for event_type in ("ReportRunCompletedEvent", "ExportRequested")
        ]
        caught = await router.route(unmatched, lambda: 30.0)
        client = await connect(Target(temporal_address), lazy=False)
        results = [await client.get_workflow_handle(one.workflow_id).result() for one in started]
        assert results == [event_id, "exported"]
        await client.get_workflow_handle(caught.workflow_id).result()
    (recorded,) = [one async for one in list_caught(stores.caught, None)]
    assert recorded.envelope == unmatched
    assert recorded.workflow_id == caught.workflow_id
    assert recorded.why == "no worker serves a workflow for this type of event"


async def test_r303_what_was_caught_before_any_worker_came_is_recorded_when_one_comes(
    temporal_address: str, stores: RouterStores
) -> None:
    settings = Settings(engine="memory", temporal=TemporalSettings(address=temporal_address))
    router = make_router(settings, stores, make_starter(settings), ListedReports({}), MemoryMetrics())
    event = an_envelope(uuid.uuid4().hex, type="acme.export.unknown")
    assert (await router.route(event, lambda: 30.0)).task_queue == "exports"

    async def is_recorded() -> bool:
        return event in [one.envelope async for one in list_caught(stores.caught, event.type)]

    async with running(temporal_address, stores, Serving({}, ())):
        await until(is_recorded)


async def test_a_store_that_is_away_holds_the_catch_all_up_and_loses_nothing(
    temporal_address: str, stores: RouterStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(engine="memory", temporal=TemporalSettings(address=temporal_address))
    router = make_router(settings, stores, make_starter(settings), ListedReports({}), MemoryMetrics())
    event = an_envelope(uuid.uuid4().hex, type="Order lost")
    record, failed = stores.caught.record, asyncio.Event()

    async def away(_: object) -> None:
        failed.set()
        monkeypatch.setattr(type(stores.caught), "record", record.__func__)  # type: ignore[attr-defined]
        raise Unavailable("store", "away")

    monkeypatch.setattr(type(stores.caught), "record", lambda _, caught: away(caught))
    result = await router.route(event, lambda: 30.0)
    async with running(temporal_address, stores, Serving({}, ())):
        client = await connect(Target(temporal_address), lazy=False)
        await client.get_workflow_handle(result.workflow_id).result()
    assert failed.is_set()
    assert event in [one.envelope async for one in list_caught(stores.caught, event.type)]


async def test_told_to_stop_it_finishes_the_activity_in_hand(temporal_address: str, stores: RouterStores) -> None:
    settings = Settings(engine="memory", temporal=TemporalSettings(address=temporal_address))
    router = make_router(settings, stores, make_starter(settings), ListedReports({}), MemoryMetrics())
    async with running(temporal_address, stores, serving()) as (task, stop):
        await until(lambda: is_offered(stores))
        event = an_envelope(uuid.uuid4().hex, type="ExportRequested", data={"seconds": 1.5})
        result = await router.route(event, lambda: 30.0)
        client = await connect(Target(temporal_address), lazy=False)
        handle = client.get_workflow_handle(result.workflow_id)

        async def is_exporting() -> bool:
            return bool((await handle.describe()).raw_description.pending_activities)

        await until(is_exporting)
        stop.set()
        await task
        names = [event.event_type for event in (await handle.fetch_history()).events]
        activity_completed = 12
        assert activity_completed in names
        assert (await handle.describe()).status in {WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED}
    assert await is_offered(stores), "the offer outlives the worker by its lease (ADR 0012)"
    await handle.terminate() if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING else None


async def test_it_waits_for_a_server_that_is_away_and_can_be_stopped_meanwhile(stores: RouterStores) -> None:
    async with running(f"127.0.0.1:{free_port()}", stores, serving()) as (task, stop):
        await asyncio.sleep(0.3)
        assert not task.done()
        stop.set()
        await asyncio.wait_for(task, 5)
    assert not await is_offered(stores)


@pytest.fixture
def own_server() -> Iterator[TemporalServer]:
    with temporal_engines.server() as server:
        yield server


async def test_it_serves_once_a_server_comes(stores: RouterStores, own_server: TemporalServer) -> None:
    own_server.stop()
    async with running(own_server.address, stores, serving()):
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_server.start)
        await until(lambda: is_offered(stores))


@pytest.fixture
def lost_at_the_start(monkeypatch: pytest.MonkeyPatch, own_server: TemporalServer) -> TemporalServer:
    """Give a server that goes away once: the worker has asked for its namespace, and begins."""
    make = worker._worker

    def make_and_lose(
        client: Client, stores: RouterStores, what: Serving, queue: str, pool: ThreadPoolExecutor
    ) -> Worker:
        own_server.stop()
        monkeypatch.setattr(worker, "_worker", make)
        return make(client, stores, what, queue, pool)

    monkeypatch.setattr(worker, "_worker", make_and_lose)
    return own_server


@pytest.mark.slow
async def test_a_server_that_goes_away_as_it_starts_is_waited_for(
    stores: RouterStores, lost_at_the_start: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = asyncio.Event()

    async def pause(backoff: RetryRule, attempt: int, stop: asyncio.Event) -> None:
        failed.set()
        await taking.pause(backoff, attempt, stop)

    monkeypatch.setattr(worker, "pause", pause)
    address = lost_at_the_start.address
    settings = Settings(engine="memory", temporal=TemporalSettings(address=address))
    router = make_router(settings, stores, make_starter(settings), ListedReports({}), MemoryMetrics())
    async with running(address, stores, serving()) as (task, _):
        await asyncio.wait_for(failed.wait(), 40)
        assert not task.done()
        await asyncio.to_thread(lost_at_the_start.start)
        started = await router.route(an_envelope("e1", type="ReportRunCompletedEvent", data={}), lambda: 30.0)
        client = await connect(Target(address), lazy=False)
        assert await asyncio.wait_for(client.get_workflow_handle(started.workflow_id).result(), 40) == "e1"
    (offer,) = await stores.catalog.offers()
    assert offer.workflows == NAMES
    assert task.exception() is None


@pytest.mark.slow
async def test_a_server_that_went_away_as_it_started_does_not_keep_it_from_stopping(
    stores: RouterStores, lost_at_the_start: TemporalServer
) -> None:
    async with running(lost_at_the_start.address, stores, serving()) as (task, stop):
        await until(lambda: is_offered(stores))
        stop.set()
        await asyncio.wait_for(task, 20)


async def test_a_namespace_that_is_not_there_ends_it(temporal_address: str, stores: RouterStores) -> None:
    async with running(temporal_address, stores, serving(), namespace="nowhere") as (task, _):
        with pytest.raises(Misconfigured, match="nowhere"):
            await asyncio.wait_for(asyncio.shield(task), 20)
    assert not await is_offered(stores)


async def test_a_workflow_that_cannot_be_run_is_named_with_what_is_wrong(
    temporal_address: str, stores: RouterStores, module: Callable[[str], str]
) -> None:
    name = module("import random\nNUMBER = random.random()\n" + A_WORKFLOW)
    async with running(temporal_address, stores, Serving(*load_modules([name]))) as (task, _):
        with pytest.raises(Misconfigured, match="cannot be run: Failed validating workflow AWorkflow: Cannot access"):
            await asyncio.wait_for(asyncio.shield(task), 20)
    assert not await is_offered(stores)


async def test_it_says_it_again_before_its_lease_ends_also_after_the_catalog_was_away(
    temporal_address: str, stores: RouterStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[Offer] = []

    async def publish(_: MemoryCatalog, offer: Offer) -> None:
        published.append(offer)
        if len(published) in {1, 3}:
            raise Unavailable("catalog", "away")

    monkeypatch.setattr(MemoryCatalog, "publish", publish)

    async def five_times() -> bool:
        return len(published) >= 5

    async with running(temporal_address, stores, serving()._replace(lease_seconds=0.6)):
        await until(five_times)
    assert len({offer.worker for offer in published}) == 1
    assert sorted(published, key=lambda offer: offer.until) == published


# ------------------------------------------------------------------------------------------------------------ modules
@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Write a module into the working folder, and give its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    made: list[str] = []

    def write(text: str) -> str:
        name = f"module_{uuid.uuid4().hex}"
        (tmp_path / f"{name}.py").write_text("from temporalio import activity, workflow\n" + text)
        made.append(name)
        return name

    yield write
    for name in made:
        sys.modules.pop(name, None)


A_WORKFLOW = """
@workflow.defn(name="AWorkflow")
class A:
    @workflow.run
    async def run(self, envelope: dict) -> None:
        pass
"""


def test_a_module_gives_its_workflows_and_its_activities(module: Callable[[str], str]) -> None:
    name = module(
        A_WORKFLOW
        + """
class Things:
    @activity.defn(name="listed")
    async def listed(self) -> None:
        pass

@activity.defn
async def plain() -> None:
    pass

ACTIVITIES = [Things().listed]
"""
    )
    workflows, activities = load_modules([name, MODULE, name])
    assert sorted(workflows) == ["AWorkflow", *NAMES]
    assert sorted(one.__name__ for one in activities) == ["export", "listed", "plain"]


def test_two_workflows_of_one_name_are_refused(module: Callable[[str], str]) -> None:
    first, second = module(A_WORKFLOW), module(A_WORKFLOW)
    with pytest.raises(Misconfigured, match="has another workflow called AWorkflow than a module before it"):
        load_modules([first, second])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such.module", "is not found in the working folder"),
        ("domain.nothing", "is not found in the working folder"),
        ("json", "holds no workflow and no activity"),
        ("", "cannot be imported"),
        (".relative", "cannot be imported"),
    ],
)
def test_a_module_that_cannot_be_served_is_named(name: str, reason: str) -> None:
    with pytest.raises(Misconfigured, match=reason):
        load_modules([name])


def test_a_module_that_lacks_a_library_of_its_own_says_which(module: Callable[[str], str]) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_modules([module("import no_such_library\n")])


def test_serving_covers_both_task_queues() -> None:
    assert serving().task_queues == ("events", "exports")
    assert worker.SWEEP_SECONDS == 60.0
