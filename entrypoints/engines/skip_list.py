"""Where the skip list is kept, by `INTERLOCK_ENGINE`; what each engine needs is imported where it is picked."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import cached_property, partial

from adapters.system.clock import SystemClock
from application.skip_list import SkipListReader
from domain.times import format_time
from entrypoints.failures import code_of, reason_of
from entrypoints.settings import Settings
from ports.metrics import Metrics
from ports.skip_list_store import SkipListStore

OnFailure = Callable[[Exception, datetime | None], None]


class SkipListEngine:
    """The list's store, opened at its first use, and the router's reader of it.

    Args:
        settings: which store.
        metrics: where figures go.
        on_failure: is told of readings that fail; see `SkipListReader`.
    """

    def __init__(self, settings: Settings, metrics: Metrics, on_failure: OnFailure | None = None) -> None:
        self._settings = settings
        self._metrics = metrics
        self._on_failure = on_failure or _tell
        self._closers: list[Callable[[], Awaitable[None]]] = []

    @cached_property
    def store(self) -> SkipListStore:
        """Where entries are kept.

        Raises:
            Misconfigured: the file of the sqlite engine cannot be used.
        """
        match self._settings.engine:
            case "memory":
                from adapters.memory.skip_list_store import MemorySkipListStore  # noqa: PLC0415 - only this engine's

                return MemorySkipListStore()
            case "sqlite":
                from adapters.sqlite.database import Database  # noqa: PLC0415 - only what this engine needs
                from adapters.sqlite.skip_list_store import SKIP_LIST, SqliteSkipListStore  # noqa: PLC0415 - the same

                database = Database(self._settings.data_dir / "skip-list.db", SKIP_LIST)
                self._closers.append(database.aclose)
                return SqliteSkipListStore(database)
            case "aws":
                from adapters.aws.clients import Aws  # noqa: PLC0415 - only what this engine needs
                from adapters.dynamodb.skip_list_store import DynamoDBSkipListStore  # noqa: PLC0415 - the same

                aws = Aws(region=os.environ.get("AWS_REGION") or None)
                self._closers.append(partial(asyncio.to_thread, aws.close))
                return DynamoDBSkipListStore(aws, self._settings.settings.table)

    @cached_property
    def reader(self) -> SkipListReader:
        """The list as the router sees it."""
        return SkipListReader(
            self.store,
            SystemClock(),
            self._metrics,
            cache_seconds=self._settings.settings.skip_list_cache_seconds,
            on_failure=self._on_failure,
        )

    async def aclose(self) -> None:
        """Close files and connections, once nothing is in hand."""
        if "reader" in vars(self):
            await self.reader.aclose()
        for close in self._closers:
            await close()


def _tell(error: Exception, read_at: datetime | None) -> None:
    """Say which list is used while the store does not answer (FC-24)."""
    import structlog  # noqa: PLC0415 - Lambda functions log otherwise

    used = "none: nothing is skipped" if read_at is None else f"as of {format_time(read_at)}"
    log = structlog.get_logger("interlock.router")
    log.warning("the skip list cannot be read", used=used, code=code_of(error), reason=reason_of(error))
