"""Memory, SQLite and DynamoDB keep the contracts of catalog, ledger and caught events."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.aws.clients import Aws
from adapters.dynamodb.caught_events import MAX_ENVELOPE_BYTES, DynamoDBCaughtEvents
from adapters.dynamodb.start_ledger import DynamoDBLedger
from adapters.dynamodb.workflow_catalog import DynamoDBCatalog
from adapters.memory.caught_events import MemoryCaughtEvents
from adapters.memory.start_ledger import MemoryLedger
from adapters.memory.workflow_catalog import MemoryCatalog
from adapters.sqlite.caught_events import SqliteCaughtEvents
from adapters.sqlite.database import Database
from adapters.sqlite.router_file import ROUTER
from adapters.sqlite.start_ledger import SqliteLedger
from adapters.sqlite.workflow_catalog import SqliteCatalog
from domain.envelope import envelope_from
from domain.errors import TooLarge
from domain.routing import LEDGER_KEEPS, Caught
from tests.contracts.caught_events import CaughtEventsContract, a_caught
from tests.contracts.start_ledger import StartLedgerContract, handled
from tests.contracts.workflow_catalog import WorkflowCatalogContract, an_offer
from tests.engines import Engine, settings_table
from tests.examples import START

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(tmp_path / "router.db", ROUTER)
    yield database
    await database.aclose()


@pytest.fixture
def settings(ministack: Engine) -> Iterator[tuple[Aws, str]]:
    with settings_table(ministack) as table:
        yield ministack.aws, table


class TestMemoryCatalog(WorkflowCatalogContract):
    adapter = "adapters.memory.workflow_catalog"

    @pytest.fixture
    def catalog(self) -> MemoryCatalog:
        return MemoryCatalog()


class TestSqliteCatalog(WorkflowCatalogContract):
    adapter = "adapters.sqlite.workflow_catalog"

    @pytest.fixture
    def catalog(self, database: Database) -> SqliteCatalog:
        return SqliteCatalog(database)

    async def test_offers_that_ended_days_ago_do_not_pile_up(self, catalog: SqliteCatalog) -> None:
        for worker in range(5):
            await catalog.publish(an_offer(f"worker-{worker}", "AWorkflow", minutes=worker))
        await catalog.publish(an_offer("later", "AWorkflow", minutes=60 * 48 + 3))
        assert [offer.worker for offer in await catalog.offers()] == ["later", "worker-3", "worker-4"]


class TestDynamoDBCatalog(WorkflowCatalogContract):
    adapter = "adapters.dynamodb.workflow_catalog"

    @pytest.fixture
    def catalog(self, settings: tuple[Aws, str]) -> DynamoDBCatalog:
        return DynamoDBCatalog(*settings)


class TestMemoryLedger(StartLedgerContract):
    adapter = "adapters.memory.start_ledger"

    @pytest.fixture
    def ledger(self) -> MemoryLedger:
        return MemoryLedger()


class TestSqliteLedger(StartLedgerContract):
    adapter = "adapters.sqlite.start_ledger"

    @pytest.fixture
    def ledger(self, database: Database) -> SqliteLedger:
        return SqliteLedger(database)

    async def test_what_is_too_old_is_deleted_a_few_rows_at_a_time(
        self, ledger: SqliteLedger, database: Database
    ) -> None:
        await ledger.record([handled(f"AWorkflow-{number}") for number in range(10)])
        left = []
        for number in range(4):
            await ledger.record([handled(f"BWorkflow-{number}", days=(LEDGER_KEEPS / timedelta(days=1)) + 1)])
            left.append(await database.read(_count_old))
        assert left == [8, 6, 4, 2]


def _count_old(connection: sqlite3.Connection) -> int:
    number: int
    (number,) = connection.execute("SELECT count(*) FROM handled WHERE workflow_id LIKE 'A%'").fetchone()
    return number


class TestDynamoDBLedger(StartLedgerContract):
    adapter = "adapters.dynamodb.start_ledger"

    @pytest.fixture
    def ledger(self, settings: tuple[Aws, str]) -> DynamoDBLedger:
        return DynamoDBLedger(*settings)


class TestMemoryCaughtEvents(CaughtEventsContract):
    adapter = "adapters.memory.caught_events"

    @pytest.fixture
    def caught(self) -> MemoryCaughtEvents:
        return MemoryCaughtEvents()


class TestSqliteCaughtEvents(CaughtEventsContract):
    adapter = "adapters.sqlite.caught_events"

    @pytest.fixture
    def caught(self, database: Database) -> SqliteCaughtEvents:
        return SqliteCaughtEvents(database)


class TestDynamoDBCaughtEvents(CaughtEventsContract):
    adapter = "adapters.dynamodb.caught_events"

    @pytest.fixture
    def caught(self, settings: tuple[Aws, str]) -> DynamoDBCaughtEvents:
        return DynamoDBCaughtEvents(*settings)

    async def test_fc33_an_event_that_no_item_holds_is_refused_with_its_size(
        self, caught: DynamoDBCaughtEvents
    ) -> None:
        small = a_caught("e1")
        data = {**small.envelope.attributes(), "data": "x" * MAX_ENVELOPE_BYTES}
        with pytest.raises(TooLarge) as refused:
            await caught.record(Caught(small.workflow_id, START, envelope_from(data, max_bytes=None), "why"))
        assert refused.value.size > refused.value.limit == MAX_ENVELOPE_BYTES
