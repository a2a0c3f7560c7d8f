"""DynamoDB and S3 keep the contracts of the activity store and of large payloads."""

from collections.abc import Iterator

import pytest

from adapters.dynamodb.activity_store import DynamoDBActivityStore
from adapters.system.id_source import RandomIds
from tests.activity import Remove, remove_from_dynamodb
from tests.contracts.activity_store import ActivityStoreContract
from tests.engines import Engine, activity_table

pytestmark = pytest.mark.anyio


class TestDynamoDBActivityStore(ActivityStoreContract):
    adapter = "adapters.dynamodb.activity_store"

    @pytest.fixture
    def table(self, ministack: Engine) -> Iterator[str]:
        with activity_table(ministack) as table:
            yield table

    @pytest.fixture
    def store(self, ministack: Engine, table: str) -> DynamoDBActivityStore:
        return DynamoDBActivityStore(ministack.aws, table, RandomIds())

    @pytest.fixture
    def remove(self, ministack: Engine, table: str) -> Remove:
        return remove_from_dynamodb(ministack.aws, table)
