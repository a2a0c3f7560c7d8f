"""The event bus and the queue that it feeds, by `INTERLOCK_ENGINE`; imports are where an engine is picked."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from domain.errors import Misconfigured
from entrypoints.settings import Settings, variable
from ports.event_bus import EventBus
from ports.message_queue import MessageQueue

if TYPE_CHECKING:
    from adapters.aws.clients import Aws
    from adapters.memory.message_queue import MemoryQueue
    from adapters.sqlite.database import Database

QUEUE: Final = "events"
DEAD_LETTERS: Final = "events-dead"


class EventBusEngine:
    """A bus to publish to, and its queue. Files and connections are opened at first use, and kept.

    Attributes:
        batch: how many events a worker takes at a time.
        receivers: how many batches a worker has in hand side by side.
        wait_seconds: how long a worker waits for an event in one call.
    """

    def __init__(self, settings: Settings) -> None:
        """Open nothing yet."""
        self.batch, self.receivers, self.wait_seconds = (10, 4, 5.0) if settings.engine == "aws" else (100, 1, 1.0)
        self._settings = settings
        self._closers: list[Callable[[], Awaitable[None]]] = []

    @property
    def bus(self) -> EventBus:
        """Where events are published."""
        match self._settings.engine:
            case "memory":
                from adapters.memory.event_bus import MemoryEventBus  # noqa: PLC0415 - only what this engine needs

                return MemoryEventBus(self._memory, SystemClock(), RandomIds())
            case "sqlite":
                from adapters.sqlite.event_bus import SqliteEventBus  # noqa: PLC0415 - only what this engine needs

                return SqliteEventBus(self._file, QUEUE, SystemClock(), RandomIds())
            case "aws":
                from adapters.eventbridge.event_bus import EventBridgeBus  # noqa: PLC0415 - only what this engine needs

                return EventBridgeBus(self._aws, self._settings.bus.name)

    @property
    def queue(self) -> MessageQueue:
        """What a rule of the bus feeds.

        Raises:
            Misconfigured: on aws, its URL is not set.
        """
        bus = self._settings.bus
        match self._settings.engine:
            case "memory":
                return self._memory
            case "sqlite":
                from adapters.sqlite.message_queue import SqliteMessageQueue  # noqa: PLC0415 - only what it needs

                return SqliteMessageQueue(
                    self._file,
                    QUEUE,
                    SystemClock(),
                    RandomIds(),
                    visibility_seconds=bus.visibility_seconds,
                    max_receives=bus.max_receives,
                    dead_letters=DEAD_LETTERS,
                )
            case "aws":
                from adapters.sqs.message_queue import SQSMessageQueue  # noqa: PLC0415 - only what this engine needs

                if bus.queue_url is None:
                    name = variable(("bus", "queue_url"))
                    raise Misconfigured(name, "is not set; set it to what `interlock tables create` prints")
                return SQSMessageQueue(self._aws, bus.queue_url)

    async def aclose(self) -> None:
        """Close files and connections, once nothing is in hand."""
        for close in self._closers:
            await close()

    @cached_property
    def _memory(self) -> "MemoryQueue":
        from adapters.memory.message_queue import MemoryQueue  # noqa: PLC0415 - only what this engine needs

        return MemoryQueue(
            SystemClock(),
            RandomIds(),
            visibility_seconds=self._settings.bus.visibility_seconds,
            max_receives=self._settings.bus.max_receives,
            dead_letters=MemoryQueue(SystemClock(), RandomIds()),
        )

    @cached_property
    def _file(self) -> "Database":
        from adapters.sqlite.database import Database  # noqa: PLC0415 - only what this engine needs
        from adapters.sqlite.message_queue import QUEUES  # noqa: PLC0415 - the same

        database = Database(self._settings.data_dir / "bus.db", QUEUES)
        self._closers.append(database.aclose)
        return database

    @cached_property
    def _aws(self) -> "Aws":
        from adapters.aws.clients import Aws  # noqa: PLC0415 - only what this engine needs

        aws = Aws(region=os.environ.get("AWS_REGION") or None)
        self._closers.append(partial(asyncio.to_thread, aws.close))
        return aws
