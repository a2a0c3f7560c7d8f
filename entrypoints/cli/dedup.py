"""`interlock dedup`: the gRPC server of the dedup cache, and questions to it (CONTRACTS §§ 2 and 9)."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from domain.errors import Invalid, Misconfigured
from entrypoints.cli.output import Json, emit, run, say, tell
from entrypoints.cli.serve import addresses_of, check_tokens, only_loopback, until_told
from entrypoints.cli.session import loaded
from entrypoints.durations import read_duration
from entrypoints.groups.dedup import DedupSettings
from entrypoints.settings import Settings, variable

if TYPE_CHECKING:
    from adapters.grpc.client import DedupClient

app = typer.Typer(no_args_is_help=True, help="The dedup cache: is this key new for this run?")

CLIENT_SECONDS: Final = 30.0
"""How long a command waits for each answer."""

LEAN_LISTENER: Final = ("GRPC_EXPERIMENTS", "-event_engine_listener")
"""What gRPC is told where nobody says otherwise: to listen as it did before its event engine, which hands each call
through more threads and costs a sixth more CPU (docs/reference/performance.md)."""

Service = Annotated[str, typer.Argument(help="Service code, such as pricing, or long:pricing for long hashes.")]
Run = Annotated[str, typer.Argument(help="Run id.")]
Address = Annotated[
    str | None, typer.Option(help=f"host:port of the service; {variable(('dedup', 'address'))} if not given.")
]


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help=f"Address to listen on; {variable(('grpc', 'host'))} if not given.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help=f"Port, 0 for a free one; {variable(('grpc', 'port'))} if not given."),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Processes that share the port.")] = 1,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of /metrics; further processes take the ports after it. "
            f"{variable(('grpc', 'metrics_port'))} if not given.",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let everybody in, without tokens, on an address that others can reach.")
    ] = False,
    remember: Annotated[
        bool,
        typer.Option(
            "--remember", help="Keep the memory of seen keys with several processes: no run must ever be forgotten."
        ),
    ] = False,
    worker: Annotated[bool, typer.Option("--worker", hidden=True)] = False,
) -> None:
    """Serve the dedup cache and the skip list over gRPC; stop with Ctrl-C or SIGTERM.

    Example: INTERLOCK_DEDUP__BACKEND=sqlite interlock dedup serve --port 50051

    On loopback everybody may call. Elsewhere callers need a token or a client certificate, or --insecure.
    """
    settings = loaded().settings
    given = {"host": host, "port": port, "metrics_port": metrics_port}
    changes = {name: value for name, value in given.items() if value is not None}
    settings = settings.model_copy(update={"grpc": settings.grpc.model_copy(update=changes)})
    if not insecure and not settings.auth.is_set and settings.grpc.tls_client_ca_file is None:
        fix = (
            f"set {variable(('auth', 'tokens_file'))} or {variable(('grpc', 'tls_client_ca_file'))}, or pass --insecure"
        )
        only_loopback(addresses_of(settings.grpc.host, ("grpc", "host")), ("grpc", "host"), fix)
    if processes > 1:
        _check_shared(settings.dedup, remember=remember)
        _serve_processes(settings, processes, ["--insecure"] * insecure)
    else:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_serve(settings, is_worker=worker))


@app.command()
def check(
    service: Service,
    run_id: Run,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys; without any, the lines of standard input.")] = None,
    ttl: Annotated[
        str | None, typer.Option(help="How long they are remembered: 45s, 90m, 12h, 30d; the service's if not given.")
    ] = None,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Ask which keys are new, and claim them: whoever asks next is told that they were seen.

    Example: interlock dedup check pricing run-1 https://shop.example/item/1
    """
    from domain.dedup import MAX_KEYS, Verdict, check_keys, check_ttl, make_scope

    scope = make_scope(service, run_id)
    span = None if ttl is None else check_ttl(read_duration(ttl, "--ttl"))
    asked = keys or list(_lines())
    for start in range(0, max(len(asked), 1), MAX_KEYS):
        check_keys(asked[start : start + MAX_KEYS])

    async def work() -> list[Verdict]:
        async with _client(loaded().settings.dedup, address) as client:
            return [
                await client.check(scope, asked[start : start + MAX_KEYS], span)
                for start in range(0, len(asked), MAX_KEYS)
            ]

    told = run(work(), "Asking")
    is_new = [new for verdict in told for new in verdict.is_new]
    degraded = any(verdict.degraded for verdict in told)
    if as_json:
        rows = [{"key": key, "is_new": new} for key, new in zip(asked, is_new, strict=True)]
        emit({"keys": rows, "degraded": degraded})
        return
    for key, new in zip(asked, is_new, strict=True):
        say(f"{'new' if new else 'seen'}\t{key}")
    _warn(degraded=degraded)


@app.command()
def stats(service: Service, run_id: Run, address: Address = None, as_json: Json = False) -> None:
    """Print how many keys a run has claimed.

    Example: interlock dedup stats pricing run-1
    """
    from adapters.grpc.client import KeyCount
    from domain.dedup import make_scope

    scope = make_scope(service, run_id)

    async def work() -> KeyCount:
        async with _client(loaded().settings.dedup, address) as client:
            return await client.count(scope)

    told = run(work(), "Counting")
    if as_json:
        emit(told._asdict())
        return
    say(str(told.keys))
    _warn(degraded=told.degraded)


@app.command()
def forget(service: Service, run_id: Run, address: Address = None, as_json: Json = False) -> None:
    """Forget a run, and print how many keys it had.

    Example: interlock dedup forget pricing run-1
    """
    from domain.dedup import make_scope

    scope = make_scope(service, run_id)

    async def work() -> int:
        async with _client(loaded().settings.dedup, address) as client:
            return await client.forget(scope)

    forgotten = run(work(), "Forgetting")
    if as_json:
        emit({"forgotten": forgotten})
    else:
        say(str(forgotten))


async def _serve(settings: Settings, *, is_worker: bool) -> None:
    os.environ.setdefault(*LEAN_LISTENER)  # before gRPC is loaded
    from entrypoints.container import Container
    from entrypoints.grpc.calls import Calls
    from entrypoints.grpc.figures import figures_at
    from entrypoints.grpc.processes import say_ready, until_parent_ends
    from entrypoints.grpc.server import Listening, credentials_from, serving
    from entrypoints.logs import set_up

    set_up()
    grpc, container = settings.grpc, Container(settings=settings)
    how = Listening(grpc.host, grpc.port, credentials_from(grpc), is_worker, grpc.max_message_bytes, grpc.grace_seconds)
    calls = Calls(container.metrics(), container.access())
    services = [container.dedup_service()]
    if not (is_worker and settings.engine == "memory"):  # of which each of several processes would have its own
        services.append(container.skip_list_service())
    with until_told() as stop, contextlib.ExitStack() as open_ports:
        try:
            await check_tokens(settings, container)
            if grpc.metrics_port is not None:
                open_ports.enter_context(figures_at(grpc.host, grpc.metrics_port, container.metrics().text))
            async with serving(calls, services, how) as port:
                if is_worker:
                    say_ready()
                    parent = asyncio.create_task(until_parent_ends())
                    parent.add_done_callback(lambda _: stop.set())
                else:
                    _tell_where(settings, port, 1)
                await stop.wait()
        finally:
            await container.dedup().aclose()
            await container.skip_list().aclose()
    if not is_worker:
        tell("stopped; nothing is in hand")


def _serve_processes(settings: Settings, processes: int, options: list[str]) -> None:
    from entrypoints.container import Container
    from entrypoints.grpc.processes import reserved_port, run_processes
    from entrypoints.grpc.server import credentials_from

    grpc = settings.grpc

    def command(index: int, port: int) -> list[str]:
        figures = (
            []
            if grpc.metrics_port is None
            else ["--metrics-port", str(grpc.metrics_port and grpc.metrics_port + index)]
        )
        where = ["--host", grpc.host, "--port", str(port), *figures]
        return ["-m", "entrypoints.cli.main", "dedup", "serve", "--worker", *where, *options]

    async def supervise(port: int) -> bool:
        # What the processes would end of is told once, and here.
        credentials_from(grpc)
        await check_tokens(settings, Container(settings=settings))
        with until_told() as stop:
            commands = [command(index, port) for index in range(processes)]
            return await run_processes(commands, stop, lambda: _tell_where(settings, port, processes))

    with reserved_port(grpc.host, grpc.port) as port:
        if not asyncio.run(supervise(port)):
            tell("error: a process ended by itself, so all were stopped")
            raise typer.Exit(1)
    tell("stopped; nothing is in hand")


def _check_shared(dedup: DedupSettings, *, remember: bool) -> None:
    """Refuse what several processes cannot share.

    Raises:
        Misconfigured: keys would be remembered by each process alone.
    """
    if dedup.backend == "memory":
        raise Misconfigured(variable(("dedup", "backend")), "memory serves one process; set sqlite, redis or dynamodb")
    if dedup.remembered_keys and not remember:
        reason = "a run that one process forgets stays in the memory of the others; pass --remember, or set it to 0"
        raise Misconfigured(variable(("dedup", "remembered_keys")), reason)


def _new_loop() -> asyncio.AbstractEventLoop:
    """Give uvloop's loop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _tell_where(settings: Settings, port: int, processes: int) -> None:
    grpc = settings.grpc
    host = f"[{grpc.host}]" if ":" in grpc.host else grpc.host
    tls = "plain text" if grpc.tls_certificate_file is None else "TLS" if grpc.tls_client_ca_file is None else "mTLS"
    tell(
        f"Interlock listens on {host}:{port} for gRPC (dedup backend {settings.dedup.backend}, {tls}, "
        f"{'tokens' if settings.auth.is_set else 'no tokens'}, processes {processes})"
    )


@contextlib.asynccontextmanager
async def _client(dedup: DedupSettings, address: str | None) -> "AsyncIterator[DedupClient]":
    from adapters.grpc.client import DedupClient
    from adapters.grpc.pem import read_tls
    from adapters.grpc.wire import ADDRESS, is_address, metadata

    where = dedup.address if address is None else address
    if not is_address(where):
        if address is not None:
            raise Invalid("--address", ADDRESS)
        raise Misconfigured(variable(("dedup", "address")), ADDRESS)
    metadata(dedup.token, variable(("dedup", "token")))  # names the variable, where the client could not
    files = (dedup.tls_ca_file, dedup.tls_certificate_file, dedup.tls_key_file)
    tls = read_tls(*files, lambda name: variable(("dedup", f"tls_{name}")))
    client = DedupClient(where, token=dedup.token, tls=tls, deadline=CLIENT_SECONDS)
    try:
        yield client
    finally:
        await client.aclose()


def _lines() -> Iterator[str]:
    """Give the keys of standard input, one a line; empty lines are none.

    Raises:
        Invalid: naming the line.
    """
    from domain.dedup import check_keys

    for number, line in enumerate(() if sys.stdin is None else sys.stdin.buffer, 1):
        place = f"line {number} of standard input"
        try:
            key = line.decode().rstrip("\r\n")
            if key:
                check_keys((key,), "key")
                yield key
        except UnicodeDecodeError:
            raise Invalid(place, "must be UTF-8") from None
        except Invalid as error:
            raise Invalid(place, error.reason) from None


def _warn(*, degraded: bool) -> None:
    if degraded:
        tell("warning: the service answered without one of its stores; what it calls new may have been seen")
