"""A FIFO topic that feeds one queue of a SQLite file (ports/publisher.py)."""

from collections.abc import Sequence
from typing import Final

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import put
from domain.errors import InterlockError, TooLarge
from domain.messages import Outgoing, held_back
from ports.clock import Clock

_MAX_BYTES: Final = 1024 * 1024


class SqlitePublisher:
    """Puts messages into the queue of a name, in a file opened with `QUEUES`; whoever opened it closes it."""

    def __init__(self, database: Database, queue: str, clock: Clock) -> None:
        """Publish to this queue."""
        self._database = database
        self._queue = queue
        self._clock = clock

    @property
    def max_bytes(self) -> int:
        """The largest body that it takes: what SQS takes."""
        return _MAX_BYTES

    async def publish(self, messages: Sequence[Outgoing], /) -> list[InterlockError | None]:
        """Publish messages, those that are taken in one transaction; see the port."""
        stopped: set[str] = set()
        taken: list[Outgoing] = []
        answers: list[InterlockError | None] = []
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
                taken.append(message)
        await self._database.write(lambda connection: put(connection, self._queue, taken, self._clock.now()))
        return answers
