"""A FIFO topic in one process's memory."""

from collections.abc import Sequence
from typing import Final

from adapters.memory.message_queue import MemoryQueue
from domain.errors import InterlockError, TooLarge
from domain.messages import Outgoing, held_back

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
        answers: list[InterlockError | None] = []
        stopped: set[str] = set()
        for message in messages:
            size = len(message.body.encode())
            answer: InterlockError | None = None
            if message.group_id in stopped:
                answer = held_back()
            elif size > self.max_bytes:
                answer = TooLarge("", f"is {size} bytes; the limit is {self.max_bytes}", size, self.max_bytes)
                stopped.add(message.group_id)
            answers.append(answer)
            if answer is None:
                for queue in self._queues:
                    queue.put(message)
        return answers
