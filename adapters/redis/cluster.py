"""Commands go to the node that holds their slot.

| answer | then |
|---|---|
| `MOVED` | nothing was done: sent to the node named there, and the map of slots is read again |
| `ASK` | nothing was done: sent once to the node named there, after `ASKING` |
| `TRYAGAIN` | nothing was done, the slot is between two nodes: sent again after a pause |
| none, or a node is down | as on one server (`connection.py`), and the map is read again |
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from adapters.redis.connection import DEPENDENCY, Pool, Refusal
from adapters.redis.target import Address
from adapters.redis.wire import Reply
from domain.errors import Unavailable

REDIRECTS: Final = 8
PAUSE: Final = 0.02
READ_PAUSE: Final = 0.25
"""Seconds between two readings of the map, however many calls want it."""

Discover = Callable[[Sequence[Address]], Awaitable[Mapping[int, Address]]]
"""Gives each slot's primary; told which nodes are known beside those of the URL."""


class Cluster:
    """The nodes of a cluster, each with its own connections."""

    def __init__(self, discover: Discover, make_pool: Callable[[Address], Pool]) -> None:
        """Nothing is connected before the first call."""
        self._discover = discover
        self._make_pool = make_pool
        self._owners: Mapping[int, Address] = {}
        self._moved: dict[int, Address] = {}
        self._pools: dict[Address, Pool] = {}
        self._reading: asyncio.Task[None] | None = None
        self._read_at = -math.inf
        self._is_closed = False

    async def call(self, message: bytes, slot: int, /, *, again: bool) -> Reply:
        """Send a command to the owner of its slot (`Channel.call`)."""
        address, asking = self._owner(slot) or await self._find_owner(slot), False
        for _ in range(REDIRECTS):
            try:
                return await self._pool(address).call(message, again=again, asking=asking)
            except Unavailable:
                self._read_map()
                raise
            except Refusal as refusal:
                if refusal.code == "TRYAGAIN":
                    await asyncio.sleep(PAUSE)
                elif refusal.code in {"MOVED", "ASK"}:
                    asking = refusal.code == "ASK"
                    address = _named(refusal.detail, address)
                    if not asking:
                        self._moved[slot] = address
                        self._read_map()
                else:
                    raise
        raise Unavailable(DEPENDENCY, f"the slot could not be reached in {REDIRECTS} attempts")

    async def aclose(self) -> None:
        """Close all connections."""
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        for pool in self._pools.values():
            await pool.aclose()

    def _owner(self, slot: int) -> Address | None:
        return self._moved.get(slot) or self._owners.get(slot)

    async def _find_owner(self, slot: int) -> Address:
        if reading := self._read_map():
            await asyncio.shield(reading)
        if address := self._owner(slot):
            return address
        raise Unavailable(DEPENDENCY, "no node of the cluster is known to hold the slot")

    def _pool(self, address: Address) -> Pool:
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools[address] = self._make_pool(address)
        return pool

    def _read_map(self) -> "asyncio.Task[None] | None":
        """Read the map in the background, at most once in `READ_PAUSE`; None where it was read just now."""
        if self._is_closed:
            return None
        loop = asyncio.get_running_loop()
        if self._reading is None or (self._reading.done() and loop.time() >= self._read_at + READ_PAUSE):
            self._reading = loop.create_task(self._read())
        return None if self._reading.done() else self._reading

    async def _read(self) -> None:
        try:
            self._owners = await self._discover([*self._pools])
        except Unavailable:
            return  # the old map is better than none; callers learn from the nodes themselves
        finally:
            self._read_at = asyncio.get_running_loop().time()
        self._moved.clear()
        for address in self._pools.keys() - set(self._owners.values()):
            await self._pools.pop(address).retire()


def _named(detail: str, asked: Address) -> Address:
    """Read `slot host:port`; no host means the one that was asked."""
    host, _, port = detail.partition(" ")[2].rpartition(":")
    return host.strip("[]") or asked[0], int(port)
