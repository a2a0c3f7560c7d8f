"""The dedup service as a key store (ports/key_store.py).

The service marks answers that one of its stores was missing from. What such an answer calls seen is seen; what it calls
new, unknown or counted is not certain, and is raised as `Unavailable`: a cache above it then answers "new, degraded".
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from adapters.grpc.client import DedupClient
from domain.dedup import Scope
from domain.errors import Unavailable

_ASKED_AT_ONCE: Final = 64


class GrpcKeyStore:
    """Keys in the care of a service; whoever made the client closes it."""

    def __init__(self, client: DedupClient) -> None:
        self._client = client

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        """Claim over the client's stream; see the port."""
        told = await self._client.check(scope, keys, ttl)
        _hold(certain=not (told.degraded and any(told.is_new)))
        return told.is_new

    async def exist(self, scope: Scope, keys: Sequence[str], /) -> list[bool]:
        """Look for each key, several at a time; see the port."""
        room = asyncio.Semaphore(_ASKED_AT_ONCE)

        async def ask(key: str) -> bool:
            async with room:
                told = await self._client.exists(scope, key)
            _hold(certain=told.found or not told.degraded)
            return told.found

        tasks = [asyncio.create_task(ask(key)) for key in keys]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def get(self, scope: Scope, key: str, /) -> bytes | None:
        """Look up a value; see the port."""
        told = await self._client.get(scope, key)
        _hold(certain=not told.degraded)
        return told.value if told.found else None

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta, /) -> None:
        """Give a key a value; see the port. Missed by some of the service's stores, it is taken by others."""
        await self._client.put(scope, key, value, ttl)

    async def count(self, scope: Scope, /) -> int:
        """Count; see the port."""
        told = await self._client.count(scope)
        _hold(certain=not told.degraded)
        return told.keys

    async def forget(self, scope: Scope, /) -> int:
        """Forget; see the port."""
        return await self._client.forget(scope)


def _hold(*, certain: bool) -> None:
    if not certain:
        raise Unavailable("the dedup service", "it answered without one of its stores")
