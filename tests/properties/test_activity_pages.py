"""An account's history under change: pages joined hold every match once, on every adapter (R-402, R-404)."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from adapters.dynamodb.activity_store import DynamoDBActivityStore
from adapters.memory.activity_store import MemoryActivityStore
from adapters.sqlite.activity_store import ACTIVITY, SqliteActivityStore
from adapters.sqlite.database import Database
from adapters.system.id_source import RandomIds
from application.activity_history import Bounds
from domain.activity import Activity, ActivityQuery, activity_id, place_of
from ports.activity_store import ActivityStore
from tests.activity import (
    Remove,
    a_feed,
    a_history,
    a_query,
    a_row,
    remove_from_dynamodb,
    remove_from_memory,
    remove_from_sqlite,
)
from tests.engines import Engine, activity_table
from tests.examples import an_envelope

STEP = 40 * 24 * 3600.0  # seconds: steps are in different months
STEPS = 5  # few different times, so that many rows share one
TYPES, REPORTS = ("T1", "T2"), ("R1", "R2")

steps = st.integers(0, STEPS)
rows = st.tuples(steps, st.sampled_from(TYPES), st.sampled_from(REPORTS))
moments = steps.map(lambda step: a_row(0, seconds=step * STEP).occurred_at)
windows = (
    st.tuples(moments, moments).map(sorted) | st.tuples(moments | st.none(), st.none()) | st.tuples(st.none(), moments)
)
queries = st.builds(
    lambda kind, report, window, descending, limit: a_query(
        type=kind, report_id=report, earliest=window[0], latest=window[1], descending=descending, limit=limit
    ),
    st.none() | st.sampled_from(TYPES),
    st.none() | st.sampled_from(REPORTS),
    windows,
    st.booleans(),
    st.integers(1, 4),
)


class Reading(NamedTuple):
    """An account that somebody reads page by page.

    Attributes:
        steady: ids of rows that have matched since the reading began.
        ever: ids of rows that matched at some time since.
        seen: what came, in order.
        cursor: one item: the cursor to the next page; empty before the first, None after the last.
    """

    query: ActivityQuery
    steady: set[str]
    ever: set[str]
    seen: list[Activity]
    cursor: list[str | None]


class Pages(RuleBasedStateMachine):
    """Several readers, while rows are inserted and deleted between their calls. Each page may read the store once."""

    store: ClassVar[ActivityStore]
    remove: ClassVar[Remove]
    runner: ClassVar[asyncio.Runner]
    accounts: ClassVar[list[str]] = []

    readings = Bundle("readings")

    def wait_for(self, work: Any) -> Any:
        return type(self).runner.run(work)

    @initialize(first=st.lists(rows, max_size=12), reads=st.integers(1, 3))
    def start(self, first: list[tuple[int, str, str]], reads: int) -> None:
        self.account = f"account-{len(self.accounts)}"  # a world of its own in the one store
        self.accounts.append(self.account)
        self.rows: dict[str, Activity] = {}
        self.made = 0
        self.open: list[Reading] = []
        feed = a_feed(type(self).store)
        feed.clock.advance((STEPS + 1) * STEP)
        self.history = a_history(feed, bounds=Bounds(reads=reads))
        for row in first:
            self.insert(row)

    @rule(row=rows)
    def insert(self, row: tuple[int, str, str]) -> None:
        step, kind, report = row
        self.made += 1
        number = len(self.accounts) * 1000 + self.made
        made = a_row(number, account=self.account, seconds=step * STEP, type=kind, report_id=report)
        assert self.wait_for(type(self).store.record([made])) == [True]
        self.rows[made.activity_id] = made
        for reading in self.open:
            if wanted(reading.query, made):
                reading.ever.add(made.activity_id)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.rows:
            gone = self.rows.pop(data.draw(st.sampled_from(sorted(self.rows))))
            self.wait_for(type(self).remove([gone]))
            for reading in self.open:
                reading.steady.discard(gone.activity_id)

    @rule(target=readings, query=queries)
    def begin(self, query: ActivityQuery) -> Reading:
        query = query._replace(account=self.account)
        matching = {name for name, row in self.rows.items() if wanted(query, row)}
        reading = Reading(query, set(matching), set(matching), [], [""])
        self.open.append(reading)
        return reading

    @rule(reading=readings)
    def turn_a_page(self, reading: Reading) -> None:
        [cursor] = reading.cursor
        if cursor is None:
            return
        page = self.wait_for(self.history.page(reading.query, cursor or None))
        reading.cursor[0] = page.next_cursor
        assert len(page.items) <= reading.query.limit
        reading.seen.extend(self.rows[activity_id(an_envelope(item["id"]))] for item in page.items)
        places = [place_of(row) for row in reading.seen]
        assert places == sorted(set(places), reverse=reading.query.descending)
        if page.next_cursor is None:
            seen = {row.activity_id for row in reading.seen}
            assert reading.steady <= seen <= reading.ever
            self.open.remove(reading)

    def teardown(self) -> None:
        """Turn what is open to its end: each reading ends, whatever was done meanwhile."""
        for reading in list(getattr(self, "open", [])):
            for _ in range(len(self.rows) * 3 + STEPS * 3 + 5):
                self.turn_a_page(reading)
            assert reading.cursor == [None]


def wanted(query: ActivityQuery, row: Activity) -> bool:
    return (
        query.type in (None, row.type)
        and query.report_id in (None, row.report_id)
        and (query.earliest is None or row.occurred_at >= query.earliest)
        and (query.latest is None or row.occurred_at <= query.latest)
    )


def drive(store: ActivityStore, remove: Remove, runner: asyncio.Runner, *, examples: int) -> None:
    """Run the machine over a store."""
    machine = type("PagesOf" + type(store).__name__, (Pages,), {"accounts": []})
    machine.store, machine.remove, machine.runner = store, staticmethod(remove), runner  # type: ignore[attr-defined]
    run_state_machine_as_test(machine, settings=settings(deadline=None, max_examples=examples, stateful_step_count=30))
    assert len(machine.accounts) >= examples  # type: ignore[attr-defined]


def test_r402_pages_joined_are_every_match_once_in_memory() -> None:
    store = MemoryActivityStore()
    with asyncio.Runner() as runner:
        drive(store, remove_from_memory(store), runner, examples=100)


def test_r402_pages_joined_are_every_match_once_on_sqlite() -> None:
    with TemporaryDirectory() as folder, asyncio.Runner() as runner:
        database = Database(Path(folder) / "activity.db", ACTIVITY)
        drive(SqliteActivityStore(database), remove_from_sqlite(database), runner, examples=25)
        runner.run(database.aclose())


@pytest.mark.slow
def test_r402_pages_joined_are_every_match_once_on_dynamodb(ministack: Engine) -> None:
    with ExitStack() as stack:
        table = stack.enter_context(activity_table(ministack))
        runner = stack.enter_context(asyncio.Runner())
        store = DynamoDBActivityStore(ministack.aws, table, RandomIds())
        drive(store, remove_from_dynamodb(ministack.aws, table), runner, examples=10)
