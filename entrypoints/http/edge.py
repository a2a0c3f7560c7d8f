"""What every request passes first and every answer last: paths, safety headers, figures, and a net under it all."""

import asyncio
import re
from time import perf_counter
from typing import Final
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from entrypoints.http.problems import stopping, unexpected
from ports.metrics import Metrics

_SAFETY: Final = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
_METHODS: Final = frozenset({"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"})
_EVENT_PATH: Final = re.compile(r"(/v1/events/)(.+?)(/history|/transitions)?", re.DOTALL)


class Edge:
    """ASGI middleware without buffering or tasks of its own."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        """Stand before an app."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection; only HTTP requests are touched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, "path": encoded_path(scope)}
        started = perf_counter()
        status = 0

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_SAFETY]
            await send(message)

        try:
            await self._app(scope, receive, send_safely)
        except asyncio.CancelledError:
            # Only the end of the server cancels a request; raised on, it would be logged as a fault.
            if not status:
                await stopping()(scope, receive, send_safely)
        except Exception as error:
            if status:
                raise
            await unexpected(error)(scope, receive, send_safely)
        finally:
            route = scope.get("route")
            self._metrics.observe(
                "http_request_seconds",
                perf_counter() - started,
                method=scope["method"] if scope["method"] in _METHODS else "other",
                route=getattr(route, "path", "none"),
                status=str(status),
            )


def encoded_path(scope: Scope) -> str:
    """Give a request's path still percent-encoded, so that a slash inside an event id is not taken for one between.

    Servers hand over the path as it was sent (`raw_path`). Gateways that hand over only a decoded one get it
    encoded again, with all that stands between `/v1/events/` and a known ending as the id.
    """
    raw: bytes | None = scope.get("raw_path")
    if raw is not None:
        return raw.decode("latin-1")
    path: str = scope["path"]
    match = _EVENT_PATH.fullmatch(path)
    if match is None:
        return quote(path)
    return match[1] + quote(match[2], safe="") + (match[3] or "")
