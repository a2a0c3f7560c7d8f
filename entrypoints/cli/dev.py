"""The router inside `interlock dev`: a Temporal server where none is configured, workflows, and events from the bus."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from domain.errors import Misconfigured
from entrypoints.cli.output import tell
from entrypoints.settings import Settings, variable
from entrypoints.sources import Loaded
from entrypoints.temporal_server import USUAL_PORT, dev_server, missing

if TYPE_CHECKING:
    from entrypoints.container import Container
    from entrypoints.worker.temporal import Serving


async def route_beside(loaded: Loaded, container: "Container", modules: Sequence[str], stop: asyncio.Event) -> None:
    """Run workflows and route events until told to stop. Where a package is missing, say so, and do nothing.

    Raises:
        Misconfigured: a module of workflows cannot be used, or a setting cannot work.
        Unavailable: the Temporal server did not start.
    """
    lacks = missing() if _is_ours(loaded) else None
    if lacks is not None:
        tell(f"The router does not run: {lacks}. Or set {variable(('temporal', 'address'))}.")
        return
    from entrypoints.worker.temporal import Serving, load_modules

    found, activities = load_modules(modules)
    serving = Serving(found, activities, lease_seconds=loaded.settings.router.catalog_lease_seconds)
    async with _temporal(loaded) as settings, asyncio.TaskGroup() as tasks:
        tasks.create_task(_run_workflows(settings, container, serving, stop))
        tasks.create_task(_route_events(settings, container, stop))


def _is_ours(loaded: Loaded) -> bool:
    """Say whether the Temporal server is ours to start: no address is configured."""
    return loaded.origins["temporal", "address"] == "default"


@asynccontextmanager
async def _temporal(loaded: Loaded) -> AsyncIterator[Settings]:
    """Give settings that name a Temporal server: the one that is configured, or one of our own for as long."""
    settings = loaded.settings
    if not _is_ours(loaded):
        yield settings
        return
    with ExitStack() as stack:
        server = await asyncio.to_thread(
            stack.enter_context, dev_server(settings.data_dir / "temporal", pages=True, port=USUAL_PORT)
        )
        tell(f"Temporal listens on {server.address} (process {server.pid}); its pages are at {server.ui}")
        if not server.address.endswith(f":{USUAL_PORT}"):
            tell(f"Other commands find it with {variable(('temporal', 'address'))}={server.address}")
        yield settings.model_copy(update={"temporal": settings.temporal.model_copy(update={"address": server.address})})


async def _run_workflows(settings: Settings, container: "Container", serving: "Serving", stop: asyncio.Event) -> None:
    from adapters.system.clock import SystemClock
    from adapters.system.id_source import RandomIds
    from entrypoints.engines.router import open_temporal
    from entrypoints.worker.temporal import serve_workflows

    temporal = open_temporal(settings.temporal)
    await serve_workflows(temporal, container.router_stores(), serving, SystemClock(), RandomIds(), stop)


async def _route_events(settings: Settings, container: "Container", stop: asyncio.Event) -> None:
    from entrypoints.engines.router import make_router, make_starter
    from entrypoints.worker.events import Draining, drain

    engine = container.event_bus()
    how = Draining(engine.batch, engine.receivers, engine.wait_seconds, settings.bus.visibility_seconds)
    try:
        queue = engine.queue
    except Misconfigured as error:
        tell(f"No events are routed here: {error}")
        return
    skips = container.skip_list().reader
    router = make_router(settings, container.router_stores(), make_starter(settings), skips, container.metrics())
    await drain(router, queue, how, stop)
