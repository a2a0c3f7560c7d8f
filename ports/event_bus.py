"""Publishing events for everybody (FC-21)."""

from collections.abc import Sequence
from typing import Protocol

from domain.envelope import Envelope
from domain.errors import InterlockError


class EventBus(Protocol):
    """A bus: whoever subscribes gets each event at least once, in no order (`domain.eventbridge`)."""

    async def publish(self, events: Sequence[Envelope], /) -> list[InterlockError | None]:
        """Publish events.

        Returns:
            One answer an event: None once it is taken, else why not. Refused ones were tried again alone where that may
            help; a `Retryable` one may be published later, any other never as it is. What was taken is not sent again
            by this call.
        """
        ...
