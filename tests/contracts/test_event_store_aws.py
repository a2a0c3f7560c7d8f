"""DynamoDB keeps the contract of the event store; crossing writers are tried where transactions are isolated."""

from collections.abc import Iterator

import pytest

from adapters.dynamodb.event_store import DynamoDBEventStore
from tests.contracts.event_store import ConcurrentEventStoreContract, EventStoreContract
from tests.engines import Engine, event_table

pytestmark = pytest.mark.anyio


class TestDynamoDBEventStore(EventStoreContract, ConcurrentEventStoreContract):
    adapter = "adapters.dynamodb.event_store"

    @pytest.fixture
    def store(self, ministack: Engine) -> Iterator[DynamoDBEventStore]:
        with event_table(ministack) as table:
            yield DynamoDBEventStore(ministack.aws, table)


class TestDynamoDBEventStoreOnMoto(EventStoreContract):
    adapter = "adapters.dynamodb.event_store"

    @pytest.fixture
    def store(self, moto: Engine) -> Iterator[DynamoDBEventStore]:
        with event_table(moto) as table:
            yield DynamoDBEventStore(moto.aws, table)
