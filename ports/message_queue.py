"""Taking messages from a FIFO queue (R-106, R-107)."""

from collections.abc import Sequence
from typing import Protocol

from domain.messages import Received


class MessageQueue(Protocol):
    """A FIFO queue with a visibility timeout and a dead-letter queue.

    While the first undeleted message of a group is in flight, none of the group is handed out. Where it becomes
    visible again, by release or timeout, it is handed out at once, also while later ones are still in flight.
    """

    async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
        """Take up to `limit` messages, waiting up to `wait_seconds` for the first.

        Several messages of one group come in order. A message received more often than the queue allows goes
        to the dead-letter queue instead. SQS counts every hand-out; our own engines leave out those that ended by
        timeout, so that a consumer that dies over and over does not bury what it never tried.
        """
        ...

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        """Delete messages that were handled.

        Returns:
            Those whose receipt had run out: they stay in the queue and will be delivered again.
        """
        ...

    async def release(self, messages: Sequence[Received], /) -> None:
        """Give messages back at once, in order; receipts that ran out are passed over."""
        ...
