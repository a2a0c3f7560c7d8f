"""The front door's queue and object store, by `INTERLOCK_ENGINE`; what each needs is imported where it is picked."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from domain.errors import Misconfigured
from entrypoints.settings import Settings, variable
from ports.intake_queue import IntakeQueue
from ports.object_store import ObjectStore

if TYPE_CHECKING:
    from adapters.aws.clients import Aws

QUEUE: Final = "intake"
DEAD_LETTERS: Final = "intake-dead"
OBJECTS: Final = "objects"
"""The folder of objects, in the data folder."""

Closer = Callable[[], Awaitable[None]]


class IntakeEngine:
    """The two ports. Nothing is opened or connected to before its first use, and each is made once.

    Args:
        settings: which engine, and where.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._closers: list[Closer] = []

    @cached_property
    def queue(self) -> IntakeQueue:
        """The intake queue.

        Raises:
            Misconfigured: its URL is not set, on aws.
        """
        match self._settings.engine:
            case "memory":
                return self._memory_queue()
            case "sqlite":
                return self._sqlite_queue()
            case "aws":
                from adapters.sqs.intake_queue import SQSIntakeQueue  # noqa: PLC0415 - only what this engine needs

                return SQSIntakeQueue(self._aws, _required(self._settings.intake.queue_url, "queue_url"))

    @cached_property
    def objects(self) -> ObjectStore:
        """The object store; what goes into it is compressed.

        Raises:
            Misconfigured: the bucket is not set, on aws.
        """
        from adapters.zstd.object_store import ZstdObjectStore  # noqa: PLC0415 - senders do without

        return ZstdObjectStore(self.packed_objects)

    async def aclose(self) -> None:
        """Close files and connections, once no call is in hand."""
        while self._closers:
            await self._closers.pop()()

    @cached_property
    def packed_objects(self) -> ObjectStore:
        """The same store under its compression, for whoever unpacks objects by itself.

        Raises:
            Misconfigured: the bucket is not set, on aws.
        """
        match self._settings.engine:
            case "memory":
                from adapters.memory.object_store import MemoryObjectStore  # noqa: PLC0415 - only what is needed

                return MemoryObjectStore()
            case "sqlite":
                from adapters.filesystem.object_store import FilesystemObjectStore  # noqa: PLC0415 - the same

                return FilesystemObjectStore(self._settings.data_dir / OBJECTS)
            case "aws":
                from adapters.s3.object_store import S3ObjectStore  # noqa: PLC0415 - the same

                return S3ObjectStore(self._aws, _required(self._settings.intake.bucket, "bucket"))

    def _memory_queue(self) -> IntakeQueue:
        from adapters.embedded.intake_queue import EmbeddedIntakeQueue  # noqa: PLC0415 - only what this engine needs
        from adapters.memory.message_queue import MemoryQueue  # noqa: PLC0415 - the same
        from adapters.memory.publisher import MemoryPublisher  # noqa: PLC0415 - the same

        clock, ids, intake = SystemClock(), RandomIds(), self._settings.intake
        queue = MemoryQueue(
            clock,
            ids,
            visibility_seconds=intake.visibility_seconds,
            max_receives=intake.max_receives,
            dead_letters=MemoryQueue(clock, ids),
        )
        return EmbeddedIntakeQueue(MemoryPublisher(queue), queue, ids)

    def _sqlite_queue(self) -> IntakeQueue:
        from adapters.embedded.intake_queue import EmbeddedIntakeQueue  # noqa: PLC0415 - only what this engine needs
        from adapters.sqlite.database import Database  # noqa: PLC0415 - the same
        from adapters.sqlite.message_queue import QUEUES, SqliteMessageQueue  # noqa: PLC0415 - the same
        from adapters.sqlite.publisher import SqlitePublisher  # noqa: PLC0415 - the same

        clock, ids, intake = SystemClock(), RandomIds(), self._settings.intake
        database = Database(self._settings.data_dir / "queues.db", QUEUES)
        self._closers.append(database.aclose)
        queue = SqliteMessageQueue(
            database,
            QUEUE,
            clock,
            ids,
            visibility_seconds=intake.visibility_seconds,
            max_receives=intake.max_receives,
            dead_letters=DEAD_LETTERS,
        )
        return EmbeddedIntakeQueue(SqlitePublisher(database, QUEUE, clock), queue, ids)

    @cached_property
    def _aws(self) -> "Aws":
        from adapters.aws.clients import Aws  # noqa: PLC0415 - only what this engine needs

        aws = Aws(region=os.environ.get("AWS_REGION") or None)
        self._closers.append(partial(asyncio.to_thread, aws.close))
        return aws


def _required(value: str | None, name: str) -> str:
    if value is None:
        fix = "choose a name, then `interlock tables create`" if name == "bucket" else "see `interlock tables create`"
        raise Misconfigured(variable(("intake", name)), f"is not set; {fix}")
    return value
