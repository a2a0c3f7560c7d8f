"""The server process: listens, tells its health, and stops without dropping what it has begun (FC-11)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import grpc
import grpc.aio
import grpc_health.v1.health as grpc_health
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from adapters.grpc.pem import read_certificates, read_pair
from domain.errors import Misconfigured
from entrypoints.groups.dedup import GrpcSettings
from entrypoints.grpc.calls import Calls, Service
from entrypoints.settings import variable

CLEAN_UP_SECONDS: Final = 5.0
"""How long calls that were cut off at the end of the grace period may still clean up after themselves."""

LINGER_SECONDS: Final = 0.2
"""How long, after the last answer, calls on open connections are still taken, and refused as UNAVAILABLE.

When gRPC stops, it ends calls that it has received and not handed out as CANCELLED, which tells callers nothing.
"""

GOODBYE_SECONDS: Final = 1.0
"""How long, after the last answer, those who watch our health or read our reflection are waited for."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("interlock.grpc")


class Listening(NamedTuple):
    """Where and how to listen.

    Attributes:
        shared: whether other processes listen on the same port (SO_REUSEPORT).
    """

    host: str
    port: int
    credentials: grpc.ServerCredentials | None
    shared: bool
    max_message_bytes: int
    grace_seconds: float


@asynccontextmanager
async def serving(calls: Calls, services: Sequence[Service], how: Listening) -> AsyncIterator[int]:
    """Serve until the block is left, and give the port.

    Connections are closed when the last answer is out, not before: gRPC's own stop closes a connection together with
    its last call, and where a client is sending at that moment, the reset may overtake answers.

    Leaving it refuses new calls, lets those in hand finish within the grace period, cuts off the others, and waits
    until their handlers have cleaned up: what the services use may be closed afterwards.

    Raises:
        Misconfigured: the port cannot be listened on.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.so_reuseport", int(how.shared)),
            ("grpc.max_receive_message_length", how.max_message_bytes),
            ("grpc.max_send_message_length", how.max_message_bytes),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
        ]
    )
    for service in services:
        server.add_generic_rpc_handlers((calls.handler(service),))
    state = grpc_health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(state, server)
    names = [service.descriptor.full_name for service in services]
    reflection.enable_server_reflection((*names, grpc_health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    port = _listen(server, how)
    await server.start()
    for name in names:
        await state.set(name, health_pb2.HealthCheckResponse.SERVING)
    try:
        yield port
    finally:
        await state.enter_graceful_shutdown()
        calls.begin_to_stop()
        drained = await _drained(calls, how.grace_seconds)
        if drained:
            await asyncio.sleep(LINGER_SECONDS)
        await server.stop(GOODBYE_SECONDS if drained else None)
        if not drained and not await _drained(calls, CLEAN_UP_SECONDS):
            _log.error("calls did not end", seconds=CLEAN_UP_SECONDS)


async def _drained(calls: Calls, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await calls.drained()
    except TimeoutError:
        return False
    return True


def credentials_from(settings: GrpcSettings) -> grpc.ServerCredentials | None:
    """Give the server's TLS credentials, or None for plain text; with a client CA, callers need a certificate of it.

    Raises:
        Misconfigured: a file is missing, cannot be read, or holds something else.
    """
    client_ca, client_ca_name = settings.tls_client_ca_file, variable(("grpc", "tls_client_ca_file"))
    pair = read_pair(
        settings.tls_certificate_file, settings.tls_key_file, lambda name: variable(("grpc", f"tls_{name}"))
    )
    if pair is None:
        if client_ca is not None:
            raise Misconfigured(client_ca_name, "needs a certificate and a key of our own")
        return None
    pairs = [(pair.key, pair.certificate)]
    if client_ca is None:
        return grpc.ssl_server_credentials(pairs)
    roots = read_certificates(client_ca, client_ca_name)
    return grpc.ssl_server_credentials(pairs, root_certificates=roots, require_client_auth=True)


def _listen(server: grpc.aio.Server, how: Listening) -> int:
    where = f"[{how.host}]:{how.port}" if ":" in how.host else f"{how.host}:{how.port}"
    try:
        if how.credentials is None:
            return server.add_insecure_port(where)
        return server.add_secure_port(where, how.credentials)
    except RuntimeError as error:
        reason = f"{where} cannot be listened on: the port is taken, or the address not ours"
        raise Misconfigured(variable(("grpc", "port")), reason) from error
