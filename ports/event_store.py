"""Where events, their facts and their heads live (R-102 to R-104, R-109; ADR 0002)."""

from collections.abc import Sequence
from typing import Protocol

from domain.event import Head, ListQuery, Missed, RecordedEvent, Stream
from domain.lifecycle import Transition


class EventStore(Protocol):
    """An append-only store with one head an event.

    Every method may raise `Unavailable`. Answers of `event`, `head` and `stream` are up to date; lists may lag.
    """

    async def record(self, events: Sequence[RecordedEvent], /) -> list[RecordedEvent]:
        """Record envelopes, each under an id that nobody used.

        Returns:
            What is stored now under each id, in order: the event itself, or the one that was there before.
        """
        ...

    async def event(self, event_id: str, /) -> RecordedEvent | None:
        """Give a recorded event with its envelope."""
        ...

    async def head(self, event_id: str, /) -> Head | None:
        """Give where an event stands, or None before its first transition."""
        ...

    async def stream(self, event_id: str, /) -> Stream:
        """Give head, history (oldest first) and missed moves of an event; all empty for an unknown one."""
        ...

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        """Append facts and move the head, all or nothing.

        Args:
            head: where the event stands after the facts.
            facts: consecutive transitions; the stored head must be at the sequence before the first.

        Raises:
            VersionConflict: the stored head is elsewhere. Nothing was written.
            NotFound: a first fact for an event that was not recorded from `head.source`. Nothing was written.
        """
        ...

    async def note_missed(self, missed: Missed, /) -> None:
        """Note a move that never became a fact; noting it again changes nothing."""
        ...

    async def list_heads(self, query: ListQuery, /) -> list[Head]:
        """Give up to `query.limit` heads in order of (occurred_at, event_id), from an index made for it."""
        ...
