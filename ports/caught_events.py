"""What the catch-all recorded (R-303, R-308)."""

from datetime import datetime
from typing import Protocol

from domain.routing import Caught


class CaughtEvents(Protocol):
    """Events without a workflow, kept until they have one. Every method may raise `Unavailable`."""

    async def record(self, caught: Caught, /) -> None:
        """Keep an event under its workflow id; one that is there stays as it is."""
        ...

    async def types(self) -> list[str]:
        """Give the types of which an event was ever caught, sorted."""
        ...

    async def of_type(self, event_type: str, after: str, limit: int, /) -> list[Caught]:
        """Give up to `limit` events of a type in the order of their workflow ids, from the first one past `after`."""
        ...

    async def mark_replayed(self, caught: Caught, at: datetime, /) -> None:
        """Note that a workflow of its own was started for an event; the first time stays."""
        ...
