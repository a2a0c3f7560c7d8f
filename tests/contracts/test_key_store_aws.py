"""DynamoDB keeps the contract of the key store."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from adapters.aws.clients import Aws
from adapters.dynamodb.key_store import DynamoDBKeyStore
from adapters.memory.clock import ManualClock
from adapters.system.id_source import RandomIds
from tests.contracts.key_store import KeyStoreContract, LetPass
from tests.engines import REGION, Engine, key_table

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> ManualClock:
    """It starts now, as engines delete what has expired by a clock of their own."""
    return ManualClock(datetime.now(UTC))


@pytest.fixture
def let_pass(clock: ManualClock) -> LetPass:
    return clock.sleep


class TestDynamoDBKeyStore(KeyStoreContract):
    adapter = "adapters.dynamodb.key_store"
    short = 60

    @pytest.fixture
    def store(self, ministack: Engine, clock: ManualClock) -> Iterator[DynamoDBKeyStore]:
        with key_table(ministack) as table:
            yield DynamoDBKeyStore(ministack.aws, table, clock, RandomIds())


@pytest.mark.slow
class TestDynamoDBKeyStoreOnMoto(KeyStoreContract):
    """With one thread: moto fails when transactions of one call cross."""

    adapter = "adapters.dynamodb.key_store"
    short = 60
    many = 220  # several requests; more takes moto long

    @pytest.fixture
    def store(self, moto: Engine, clock: ManualClock) -> Iterator[DynamoDBKeyStore]:
        aws = Aws(endpoint_url=moto.url, region=REGION, workers=1, read_timeout=30)
        with key_table(moto) as table:
            yield DynamoDBKeyStore(aws, table, clock, RandomIds())
        aws.close()
