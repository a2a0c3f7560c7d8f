"""The router's server and stores: Temporal, and what `INTERLOCK_ENGINE` keeps catalog, ledger and skip list in."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import random

from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from adapters.temporal.connection import Target, Temporal
from adapters.temporal.workflow_starter import TemporalStarter
from application.catalog import CatalogReader
from application.route import Router, SkipReasons
from application.skip_list import SkipListReader
from domain.errors import Misconfigured
from domain.retry import RetryRule
from domain.routing import RoutingRules
from entrypoints.settings import Settings, TemporalSettings, read_patterns, variable
from ports.caught_events import CaughtEvents
from ports.metrics import Metrics
from ports.skip_list_store import SkipListStore
from ports.start_ledger import StartLedger
from ports.workflow_catalog import WorkflowCatalog
from ports.workflow_starter import WorkflowStarter

Closer = Callable[[], Awaitable[None]]
OnFailure = Callable[[Exception, datetime | None], None]

START_RETRY = RetryRule(base=0.2, ceiling=5.0)


@dataclass(frozen=True, slots=True)
class RouterStores:
    """What the router reads beside the events, and how to let go of it."""

    catalog: WorkflowCatalog
    ledger: StartLedger
    caught: CaughtEvents
    skip_list: SkipListStore
    closers: tuple[Closer, ...] = ()

    async def aclose(self) -> None:
        """Close files and connections, once no call is in hand."""
        for close in self.closers:
            await close()


def open_stores(settings: Settings) -> RouterStores:
    """Give the stores of the engine that is configured. On aws nothing is called before its first use."""
    match settings.engine:
        case "memory":
            from adapters.memory.caught_events import MemoryCaughtEvents  # noqa: PLC0415 - only what this engine needs
            from adapters.memory.skip_list_store import MemorySkipListStore  # noqa: PLC0415 - the same
            from adapters.memory.start_ledger import MemoryLedger  # noqa: PLC0415 - the same
            from adapters.memory.workflow_catalog import MemoryCatalog  # noqa: PLC0415 - the same

            return RouterStores(MemoryCatalog(), MemoryLedger(), MemoryCaughtEvents(), MemorySkipListStore())
        case "sqlite":
            from adapters.sqlite.caught_events import SqliteCaughtEvents  # noqa: PLC0415 - only what this engine needs
            from adapters.sqlite.database import Database  # noqa: PLC0415 - the same
            from adapters.sqlite.router_file import ROUTER  # noqa: PLC0415 - the same
            from adapters.sqlite.skip_list_store import SKIP_LIST, SqliteSkipListStore  # noqa: PLC0415 - the same
            from adapters.sqlite.start_ledger import SqliteLedger  # noqa: PLC0415 - the same
            from adapters.sqlite.workflow_catalog import SqliteCatalog  # noqa: PLC0415 - the same

            router = Database(settings.data_dir / "router.db", ROUTER)
            skip_list = Database(settings.data_dir / "settings.db", SKIP_LIST)
            return RouterStores(
                SqliteCatalog(router),
                SqliteLedger(router),
                SqliteCaughtEvents(router),
                SqliteSkipListStore(skip_list),
                (router.aclose, skip_list.aclose),
            )
        case "aws":
            from adapters.aws.clients import Aws  # noqa: PLC0415 - only what this engine needs
            from adapters.dynamodb.caught_events import DynamoDBCaughtEvents  # noqa: PLC0415 - the same
            from adapters.dynamodb.skip_list_store import DynamoDBSkipListStore  # noqa: PLC0415 - the same
            from adapters.dynamodb.start_ledger import DynamoDBLedger  # noqa: PLC0415 - the same
            from adapters.dynamodb.workflow_catalog import DynamoDBCatalog  # noqa: PLC0415 - the same

            aws = Aws(region=os.environ.get("AWS_REGION") or None)
            table = settings.settings.table
            return RouterStores(
                DynamoDBCatalog(aws, table),
                DynamoDBLedger(aws, table),
                DynamoDBCaughtEvents(aws, table),
                DynamoDBSkipListStore(aws, table),
                (partial(asyncio.to_thread, aws.close),),
            )


def open_temporal(settings: TemporalSettings) -> Temporal:
    """Give the Temporal server that is configured. It is not connected to before the first call.

    Raises:
        Misconfigured: a file of certificates cannot be read, or a certificate comes without its key.
    """
    for one, other in (("tls_certificate_file", "tls_key_file"), ("tls_key_file", "tls_certificate_file")):
        if getattr(settings, one) is not None and getattr(settings, other) is None:
            raise Misconfigured(variable(("temporal", other)), f"is not set; {variable(('temporal', one))} needs it")
    return Temporal(
        Target(
            settings.address,
            settings.namespace,
            api_key=None if settings.api_key is None else settings.api_key.get_secret_value(),
            tls=settings.tls,
            server_ca=_read("tls_ca_file", settings.tls_ca_file),
            certificate=_read("tls_certificate_file", settings.tls_certificate_file),
            key=_read("tls_key_file", settings.tls_key_file),
        )
    )


def _read(name: str, file: Path | None) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        raise Misconfigured(variable(("temporal", name)), f"{file} cannot be read: {error.strerror}") from error


def make_starter(settings: Settings) -> WorkflowStarter:
    """Give the starter on the Temporal server that is configured."""
    return TemporalStarter(open_temporal(settings.temporal))


def make_skips(settings: Settings, stores: RouterStores, metrics: Metrics, on_failure: OnFailure) -> SkipListReader:
    """Give the router's view of the skip list."""
    cache_seconds = settings.settings.skip_list_cache_seconds
    return SkipListReader(stores.skip_list, SystemClock(), metrics, cache_seconds=cache_seconds, on_failure=on_failure)


def make_router(
    settings: Settings, stores: RouterStores, starter: WorkflowStarter, skips: SkipReasons, metrics: Metrics
) -> Router:
    """Put the router together."""
    router, clock = settings.router, SystemClock()
    return Router(
        starter=starter,
        catalog=CatalogReader(stores.catalog, clock, metrics, cache_seconds=router.catalog_cache_seconds),
        ledger=stores.ledger,
        skips=skips,
        clock=clock,
        ids=RandomIds(),
        metrics=metrics,
        spread=random,
        rules=RoutingRules(read_patterns(router.export_patterns)),
        retry=RetryRule(attempts=router.max_attempts, base=START_RETRY.base, ceiling=START_RETRY.ceiling),
        attempt_seconds=router.attempt_seconds,
        remembered=timedelta(hours=router.remembered_hours),
    )
