"""Every statement of the SQLite key store finds its rows by a key or an index made for it (R-209)."""

from datetime import timedelta
from pathlib import Path

import pytest

from adapters.memory.clock import ManualClock
from adapters.sqlite.database import Database
from adapters.sqlite.key_store import KEYS, SqliteKeyStore
from domain.dedup import make_scope
from tests.examples import START
from tests.integration.test_sqlite_plans import assert_no_scan, plans_of

pytestmark = pytest.mark.anyio


async def test_r209_no_statement_of_the_key_store_scans_or_sorts(tmp_path: Path) -> None:
    database = Database(tmp_path / "keys.db", KEYS)
    clock = ManualClock(START)
    store = SqliteKeyStore(database, clock)
    short, second = timedelta(seconds=1), make_scope("s", "2")
    with plans_of(database) as plans:
        for one in (make_scope("s", "1"), second):
            await store.claim(one, ["a", "b"], short)
            await store.put(one, "a", b"value", short)
            assert await store.claim(one, ["a", "c"], short) == [False, True]
        clock.advance(1)
        assert await store.claim(second, ["a"], short) == [True]
        await store.put(second, "a", b"value", short)
        assert await store.exist(second, ["a", "b"]) == [True, False]
        assert (await store.get(second, "a"), await store.get(second, "b")) == (b"value", None)
        assert (await store.count(second), await store.forget(second)) == (1, 1)
    await database.aclose()
    assert len(plans) >= 16
    assert_no_scan(plans)
