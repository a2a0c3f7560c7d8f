"""The server process: listens, tells its health, and stops without dropping what it has begun (FC-11)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import grpc
import grpc.aio
import grpc_health.v1.health as grpc_health
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from domain.errors import Misconfigured
from entrypoints.grpc.calls import Calls, Service
from entrypoints.settings import GrpcSettings, variable

CLEAN_UP_SECONDS: Final = 5.0
"""How long calls that were cut off at the end of the grace period may still clean up after themselves."""

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
        Misconfigured: a file is missing or cannot be read.
    """
    certificate, key, client_ca = (
        settings.tls_certificate_file,
        settings.tls_key_file,
        settings.tls_client_ca_file,
    )
    if certificate is None and key is None:
        if client_ca is not None:
            raise Misconfigured(variable(("grpc", "tls_client_ca_file")), "needs a certificate and a key of our own")
        return None
    if certificate is None or key is None:
        name = "tls_certificate_file" if certificate is None else "tls_key_file"
        raise Misconfigured(variable(("grpc", name)), "is not set; TLS needs both the certificate and its key")
    pair = (read_file(key, ("grpc", "tls_key_file")), read_file(certificate, ("grpc", "tls_certificate_file")))
    if client_ca is None:
        return grpc.ssl_server_credentials([pair])
    roots = read_file(client_ca, ("grpc", "tls_client_ca_file"))
    return grpc.ssl_server_credentials([pair], root_certificates=roots, require_client_auth=True)


def read_file(path: Path, setting: tuple[str, ...]) -> bytes:
    """Read a file that a setting names.

    Raises:
        Misconfigured: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise Misconfigured(variable(setting), f"{path} cannot be read: {error.strerror}") from None


def _listen(server: grpc.aio.Server, how: Listening) -> int:
    where = f"[{how.host}]:{how.port}" if ":" in how.host else f"{how.host}:{how.port}"
    try:
        if how.credentials is None:
            return server.add_insecure_port(where)
        return server.add_secure_port(where, how.credentials)
    except RuntimeError as error:
        reason = (
            f"{where} cannot be listened on: the port is taken, the address not ours, or the key not its certificate's"
        )
        raise Misconfigured(variable(("grpc", "port")), reason) from error
