"""A FIFO topic that feeds one queue of a SQLite file (ports/publisher.py)."""

from collections.abc import Sequence
from typing import Final

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import put
from domain.errors import InterlockError
from domain.messages import Outgoing, refusals
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
        answers = refusals(messages, self.max_bytes)
        taken = [message for message, refusal in zip(messages, answers, strict=True) if refusal is None]
        await self._database.write(lambda connection: put(connection, self._queue, taken, self._clock.now()))
        return answers
