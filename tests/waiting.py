"""Waiting for what other tasks, threads and processes bring about, where there is no event for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

SECONDS = 60.0
"""How long is waited at most: a machine may have no time to spare."""

PAUSE = 0.005
LONG_PAUSE = 0.1
"""Between questions to other processes."""


async def until(
    holds: Callable[[], bool | Awaitable[bool]], worker: "asyncio.Task[None] | None" = None, *, seconds: float = SECONDS
) -> None:
    """Wait until something holds.

    Args:
        holds: says whether it does.
        worker: fails the test when it ends meanwhile.
        seconds: after which the test fails.
    """
    async with asyncio.timeout(seconds):
        while True:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            if worker is not None and worker.done():
                await worker
                raise AssertionError("the worker ended by itself")
            await asyncio.sleep(PAUSE if isinstance(answer, bool) else LONG_PAUSE)


def wait_until(holds: Callable[[], bool], what: str = "what is waited for", seconds: float = SECONDS) -> None:
    """Wait until something holds, where there is no loop.

    Raises:
        TimeoutError: naming what was waited for.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.02)
