"""The lake's table in one process's memory (ports/event_table.py)."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date, timedelta

from adapters.zstd.raw_objects import read_object
from domain.daily import Committed, PackedObject, Row, Rule, Staged, order_of
from domain.errors import Malformed
from domain.event_schema import EventSchema, check_view, evolve, new_views

_DAY = timedelta(days=1)


class MemoryEventTable:
    """Rows by day, source and id."""

    def __init__(self) -> None:
        self.days: dict[date, dict[tuple[str, str], Row]] = {}
        self.version = 0
        self.known: dict[str, EventSchema] = {}

    async def schemas(self) -> Mapping[str, EventSchema]:
        """Give the registered schemas, and a bare one for each other event type that was seen."""
        return dict(self.known)

    async def register(self, schema: EventSchema, /) -> EventSchema:
        """Register the columns of an event type, or add to them; see the port."""
        before = self.known.get(schema.type)
        wanted = schema if before is None else evolve(before, schema)
        check_view(self.known, wanted)
        self.known[wanted.type] = wanted
        return wanted

    @asynccontextmanager
    async def load(self, size: int, /) -> AsyncIterator["MemoryLoad"]:
        """Begin a load; `size` matters to tables that stage on a disk."""
        _ = size
        yield MemoryLoad(self)


class MemoryLoad:
    """Rows that wait in a list."""

    def __init__(self, table: MemoryEventTable) -> None:
        self._table = table
        self._rule = Rule(table.known.values())
        self._rows: list[Row] = []

    async def stage(self, objects: Sequence[PackedObject], /) -> Staged:
        """Read objects by the daily rule."""
        messages = rejects = events = 0
        quarantine: list[PackedObject] = []
        damaged: list[tuple[str, str]] = []
        for name, packed in objects:
            try:
                found = read_object(self._rule, packed)
            except Malformed as error:
                damaged.append((name, error.reason))
                continue
            messages += found.messages
            rejects += found.rejects
            events += len(found.rows) + found.rejects
            self._rows += found.rows
            quarantine += found.quarantine
        return Staged(messages, events, rejects, tuple(quarantine), tuple(damaged))

    async def commit(self) -> Committed:
        """Add the rows that are new."""
        table, days = self._table, Counter[date]()
        touched = {row.time.date() for row in self._rows}
        near = touched | {day - _DAY for day in touched} | {day + _DAY for day in touched}
        there = {key for day in near for key in table.days.get(day, {})}
        for row in sorted(self._rows, key=order_of):
            key, day = (row.source, row.id), row.time.date()
            if key not in there:
                there.add(key)
                table.days.setdefault(day, {})[key] = row
                days[day] += 1
        table.known.update((schema.type, schema) for schema in new_views(table.known, {row.type for row in self._rows}))
        table.version += bool(days)
        version = str(table.version) if table.version else None
        duplicates = len(self._rows) - days.total()
        return Committed(days.total(), duplicates, dict(sorted(days.items())), version, int(bool(days)), 0)
