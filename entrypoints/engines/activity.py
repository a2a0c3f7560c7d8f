"""The activity store by `INTERLOCK_ENGINE`; what each engine needs is imported where it is picked."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from adapters.system.clock import SystemClock
from application.activity import ActivityFeed
from domain.cursor import CursorKeys
from entrypoints.groups.activity import ActivitySettings
from entrypoints.settings import Settings
from ports.activity_store import ActivityStore
from ports.metrics import Metrics
from ports.object_store import ObjectStore

if TYPE_CHECKING:
    from application.activity_history import ActivityHistory

FILE: Final = "activity.db"
FOLDER: Final = "payloads"

Closer = Callable[[], Awaitable[None]]


class ActivityEngine:
    """The writer and the reader of activity, and what closes them. The store itself is for nobody else.

    Attributes:
        feed: the writer.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        """Nothing is connected to before its first use."""
        self._settings = settings
        store, payloads, *self._closers = _stores(settings)
        self.feed = ActivityFeed(store, payloads, SystemClock(), metrics, settings.activity.inline_bytes)

    @cached_property
    def history(self) -> "ActivityHistory":
        """The reader. What it needs is imported here: who only writes does without.

        Raises:
            Misconfigured: a setting cannot work.
        """
        from application.activity_history import ActivityHistory, Bounds  # noqa: PLC0415 - the readers' alone
        from entrypoints.redaction import load_policy  # noqa: PLC0415 - the same

        feed, activity = self.feed, self._settings.activity
        return ActivityHistory(
            feed.store,
            feed.payloads,
            load_policy(self._settings),
            feed.clock,
            feed.metrics,
            keys=_keys(activity),
            bounds=Bounds(activity.max_reads, activity.max_page_bytes),
        )

    async def aclose(self) -> None:
        """Close files and connections, once no call is in hand."""
        for close in self._closers:
            await close()


def _stores(settings: Settings) -> tuple[ActivityStore, ObjectStore | None, *tuple[Closer, ...]]:
    """Give the rows, where large payloads go, and what closes them."""
    match settings.engine:
        case "memory":
            from adapters.memory.activity_store import MemoryActivityStore  # noqa: PLC0415 - only what this engine needs
            from adapters.memory.object_store import MemoryObjectStore  # noqa: PLC0415 - the same

            return MemoryActivityStore(), MemoryObjectStore()
        case "sqlite":
            from adapters.filesystem.object_store import FilesystemObjectStore  # noqa: PLC0415 - only what this engine needs
            from adapters.sqlite.activity_store import ACTIVITY, SqliteActivityStore  # noqa: PLC0415 - the same
            from adapters.sqlite.database import Database  # noqa: PLC0415 - the same

            database = Database(settings.data_dir / FILE, ACTIVITY)
            return SqliteActivityStore(database), FilesystemObjectStore(settings.data_dir / FOLDER), database.aclose
        case "aws":
            from adapters.aws.clients import Aws  # noqa: PLC0415 - only what this engine needs
            from adapters.dynamodb.activity_store import DynamoDBActivityStore  # noqa: PLC0415 - the same
            from adapters.s3.object_store import S3ObjectStore  # noqa: PLC0415 - the same
            from adapters.system.id_source import RandomIds  # noqa: PLC0415 - the same

            aws, bucket = Aws(region=os.environ.get("AWS_REGION") or None), settings.activity.bucket
            store = DynamoDBActivityStore(aws, settings.activity.table, RandomIds())
            payloads = None if bucket is None else S3ObjectStore(aws, bucket)
            return store, payloads, partial(asyncio.to_thread, aws.close)


def _keys(activity: ActivitySettings) -> CursorKeys | None:
    if activity.cursor_keys is None:
        return None
    return CursorKeys([key.encode() for key in activity.cursor_keys.get_secret_value().split(",")])
