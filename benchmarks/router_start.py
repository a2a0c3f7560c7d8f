"""G25, G26: the router beside bare `start_workflow`, on a Temporal dev server of its own; no worker takes the tasks.

    python -m benchmarks.router_start

Five rounds in turn, 16 in hand, each of fresh events and then of the same ones again. "Of our own" is the CPU of an
event up to the call: envelope, decision, and the request put together.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from adapters.memory.metrics import MemoryMetrics
from adapters.temporal.connection import Temporal
from adapters.temporal.workflow_starter import TemporalStarter, make_request
from application.route import Router
from benchmarks.figures import micro, rate, show
from domain.eventbridge import from_eventbridge
from domain.routing import Offer, Started, StartRequest
from entrypoints.engines.router import make_router, open_stores, open_temporal
from entrypoints.engines.skip_list import SkipListEngine
from entrypoints.settings import read_variables
from tests.temporal_engines import server

EVENTS = 200
AT_ONCE = 16
ROUNDS = 5
CALLS = 3000
TYPE = "ReportRunCompletedEvent"


class Unsent(TemporalStarter):
    """Puts requests together, and sends none."""

    def __init__(self, temporal: Temporal) -> None:
        super().__init__(temporal)
        self._server = temporal

    async def start(self, request: StartRequest, seconds: float, /) -> Started:  # noqa: ARG002 - it answers at once
        """Put it together."""
        await make_request(await self._server.client(), request)
        return Started("run", is_new=True)


def an_event(number: int) -> dict[str, Any]:
    return {
        "version": "0",
        "id": f"7bf73129-1428-4cd3-a780-{number:012}",
        "detail-type": TYPE,
        "source": "reports",
        "account": "111122223333",
        "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "region": "eu-west-1",
        "resources": [],
        "detail": {"report_id": f"R{number}", "rows": 1234, "columns": ["a", "b", "c"], "took_seconds": 12.5},
    }


async def timed(work: Callable[[dict[str, Any]], Awaitable[None]], events: list[dict[str, Any]]) -> float:
    """Give the seconds that all events take, so many in hand."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(event: dict[str, Any]) -> None:
        async with slots:
            await work(event)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for event in events:
            tasks.create_task(one(event))
    return time.perf_counter() - start


def bare(client: Client) -> Callable[[dict[str, Any]], Awaitable[None]]:
    async def start(event: dict[str, Any]) -> None:
        try:
            await client.start_workflow(
                f"{TYPE}Workflow",
                event["detail"],
                id=f"bare-{event['id']}",
                task_queue="events",
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            )
        except WorkflowAlreadyStartedError:
            return

    return start


def ours(router: Router) -> Callable[[dict[str, Any]], Awaitable[None]]:
    async def start(event: dict[str, Any]) -> None:
        await router.route(from_eventbridge(event), lambda: 60.0)

    return start


async def both(
    router: Router, client: Client, events: list[dict[str, Any]], *, bare_first: bool
) -> tuple[float, float]:
    """Give the seconds of the router, and of bare calls."""
    if bare_first:
        theirs = await timed(bare(client), events)
        return await timed(ours(router), events), theirs
    return await timed(ours(router), events), await timed(bare(client), events)


async def measure(address: str, folder: Path) -> None:
    settings = read_variables({"INTERLOCK_DATA_DIR": str(folder), "INTERLOCK_TEMPORAL__ADDRESS": address})
    metrics = MemoryMetrics()
    stores, skip_list, temporal = (
        open_stores(settings),
        SkipListEngine(settings, metrics),
        open_temporal(settings.temporal),
    )
    queues = ("events", "exports")
    await stores.catalog.publish(Offer("w", (f"{TYPE}Workflow",), queues, datetime.now(UTC) + timedelta(hours=1)))
    router = make_router(settings, stores, TemporalStarter(temporal), skip_list.reader, metrics)
    unsent = make_router(settings, stores, Unsent(temporal), skip_list.reader, metrics)
    client = await temporal.client()
    numbers = count()
    fresh: list[tuple[float, float]] = []
    again: list[tuple[float, float]] = []
    for turn in range(-1, ROUNDS):
        events = [an_event(next(numbers)) for _ in range(EVENTS)]
        first = await both(router, client, events, bare_first=turn % 2 == 0)
        second = await both(router, client, events, bare_first=turn % 2 == 0)
        if turn >= 0:
            fresh.append(first)
            again.append(second)
    for what, pairs in (("fresh events", fresh), ("redeliveries", again)):
        mine, theirs = (EVENTS / statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(bare_seconds / seconds for seconds, bare_seconds in pairs)
        show(
            "G25", f"router, {what}, {AT_ONCE} in hand", rate(mine), f"{rate(theirs)} start_workflow", ratio, ">= 0.9x"
        )
    faster = statistics.median(a[0] / b[0] for a, b in zip(fresh, again, strict=True))
    show("G26", "redelivery: refused, and no read before", f"{faster:.1f}x as fast", "a fresh start", faster, "> 1x")
    cpu = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for number in range(CALLS):
            await unsent.route(from_eventbridge(an_event(number)), lambda: 60.0)
        cpu.append((time.process_time() - start) / CALLS)
    show("G25", "CPU of our own, an event", micro(statistics.median(cpu)), "300.00 us (the limit)", None, "<= 300 us")
    await skip_list.aclose()
    await stores.aclose()


def main() -> None:
    with server() as one, tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(one.address, Path(folder)))


if __name__ == "__main__":
    main()
