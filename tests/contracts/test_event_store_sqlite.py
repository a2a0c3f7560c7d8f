"""The SQLite engine keeps the contract of the event store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.sqlite.database import Database
from adapters.sqlite.event_store import EVENTS, SqliteEventStore
from tests.contracts.event_store import ConcurrentEventStoreContract, EventStoreContract

pytestmark = pytest.mark.anyio


class TestSqliteEventStore(EventStoreContract, ConcurrentEventStoreContract):
    adapter = "adapters.sqlite.event_store"

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteEventStore]:
        database = Database(tmp_path / "events.db", EVENTS)
        yield SqliteEventStore(database)
        await database.aclose()
