"""Publishing to an ordered topic (R-105, R-106)."""

from collections.abc import Sequence
from typing import Protocol

from domain.errors import InterlockError
from domain.messages import Outgoing


class Publisher(Protocol):
    """A FIFO topic.

    Messages of one group arrive in the order of their publishing; a message whose deduplication id was
    published in the last five minutes is taken and not delivered again.
    """

    @property
    def max_bytes(self) -> int:
        """The largest body that it takes, in bytes of UTF-8."""
        ...

    async def publish(self, messages: Sequence[Outgoing], /) -> list[InterlockError | None]:
        """Publish messages, in order.

        Returns:
            One answer a message: None once it is durable, else why not. A `Retryable` one may be published again;
            accepted ones are never sent twice by this call (FC-21). When one message of a group fails, the later
            ones of that group in the call are held back with a `Retryable` answer, so that order holds.
        """
        ...
