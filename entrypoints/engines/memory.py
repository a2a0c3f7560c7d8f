"""Everything in this process's memory: gone when it ends."""

from adapters.memory.event_store import MemoryEventStore
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.publisher import MemoryPublisher
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from entrypoints.settings import Settings


class MemoryEngine:
    """Ports over dicts; one engine is one world."""

    def __init__(self, settings: Settings) -> None:
        """Start empty."""
        self.batch = 500
        self.receivers = 1
        self.wait_seconds = 1.0
        self.store = MemoryEventStore()
        self.queue = MemoryQueue(
            SystemClock(),
            RandomIds(),
            visibility_seconds=settings.lifecycle.visibility_seconds,
            max_receives=settings.lifecycle.max_receives,
            dead_letters=MemoryQueue(SystemClock(), RandomIds()),
        )
        self.publisher = MemoryPublisher(self.queue)

    async def aclose(self) -> None:
        """Nothing to close."""
