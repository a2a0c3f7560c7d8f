"""The router inside `interlock dev`: a Temporal server where none is configured, workflows, and events from the bus."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from domain.errors import Misconfigured, Retryable, Unavailable
from entrypoints.cli.output import tell
from entrypoints.settings import Settings, variable
from entrypoints.sources import Loaded
from entrypoints.temporal_server import USUAL_PORT, dev_server, missing

if TYPE_CHECKING:
    from entrypoints.container import Container
    from entrypoints.worker.temporal import Serving

LOOK_SECONDS: Final = 1.0

Keeping: TypeAlias = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""What looks after a server until told to stop."""


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
    async with _temporal(loaded) as (settings, keep), asyncio.TaskGroup() as tasks:
        tasks.create_task(keep(stop))
        tasks.create_task(_run_workflows(settings, container, serving, stop))
        tasks.create_task(_route_events(settings, container, serving, stop))


def _is_ours(loaded: Loaded) -> bool:
    """Say whether the Temporal server is ours to start: no address is configured."""
    return loaded.origins["temporal", "address"] == "default"


@asynccontextmanager
async def _temporal(
    loaded: Loaded,
) -> AsyncIterator[tuple[Settings, Keeping]]:
    """Give settings that name a Temporal server, the one that is configured or one of our own, and what keeps it up."""
    settings = loaded.settings
    if not _is_ours(loaded):
        yield settings, _leave_alone
        return
    stack = ExitStack()
    try:
        folder = settings.data_dir / "temporal"
        if settings.engine == "memory":
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="interlock-temporal-")))
        ours = _OwnServer(folder, stack.enter_context(ExitStack()))
        address = await ours.start(USUAL_PORT)
        if not address.endswith(f":{USUAL_PORT}"):
            tell(f"Other commands find it with {variable(('temporal', 'address'))}={address}")
        temporal = settings.temporal.model_copy(update={"address": address})
        yield settings.model_copy(update={"temporal": temporal}), ours.keep
    finally:
        await asyncio.to_thread(stack.close)


async def _leave_alone(_: asyncio.Event) -> None:
    """Do nothing for a server that others look after."""


class _OwnServer:
    """Our own Temporal server, and who starts it again where it ends by itself: else nothing would be routed."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._ended: Callable[[], int | None] = lambda: None
        self._port = 0

    async def start(self, port: int) -> str:
        """Start it, at this port if that is free, and say where it is."""
        server = await asyncio.to_thread(self._stack.enter_context, dev_server(self._folder, pages=True, port=port))
        tell(f"Temporal listens on {server.address} (process {server.pid}); its pages are at {server.ui}")
        self._ended, self._port = server.ended, int(server.address.rpartition(":")[2])
        return server.address

    async def keep(self, stop: asyncio.Event) -> None:
        """Look once a second, until told to stop.

        Raises:
            Unavailable: it did not start again, or somebody has taken its port.
        """

        async def has_ended() -> bool:
            return self._ended() is not None

        while not stop.is_set():
            await _until(has_ended, stop)
            if not stop.is_set():
                port = self._port
                tell(
                    f"Temporal ended by itself (code {self._ended()}) and is started again; see {self._folder / 'log'}"
                )
                await asyncio.to_thread(self._stack.close)
                await self.start(port)
                if self._port != port:
                    raise Unavailable("the Temporal dev server", f"its port {port} was taken when it ended")


async def _run_workflows(settings: Settings, container: "Container", serving: "Serving", stop: asyncio.Event) -> None:
    """Run workflows; while workers beside us serve others than we have, stand aside where we have none of our own.

    Temporal gives a task to any worker of its queue, also to one that does not know the workflow, and tries again after
    a while. Everybody serves the catch-all, so nothing is missed without us.
    """
    from adapters.system.clock import SystemClock
    from adapters.system.id_source import RandomIds
    from entrypoints.engines.router import open_temporal
    from entrypoints.worker.temporal import serve_workflows

    stores, clock = container.router_stores(), SystemClock()

    async def others_serve() -> bool:
        offers = [] if serving.workflows else await stores.catalog.offers()
        return any(offer.workflows and offer.until > clock.now() for offer in offers)

    async def nobody_serves() -> bool:
        return not await others_serve()

    async def stand_aside(ours: asyncio.Event) -> None:
        await _until(others_serve, stop)
        ours.set()

    while not stop.is_set():
        ours = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stand_aside(ours))
            await serve_workflows(open_temporal(settings.temporal), stores, serving, clock, RandomIds(), ours)
        if not stop.is_set():
            tell("Another worker runs workflows; the one of this process stands aside")
            await _until(nobody_serves, stop)


async def _until(holds: Callable[[], Awaitable[bool]], stop: asyncio.Event) -> None:
    """Look once a second, until it holds or we are told to stop."""
    while not stop.is_set():
        with suppress(Retryable):  # a store that does not answer says nothing new
            if await holds():
                return
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await stop.wait()


async def _route_events(settings: Settings, container: "Container", serving: "Serving", stop: asyncio.Event) -> None:
    """Route events from when our own workflows are offered: what has waited for us would be caught before."""
    from adapters.system.clock import SystemClock
    from entrypoints.engines.router import make_router, make_starter
    from entrypoints.worker.events import Draining, drain

    engine = container.event_bus()
    how = Draining(engine.batch, engine.receivers, engine.wait_seconds, settings.bus.visibility_seconds)
    try:
        queue = engine.queue
    except Misconfigured as error:
        tell(f"No events are routed here: {error}")
        return
    stores, skips = container.router_stores(), container.skip_list().reader

    async def ours_are_offered() -> bool:
        now = SystemClock().now()
        offered = {name for offer in await stores.catalog.offers() if offer.until > now for name in offer.workflows}
        return offered >= serving.workflows.keys()

    await _until(ours_are_offered, stop)
    router = make_router(settings, stores, make_starter(settings), skips, container.metrics())
    await drain(router, queue, how, stop)
