"""The lake's table and the objects it is filled from, by `INTERLOCK_ENGINE`."""

import os
from typing import TYPE_CHECKING, Final

from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from application.daily_job import Lake
from domain.errors import Misconfigured
from entrypoints.engines.intake import IntakeEngine
from entrypoints.settings import Settings, variable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from adapters.iceberg.event_table import IcebergEventTable

FOLDER: Final = "lake"
"""Of the embedded table, in the data folder; and of its files, in the intake's bucket."""


class LakeEngine:
    """The daily job's ports. Nothing is opened or connected to before its first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._intake = IntakeEngine(settings)
        self.table = open_table(settings)

    @property
    def lake(self) -> Lake:
        """The ports.

        Raises:
            Misconfigured: the bucket is not set, on aws.
        """
        return Lake(self._intake.packed_objects, self.table, SystemClock(), RandomIds())

    async def aclose(self) -> None:
        """Close connections, once no call is in hand."""
        self.table.close()
        await self._intake.aclose()


def open_table(settings: Settings) -> "IcebergEventTable":
    """Give the lake's table: by a SQLite catalog in the data folder, or by the Glue Data Catalog on aws."""
    from adapters.iceberg.event_table import IcebergEventTable  # noqa: PLC0415 - the lake's alone

    lake = settings.lake
    return IcebergEventTable(lambda: _catalog(settings), lake.table, processes=lake.processes, spill=lake.spill_dir)


def _catalog(settings: Settings) -> "Catalog":
    match settings.engine:
        case "aws":
            return _glue(settings)
        case "sqlite":
            from adapters.iceberg.catalogs import sqlite_catalog  # noqa: PLC0415 - only what this engine needs

            return sqlite_catalog(settings.data_dir / FOLDER)
        case "memory":
            raise Misconfigured(variable(("engine",)), "is memory, which keeps no lake; use sqlite or aws")


def _glue(settings: Settings) -> "Catalog":
    from adapters.iceberg.catalogs import glue_catalog  # noqa: PLC0415 - only what this engine needs

    warehouse = settings.lake.warehouse
    if warehouse is None:
        if settings.intake.bucket is None:
            raise Misconfigured(variable(("lake", "warehouse")), "is not set; set it, or the intake's bucket")
        warehouse = f"s3://{settings.intake.bucket}/{FOLDER}"
    return glue_catalog(warehouse, os.environ)
