"""A store's answers "seen" remembered in this process, so that hot keys cost no trip (ports/key_store.py)."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count
from typing import Final

from domain.dedup import MAX_TTL, Scope, key_hashes
from ports.key_store import KeyStore

MARGIN: Final = 8
_MAX_RUNS: Final = 4096


class RememberedKeys:
    """A key store before which claimed keys are remembered.

    Only keys that were claimed through this object are, from when the claim was sent and for the life span it gave: the
    store remembers them at least as long. What others have claimed may end at any moment, so it is asked for each time.

    A claim whose life span ends later than what is remembered goes to the store, which has to hold the key for longer.
    So that a hot key that always comes with one life span does not go there each time, the store is given an eighth
    more of it (`MARGIN`; at most 30 days in all): such a key costs one trip in that eighth, and may live so long.

    Runs are remembered by number, and a run that is forgotten gets a new one: claims that are under way at that moment
    put down what they learn under the old number, where nobody looks (R-209). A run that another process makes the
    store forget is still remembered here, so this is for services of one process, or runs that are never forgotten.

    Args:
        store: who is asked about keys that are not remembered.
        max_keys: how many are remembered at most, each in about 200 bytes; the oldest make room.
        now: a clock in seconds that never goes back.
    """

    def __init__(self, store: KeyStore, max_keys: int, now: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._max_keys = max_keys
        self._now = now
        self._numbers = count()
        self._runs: OrderedDict[Scope, int] = OrderedDict()
        self._until: OrderedDict[tuple[int, bytes], float] = OrderedDict()

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        """Claim what is not remembered; see the port."""
        run, now = self._run(scope), self._now()
        names = [(run, hashed) for hashed in key_hashes(scope, keys)]
        wanted = now + ttl.total_seconds()
        is_seen = [self._until.get(name, now) >= wanted for name in names]
        asked = [key for key, seen in zip(keys, is_seen, strict=True) if not seen]
        if not asked:
            return [False] * len(keys)
        given = max(ttl, min(ttl + ttl / MARGIN, MAX_TTL))
        answers = iter(await self._store.claim(scope, asked, given))
        is_new = [not seen and next(answers) for seen in is_seen]
        until = now + given.total_seconds()
        for name, new, seen in zip(names, is_new, is_seen, strict=True):
            if new or (not seen and name in self._until):
                self._until[name] = max(until, self._until.pop(name, until))
        while len(self._until) > self._max_keys:
            self._until.popitem(last=False)
        return is_new

    async def exist(self, scope: Scope, keys: Sequence[str], /) -> list[bool]:
        """Ask the store."""
        return await self._store.exist(scope, keys)

    async def get(self, scope: Scope, key: str, /) -> bytes | None:
        """Ask the store."""
        return await self._store.get(scope, key)

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta, /) -> None:
        """Tell the store."""
        await self._store.put(scope, key, value, ttl)

    async def count(self, scope: Scope, /) -> int:
        """Ask the store."""
        return await self._store.count(scope)

    async def forget(self, scope: Scope, /) -> int:
        """Forget a run here and in the store, whatever the store answers."""
        self._runs.pop(scope, None)
        try:
            return await self._store.forget(scope)
        finally:
            # Again: a claim that was sent while the store forgot may have come before it.
            self._runs.pop(scope, None)

    def _run(self, scope: Scope) -> int:
        run = self._runs.get(scope)
        if run is None:
            run = self._runs[scope] = next(self._numbers)
            if len(self._runs) > _MAX_RUNS:
                self._runs.popitem(last=False)
        return run
