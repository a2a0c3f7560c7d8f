"""The daily job on Spark does what it does on one machine (R-506)."""

import asyncio
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from application.daily_job import RunReport, load_here, run_daily_job
from entrypoints.engines.lake import LakeEngine
from entrypoints.glue import daily_job
from tests import nasty
from tests.lakes import put_all, put_raw, quarantine_of, rows_of, settings_of
from tests.spark import local_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # PySpark's own: it compares versions the old way, and leaves sockets to the collector.
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DAY = date(2026, 1, 31)
EVENTS = 20_000


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


def on_one_machine(folder: Path) -> RunReport:
    async def work() -> RunReport:
        engine = LakeEngine(settings_of(folder))
        try:
            return await run_daily_job(engine.lake, DAY, load_here(), back=3)
        finally:
            await engine.aclose()

    return asyncio.run(work())


def register(folder: Path) -> None:
    async def work() -> None:
        engine = LakeEngine(settings_of(folder))
        try:
            for schema in nasty.SCHEMAS:
                await engine.table.register(schema)
        finally:
            await engine.aclose()

    asyncio.run(work())


def comparable(report: RunReport) -> dict[str, Any]:
    apart = ("run_id", "started_at", "ended_at", "version", "files_added", "files_replaced")
    return {name: value for name, value in report.to_json().items() if name not in apart}


def sorted_rows(folder: Path) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows_of(folder))


def test_r506_spark_gives_the_same_rows_and_rejects_of_20000_nasty_events(
    spark: "SparkSession", tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    messages = list(nasty.messages(EVENTS))
    for folder in (here, there):
        register(folder)
        put_all(folder, messages[:2000], 500)
        on_one_machine(folder)
        put_all(folder, messages[1500:], 700)
        (folder / "objects" / put_raw(folder, messages[:3])).write_bytes(b"damaged")
    ours, sparks = on_one_machine(here), daily_job.run(spark, settings_of(there), DAY)
    assert comparable(ours) == comparable(sparks)
    assert ours.events == ours.rows + ours.duplicates + ours.rejects
    assert min(ours.rows, ours.duplicates, ours.rejects) > 500
    assert len(ours.damaged) == 1
    assert sparks.files_replaced == ours.files_replaced > 0
    assert sorted_rows(here) == sorted_rows(there)
    kept = [sorted(json.dumps(line, sort_keys=True) for line in quarantine_of(folder)) for folder in (here, there)]
    assert kept[0] == kept[1]
    again = daily_job.run(spark, settings_of(there), DAY)
    assert (again.events, again.rows, again.version, list(again.damaged)) == (0, 0, sparks.version, list(ours.damaged))
