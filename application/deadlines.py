"""Time limits of very many short calls: calls that end about the same time share one timer of the loop.

`asyncio.timeout` makes and ends a timer for each call, which under uvloop costs more than counting the call does.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

T = TypeVar("T")

GRAIN: Final = 0.01
"""Seconds by which a limit may come early, so that it never comes late."""

SHORT: Final = 10 * GRAIN
"""Seconds below which a limit has a timer of its own and is exact: a grain would be too much of it."""


class Deadlines:
    """The limits of the calls in hand."""

    def __init__(self) -> None:
        """No call is limited yet."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._by_grain: dict[int, set[asyncio.Timeout]] = {}

    async def within(self, seconds: float, awaited: Awaitable[T]) -> T:
        """Wait for something, at most so long.

        Raises:
            TimeoutError: it took longer, and was cancelled.
        """
        if seconds < SHORT:
            async with asyncio.timeout(max(seconds, 0)):
                return await awaited
        loop = asyncio.get_running_loop()
        grain = int((loop.time() + seconds) / GRAIN)
        if loop is not self._loop:  # timers of an earlier loop never come (FC-22)
            self._loop, self._by_grain = loop, {}
        limits = self._by_grain.get(grain)
        if limits is None:
            limits = self._by_grain[grain] = set()
            loop.call_at(grain * GRAIN, self._expire, grain, limits)
        limit = asyncio.Timeout(None)
        limits.add(limit)
        try:
            async with limit:
                return await awaited
        finally:
            limits.discard(limit)

    def _expire(self, grain: int, limits: set[asyncio.Timeout]) -> None:
        if self._by_grain.get(grain) is limits:
            del self._by_grain[grain]
        now = asyncio.get_running_loop().time()
        for limit in limits:
            limit.reschedule(now)
