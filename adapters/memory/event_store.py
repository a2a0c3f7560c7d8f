"""The event store in one process's memory."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Final

from domain.errors import NotFound, VersionConflict
from domain.event import Head, ListQuery, Missed, RecordedEvent, Stream, list_key
from domain.lifecycle import Transition
from domain.times import format_time

_AFTER_EVERY_ID: Final = "\U0010ffff"


class MemoryEventStore:
    """All facts in dicts; indexes as sorted lists of keys. Methods never wait, so each is atomic in its loop."""

    def __init__(self) -> None:
        """Start empty."""
        self._events: dict[str, RecordedEvent] = {}
        self._facts: dict[str, list[Transition]] = {}
        self._heads: dict[str, Head] = {}
        self._missed: dict[str, dict[str, Missed]] = {}
        self._by_state: dict[str, list[str]] = {}
        self._by_entity: dict[str, list[str]] = {}
        self._id_of: dict[str, str] = {}

    async def record(self, events: Sequence[RecordedEvent], /) -> list[RecordedEvent]:
        """Record each envelope whose id is free; see the port."""
        return [self._events.setdefault(event.event_id, event) for event in events]

    async def event(self, event_id: str, /) -> RecordedEvent | None:
        """Give a recorded event."""
        return self._events.get(event_id)

    async def head(self, event_id: str, /) -> Head | None:
        """Give where an event stands."""
        return self._heads.get(event_id)

    async def stream(self, event_id: str, /) -> Stream:
        """Give head, history and missed moves."""
        return Stream(
            self._heads.get(event_id),
            tuple(self._facts.get(event_id, ())),
            tuple(sorted(self._missed.get(event_id, {}).values(), key=lambda missed: (missed.at, missed.command_id))),
        )

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        """Append facts and move the head; see the port."""
        event_id = head.event_id
        before = self._heads.get(event_id)
        expected = facts[0].sequence - 1
        if (0 if before is None else before.sequence) != expected:
            raise VersionConflict(event_id, expected)
        if before is None:
            event = self._events.get(event_id)
            if event is None or event.envelope.source != head.source:
                raise NotFound(event_id)
            self._facts[event_id] = list(facts)
            key = list_key(head.occurred_at, event_id)
            self._id_of[key] = event_id
            insort(self._by_entity.setdefault(head.entity, []), key)
            insort(self._by_state.setdefault(head.state, []), key)
        else:
            self._facts[event_id].extend(facts)
            if before.state != head.state:
                key = list_key(head.occurred_at, event_id)
                keys = self._by_state[before.state]
                del keys[bisect_left(keys, key)]
                insort(self._by_state.setdefault(head.state, []), key)
        self._heads[event_id] = head

    async def note_missed(self, missed: Missed, /) -> None:
        """Note a missed move, once a command."""
        self._missed.setdefault(missed.event_id, {}).setdefault(missed.command_id, missed)

    async def list_heads(self, query: ListQuery, /) -> list[Head]:
        """Give a page of heads from the index that the query names."""
        if query.entity is not None:
            keys = self._by_entity.get(query.entity, [])
        else:
            keys = self._by_state.get(query.state or "", [])
        first = bisect_left(keys, format_time(query.earliest)) if query.earliest else 0
        last = bisect_right(keys, format_time(query.latest) + "#" + _AFTER_EVERY_ID) if query.latest else len(keys)
        if query.after is not None:
            after = list_key(query.after.occurred_at, query.after.event_id)
            if query.descending:
                last = min(last, bisect_left(keys, after))
            else:
                first = max(first, bisect_right(keys, after))
        page: list[Head] = []
        for index in range(last - 1, first - 1, -1) if query.descending else range(first, last):
            head = self._heads[self._id_of[keys[index]]]
            if query.state is None or head.state == query.state:
                page.append(head)
                if len(page) == query.limit:
                    break
        return page
