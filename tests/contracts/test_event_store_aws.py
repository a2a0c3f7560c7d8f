"""DynamoDB keeps the contract of the event store; crossing writers are tried where transactions are isolated."""

import pytest

from adapters.dynamodb.event_store import DynamoDBEventStore
from adapters.dynamodb.table import create_table
from tests.contracts.event_store import ConcurrentEventStoreContract, EventStoreContract
from tests.engines import Engine

pytestmark = pytest.mark.anyio


def new_store(engine: Engine) -> DynamoDBEventStore:
    """Give a store on a table of its own."""
    table = engine.fresh_name("events")
    create_table(engine.aws.dynamodb.client(), table)
    return DynamoDBEventStore(engine.aws, table)


class TestDynamoDBEventStore(EventStoreContract, ConcurrentEventStoreContract):
    adapter = "adapters.dynamodb.event_store"

    @pytest.fixture
    def store(self, ministack: Engine) -> DynamoDBEventStore:
        return new_store(ministack)


class TestDynamoDBEventStoreOnMoto(EventStoreContract):
    adapter = "adapters.dynamodb.event_store"

    @pytest.fixture
    def store(self, moto: Engine) -> DynamoDBEventStore:
        return new_store(moto)
