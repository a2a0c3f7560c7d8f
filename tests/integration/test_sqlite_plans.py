"""Every statement that the SQLite engine runs finds its rows by a key or an index made for it (R-109)."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.id_source import CountingIds
from adapters.sqlite.database import Database
from adapters.sqlite.event_store import EVENTS, SqliteEventStore
from adapters.sqlite.message_queue import QUEUES, SqliteMessageQueue
from adapters.sqlite.publisher import SqlitePublisher
from domain.event import ListQuery, Missed, Position
from domain.messages import Outgoing
from tests.examples import START, a_record, facts_of, head_after

pytestmark = pytest.mark.anyio

SHAPES = [
    ListQuery(
        state=state,
        entity=entity,
        earliest=START - timedelta(days=1) if earliest else None,
        latest=START + timedelta(days=1) if latest else None,
        descending=descending,
        after=Position(START, "e1") if after else None,
    )
    for state, entity in (("open", None), (None, "N14228"), ("open", "N14228"))
    for earliest, latest, descending, after in product((False, True), repeat=4)
]


@contextmanager
def plans_of(database: Database) -> Iterator[dict[str, list[str]]]:
    """Collect the plan of every statement that runs inside, by its text."""
    statements: list[str] = []
    for connection in database._connections:
        connection.set_trace_callback(statements.append)
    plans: dict[str, list[str]] = {}
    yield plans
    for connection in database._connections:
        connection.set_trace_callback(None)
    for statement in dict.fromkeys(statements):
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)", statement):
            plan = database._connections[0].execute(f"EXPLAIN QUERY PLAN {statement}")
            plans[statement] = [step for _, _, _, step in plan]


def assert_no_scan(plans: dict[str, list[str]]) -> None:
    for statement, plan in plans.items():
        for step in plan:
            assert not step.startswith("SCAN"), f"{step}: {statement}"
            assert "TEMP B-TREE" not in step, f"{step}: {statement}"


@pytest.fixture
async def events(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(tmp_path / "events.db", EVENTS)
    yield database
    await database.aclose()


@pytest.mark.parametrize("query", SHAPES)
async def test_r109_a_list_is_one_range_of_one_index_entered_where_the_page_starts(
    events: Database, query: ListQuery
) -> None:
    with plans_of(events) as plans:
        await SqliteEventStore(events).list_heads(query)
    ((step,),) = plans.values()
    index, equal = ("heads_by_state", "state=?") if query.entity is None else ("heads_by_entity", "entity=?")
    assert step.startswith(f"SEARCH heads USING INDEX {index} ({equal}")
    if query.after is not None:
        assert "(occurred_at,event_id)" + ("<(?,?)" if query.descending else ">(?,?)") in step
    if query.earliest is not None and not (query.after and not query.descending):
        assert "occurred_at>?" in step
    if query.latest is not None and not (query.after and query.descending):
        assert "occurred_at<?" in step


@pytest.mark.parametrize("descending", [False, True])
async def test_a_cursor_outside_the_window_does_not_widen_it(events: Database, *, descending: bool) -> None:
    store = SqliteEventStore(events)
    record = a_record("e1")
    fact = facts_of("e1", 1)[0]
    await store.record([record])
    head = head_after(record, fact)
    await store.append(head, [fact])
    hour = timedelta(hours=1)
    outside = Position(head.occurred_at + (2 * hour if descending else -2 * hour), "e0")
    query = ListQuery(state="to_review", descending=descending, after=outside)
    assert await store.list_heads(query) == [head]
    for moment in (head.occurred_at - hour, head.occurred_at + hour):
        assert await store.list_heads(query._replace(earliest=moment, latest=moment)) == []


async def test_r109_no_statement_of_the_event_store_scans_or_sorts(events: Database) -> None:
    store = SqliteEventStore(events)
    record = a_record("e1")
    with plans_of(events) as plans:
        await store.record([record])
        await store.record([record])
        for fact in facts_of("e1", 2):
            await store.append(head_after(record, fact), [fact])
        await store.note_missed(Missed("e1", "c", "open", START, "late"))
        assert (await store.stream("e1")).head == await store.head("e1")
        assert await store.event("e1") == record
    assert len(plans) >= 10
    assert_no_scan(plans)


async def test_no_statement_of_the_queue_scans_or_sorts(tmp_path: Path) -> None:
    database = Database(tmp_path / "queues.db", QUEUES)
    clock, ids = ManualClock(START), CountingIds()
    queue = SqliteMessageQueue(database, "q", clock, ids, max_receives=1, dead_letters="dead")
    with plans_of(database) as plans:
        await SqlitePublisher(database, "q", clock).publish([Outgoing("A", str(number), "{}") for number in range(3)])
        first, second = await queue.receive(2, 0)
        await queue.delete([first])
        await queue.release([second])
        assert [one.body for one in await queue.receive(5, 0)] == ["{}"]
        assert await queue.receive(5, 0.05) == []
    await database.aclose()
    assert len(plans) >= 12
    assert_no_scan(plans)
