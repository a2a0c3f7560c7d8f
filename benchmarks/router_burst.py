"""R-306: 200 slow export events do not delay others, on a Temporal dev server and a worker of their own.

    python -m benchmarks.router_burst

Start-to-run is from the server's record of the start to that of the first task taken up. Rounds in turn: quiet; while
200 exports wait or run, 64 at a time, on the task queue `exports`; and with those on the task queue of all others.
"""

import asyncio
import statistics
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from adapters.memory.metrics import MemoryMetrics
from application.route import Router, RouteResult
from benchmarks.figures import show
from domain.eventbridge import from_eventbridge
from domain.routing import EVENTS, EXPORTS, RoutingRules
from entrypoints.engines.router import make_router, make_starter, open_stores, open_temporal
from entrypoints.engines.skip_list import SkipListEngine
from entrypoints.settings import read_variables
from tests.temporal_engines import server
from tests.waiting import until

ROUNDS = 3
NUMBER = 100
EVERY_SECONDS = 0.04
BURST = 200
EXPORT_SECONDS = 5.0


def an_event(detail_type: str, **detail: object) -> dict[str, Any]:
    return {
        "version": "0",
        "id": uuid.uuid4().hex,
        "detail-type": detail_type,
        "source": "reports",
        "account": "111122223333",
        "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "region": "eu-west-1",
        "resources": [],
        "detail": detail,
    }


async def route(router: Router, event: dict[str, Any]) -> RouteResult:
    result = await router.route(from_eventbridge(event), lambda: 60.0)
    if result.outcome != "started":
        raise RuntimeError(f"{result.workflow_id} was {result.outcome}")
    return result


async def nothing() -> None:
    """Do nothing."""


async def events_start_to_run(
    router: Router, client: Client, when_routed: Callable[[], Awaitable[None]] = nothing
) -> float:
    """Route events at a steady rate, and give the 99th percentile of their start-to-run, in seconds."""
    started = []
    for _ in range(NUMBER):
        started.append(await route(router, an_event("ReportRunCompletedEvent")))
        await asyncio.sleep(EVERY_SECONDS)
    await when_routed()
    waits = []
    for result in started:
        await client.get_workflow_handle(result.workflow_id).result()
        history = await client.get_workflow_handle(result.workflow_id).fetch_history()
        begun = next(e for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
        taken = next(e for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED)
        waits.append((taken.event_time.ToDatetime() - begun.event_time.ToDatetime()).total_seconds())
    return statistics.quantiles(waits, n=100)[98]


async def during_a_burst(router: Router, client: Client, exporting: Router) -> tuple[float, int]:
    """Give the same while exports wait and run, and how many of those were not done at its end.

    Args:
        router: of the events.
        client: of the server.
        exporting: of the exports.
    """
    slots = asyncio.Semaphore(16)

    async def export() -> RouteResult:
        async with slots:
            return await route(exporting, an_event("ExportRequested", seconds=EXPORT_SECONDS))

    async with asyncio.TaskGroup() as tasks:
        exports = [tasks.create_task(export()) for _ in range(BURST)]
    query = "WorkflowType = 'ExportRequestedWorkflow' AND ExecutionStatus = 'Running'"
    left = 0

    async def count_left() -> None:
        nonlocal left
        left = (await client.count_workflows(query)).count

    measured = await events_start_to_run(router, client, count_left)
    for task in exports:
        await client.get_workflow_handle(task.result().workflow_id).result()
    return measured, left


async def measure(address: str, folder: Path) -> None:
    variables = {"INTERLOCK_DATA_DIR": str(folder), "INTERLOCK_TEMPORAL__ADDRESS": address}
    settings, metrics = read_variables(variables), MemoryMetrics()
    stores, skip_list = open_stores(settings), SkipListEngine(settings, metrics)
    router = make_router(settings, stores, make_starter(settings), skip_list.reader, metrics)
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "entrypoints.cli.main", "worker", "temporal"),
        *("--workflows", "tests.temporal_workflows"),
        env={"PATH": "", **variables},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:

        async def is_there() -> bool:
            return {queue for offer in await stores.catalog.offers() for queue in offer.task_queues} == {
                EVENTS,
                EXPORTS,
            }

        await until(is_there)
        client = await open_temporal(settings.temporal).client()
        await events_start_to_run(router, client)
        rounds = []
        for _ in range(ROUNDS):
            quiet = await events_start_to_run(router, client)
            apart, left = await during_a_burst(router, client, router)
            shared, _ = await during_a_burst(router, client, replace(router, rules=RoutingRules(())))
            rounds.append((quiet, apart, shared, left))
    finally:
        worker.terminate()
        await worker.wait()
    quiet, apart, shared = (statistics.median(column) for column in list(zip(*rounds, strict=True))[:3])
    what = f"p99 start-to-run, {BURST} slow exports in hand"
    ratio = statistics.median(busy / idle for idle, busy, *_ in rounds)
    show("R-306", what, ms(apart), f"{ms(quiet)} quiet", ratio, "<= 1.5x")
    ratio = statistics.median(busy / mixed for _, busy, mixed, _ in rounds)
    show("R-306", what, ms(apart), f"{ms(shared)} on one queue for all", ratio, "< 1x")
    lefts = ", ".join(str(number) for *_, number in rounds)
    print(f"      exports that were not done when the last event was routed: {lefts}")
    await skip_list.aclose()
    await stores.aclose()


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def main() -> None:
    with server() as one, tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(one.address, Path(folder)))


if __name__ == "__main__":
    main()
