"""The targets of the dedup cache, by `INTERLOCK_DEDUP__BACKEND`; what each needs is imported where it is picked."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pydantic import SecretStr

from adapters.memory.remembered_keys import RememberedKeys
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from application.dedup import DedupCache
from domain.errors import Misconfigured
from entrypoints.groups.dedup import DedupSettings
from entrypoints.settings import Settings, variable
from ports.key_store import KeyStore
from ports.metrics import Metrics

if TYPE_CHECKING:
    from adapters.redis.key_store import RedisKeyStore

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
    primary, secondary, *closers = _targets(settings, metrics)
    if dedup.remembered_keys:
        primary = RememberedKeys(primary, dedup.remembered_keys)
    gathers = dedup.backend in {"redis", "sqlite"}
    cache = DedupCache(primary, secondary, metrics, dedup.deadline_seconds, gathers=gathers)
    return DedupEngine(cache, tuple(closers))


def _targets(settings: Settings, metrics: Metrics) -> tuple[KeyStore, KeyStore | None, *tuple[Closer, ...]]:
    """Give the primary, the secondary if there is one, and what closes them."""
    dedup = settings.dedup
    match dedup.backend:
        case "memory":
            from adapters.memory.key_store import MemoryKeyStore  # noqa: PLC0415 - only what this backend needs

            return MemoryKeyStore(SystemClock(), metrics=metrics), None
        case "sqlite":
            from adapters.sqlite.database import Database  # noqa: PLC0415 - only what this backend needs
            from adapters.sqlite.key_store import KEYS, SqliteKeyStore  # noqa: PLC0415 - the same

            database = Database(settings.data_dir / "dedup.db", KEYS)
            return SqliteKeyStore(database, SystemClock()), None, database.aclose
        case "redis":
            if dedup.primary_url is None:
                raise Misconfigured(variable(("dedup", "primary_url")), "is not set; the backend redis needs it")
            primary = _redis(dedup, "primary", dedup.primary_url, metrics)
            if dedup.secondary_url is None:
                return primary, None, primary.aclose
            secondary = _redis(dedup, "secondary", dedup.secondary_url, metrics)
            return primary, secondary, primary.aclose, secondary.aclose
        case "dynamodb":
            from adapters.aws.clients import Aws  # noqa: PLC0415 - only what this backend needs
            from adapters.dynamodb.key_store import DynamoDBKeyStore  # noqa: PLC0415 - the same

            aws = Aws(region=os.environ.get("AWS_REGION") or None)
            store = DynamoDBKeyStore(aws, dedup.table, SystemClock(), RandomIds())
            return store, None, partial(asyncio.to_thread, aws.close)


def _redis(dedup: DedupSettings, target: str, url: SecretStr, metrics: Metrics) -> "RedisKeyStore":
    from adapters.redis.connection import Settings as Connections  # noqa: PLC0415 - only what this backend needs
    from adapters.redis.key_store import open_key_store  # noqa: PLC0415 - the same
    from adapters.redis.layout import BUCKETS  # noqa: PLC0415 - the same

    def waited(seconds: float) -> None:
        metrics.observe("dedup_connection_wait_seconds", seconds, target=target)

    return open_key_store(
        url.get_secret_value(),
        buckets=dedup.buckets or BUCKETS,
        settings=Connections(on_wait=waited),
        setting=variable(("dedup", f"{target}_url")),
    )
