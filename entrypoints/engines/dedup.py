"""The targets of the dedup cache, by `INTERLOCK_DEDUP__BACKEND`; what each needs is imported where it is picked."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from adapters.memory.remembered_keys import RememberedKeys
from adapters.system.clock import SystemClock
from application.dedup import DedupCache
from domain.errors import Misconfigured
from entrypoints.settings import Settings, variable
from ports.key_store import KeyStore
from ports.metrics import Metrics

Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DedupEngine:
    """A dedup cache, and how to let go of what its targets hold."""

    cache: DedupCache
    closers: tuple[Closer, ...] = ()

    async def aclose(self) -> None:
        """Close files and connections, once no call is in hand."""
        for close in self.closers:
            await close()


def open_dedup(settings: Settings, metrics: Metrics) -> DedupEngine:
    """Give the cache that is configured. Nothing is connected to before its first use.

    Raises:
        Misconfigured: a setting that is needed is missing.
    """
    dedup = settings.dedup
    if dedup.backend != "redis" and dedup.secondary_url is not None:
        raise Misconfigured(variable(("dedup", "secondary_url")), "needs the backend redis")
    primary, secondary, *closers = _targets(settings)
    if dedup.remembered_keys:
        primary = RememberedKeys(primary, dedup.remembered_keys)
    return DedupEngine(DedupCache(primary, secondary, metrics, dedup.deadline_seconds), tuple(closers))


def _targets(settings: Settings) -> tuple[KeyStore, KeyStore | None, *tuple[Closer, ...]]:
    """Give the primary, the secondary if there is one, and what closes them."""
    match settings.dedup.backend:
        case "memory":
            from adapters.memory.key_store import MemoryKeyStore  # noqa: PLC0415 - only what this backend needs

            return MemoryKeyStore(SystemClock()), None
        case "sqlite":
            from adapters.sqlite.database import Database  # noqa: PLC0415 - only what this backend needs
            from adapters.sqlite.key_store import KEYS, SqliteKeyStore  # noqa: PLC0415 - the same

            database = Database(settings.data_dir / "dedup.db", KEYS)
            return SqliteKeyStore(database, SystemClock()), None, database.aclose
        case other:
            raise Misconfigured(variable(("dedup", "backend")), f"{other} cannot be used yet")
