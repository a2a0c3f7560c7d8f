"""Everything in this process's memory: gone when it ends."""

from functools import cached_property
from typing import Final

from adapters.memory.event_store import MemoryEventStore
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.publisher import MemoryPublisher
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from entrypoints.settings import Settings


class MemoryEngine:
    """Ports over dicts; one engine is one world."""

    batch: Final = 500
    receivers: Final = 1
    wait_seconds: Final = 1.0

    def __init__(self, settings: Settings) -> None:
        """Start empty."""
        self._lifecycle = settings.lifecycle

    @cached_property
    def store(self) -> MemoryEventStore:
        """The event store."""
        return MemoryEventStore()

    @cached_property
    def dead_letters(self) -> MemoryQueue:
        """Where messages go that were received too often."""
        return MemoryQueue(SystemClock(), RandomIds())

    @cached_property
    def queue(self) -> MemoryQueue:
        """The lifecycle queue."""
        return MemoryQueue(
            SystemClock(),
            RandomIds(),
            visibility_seconds=self._lifecycle.visibility_seconds,
            max_receives=self._lifecycle.max_receives,
            dead_letters=self.dead_letters,
        )

    @cached_property
    def publisher(self) -> MemoryPublisher:
        """The lifecycle topic."""
        return MemoryPublisher(self.queue)

    async def aclose(self) -> None:
        """Nothing to close."""
