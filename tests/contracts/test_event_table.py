"""The event tables keep their contract."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.iceberg.catalogs import sqlite_catalog
from adapters.iceberg.event_table import IcebergEventTable
from adapters.memory.event_table import MemoryEventTable
from domain.event_schema import BASE_COLUMNS
from tests.contracts.event_table import EventTableContract, TableUnderTest

pytestmark = pytest.mark.anyio


class TestMemory(EventTableContract):
    adapter = "adapters.memory.event_table"

    @pytest.fixture
    def lake(self) -> TableUnderTest:
        table = MemoryEventTable()

        async def rows() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            for row in (row for day in table.days.values() for row in day.values()):
                one = row._asdict()
                typed = one.pop("typed")
                schema = table.known[row.type]
                found.append({**one, schema.view: typed} if schema.columns else one)
            return found

        return TableUnderTest(table, rows)


class TestIceberg(EventTableContract):
    adapter = "adapters.iceberg.event_table"

    @pytest.fixture
    async def lake(self, tmp_path: Path) -> AsyncIterator[TableUnderTest]:
        table = IcebergEventTable(lambda: sqlite_catalog(tmp_path), "interlock.events")

        async def rows() -> list[dict[str, Any]]:
            found = table.table()
            return [] if found is None else found.scan().to_arrow().to_pylist()

        yield TableUnderTest(table, rows)
        table.close()


def test_memory_rows_have_the_columns_of_the_table() -> None:
    from adapters.iceberg.columns import BASE
    from domain.daily import Row

    assert tuple(field.name for field in BASE.fields) == BASE_COLUMNS
    assert (*BASE_COLUMNS, "typed") == Row._fields
