"""The memory and SQLite engines keep the contracts of the activity store and of large payloads."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.memory.activity_store import MemoryActivityStore
from adapters.sqlite.activity_store import ACTIVITY, SqliteActivityStore
from adapters.sqlite.database import Database
from tests.activity import Remove, remove_from_memory, remove_from_sqlite
from tests.contracts.activity_store import ActivityStoreContract

pytestmark = pytest.mark.anyio


class TestMemoryActivityStore(ActivityStoreContract):
    adapter = "adapters.memory.activity_store"

    @pytest.fixture
    def store(self) -> MemoryActivityStore:
        return MemoryActivityStore()

    @pytest.fixture
    def remove(self, store: MemoryActivityStore) -> Remove:
        return remove_from_memory(store)


class TestSqliteActivityStore(ActivityStoreContract):
    adapter = "adapters.sqlite.activity_store"

    @pytest.fixture
    async def database(self, tmp_path: Path) -> AsyncIterator[Database]:
        database = Database(tmp_path / "activity.db", ACTIVITY)
        yield database
        await database.aclose()

    @pytest.fixture
    def store(self, database: Database) -> SqliteActivityStore:
        return SqliteActivityStore(database)

    @pytest.fixture
    def remove(self, database: Database) -> Remove:
        return remove_from_sqlite(database)
