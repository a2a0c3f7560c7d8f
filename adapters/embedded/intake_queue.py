"""A standard queue out of a FIFO one: each message is a group of its own (ports/intake_queue.py)."""

from collections.abc import Sequence

from domain.intake import check_bodies
from domain.messages import Outgoing, Received
from ports.id_source import IdSource
from ports.message_queue import MessageQueue
from ports.publisher import Publisher


class EmbeddedIntakeQueue:
    """A queue in memory or in a SQLite file.

    The message id that callers see is a fresh one: the numbers of a file start again with the file, and objects are
    named by message ids.

    Args:
        publisher: puts into the queue.
        queue: takes from it.
        ids: where message ids come from.
    """

    def __init__(self, publisher: Publisher, queue: MessageQueue, ids: IdSource) -> None:
        self._publisher = publisher
        self._queue = queue
        self._ids = ids

    async def send(self, bodies: Sequence[str], /) -> list[str]:
        """Put texts into the queue, in one transaction; see the port."""
        check_bodies(bodies)
        ids = [self._ids.new_id() for _ in bodies]
        answers = await self._publisher.publish(
            [Outgoing(message_id, message_id, body) for message_id, body in zip(ids, bodies, strict=True)]
        )
        for error in answers:
            if error is not None:
                raise error
        return ids

    async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
        """Take messages; see the port."""
        return [_outside(message) for message in await self._queue.receive(limit, wait_seconds)]

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        """Delete handled messages; give back those whose receipt had run out."""
        return [_outside(message) for message in await self._queue.delete([_inside(message) for message in messages])]

    async def release(self, messages: Sequence[Received], /) -> None:
        """Make messages visible at once."""
        await self._queue.release([_inside(message) for message in messages])


def _outside(message: Received) -> Received:
    """Name a message by its group, and keep the queue's own id in the receipt."""
    receipt = f"{message.message_id} {message.receipt}"
    return message._replace(message_id=message.group_id or "", group_id=None, receipt=receipt)


def _inside(message: Received) -> Received:
    own_id, _, receipt = message.receipt.partition(" ")
    return message._replace(message_id=own_id, group_id=message.message_id, receipt=receipt)
