"""One random program on two event stores: they answer alike, and a planted bug is seen."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from adapters.memory.event_store import MemoryEventStore
from adapters.sqlite.database import Database
from adapters.sqlite.event_store import EVENTS, SqliteEventStore
from domain.errors import InterlockError
from domain.event import Head, ListQuery, Missed, Position, RecordedEvent, Stream
from domain.lifecycle import Transition
from ports.event_store import EventStore
from tests.examples import START, STATES, a_record, an_envelope, facts_of, head_after

OpenStore = Callable[[], AbstractAsyncContextManager[EventStore]]

EVENT_IDS = ("e1", "e2", "#", "日本", "~e1")
ENTITIES = ("A", "B")
SOURCES = ("/mine", "/yours")


class Call(NamedTuple):
    """One call of a program: a method of the port and its arguments."""

    method: Literal["record", "event", "head", "stream", "note_missed", "list_heads"]
    arguments: tuple[object, ...]


@st.composite
def records(draw: st.DrawFn) -> RecordedEvent:
    event_id = draw(st.sampled_from(EVENT_IDS))
    entity, source = draw(st.sampled_from(ENTITIES)), draw(st.sampled_from(SOURCES))
    second, data = draw(st.integers(0, 3)), draw(st.sampled_from([None, "first", {"n": [1, 2.5, "é"]}]))
    envelope = an_envelope(event_id, entity=entity, source=source, time=f"2026-01-01T12:00:0{second}Z", data=data)
    return a_record(event_id)._replace(
        entity=entity, envelope=envelope, arrived_at=START + timedelta(seconds=draw(st.integers(0, 3)))
    )


class Step(NamedTuple):
    """Facts to append: consecutive ones, often where the event stands, sometimes not.

    Attributes:
        record: gives the head to start from, where the event has none; its source may be a stranger's.
    """

    record: RecordedEvent
    facts: list[Transition]

    async def take(self, store: EventStore) -> None:
        """Append as the use cases do: the head that is stored, moved along."""
        head = await store.head(self.record.event_id) or head_after(self.record, self.facts[-1])
        last = self.facts[-1]
        await store.append(head._replace(state=last.to_state, sequence=last.sequence, since=last.at), self.facts)


class Walk(NamedTuple):
    """A list, read page by page to its end."""

    query: ListQuery

    async def take(self, store: EventStore) -> list[list[Head]]:
        """Give the pages; a store that never ends is cut off, as no list here has so many rows."""
        pages: list[list[Head]] = []
        query = self.query
        while len(pages) <= 2 * len(EVENT_IDS) and (page := await store.list_heads(query)):
            pages.append(page)
            query = query._replace(after=Position(page[-1].occurred_at, page[-1].event_id))
        return pages


Program = Sequence[Call | Step | Walk]


@st.composite
def appends(draw: st.DrawFn) -> Step:
    record = draw(records())
    first = draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4]))
    number = draw(st.integers(1, min(2, 5 - first)))
    return Step(
        record,
        [
            fact._replace(
                at=START + timedelta(seconds=draw(st.integers(0, 2))), command_id=f"c{draw(st.integers(0, 3))}"
            )
            for fact in facts_of(record.event_id, first + number, entity=record.entity)[first:]
        ],
    )


@st.composite
def lists(draw: st.DrawFn) -> Call | Walk:
    names = draw(
        st.sampled_from([(state, None) for state in STATES[:3]] + [(None, entity) for entity in ENTITIES])
        | st.tuples(st.sampled_from(STATES[:3]), st.sampled_from(ENTITIES))
    )
    moments = st.integers(0, 3).map(lambda second: START + timedelta(seconds=second))
    window = draw(st.lists(st.none() | moments, min_size=2, max_size=2))
    after = draw(st.none() | st.builds(Position, moments, st.sampled_from(EVENT_IDS)))
    query = ListQuery(names[0], names[1], window[0], window[1], draw(st.booleans()), draw(st.integers(1, 5)), after)
    return Walk(query) if draw(st.booleans()) else Call("list_heads", (query,))


def misses() -> st.SearchStrategy[Call]:
    return st.builds(
        lambda event_id, command, to, second, reason: Call(
            "note_missed", (Missed(event_id, command, to, START + timedelta(seconds=second), reason),)
        ),
        st.sampled_from(EVENT_IDS),
        st.sampled_from(["c1", "c2", "ü#/"]),
        st.sampled_from(STATES),
        st.integers(0, 2),
        st.sampled_from(["refused", "dead"]),
    )


calls: st.SearchStrategy[Call | Step | Walk] = st.one_of(
    st.lists(records(), max_size=4).map(lambda events: Call("record", (events,))),
    appends(),
    appends(),
    lists(),
    misses(),
    st.builds(
        lambda method, event_id: Call(method, (event_id,)),
        st.sampled_from(["event", "head", "stream"]),
        st.sampled_from(EVENT_IDS),
    ),
)
# Every program starts with events to work on, and `answers` ends with a look at everything.
beginnings = st.lists(records(), min_size=3, max_size=5).map(lambda events: [Call("record", (events,))])
programs: st.SearchStrategy[Program] = st.builds(
    lambda beginning, rest: [*beginning, *rest], beginnings, st.lists(calls, min_size=4, max_size=30)
)
INDEXES = [ListQuery(state=state) for state in STATES] + [ListQuery(entity=entity) for entity in ENTITIES]
LOOK: list[Call | Walk] = [
    *(Call(method, (event_id,)) for event_id in EVENT_IDS for method in ("event", "head", "stream")),
    *(Walk(query._replace(limit=2, descending=descending)) for query in INDEXES for descending in (False, True)),
    *(Walk(query._replace(earliest=START, latest=START + timedelta(seconds=1))) for query in INDEXES),
]


async def answers(store: EventStore, program: Program) -> list[object]:
    """Run a program and give what each call answered or raised."""
    found: list[object] = []
    for call in [*program, *LOOK]:
        try:
            answer = await (
                call.take(store) if isinstance(call, Step | Walk) else getattr(store, call.method)(*call.arguments)
            )
        except InterlockError as error:
            found.append((type(error).__name__, {name: vars(error)[name] for name in vars(error) if name[:2] != "__"}))
        else:
            found.append(answer)
    return found


def run(open_store: OpenStore, program: Program) -> list[object]:
    async def opened() -> list[object]:
        async with open_store() as store:
            return await answers(store, program)

    return asyncio.run(opened())


def memory(kind: type[MemoryEventStore] = MemoryEventStore) -> OpenStore:
    @asynccontextmanager
    async def opened() -> AsyncIterator[EventStore]:
        yield kind()

    return opened


@asynccontextmanager
async def sqlite() -> AsyncIterator[EventStore]:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "events.db", EVENTS)
        try:
            yield SqliteEventStore(database)
        finally:
            await database.aclose()


@pytest.mark.parametrize("other", [memory(), sqlite], ids=["memory", "sqlite"])
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(program=programs)
def test_two_stores_answer_a_random_program_alike(other: OpenStore, program: Program) -> None:
    assert run(other, program) == run(memory(), program)


class LosesTheRace(MemoryEventStore):
    """Appends behind a head that has moved on (R-104)."""

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        before = self._heads.get(head.event_id)
        if before is not None:
            self._heads[head.event_id] = before._replace(sequence=facts[0].sequence - 1)
        await super().append(head, facts)


class TakesAnySource(MemoryEventStore):
    """Starts an event from a source that did not record it."""

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        event = self._events.get(head.event_id)
        await super().append(head if event is None else head._replace(source=event.envelope.source), facts)


class Overwrites(MemoryEventStore):
    """Records the last envelope of an id, not the first (R-102)."""

    async def record(self, events: Sequence[RecordedEvent], /) -> list[RecordedEvent]:
        for event in events:
            self._events.pop(event.event_id, None)
        return await super().record(events)


class KeepsOldStates(MemoryEventStore):
    """Lists a moved event under its old states too (FC-57)."""

    async def list_heads(self, query: ListQuery, /) -> list[Head]:
        found = await super().list_heads(query)
        old = [
            self._heads[event_id]
            for event_id, facts in self._facts.items()
            if query.state in {fact.to_state for fact in facts[:-1]} and query.after is None
        ]
        return [*found, *old][: query.limit]


class LeavesOutTheEnd(MemoryEventStore):
    """Lists a window without the row at its later end (FC-54)."""

    async def list_heads(self, query: ListQuery, /) -> list[Head]:
        found = await super().list_heads(query)
        return [head for head in found if query.latest is None or head.occurred_at < query.latest]


class RepeatsTheRow(MemoryEventStore):
    """Starts a page at the row where the one before ended."""

    async def list_heads(self, query: ListQuery, /) -> list[Head]:
        if query.after is not None and not query.descending:
            query = query._replace(after=query.after._replace(event_id=query.after.event_id[:-1]))
        return await super().list_heads(query)


class NotesTwice(MemoryEventStore):
    """Lets a missed move that is noted again replace the first note."""

    async def note_missed(self, missed: Missed, /) -> None:
        self._missed.get(missed.event_id, {}).pop(missed.command_id, None)
        await super().note_missed(missed)


class OneFactAnInstant(MemoryEventStore):
    """Keeps one fact for each time, as a key of time alone would (FC-52)."""

    async def stream(self, event_id: str, /) -> Stream:
        found = await super().stream(event_id)
        return found._replace(history=tuple({fact.at: fact for fact in found.history}.values()))


PLANTED: list[type[MemoryEventStore]] = [
    LosesTheRace,
    TakesAnySource,
    Overwrites,
    KeepsOldStates,
    LeavesOutTheEnd,
    RepeatsTheRow,
    NotesTwice,
    OneFactAnInstant,
]


@pytest.mark.parametrize("bug", PLANTED)
def test_the_run_sees_a_planted_bug(bug: type[MemoryEventStore]) -> None:
    """A difference that the run cannot see would make the test above worthless."""
    program = find(
        programs,
        lambda program: run(memory(bug), program) != run(memory(), program),
        settings=settings(deadline=None, max_examples=3000, database=None, phases=[Phase.generate]),
    )
    assert program


def test_two_stores_of_one_kind_show_no_difference() -> None:
    with pytest.raises(NoSuchExample):
        find(
            programs,
            lambda program: run(memory(), program) != run(memory(), program),
            settings=settings(deadline=None, max_examples=30, database=None),
        )
