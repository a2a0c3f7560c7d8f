"""A FIFO topic in one process's memory."""

from collections.abc import Sequence
from typing import Final

from adapters.memory.message_queue import MemoryQueue
from domain.errors import InterlockError
from domain.messages import Outgoing, refusals

MAX_BYTES: Final = 1024 * 1024


class MemoryPublisher:
    """Hands each message to every queue that subscribes."""

    def __init__(self, *queues: MemoryQueue) -> None:
        """Publish to these queues."""
        self._queues = queues

    @property
    def max_bytes(self) -> int:
        """1 MiB, as SQS takes it."""
        return MAX_BYTES

    async def publish(self, messages: Sequence[Outgoing], /) -> list[InterlockError | None]:
        """Publish messages; see the port."""
        answers = refusals(messages, self.max_bytes)
        for message, refusal in zip(messages, answers, strict=True):
            if refusal is None:
                for queue in self._queues:
                    queue.put(message)
        return answers
