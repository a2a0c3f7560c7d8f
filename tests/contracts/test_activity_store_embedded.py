"""The memory and SQLite engines keep the contracts of the activity store and of large payloads."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.filesystem.payload_store import FilePayloadStore
from adapters.memory.activity_store import MemoryActivityStore
from adapters.memory.payload_store import MemoryPayloadStore
from adapters.sqlite.activity_store import ACTIVITY, SqliteActivityStore
from adapters.sqlite.database import Database
from tests.activity import Remove, remove_from_memory, remove_from_sqlite
from tests.contracts.activity_store import ActivityStoreContract
from tests.contracts.payload_store import PayloadStoreContract

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


class TestMemoryPayloadStore(PayloadStoreContract):
    adapter = "adapters.memory.payload_store"

    @pytest.fixture
    def store(self) -> MemoryPayloadStore:
        return MemoryPayloadStore()


class TestFilePayloadStore(PayloadStoreContract):
    adapter = "adapters.filesystem.payload_store"

    @pytest.fixture
    def store(self, tmp_path: Path) -> FilePayloadStore:
        return FilePayloadStore(tmp_path / "made" / "here")
