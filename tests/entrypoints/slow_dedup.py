"""`interlock dedup serve` over a store that takes half a second for each claim. Tests run it as a process."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from adapters.memory.key_store import MemoryKeyStore
from adapters.system.clock import SystemClock
from application.dedup import DedupCache
from domain.dedup import Scope
from entrypoints.cli.main import main
from entrypoints.cli.output import tell
from entrypoints.container import Container
from entrypoints.engines.dedup import DedupEngine
from entrypoints.settings import Settings
from ports.metrics import Metrics


class SlowKeys(MemoryKeyStore):
    """Says when it is asked, and when it is closed."""

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        tell("asked")
        await asyncio.sleep(0.5)
        return await super().claim(scope, keys, ttl)

    async def aclose(self) -> None:
        tell("closed")


def open_slow(_: Settings, metrics: Metrics) -> DedupEngine:
    store = SlowKeys(SystemClock())
    return DedupEngine(DedupCache(store, None, metrics, 10.0), (store.aclose,))


if __name__ == "__main__":
    Container.dedup.set_provides(open_slow)
    main()
