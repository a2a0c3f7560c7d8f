"""Memory, SQLite and DynamoDB keep the contract of the skip list."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from adapters.aws.clients import Aws
from adapters.dynamodb.skip_list_store import DynamoDBSkipListStore
from adapters.memory.skip_list_store import MemorySkipListStore
from adapters.sqlite.database import Database
from adapters.sqlite.skip_list_store import SKIP_LIST, SqliteSkipListStore
from tests.contracts.skip_list_store import SkipListStoreContract
from tests.engines import REGION, Engine, settings_table

pytestmark = pytest.mark.anyio


class TestMemorySkipListStore(SkipListStoreContract):
    adapter = "adapters.memory.skip_list_store"

    @pytest.fixture
    def store(self) -> MemorySkipListStore:
        return MemorySkipListStore()


class TestSqliteSkipListStore(SkipListStoreContract):
    adapter = "adapters.sqlite.skip_list_store"

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteSkipListStore]:
        database = Database(tmp_path / "skip-list.db", SKIP_LIST)
        yield SqliteSkipListStore(database)
        await database.aclose()


class TestDynamoDBSkipListStore(SkipListStoreContract):
    adapter = "adapters.dynamodb.skip_list_store"
    rounds = 3

    @pytest.fixture
    def store(self, ministack: Engine) -> Iterator[DynamoDBSkipListStore]:
        with settings_table(ministack) as table:
            yield DynamoDBSkipListStore(ministack.aws, table)


@pytest.mark.slow
class TestDynamoDBSkipListStoreOnMoto(SkipListStoreContract):
    adapter = "adapters.dynamodb.skip_list_store"
    rounds = 3
    bulk = 500

    @pytest.fixture
    def store(self, moto: Engine) -> Iterator[DynamoDBSkipListStore]:
        aws = Aws(endpoint_url=moto.url, region=REGION, workers=1, read_timeout=30)
        with settings_table(moto) as table:
            yield DynamoDBSkipListStore(aws, table)
        aws.close()
