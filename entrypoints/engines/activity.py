"""The activity store by `INTERLOCK_ENGINE`; what each engine needs is imported where it is picked."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from adapters.system.clock import SystemClock
from application.activity import ActivityFeed, ActivityHistory, Bounds
from domain.cursor import CursorKeys
from entrypoints.redaction import load_policy
from entrypoints.settings import ActivitySettings, Settings
from ports.activity_store import ActivityStore
from ports.metrics import Metrics
from ports.payload_store import PayloadStore

FILE: Final = "activity.db"
FOLDER: Final = "payloads"

Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ActivityEngine:
    """The writer and the reader of activity, and what closes them. The store itself is for nobody else."""

    feed: ActivityFeed
    history: ActivityHistory
    closers: tuple[Closer, ...] = ()

    async def aclose(self) -> None:
        """Close files and connections, once no call is in hand."""
        for close in self.closers:
            await close()


def open_activity(settings: Settings, metrics: Metrics) -> ActivityEngine:
    """Give the activity store of the configured engine. Nothing is connected to before its first use.

    Raises:
        Misconfigured: a setting cannot work.
    """
    store, payloads, *closers = _stores(settings)
    activity, clock = settings.activity, SystemClock()
    return ActivityEngine(
        ActivityFeed(store, payloads, clock, metrics, activity.inline_bytes),
        ActivityHistory(
            store,
            payloads,
            load_policy(settings),
            clock,
            metrics,
            keys=_keys(activity),
            bounds=Bounds(activity.max_reads, activity.max_page_bytes),
        ),
        tuple(closers),
    )


def _stores(settings: Settings) -> tuple[ActivityStore, PayloadStore | None, *tuple[Closer, ...]]:
    """Give the rows, where large payloads go, and what closes them."""
    match settings.engine:
        case "memory":
            from adapters.memory.activity_store import MemoryActivityStore  # noqa: PLC0415 - only what this engine needs
            from adapters.memory.payload_store import MemoryPayloadStore  # noqa: PLC0415 - the same

            return MemoryActivityStore(), MemoryPayloadStore()
        case "sqlite":
            from adapters.filesystem.payload_store import FilePayloadStore  # noqa: PLC0415 - only what this engine needs
            from adapters.sqlite.activity_store import ACTIVITY, SqliteActivityStore  # noqa: PLC0415 - the same
            from adapters.sqlite.database import Database  # noqa: PLC0415 - the same

            database = Database(settings.data_dir / FILE, ACTIVITY)
            return SqliteActivityStore(database), FilePayloadStore(settings.data_dir / FOLDER), database.aclose
        case "aws":
            from adapters.aws.clients import Aws  # noqa: PLC0415 - only what this engine needs
            from adapters.dynamodb.activity_store import DynamoDBActivityStore  # noqa: PLC0415 - the same
            from adapters.s3.payload_store import S3PayloadStore  # noqa: PLC0415 - the same
            from adapters.system.id_source import RandomIds  # noqa: PLC0415 - the same

            aws, bucket = Aws(region=os.environ.get("AWS_REGION") or None), settings.activity.bucket
            store = DynamoDBActivityStore(aws, settings.activity.table, RandomIds())
            payloads = None if bucket is None else S3PayloadStore(aws, bucket)
            return store, payloads, partial(asyncio.to_thread, aws.close)


def _keys(activity: ActivitySettings) -> CursorKeys | None:
    if activity.cursor_keys is None:
        return None
    return CursorKeys([key.encode() for key in activity.cursor_keys.get_secret_value().split(",")])
