"""The intake queue: a message is durable once its id is given (R-501, R-503)."""

from collections.abc import Sequence
from typing import Protocol

from domain.messages import Received


class IntakeQueue(Protocol):
    """A standard queue, without order, with a visibility timeout and a dead-letter queue."""

    async def send(self, bodies: Sequence[str], /) -> list[str]:
        """Put texts into the queue, and give their message ids, in order, once all of them are durable.

        Ids are never given twice, also not by a queue that was made anew.

        Raises:
            Invalid: before anything is sent; the place starts with the number of the text. `domain.intake.check_body`
                says what a queue carries, and `to_body` makes such a text of any bytes.
            Unavailable: some of the texts may be in the queue. Sending all again is safe: events are told apart by
                their source and id.
        """
        ...

    async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
        """Take up to `limit` messages, waiting up to `wait_seconds` for the first.

        A message received more often than the queue allows goes to the dead-letter queue instead. SQS counts every
        hand-out; our own engines leave out those that ended by timeout (ports/message_queue.py).
        """
        ...

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        """Delete messages that were handled.

        Returns:
            Those whose receipt had run out: they stay in the queue and will be delivered again.
        """
        ...

    async def release(self, messages: Sequence[Received], /) -> None:
        """Give messages back at once; receipts that ran out are passed over."""
        ...
