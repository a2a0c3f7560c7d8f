"""How long the server waits for slow clients, and how many it takes at a time, so that they cannot stop the others."""

import asyncio
import json
import resource
from typing import Any, Final

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEADER_SECONDS: Final = 10.0
"""From the start of a connection, or of a further request on it, until its headers are there."""
BACKLOG: Final = 128
"""Connections that the system keeps waiting."""
ONCE_SECONDS: Final = 1.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger("interlock.http")


def most_connections() -> int:
    """Give the number of connections to take at most: half the files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 10_000 if soft == resource.RLIM_INFINITY else max(16, min(10_000, soft // 2))


def tell_once_that_files_ran_out(loop: asyncio.AbstractEventLoop) -> None:
    """Log once a second that no connection can be taken: asyncio reports every attempt, with a traceback."""
    told = -ONCE_SECONDS

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal told
        if "out of system resource" not in context["message"]:
            loop.default_exception_handler(context)
        elif loop.time() - told >= ONCE_SECONDS:
            told = loop.time()
            _log.error("no more files can be opened, so connections wait", limit=most_connections() * 2)

    loop.set_exception_handler(handle)


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, with an end to waiting for headers, and problem details for what is no HTTP."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Start to wait for a request."""
        super().connection_made(transport)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Go on waiting, or stop where the request is there."""
        super().data_received(data)
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP as every other error is answered (RFC 9457)."""
        body = json.dumps({"type": "about:blank", "title": "Bad Request", "status": 400, "detail": msg}).encode()
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait_for_request(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
