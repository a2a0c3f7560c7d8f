"""Targets of the dedup cache that fail on cue."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, Literal, TypeVar

from adapters.memory.clock import ManualClock
from adapters.memory.key_store import MemoryKeyStore
from domain.dedup import Scope
from domain.errors import Misconfigured, Unavailable
from tests.examples import START

T = TypeVar("T")
Mode = Literal["up", "slow", "refuse", "misconfigured", "hang", "lose", "write and hang", "cancel", "mistake"]

FAILING: Final[tuple[Mode, ...]] = ("refuse", "misconfigured", "hang", "lose", "write and hang", "cancel")
WRITING: Final[tuple[Mode, ...]] = ("up", "slow", "lose", "write and hang")
SLOW_SECONDS: Final = 0.1


class ScriptedTarget:
    """A key store in memory. Each call takes the next mode of `script`, or `mode` where it has run out.

    up             answers
    slow           answers after a tenth of a second
    refuse         raises Unavailable, and does nothing
    misconfigured  raises Misconfigured, and does nothing
    hang           never answers, and does nothing
    lose           does it, then raises Unavailable
    write and hang does it, then never answers
    cancel         raises a cancellation that nobody asked for (FC-11)
    mistake        raises TypeError, as a fault of ours would (FC-09)
    """

    def __init__(self, mode: Mode = "up") -> None:
        self.mode: Mode = mode
        self.script: deque[Mode] = deque()
        self.calls: list[str] = []
        self.ended = 0
        self.clock = ManualClock(START)
        self.store = MemoryKeyStore(self.clock)

    def lose_data(self) -> None:
        """Start anew, empty."""
        self.store = MemoryKeyStore(self.clock)

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        return await self._do("claim", lambda: self.store.claim(scope, keys, ttl))

    async def exist(self, scope: Scope, keys: Sequence[str], /) -> list[bool]:
        return await self._do("exist", lambda: self.store.exist(scope, keys))

    async def get(self, scope: Scope, key: str, /) -> bytes | None:
        return await self._do("get", lambda: self.store.get(scope, key))

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta, /) -> None:
        await self._do("put", lambda: self.store.put(scope, key, value, ttl))

    async def count(self, scope: Scope, /) -> int:
        return await self._do("count", lambda: self.store.count(scope))

    async def forget(self, scope: Scope, /) -> int:
        return await self._do("forget", lambda: self.store.forget(scope))

    async def _do(self, call: str, work: Callable[[], Awaitable[T]]) -> T:
        mode = self.script.popleft() if self.script else self.mode
        self.calls.append(call)
        try:
            return await self._behave(mode, work)
        finally:
            self.ended += 1

    async def _behave(self, mode: Mode, work: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(SLOW_SECONDS if mode == "slow" else 0)
        if mode == "mistake":
            raise TypeError("a fault of ours")
        if mode == "cancel":
            raise asyncio.CancelledError
        if mode == "misconfigured":
            raise Misconfigured("the target", "its password is wrong")
        if mode == "refuse":
            raise Unavailable("the target", "it refused")
        if mode == "hang":
            await asyncio.Event().wait()
        answer = await work()
        if mode == "lose":
            raise Unavailable("the target", "its reply was lost")
        if mode == "write and hang":
            await asyncio.Event().wait()
        return answer
