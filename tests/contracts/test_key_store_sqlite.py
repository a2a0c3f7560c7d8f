"""The SQLite key store keeps its contract, shares its file between processes, and cleans up in small steps."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.memory.clock import ManualClock
from adapters.sqlite.database import Database
from adapters.sqlite.key_store import KEYS, SqliteKeyStore
from domain.dedup import make_scope
from tests.contracts.key_store import HOUR, PRICING, KeyStoreContract, LetPass
from tests.examples import START

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(tmp_path / "keys.db", KEYS)
    yield database
    await database.aclose()


@pytest.fixture
def store(database: Database, clock: ManualClock) -> SqliteKeyStore:
    return SqliteKeyStore(database, clock)


class TestSqliteKeyStore(KeyStoreContract):
    adapter = "adapters.sqlite.key_store"

    @pytest.fixture
    def let_pass(self, clock: ManualClock) -> LetPass:
        return clock.sleep


async def rows(database: Database, table: str) -> int:
    def count(connection: sqlite3.Connection) -> int:
        number: int
        (number,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - names from below
        return number

    return await database.read(count)


def keys(number: int, start: int = 0) -> list[str]:
    return [f"k{n}" for n in range(start, start + number)]


async def test_r201_of_askers_on_two_openings_of_the_file_one_is_told_new(
    store: SqliteKeyStore, tmp_path: Path, clock: ManualClock
) -> None:
    elsewhere = Database(tmp_path / "keys.db", KEYS)
    stores = [store, SqliteKeyStore(elsewhere, clock)]
    for number in range(10):
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(stores[asker % 2].claim(PRICING, keys(3, number), HOUR)) for asker in range(64)]
        told = [sum(answer) for answer in zip(*(task.result() for task in asked), strict=True)]
        assert told == ([1, 1, 1] if number == 0 else [0, 0, 1])
    await elsewhere.aclose()


async def test_r209_keys_outlive_the_process(store: SqliteKeyStore, database: Database, clock: ManualClock) -> None:
    await store.claim(PRICING, ["a"], HOUR)
    await store.put(PRICING, "b", b"value", HOUR)
    await database.aclose()
    again = Database(database._path, KEYS)
    reopened = SqliteKeyStore(again, clock)
    assert await reopened.claim(PRICING, ["a", "b"], HOUR) == [False, False]
    assert await reopened.get(PRICING, "b") == b"value"
    await again.aclose()


async def test_r209_a_forgotten_run_is_gone_at_once_and_deleted_in_small_steps(
    store: SqliteKeyStore, database: Database
) -> None:
    await store.claim(PRICING, keys(2000), HOUR)
    for number in range(300):
        await store.put(PRICING, f"v{number}", b"value", HOUR)
    assert await store.forget(PRICING) == 2000
    assert await store.count(PRICING) == 0
    left = await rows(database, "keys")
    assert left >= 1500, "one call does not delete a whole run"
    other = make_scope("pricing", "run-2")
    steps = 0
    while await rows(database, "ended"):
        await store.claim(other, [f"step {steps}"], HOUR)
        now_left = await rows(database, "keys")
        assert left - now_left <= 256
        left, steps = now_left, steps + 1
    assert steps >= 7
    assert (await rows(database, "keys"), await rows(database, "vals")) == (steps, 0)


async def test_r209_what_has_expired_does_not_pile_up(
    store: SqliteKeyStore, database: Database, clock: ManualClock
) -> None:
    minute = timedelta(minutes=1)
    for number in range(60):
        await store.claim(make_scope("s", str(number)), keys(1000), minute)
        await store.put(PRICING, f"v{number}", b"value", minute)
        clock.advance(20)
    # Three runs live at a time; each write deletes at least twice what it adds.
    assert await rows(database, "keys") <= 1000 * 6
    assert await rows(database, "vals") <= 4
    assert await rows(database, "runs") <= 5


async def test_r209_an_expired_run_starts_anew_with_its_old_keys_still_on_the_disk(
    store: SqliteKeyStore, database: Database, clock: ManualClock
) -> None:
    await store.claim(PRICING, keys(2000), timedelta(seconds=1))
    clock.advance(1)
    assert await store.claim(PRICING, ["k1999", "k1999"], HOUR) == [True, False]
    assert await rows(database, "keys") > 1000
    assert await store.count(PRICING) == 1
    assert await store.exist(PRICING, ["k1998", "k1999"]) == [False, True]
