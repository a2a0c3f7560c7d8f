"""Filtered pages of an account with 50,000 rows (R-402): reads that double, beside reads of one page's size.

    python -m benchmarks.activity_reads
    python -m benchmarks.activity_reads --dynamodb

Three rows of 50,000 match, far apart. Ours is the reader as the API has it, redaction included; beside it stands the
loop that a first version has: it asks for a page's rows until the data ends. On SQLite a bare SELECT of the three rows
shows what the file itself takes. With --dynamodb the same on ministack, whose queries take the longer the more rows a
partition has: there the number of queries is what counts.
"""

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from adapters.dynamodb.activity_store import DynamoDBActivityStore
from adapters.memory.activity_store import MemoryActivityStore
from adapters.memory.clock import ManualClock
from adapters.memory.metrics import MemoryMetrics
from adapters.sqlite.activity_store import ACTIVITY, SqliteActivityStore
from adapters.sqlite.database import Database
from adapters.system.id_source import RandomIds
from application.activity_history import ActivityHistory
from benchmarks.figures import in_turn, rate, show
from domain.activity import Activity, ActivityQuery, Found, Place, Stretch
from domain.redaction import RedactionPolicy
from ports.activity_store import ActivityStore
from tests.engines import activity_table, ministack
from tests.examples import START
from tests.integration.test_activity_reads import RARE, ROWS, load, many_rows

PAGE: Final = 50
QUERY: Final = ActivityQuery("acme", type="rare", limit=PAGE)
BATCH: Final = 500
STATEMENT: Final = "SELECT envelope FROM activities WHERE account = 'acme' AND type = 'rare' ORDER BY place DESC"


class Counted:
    """A store that counts how often it is asked."""

    def __init__(self, store: ActivityStore) -> None:
        self.store = store
        self.asked = 0
        self.record = store.record
        self.cursor_key = store.cursor_key

    async def find(self, stretch: Stretch, /) -> Found:
        """Ask, and count."""
        self.asked += 1
        return await self.store.find(stretch)


def a_history(store: ActivityStore) -> ActivityHistory:
    clock = ManualClock(START + timedelta(days=3650))
    return ActivityHistory(store, None, RedactionPolicy(), clock, MemoryMetrics())


async def ours(store: ActivityStore) -> None:
    page = await a_history(store).page(QUERY)
    assert [len(page.items), page.next_cursor] == [len(RARE), None]


async def fixed_pages(store: ActivityStore) -> None:
    found: list[Activity] = []
    after: Place | None = None
    while True:
        stretch = await store.find(Stretch(QUERY, after, PAGE, PAGE))
        found += stretch.activities
        after = stretch.next
        if after is None:
            break
    assert len(found) == len(RARE)


def seconds(runner: asyncio.Runner, work: Callable[[], Awaitable[None]]) -> Callable[[], float]:
    """Give what measures one run."""

    async def run() -> None:
        await work()

    def measure() -> float:
        start = time.perf_counter()
        runner.run(run())
        return time.perf_counter() - start

    return measure


def compare(runner: asyncio.Runner, name: str, store: ActivityStore) -> None:
    """Show both loops over a store, and how often each asks it."""
    counts = []
    for loop in (ours, fixed_pages):
        counted = Counted(store)
        runner.run(loop(counted))
        counts.append(counted.asked)
    fast, slow, ratio = in_turn(
        seconds(runner, lambda: ours(store)), seconds(runner, lambda: fixed_pages(store)), rounds=3
    )
    show(
        "R-402",
        f"3 of {ROWS:,} rows, {name}",
        f"{fast * 1e3:.1f} ms",
        f"pages of {PAGE}: {slow * 1e3:.1f} ms",
        ratio,
        "<= 1x",
    )
    show(
        "R-402",
        f"the same, reads of the store, {name}",
        str(counts[0]),
        str(counts[1]),
        counts[0] / counts[1],
        "<= 0.05x",
    )


def embedded(runner: asyncio.Runner, rows: list[Activity]) -> None:
    """Memory and SQLite, and SQLite beside its own bare SELECT."""
    memory = MemoryActivityStore()
    runner.run(memory.record(rows))
    compare(runner, "memory", memory)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "activity.db"
        database = Database(path, ACTIVITY)
        store = SqliteActivityStore(database)
        start = time.perf_counter()
        for first in range(0, len(rows), BATCH):
            runner.run(store.record(rows[first : first + BATCH]))
        show(
            "-",
            f"recording on SQLite, {BATCH} at a time",
            rate(len(rows) / (time.perf_counter() - start)),
            "-",
            None,
            "-",
        )
        compare(runner, "SQLite", store)
        connection = sqlite3.connect(path)

        def bare() -> float:
            begun = time.perf_counter()
            assert len(connection.execute(STATEMENT).fetchall()) == len(RARE)
            return time.perf_counter() - begun

        fast, slow, ratio = in_turn(seconds(runner, lambda: ours(store)), bare)
        show("R-402", "3 rows, SQLite", f"{fast * 1e3:.1f} ms", f"bare SELECT: {slow * 1e3:.1f} ms", ratio, "<= 4x")
        connection.close()
        runner.run(database.aclose())


def on_dynamodb(runner: asyncio.Runner, rows: list[Activity]) -> None:
    """Ministack, with all rows under one account."""
    with ministack() as engine, activity_table(engine) as table:
        start = time.perf_counter()
        runner.run(load(engine, table, rows))
        took = time.perf_counter() - start
        show("-", "loading into ministack, 25 at a time", rate(len(rows) / took), "-", None, "-")
        store = DynamoDBActivityStore(engine.aws, table, RandomIds())
        counted = Counted(store)
        start = time.perf_counter()
        runner.run(ours(counted))
        took = time.perf_counter() - start
        pages = ROWS / PAGE
        show(
            "R-402",
            f"3 of {ROWS:,} rows, ministack: {took:.1f} s",
            f"{counted.asked} reads",
            f"pages of {PAGE}: {pages:.0f}",
            counted.asked / pages,
            "<= 0.05x",
        )


def main() -> None:
    rows = many_rows()
    with asyncio.Runner() as runner:
        if "--dynamodb" in sys.argv[1:]:
            on_dynamodb(runner, rows)
        else:
            embedded(runner, rows)


if __name__ == "__main__":
    main()
