"""50,000 rows of an account, three matches far apart: one call finds them, in both orders (R-402, FC-25)."""

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapters.aws.clients import together
from adapters.dynamodb.activity_rows import month_item, month_of, row_item
from adapters.dynamodb.activity_store import DynamoDBActivityStore
from adapters.memory.activity_store import MemoryActivityStore
from adapters.sqlite.activity_store import ACTIVITY, SqliteActivityStore, last_looked_at, rows_statement
from adapters.sqlite.database import Database
from adapters.system.id_source import RandomIds
from domain.activity import Activity, Sealed, Stretch, place_key, place_of
from ports.activity_store import ActivityStore
from tests.activity import a_feed, a_history, a_query, a_row
from tests.aws_faults import counted
from tests.engines import Engine, activity_table
from tests.examples import START, an_envelope

pytestmark = pytest.mark.anyio

ROWS = 50_000
APART = timedelta(minutes=44)  # ministack takes the longer for a query the more rows a month has
RARE = (0, 23_456, ROWS - 1)


def many_rows() -> list[Activity]:
    """Give rows of four years; three are of another type."""
    first = a_row(0)
    text = an_envelope("NUMBER", data={"account_id": "acme"}).to_json()
    return [
        first._replace(
            type="rare" if number in RARE else "often",
            activity_id=f"{number:032x}",
            occurred_at=START + number * APART,
            payload=Sealed(text.replace("NUMBER", str(number))),
        )
        for number in range(ROWS)
    ]


async def check(store: ActivityStore) -> None:
    """Ask for the three rows, and for exactly a page."""
    history = a_history(a_feed(store))
    for descending in (False, True):
        page = await history.page(a_query(type="rare", descending=descending))
        assert [item["id"] for item in page.items] == [str(number) for number in sorted(RARE, reverse=descending)]
        assert page.next_cursor is None
    page = await history.page(a_query(type="often", latest=START + 100 * APART, limit=100))
    assert [item["id"] for item in page.items] == [str(number) for number in range(1, 101)]
    assert page.next_cursor is None


async def test_r402_50000_rows_in_memory() -> None:
    store = MemoryActivityStore()
    await store.record(many_rows())
    await check(store)
    assert await a_history(a_feed(store)).page(a_query(type="none")) == ([], None)


async def test_r402_50000_rows_on_sqlite(tmp_path: Path) -> None:
    database = Database(tmp_path / "activity.db", ACTIVITY)
    store = SqliteActivityStore(database)
    await store.record(many_rows())
    await check(store)
    assert await a_history(a_feed(store)).page(a_query(type="none")) == ([], None)
    await database.aclose()


@pytest.mark.slow
async def test_r402_50000_rows_on_dynamodb(ministack: Engine) -> None:
    with activity_table(ministack) as table:
        await load(ministack, table, many_rows())
        with counted(ministack.aws.dynamodb.client()) as calls:
            await check(DynamoDBActivityStore(ministack.aws, table, RandomIds()))
        assert set(calls) == {"Query"}


async def load(engine: Engine, table: str, rows: Sequence[Activity]) -> None:
    """Write rows in batches of 25, which is quicker than one by one, and says nothing about copies."""
    months = {(row.account, month_of(place_key(place_of(row)))) for row in rows}
    items = [month_item(*month) for month in months] + [row_item(row, "test") for row in rows]

    async def write(batch: Sequence[object]) -> None:
        requests = {table: [{"PutRequest": {"Item": item}} for item in batch]}
        answer = await engine.aws.dynamodb.call(lambda db: db.batch_write_item(RequestItems=requests))  # type: ignore[arg-type]
        assert not answer["UnprocessedItems"]

    for start in range(0, len(items), 1000):
        await together([write(items[at : at + 25]) for at in range(start, min(start + 1000, len(items)), 25)])


def explain(statement: str, parameters: Sequence[str | int], connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("filters", [{}, {"type": "rare"}, {"report_id": "R"}, {"type": "rare", "report_id": "R"}])
async def test_r402_sqlite_looks_past_rows_in_one_range_of_the_index(
    tmp_path: Path, filters: dict[str, str], *, descending: bool
) -> None:
    """No sort, no scan, and the rows that a filter passes over are not read."""
    database = Database(tmp_path / "activity.db", ACTIVITY)
    query = a_query(descending=descending, earliest=START, latest=START + timedelta(days=1), **filters)
    stretch = Stretch(query, place_of(a_row(5)), 10, 100)
    for statement, parameters in (last_looked_at(stretch), rows_statement(stretch, place_key(place_of(a_row(9))))):
        plan = await database.read(partial(explain, statement, parameters))
        (step,) = [str(row[3]) for row in plan]
        assert step.startswith("SEARCH activities USING ")
        assert "activities_by_account (account=? AND place>? AND place<?)" in step
        assert ("COVERING" in step) == statement.startswith("SELECT place")
    await database.aclose()
