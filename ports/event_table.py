"""The lake's table of events (R-506; ADR 0018)."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from domain.daily import Committed, PackedObject, Staged
from domain.event_schema import EventSchema


class Load(Protocol):
    """Rows on their way into the table. Nobody sees any of them before `commit`, and all of them after it."""

    async def stage(self, objects: Sequence[PackedObject], /) -> Staged:
        """Read objects by the daily rule, and keep their rows beside the table.

        May be called side by side. An object that is damaged stages nothing and harms no other.
        """
        ...

    async def commit(self) -> Committed:
        """Put the staged rows into the partitions of their days, in one step.

        A row is left out where one of its source and id was staged before it (`domain.daily.order_of`), or is in the
        partition of its day, or of the day before or after. Where nothing is new, nothing is written.

        Raises:
            Contention: other writers were first, again and again; nothing was written.
            Unavailable: no answer; the commit may have taken place.
        """
        ...


class EventTable(Protocol):
    """A table partitioned by the UTC day of the event; it is made at the first write.

    Every method may raise `Unavailable`, and then may have taken place.
    """

    async def schemas(self) -> Mapping[str, EventSchema]:
        """Give the registered schemas, by event type."""
        ...

    async def register(self, schema: EventSchema, /) -> EventSchema:
        """Register the columns of an event type, or add to them; rows that are there read null in new columns.

        Returns:
            What is in force now.

        Raises:
            Invalid: a registered column would change or go away, or the view's name is another type's.
        """
        ...

    def load(self, size: int, /) -> AbstractAsyncContextManager[Load]:
        """Begin to load objects; what is not committed when this ends is dropped.

        Args:
            size: about how many bytes the objects have together.
        """
        ...
