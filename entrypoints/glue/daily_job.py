"""The daily job as a Spark job (AWS Glue): `--date 2026-01-31`, and settings as `INTERLOCK_…` variables.

The driver finds what is to be loaded, keeps ledger and report, and commits; executors read, check and write. On Glue,
`--additional-python-modules` brings this package with its extras aws and lake.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from adapters.iceberg.errors import translated
from adapters.spark.daily_load import load_by_spark
from application.daily_job import Lake, Loader, RunReport, run_daily_job
from domain.daily import Committed, PackedObject, Staged
from domain.errors import Misconfigured
from domain.objects import StoredObject
from entrypoints.cli.output import emit
from entrypoints.engines.intake import OBJECTS
from entrypoints.settings import Settings, read_variables, variable
from entrypoints.wiring import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from entrypoints.engines.lake import LakeEngine


def run(spark: "SparkSession", settings: Settings, day: date, *, again: bool = False) -> RunReport:
    """Load what arrived on a day, and what came late before it.

    Raises:
        Retryable: a store failed; run it again.
        Misconfigured: a setting is missing, or the table cannot be written.
    """

    async def work() -> RunReport:
        engine = open_lake(settings)
        try:
            loader = load_on(spark, root_of(settings), engine)
            return await run_daily_job(engine.lake, day, loader, back=settings.lake.back_days, again=again)
        finally:
            await engine.aclose()

    return asyncio.run(work())


def load_on(spark: "SparkSession", root: str, engine: "LakeEngine") -> Loader:
    """Give the loader of a cluster; see `application.daily_job.load_here`."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")

    async def load(lake: Lake, todo: Sequence[StoredObject]) -> tuple[Sequence[Staged], Committed]:
        loop = asyncio.get_running_loop()

        def keep(objects: Sequence[PackedObject]) -> None:
            for name, packed in objects:
                asyncio.run_coroutine_threadsafe(lake.objects.put(name, packed), loop).result()

        def in_a_thread() -> tuple[Sequence[Staged], Committed]:
            with translated():
                return load_by_spark(spark, engine.table.made(), root, todo, keep)

        return await asyncio.to_thread(in_a_thread)

    return load


def root_of(settings: Settings) -> str:
    """Say where executors find objects."""
    match settings.engine:
        case "aws" if settings.intake.bucket is not None:
            return f"s3://{settings.intake.bucket}/"
        case "sqlite":
            return (settings.data_dir / OBJECTS).absolute().as_uri() + "/"
        case _:
            raise Misconfigured(variable(("intake", "bucket")), "is not set; the job reads its objects")


def main(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run as a process does: 0 when all objects were read, 1 when some are damaged."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the rest of this module needs no Java

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--date", type=date.fromisoformat, help="UTC day of arrival; yesterday if not given")
    parser.add_argument("--again", action="store_true", help="read what was loaded once more")
    given, _ = parser.parse_known_args(arguments)  # Glue adds arguments of its own
    spark = SparkSession.Builder().appName("interlock-daily-job").getOrCreate()
    try:
        day = given.date or datetime.now(UTC).date() - timedelta(days=1)
        report = run(spark, read_variables(variables), day, again=given.again)
    finally:
        spark.stop()
    emit(report.to_json())
    return 1 if report.damaged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
