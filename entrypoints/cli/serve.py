"""`interlock api serve`, `interlock worker transitions|intake` and `interlock dev`: the processes that stay."""

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from domain.errors import Misconfigured, Unavailable
from entrypoints.cli.output import tell
from entrypoints.cli.session import loaded, shared_settings
from entrypoints.failures import one_error
from entrypoints.settings import YIELDING, Settings, variable

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from entrypoints.container import Container

api = typer.Typer(no_args_is_help=True, help="The operator API.")
Beside: TypeAlias = "Callable[[Container, asyncio.Event], Coroutine[Any, Any, None]]"
"""What runs beside the API: is given what to run on, and an event that says when to stop."""

worker = typer.Typer(no_args_is_help=True, help="Consumers of queues.")

Host = Annotated[str | None, typer.Option(help=f"Address to listen on; {variable(('http', 'host'))} if not given.")]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help=f"Port, 0 for a free one; {variable(('http', 'port'))} if not given."),
]


@api.callback()
def api_group() -> None:
    """Keep `serve` a command of its own: an app of one command would become that command."""


@api.command()
def serve(
    host: Host = None,
    port: Port = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Let everybody in; on loopback only.")] = False,
) -> None:
    """Serve the HTTP API on the configured engine.

    Example: interlock api serve --port 8080

    Needs a tokens file or the keys of JWTs, or --insecure on a loopback address.
    """
    settings = shared_settings()
    address = (host or settings.http.host, settings.http.port if port is None else port)
    addresses = addresses_of(address[0], ("http", "host"))
    if not settings.auth.is_set:
        name = variable(("auth", "tokens_file"))
        fix = "make one with `interlock token create`"
        if not insecure:
            raise Misconfigured(name, f"is not set; {fix}, or pass --insecure on a loopback address")
        only_loopback(addresses, ("http", "host"), f"set {name} ({fix})")
    elif insecure:
        what = "a tokens file is" if settings.auth.tokens_file else "the keys of JWTs are"
        raise typer.BadParameter(f"{what} configured; unset that to let everybody in", param_hint="--insecure")
    asyncio.run(_serve(settings, address))


@worker.command()
def transitions(
    batch: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Messages at a time; the engine's if not given.")
    ] = None,
    receivers: Annotated[int | None, typer.Option(min=1, max=64, help="Batches in hand side by side.")] = None,
) -> None:
    """Apply notifications and requested transitions, one entity's in order; stop with Ctrl-C or SIGTERM.

    Example: INTERLOCK_ENGINE=aws interlock worker transitions --receivers 8
    """
    settings = shared_settings()
    if settings.engine == "sqlite":
        os.nice(YIELDING)
    asyncio.run(_work(settings, batch, receivers))


@worker.command()
def intake(
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Messages for one object at most.")] = 1000,
    receivers: Annotated[int | None, typer.Option(min=1, max=64, help="Batches in hand side by side.")] = None,
) -> None:
    """Keep the front door's messages as objects, malformed ones in quarantine; stop with Ctrl-C or SIGTERM.

    Example: interlock worker intake --batch 500
    """
    settings = shared_settings()
    if settings.engine == "sqlite":
        os.nice(YIELDING)
    asyncio.run(_keep(settings, batch, receivers))


def dev(
    host: Host = None,
    port: Port = None,
    workflows: Annotated[
        list[str] | None,
        typer.Option("--workflows", metavar="MODULE", help="Module of workflows and activities; may be repeated."),
    ] = None,
    with_router: Annotated[
        bool, typer.Option("--router/--no-router", help="Route events of the bus to workflows, on Temporal.")
    ] = True,
) -> None:
    """Run everything in one process on this machine: API, workers, event router and its workflows.

    Example: interlock dev --port 8080

    A Temporal server is started where no address is configured, and stopped at the end. The API is open to all callers
    on loopback, unless a tokens file is configured.
    """
    started_from = loaded()
    settings = started_from.settings
    address = (host or settings.http.host, settings.http.port if port is None else port)
    addresses = addresses_of(address[0], ("http", "host"))
    if not settings.auth.is_set:
        only_loopback(addresses, ("http", "host"), f"set {variable(('auth', 'tokens_file'))} to serve others")

    async def route(container: "Container", stop: asyncio.Event) -> None:
        from entrypoints.cli.dev import route_beside

        await route_beside(started_from, container, workflows or [], stop)

    beside = [_consume]
    if settings.engine != "aws" or settings.intake.bucket is not None:
        beside.append(_gather)
    if with_router:
        beside.append(route)
    asyncio.run(_serve(settings, address, beside))


async def _consume(container: "Container", stop: asyncio.Event) -> None:
    from entrypoints.worker.transitions import consume

    await consume(container.platform(), container.queue(), container.consumption(), stop)


async def _gather(container: "Container", stop: asyncio.Event) -> None:
    from entrypoints.worker.intake import process

    await process(container.intake(), container.intake_queue(), container.gathering(), stop)


async def _serve(settings: Settings, address: tuple[str, int], beside: Sequence[Beside] = ()) -> None:
    with _listening(*address) as listener:
        async with _running(settings) as (container, stop):
            await check_tokens(settings, container)
            # All of it before the line that says so: this opens files, and finds what is not set.
            server = _http_server(container.app())
            if beside:
                container.queue()
            if _gather in beside:
                container.intake()
                container.intake_queue()
            host, port = listener.getsockname()[:2]
            where = f"[{host}]" if ":" in host else host
            open_to = "tokens" if settings.auth.is_set else "everybody on this machine"
            tell(f"Interlock listens on http://{where}:{port} (engine {settings.engine}, open to {open_to})")
            try:
                with one_error():
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(_serve_http(server, listener, stop))
                        for work in beside:
                            tasks.create_task(work(container, stop))
            finally:
                await container.activity().aclose()


async def check_tokens(settings: Settings, container: "Container") -> None:
    """Refuse to start where nobody could get in.

    Raises:
        Misconfigured: the tokens file is missing or broken.
        Unavailable: the keys of JWTs cannot be fetched.
    """
    from adapters.file.token_file import DEPENDENCY as TOKENS_FILE

    access = container.access()
    if access is not None:
        try:
            await access.check()
        except Unavailable as error:
            if error.dependency != TOKENS_FILE:
                raise
            fix = f"{settings.auth.tokens_file}: {error.reason}; make it with `interlock token create`"
            raise Misconfigured(variable(("auth", "tokens_file")), fix) from None


async def _work(settings: Settings, batch: int | None, receivers: int | None) -> None:
    from entrypoints.worker.transitions import consume

    async with _running(settings) as (container, stop):
        how = container.consumption()
        how = how._replace(batch=batch or how.batch, receivers=receivers or how.receivers)
        platform, queue = container.consumer_platform(), container.queue()
        tell(f"Interlock works through the lifecycle queue (engine {settings.engine})")
        await consume(platform, queue, how, stop)
    tell("stopped; nothing is in hand")


async def _keep(settings: Settings, batch: int, receivers: int | None) -> None:
    from entrypoints.worker.intake import process

    async with _running(settings) as (container, stop):
        how = container.gathering()
        how = how._replace(batch=batch, receivers=receivers or how.receivers)
        intake, queue = container.intake(), container.intake_queue()
        tell(f"Interlock works through the intake queue (engine {settings.engine})")
        await process(intake, queue, how, stop)
    tell("stopped; nothing is in hand")


@contextlib.asynccontextmanager
async def _running(settings: Settings) -> "AsyncIterator[tuple[Container, asyncio.Event]]":
    """Give a container, and an event that says when to stop."""
    from entrypoints.container import Container
    from entrypoints.logs import set_up

    set_up()
    container = Container(settings=settings)
    with until_told() as stop:
        try:
            yield container, stop
        finally:
            await container.engine().aclose()
            await container.router_stores().aclose()
            await container.skip_list().aclose()
            await container.event_bus().aclose()
            await container.intake_engine().aclose()


@contextlib.contextmanager
def until_told() -> Iterator[asyncio.Event]:
    """Give an event that the first Ctrl-C or SIGTERM sets; the second one ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        loop.remove_signal_handler(number)
        stop.set()

    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def _http_server(app: "FastAPI") -> "uvicorn.Server":
    import uvicorn

    from entrypoints.http.patience import BACKLOG, PatientProtocol, most_connections

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals to us: they stop the worker too."""
            yield

    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=10,
        limit_concurrency=most_connections(),
        backlog=BACKLOG,
    )
    return Server(config)


async def _serve_http(server: "uvicorn.Server", listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve until told to stop; requests in hand are answered first."""
    from entrypoints.http.patience import tell_once_that_files_ran_out

    async def end() -> None:
        await stop.wait()
        server.should_exit = True

    tell_once_that_files_ran_out(asyncio.get_running_loop())
    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(end())
        await server.serve(sockets=[listener])
        ending.cancel()
    stop.set()


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Take a port; connections wait from here on.

    Raises:
        Misconfigured: the address is not of this machine, or the port is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family, backlog=128)
        # Accepted connections inherit it. Without, an answer's last packet waits 40 ms for the client's delayed ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (")[0]
        fix = f"{host}:{port} cannot be listened on ({reason}); pass another --host or --port"
        raise Misconfigured(variable(("http", "port")), fix) from error
    with listener:
        yield listener


def addresses_of(host: str, setting: tuple[str, ...]) -> set[str]:
    """Give the addresses that a name stands for.

    Raises:
        Misconfigured: it stands for none.
    """
    try:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except UnicodeError:  # how Python says that a label of a name is empty or too long
        raise Misconfigured(variable(setting), f"{host} is no name of a host") from None
    except OSError as error:
        raise Misconfigured(variable(setting), f"{host} is no address ({error.strerror or error})") from error


def only_loopback(addresses: set[str], setting: tuple[str, ...], fix: str) -> None:
    """Refuse to let everybody in where others than this machine could call.

    Raises:
        Misconfigured: an address is not a loopback one.
    """
    for address in sorted(addresses):
        if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            raise Misconfigured(variable(setting), f"{address} is not loopback, and anybody could call: {fix}")
