"""Which workflows exist, read now and then and answered from memory."""

import asyncio
from datetime import datetime, timedelta
from typing import Final

from domain.errors import InterlockError
from domain.routing import Directory, directory
from ports.clock import Clock
from ports.metrics import Metrics
from ports.workflow_catalog import WorkflowCatalog

CACHE_SECONDS: Final = 5.0
LATELY: Final = timedelta(seconds=1)


class CatalogReader:
    """The catalog as it was a moment ago. One caller reads at a time, the others wait for what it finds.

    Where the store does not answer, the last known offers are used, however old; `router_catalog_stale_total` counts
    how often, and `is_stale` says so. Workers whose offers end meanwhile still count as there: an outage of the store
    ends nobody's work.

    Args:
        catalog: the offers of all workers.
        clock: what the age of the answers is measured by.
        metrics: where figures go.
        cache_seconds: how old an answer may be.
    """

    def __init__(
        self, catalog: WorkflowCatalog, clock: Clock, metrics: Metrics, *, cache_seconds: float = CACHE_SECONDS
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._metrics = metrics
        self._cache = timedelta(seconds=cache_seconds)
        self._reading = asyncio.Lock()
        self._known: Directory | None = None
        self._read_at: datetime | None = None
        self.is_stale = False

    async def served(self) -> Directory:
        """Give which workflows exist.

        Raises:
            Unavailable: the store does not answer, and never did.
        """
        return await self._younger_than(self._cache)

    async def served_lately(self) -> Directory:
        """Give which workflows exist as of a second ago: for whoever did not find one."""
        return await self._younger_than(min(LATELY, self._cache))

    async def _younger_than(self, age: timedelta) -> Directory:
        known = self._young(age)
        if known is not None:
            return known
        async with self._reading:
            return self._young(age) or await self._read()

    def _young(self, age: timedelta) -> Directory | None:
        is_young = self._read_at is not None and self._clock.now() - self._read_at < age
        return self._known if is_young else None

    async def _read(self) -> Directory:
        now = self._clock.now()
        try:
            offers = await self._catalog.offers()
        except InterlockError:
            if self._known is None:
                raise
            self._metrics.count("router_catalog_stale_total")
            self.is_stale = True
            self._read_at = now
            return self._known
        self._known, self._read_at, self.is_stale = directory(offers, now), now, False
        return self._known
