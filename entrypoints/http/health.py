"""Liveness, readiness and figures."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from entrypoints.failures import code_of, reason_of
from entrypoints.http.problems import problem

Check = Callable[[], Awaitable[None]]

CHECK_SECONDS: Final = 2.0

log = structlog.get_logger("interlock.http")


async def healthz(_: Request) -> JSONResponse:
    """Say that the process answers."""
    return JSONResponse({"status": "ok"})


def readyz(checks: Mapping[str, Check]) -> Callable[[Request], Awaitable[Response]]:
    """Make the handler that runs all checks side by side, each for two seconds at most."""

    async def handler(_: Request) -> JSONResponse:
        async with asyncio.TaskGroup() as tasks:
            running = {name: tasks.create_task(_passes(name, check)) for name, check in checks.items()}
        dependencies = {name: "ok" if task.result() else "failed" for name, task in running.items()}
        if "failed" in dependencies.values():
            return problem(503, "Not ready", "a dependency does not answer", dependencies=dependencies)
        return JSONResponse({"status": "ok", "dependencies": dependencies})

    return handler


def metrics(text: Callable[[], bytes]) -> Callable[[Request], Awaitable[Response]]:
    """Make the handler that gives the figures in Prometheus's text format."""

    async def handler(_: Request) -> Response:
        return Response(text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    return handler


async def _passes(name: str, check: Check) -> bool:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check()
    except Exception as error:  # noqa: BLE001 - whatever a check raises means: not ready
        log.warning("not_ready", dependency=name, code=code_of(error), reason=reason_of(error))
        return False
    return True
