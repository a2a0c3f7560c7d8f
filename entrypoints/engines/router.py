"""The router's server and stores: Temporal, and what `INTERLOCK_ENGINE` keeps catalog and ledger in."""

import asyncio
import os
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from random import random
from typing import TYPE_CHECKING

from adapters.file.regular import read_setting
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from application.catalog import CatalogReader
from application.explain import Explain, SkipReasons, explain
from application.route import Router
from domain.errors import Misconfigured
from domain.retry import RetryRule
from domain.routing import RouteDecision, RoutingRules
from entrypoints.engines.skip_list import SkipListEngine
from entrypoints.groups.router import TemporalSettings, read_patterns
from entrypoints.settings import Settings, variable
from ports.caught_events import CaughtEvents
from ports.metrics import Metrics
from ports.start_ledger import StartLedger
from ports.workflow_catalog import WorkflowCatalog
from ports.workflow_starter import WorkflowStarter

if TYPE_CHECKING:
    from adapters.aws.clients import Aws
    from adapters.sqlite.database import Database
    from adapters.temporal.connection import Temporal

START_RETRY = RetryRule(base=0.2, ceiling=5.0)


class RouterStores:
    """What the router reads beside the events, each opened at its first use."""

    def __init__(self, settings: Settings) -> None:
        """Open nothing yet."""
        self._settings = settings
        self._table = settings.settings.table

    @cached_property
    def catalog(self) -> WorkflowCatalog:
        """Which workflows exist."""
        match self._settings.engine:
            case "memory":
                from adapters.memory.workflow_catalog import MemoryCatalog  # noqa: PLC0415 - only what it needs

                return MemoryCatalog()
            case "sqlite":
                from adapters.sqlite.workflow_catalog import SqliteCatalog  # noqa: PLC0415 - only what it needs

                return SqliteCatalog(self._file)
            case "aws":
                from adapters.dynamodb.workflow_catalog import DynamoDBCatalog  # noqa: PLC0415 - only what it needs

                return DynamoDBCatalog(self._aws, self._table)

    @cached_property
    def ledger(self) -> StartLedger:
        """Which events were handled."""
        match self._settings.engine:
            case "memory":
                from adapters.memory.start_ledger import MemoryLedger  # noqa: PLC0415 - only what it needs

                return MemoryLedger()
            case "sqlite":
                from adapters.sqlite.start_ledger import SqliteLedger  # noqa: PLC0415 - only what it needs

                return SqliteLedger(self._file)
            case "aws":
                from adapters.dynamodb.start_ledger import DynamoDBLedger  # noqa: PLC0415 - only what it needs

                return DynamoDBLedger(self._aws, self._table)

    @cached_property
    def caught(self) -> CaughtEvents:
        """What the catch-all recorded."""
        match self._settings.engine:
            case "memory":
                from adapters.memory.caught_events import MemoryCaughtEvents  # noqa: PLC0415 - only what it needs

                return MemoryCaughtEvents()
            case "sqlite":
                from adapters.sqlite.caught_events import SqliteCaughtEvents  # noqa: PLC0415 - only what it needs

                return SqliteCaughtEvents(self._file)
            case "aws":
                from adapters.dynamodb.caught_events import DynamoDBCaughtEvents  # noqa: PLC0415 - only what it needs

                return DynamoDBCaughtEvents(self._aws, self._table)

    @cached_property
    def _file(self) -> "Database":
        from adapters.sqlite.database import Database  # noqa: PLC0415 - the sqlite engine's alone
        from adapters.sqlite.router_file import ROUTER  # noqa: PLC0415 - the same

        return Database(self._settings.data_dir / "router.db", ROUTER)

    @cached_property
    def _aws(self) -> "Aws":
        from adapters.aws.clients import Aws  # noqa: PLC0415 - the aws engine's alone

        return Aws(region=os.environ.get("AWS_REGION") or None)

    async def aclose(self) -> None:
        """Close files and connections, once no call is in hand."""
        if "_file" in vars(self):
            await self._file.aclose()
        if "_aws" in vars(self):
            await asyncio.to_thread(self._aws.close)


def open_stores(settings: Settings) -> RouterStores:
    """Give the stores of the engine that is configured. Nothing is opened before its first use."""
    return RouterStores(settings)


def open_temporal(settings: TemporalSettings) -> "Temporal":
    """Give the Temporal server that is configured. It is not connected to before the first call.

    Raises:
        Misconfigured: a file of certificates cannot be read, or a certificate comes without its key.
    """
    from adapters.temporal.connection import Target, Temporal  # noqa: PLC0415 - explaining needs no server

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
    return None if file is None else read_setting(file, variable(("temporal", name)), bytes)


def make_starter(settings: Settings) -> WorkflowStarter:
    """Give the starter on the Temporal server that is configured."""
    from adapters.temporal.workflow_starter import TemporalStarter  # noqa: PLC0415 - explaining needs no server

    return TemporalStarter(open_temporal(settings.temporal))


def make_catalog(settings: Settings, stores: RouterStores, metrics: Metrics) -> CatalogReader:
    """Give the router's view of the catalog."""
    return CatalogReader(stores.catalog, SystemClock(), metrics, cache_seconds=settings.router.catalog_cache_seconds)


def make_rules(settings: Settings) -> RoutingRules:
    """Give the rules that are configured."""
    return RoutingRules(read_patterns(settings.router.export_patterns))


def make_explain(settings: Settings, stores: RouterStores, skip_list: SkipListEngine, metrics: Metrics) -> Explain:
    """Give what answers where an event of a type, about a report, would go."""
    catalog, rules = make_catalog(settings, stores, metrics), make_rules(settings)

    async def explain_now(event_type: str, report_id: str | None) -> RouteDecision:
        return await explain(catalog, skip_list.reader, rules, event_type, None, report_id)

    return explain_now


def make_router(
    settings: Settings, stores: RouterStores, starter: WorkflowStarter, skips: SkipReasons, metrics: Metrics
) -> Router:
    """Put the router together."""
    router = settings.router
    return Router(
        starter=starter,
        catalog=make_catalog(settings, stores, metrics),
        ledger=stores.ledger,
        skips=skips,
        clock=SystemClock(),
        ids=RandomIds(),
        metrics=metrics,
        spread=random,
        rules=make_rules(settings),
        retry=RetryRule(attempts=router.max_attempts, base=START_RETRY.base, ceiling=START_RETRY.ceiling),
        attempt_seconds=router.attempt_seconds,
        remembered=timedelta(hours=router.remembered_hours),
    )
