"""Lists under change: pages joined hold every row once (R-109), and cursors belong to their query."""

import asyncio
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule

from application.queries import list_events
from domain.errors import BadCursor
from domain.event import Head, ListQuery, Position, read_cursor, write_cursor
from tests.examples import START, STATES, a_record, an_envelope, facts_of, head_after
from tests.platforms import a_machine

ENTITIES = ("A", "B")
STEPS = 6  # few different times, so that many rows share one

windows = st.none() | st.integers(0, STEPS).map(lambda step: START + timedelta(seconds=step))
states, entities = st.sampled_from(STATES), st.sampled_from(ENTITIES)
filters = st.tuples(states, st.none()) | st.tuples(st.none(), entities) | st.tuples(states, entities)
queries = st.builds(
    lambda names, earliest, latest, descending, limit: ListQuery(
        names[0], names[1], earliest, latest, descending, limit
    ),
    filters,
    windows,
    windows,
    st.booleans(),
    st.integers(1, 4),
)


class Reading(NamedTuple):
    """A list that somebody reads page by page.

    Attributes:
        steady: rows that have matched since the reading began.
        ever: rows that matched at some time since.
        seen: rows in the order in which they came.
    """

    query: ListQuery
    steady: set[str]
    ever: set[str]
    seen: list[Position]
    cursor: list[str | None]


class Pages(RuleBasedStateMachine):
    """Several readers, while rows are inserted and moved between their calls."""

    readings = Bundle("readings")

    @initialize(rows=st.lists(st.tuples(st.sampled_from(ENTITIES), st.integers(0, STEPS)), max_size=12))
    def start(self, rows: list[tuple[str, int]]) -> None:
        self.runner = asyncio.Runner()
        self.machine = a_machine()
        self.rows: dict[str, Head] = {}
        self.open: list[Reading] = []
        for entity, step in rows:
            self.insert(entity, step)

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()

    @rule(entity=st.sampled_from(ENTITIES), step=st.integers(0, STEPS))
    def insert(self, entity: str, step: int) -> None:
        event_id = f"e{(len(self.rows) * 7) % 100:02}"  # not in the order of insertion
        envelope = an_envelope(event_id, entity=entity, time=f"2026-01-01T12:00:{step:02}Z")
        record = a_record(event_id, entity=entity)._replace(envelope=envelope)
        fact = facts_of(event_id, 1, entity=entity)[0]
        self.rows[event_id] = head_after(record, fact)
        self.runner.run(self.machine.store.record([record]))
        self.runner.run(self.machine.store.append(self.rows[event_id], [fact]))
        self.note(event_id)

    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        movable = sorted(name for name, head in self.rows.items() if head.state != STATES[-1])
        if not movable:
            return
        event_id = data.draw(st.sampled_from(movable))
        head = self.rows[event_id]
        fact = facts_of(event_id, head.sequence + 1, entity=head.entity)[-1]
        moved = head._replace(state=fact.to_state, sequence=fact.sequence, since=fact.at)
        self.rows[event_id] = moved
        self.runner.run(self.machine.store.append(moved, [fact]))
        self.note(event_id)

    def note(self, event_id: str) -> None:
        """Keep each reader's books: the row matches now, or it does not."""
        for reading in self.open:
            if matches(reading.query, self.rows[event_id]):
                reading.ever.add(event_id)
            else:
                reading.steady.discard(event_id)

    @rule(target=readings, query=queries)
    def begin(self, query: ListQuery) -> object:
        if query.earliest and query.latest and query.earliest > query.latest:
            return multiple()
        matching = {name for name, head in self.rows.items() if matches(query, head)}
        reading = Reading(query, set(matching), set(matching), [], [""])
        self.open.append(reading)
        return reading

    @rule(reading=readings)
    def turn_a_page(self, reading: Reading) -> None:
        [cursor] = reading.cursor
        if cursor is None:
            return
        query = read_cursor(reading.query, cursor) if cursor else reading.query
        page = self.runner.run(list_events(self.machine.platform, query))
        reading.cursor[0] = page.next_cursor
        assert [self.rows[head.event_id] for head in page.items] == list(page.items)
        assert all(matches(query, head) for head in page.items)
        reading.seen.extend(Position(head.occurred_at, head.event_id) for head in page.items)
        assert reading.seen == sorted(set(reading.seen), reverse=query.descending)
        if page.next_cursor is not None:
            assert len(page.items) == query.limit
            return
        seen = {position.event_id for position in reading.seen}
        assert reading.steady <= seen
        assert seen <= reading.ever
        self.open.remove(reading)


def matches(query: ListQuery, head: Head) -> bool:
    return (
        query.state in (None, head.state)
        and query.entity in (None, head.entity)
        and (query.earliest is None or head.occurred_at >= query.earliest)
        and (query.latest is None or head.occurred_at <= query.latest)
    )


TestPages = Pages.TestCase
TestPages.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=129)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2200, 12, 31)).map(  # noqa: DTZ001 - the zone is put on here
    lambda moment: moment.replace(tzinfo=START.tzinfo)
)


def a_head(event_id: str, occurred_at: datetime) -> Head:
    return Head(event_id, "A", "T", "/s", occurred_at, "open", 1, START)


@settings(deadline=None, max_examples=150)
@given(queries, ids, moments, st.integers(1, 500))
def test_a_cursor_gives_back_its_place_and_its_query(query: ListQuery, event_id: str, at: datetime, limit: int) -> None:
    cursor = write_cursor(query, a_head(event_id, at))
    later = query._replace(limit=limit)
    assert read_cursor(later, cursor) == later._replace(after=Position(at, event_id))


@settings(deadline=None, max_examples=150)
@given(queries, queries, ids, moments)
def test_a_cursor_of_another_query_is_refused(query: ListQuery, other: ListQuery, event_id: str, at: datetime) -> None:
    cursor = write_cursor(query, a_head(event_id, at))
    if query._replace(limit=1) == other._replace(limit=1):
        assert read_cursor(other, cursor).after == Position(at, event_id)
    else:
        with pytest.raises(BadCursor):
            read_cursor(other, cursor)


@settings(deadline=None, max_examples=300)
@given(st.data(), queries, ids, moments)
def test_a_damaged_cursor_is_refused_or_says_what_it_said(
    data: st.DataObject, query: ListQuery, event_id: str, at: datetime
) -> None:
    """Nothing but `BadCursor` comes of any damage, and no damage moves the reader."""
    cursor = write_cursor(query, a_head(event_id, at))
    start = data.draw(st.integers(0, len(cursor)))
    end = data.draw(st.integers(start, len(cursor)))
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    piece = data.draw(st.text(alphabet, max_size=6) | st.text(max_size=3) | st.just(cursor))
    try:
        query_then = read_cursor(query, cursor[:start] + piece + cursor[end:])
    except BadCursor:
        return
    assert query_then.after == Position(at, event_id)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=60) | st.binary(max_size=60).map(bytes.hex), queries)
def test_text_from_anywhere_is_no_cursor(text: str, query: ListQuery) -> None:
    with pytest.raises(BadCursor):
        read_cursor(query, text)
