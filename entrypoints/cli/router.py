"""`interlock router` and `interlock worker temporal`: where events go, what was caught, and what runs workflows."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from entrypoints.cli.output import Json, emit, run, table, tell
from entrypoints.cli.session import shared_settings
from entrypoints.settings import YIELDING, Settings

if TYPE_CHECKING:
    from application.replay import Replayed
    from domain.routing import Caught, RouteDecision
    from entrypoints.engines.router import RouterStores

app = typer.Typer(no_args_is_help=True, help="Where events go, and what had nowhere to go.")

EVENT_SECONDS: Final = 30.0
"""How long the attempts to start one event may take."""

MOST_LISTED: Final = 10_000

EventType = Annotated[str | None, typer.Option("--type", help="Only events of this type.")]


@app.command()
def explain(
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Type of the event.", show_default=False)],
    report_id: Annotated[str | None, typer.Option("--report", help="Id of the report that it is about.")] = None,
    event_id: Annotated[str | None, typer.Option("--id", help="Id of the event, for the workflow's id.")] = None,
    as_json: Json = False,
) -> None:
    """Say where such an event would go, and why; nothing is started.

    Example: interlock router explain ReportRunCompletedEvent --report R1
    """
    from entrypoints import routed

    answer = routed.explained(run(_explain(shared_settings(), event_type, event_id, report_id), "Asking the catalog"))
    if as_json:
        emit(answer)
    else:
        table(("field", "value"), answer.items())


@app.command()
def caught(
    event_type: EventType = None,
    everything: Annotated[bool, typer.Option("--all", help="Those too that were replayed since.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST_LISTED, help="Events at most.")] = 100,
    as_json: Json = False,
) -> None:
    """List the events for which there was no workflow.

    Example: interlock router caught --type OrderPlaced --json
    """
    from entrypoints import routed

    async def work() -> "list[Caught]":
        from application.replay import list_caught

        found: list[Caught] = []
        async with _stores(shared_settings()) as stores:
            async for event in list_caught(stores.caught, event_type):
                if everything or event.replayed_at is None:
                    found.append(event)
                if len(found) == limit:
                    break
        return found

    rows = [routed.caught(event) for event in run(work(), "Reading what was caught")]
    if as_json:
        emit(rows)
    elif rows:
        table(("type", "event_id", "source", "caught_at", "why", "replayed_at"), [_cells(row) for row in rows])
    else:
        tell("nothing was caught")


@app.command()
def replay(
    event_type: EventType = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Start nothing; say what would be started.")] = False,
    as_json: Json = False,
) -> None:
    """Start the caught events whose workflow exists by now. Safe to repeat: what was started is not started again.

    Example: interlock router replay --type OrderPlaced --dry-run

    Ends with code 1 where an event could not be started.
    """
    told, answer = run(_replay(shared_settings(), event_type, dry_run=dry_run), "Starting what was caught")
    if as_json:
        emit(answer)
    else:
        table(("fate", "events"), answer["fates"].items())
        if dry_run:
            tell("a dry run: nothing was started")
    for failed in islice((one for one in told if one.error is not None), 10):
        tell(f"failed: {failed.caught.workflow_id}: {failed.error}")
    if answer["stopped"]:
        tell("stopped: nothing could be started any more; repeat the command when what failed is back")
    if any(one.error is not None for one in told):
        raise typer.Exit(1)


def temporal(
    workflows: Annotated[
        list[str] | None,
        typer.Option("--workflows", metavar="MODULE", help="Module of workflows and activities, such as my.workflows."),
    ] = None,
    queues: Annotated[
        list[str] | None, typer.Option("--queue", help="Task queue to serve; events and exports if not given.")
    ] = None,
    child: Annotated[bool, typer.Option("--child", hidden=True)] = False,
) -> None:
    """Run workflows: the catch-all, and those of the modules; stop with Ctrl-C or SIGTERM.

    Example: interlock worker temporal --workflows my.workflows

    The router starts workflows of these names from a few seconds on. --workflows and --queue may be given more than
    once. Each task queue is a process, so that a burst of exports takes no turn of other events.
    """
    from domain.routing import EVENTS, EXPORTS
    from entrypoints.worker.temporal import load_modules

    settings, modules = shared_settings(), workflows or []
    names = ["the catch-all", *sorted(load_modules(modules)[0])]
    served = list(dict.fromkeys(queues or (EVENTS, EXPORTS)))
    if not child:
        where = f"{', '.join(served)} (Temporal {settings.temporal.address}, {settings.temporal.namespace})"
        tell(f"Interlock runs {', '.join(names)} on {where}")
    if len(served) > 1:
        if not asyncio.run(_supervise(modules, served)):
            tell("error: a process ended by itself, so all were stopped")
            raise typer.Exit(1)
    else:
        os.nice((YIELDING if settings.engine == "sqlite" else 0) + (YIELDING // 2 if served == [EXPORTS] else 0))
        asyncio.run(_work(settings, modules, served[0], is_child=child))
    if not child:
        tell("stopped; nothing is in hand")


async def _supervise(modules: list[str], queues: list[str]) -> bool:
    from entrypoints.cli.serve import until_told
    from entrypoints.grpc.processes import run_processes

    given = [argument for name in modules for argument in ("--workflows", name)]
    command = ["-m", "entrypoints.cli.main", "worker", "temporal", "--child", *given]
    with until_told() as stop:
        return await run_processes([[*command, "--queue", queue] for queue in queues], stop, lambda: None)


async def _work(settings: Settings, modules: list[str], queue: str, *, is_child: bool) -> None:
    from adapters.system.clock import SystemClock
    from adapters.system.id_source import RandomIds
    from entrypoints.cli.serve import until_told
    from entrypoints.engines.router import open_temporal
    from entrypoints.grpc.processes import say_ready, until_parent_ends
    from entrypoints.logs import set_up
    from entrypoints.worker.temporal import Serving, load_modules, serve_workflows

    set_up()
    serving = Serving(*load_modules(modules), (queue,), settings.router.catalog_lease_seconds)
    server = open_temporal(settings.temporal)
    async with _stores(settings) as stores:
        with until_told() as stop:
            if is_child:
                say_ready()
                parent = asyncio.create_task(until_parent_ends())
                parent.add_done_callback(lambda _: stop.set())
            await serve_workflows(server, stores, serving, SystemClock(), RandomIds(), stop)


async def _explain(settings: Settings, event_type: str, event_id: str | None, report_id: str | None) -> "RouteDecision":
    from adapters.memory.metrics import MemoryMetrics
    from application.explain import explain as decide
    from entrypoints.engines.router import make_catalog, make_rules
    from entrypoints.wiring import open_skip_list

    metrics = MemoryMetrics()
    skip_list = open_skip_list(settings, metrics)
    try:
        async with _stores(settings) as stores:
            catalog = make_catalog(settings, stores, metrics)
            return await decide(catalog, skip_list.reader, make_rules(settings), event_type, event_id, report_id)
    finally:
        await skip_list.aclose()


async def _replay(
    settings: Settings, event_type: str | None, *, dry_run: bool
) -> "tuple[list[Replayed], dict[str, Any]]":
    from adapters.memory.metrics import MemoryMetrics
    from application.replay import replay as replay_caught
    from entrypoints.engines.router import make_router, make_starter
    from entrypoints.wiring import open_skip_list

    told: list[Replayed] = []
    metrics = MemoryMetrics()
    skip_list = open_skip_list(settings, metrics)
    try:
        async with _stores(settings) as stores:
            router = make_router(settings, stores, make_starter(settings), skip_list.reader, metrics)

            def hear(one: "Replayed") -> None:
                if one.error is not None:
                    told.append(one)

            report = await replay_caught(
                router, stores.caught, event_type, lambda: EVENT_SECONDS, hear, dry_run=dry_run
            )
    finally:
        await skip_list.aclose()
    return told, {"seen": report.seen, "dry_run": dry_run, "fates": report.fates, "stopped": report.stopped}


@asynccontextmanager
async def _stores(settings: Settings) -> "AsyncIterator[RouterStores]":
    from entrypoints.engines.router import open_stores

    stores = open_stores(settings)
    try:
        yield stores
    finally:
        await stores.aclose()


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in ("type", "event_id", "source", "caught_at", "why", "replayed_at"))
