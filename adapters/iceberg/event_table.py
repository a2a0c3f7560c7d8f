"""The lake's table on Apache Iceberg (ports/event_table.py; ADR 0018)."""

import asyncio
import json
import multiprocessing
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError, ValidationException
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from adapters.iceberg.columns import BASE, PARTITION, arrow_schema, table_schema
from adapters.iceberg.errors import translated
from adapters.iceberg.merging import Merge, Merged, merge_parts, stage_keys, stage_rows
from adapters.iceberg.staging import Plan, StagedFile, stage
from domain.daily import Committed, PackedObject, Staged
from domain.errors import Contention
from domain.event_schema import EventSchema, check_view, evolve, new_views, schema_from

T = TypeVar("T")

SCHEMA: Final = "interlock.schema."
"""Properties of the table: the declaration of an event type, by the name of its view."""

ATTEMPTS: Final = 5
SMALL_FILE_BYTES: Final = 8 * 1024 * 1024
POOL_BYTES: Final = 2 * 1024 * 1024
PART_BYTES: Final = 4 * 1024 * 1024
"""Packed bytes of objects that make one part: about 40 MB of rows."""

MOST_PARTS: Final = 512
_DAY: Final = timedelta(days=1)
_PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",  # a load that met another one must look at the table again
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class IcebergEventTable:
    """One table of a catalog.

    Args:
        catalog: opens it; called once, in a thread.
        name: of the table, as `namespace.table`.
        processes: how many worker processes a large load may use; a small one uses a thread.
        spill: where staged rows are kept for as long as a load runs; the system's folder for such files if None.
    """

    def __init__(
        self, catalog: Callable[[], Catalog], name: str, *, processes: int = 2, spill: Path | None = None
    ) -> None:
        self._make = catalog
        self._name = name
        self._processes = processes
        self._spill = spill
        self._lock = threading.Lock()
        self._catalog: Catalog | None = None

    async def schemas(self) -> Mapping[str, EventSchema]:
        """Give the registered schemas, and a bare view for each other event type that was seen."""
        table = await asyncio.to_thread(self.table)
        return {} if table is None else schemas_of(table)

    async def register(self, schema: EventSchema, /) -> EventSchema:
        """Register the columns of an event type, or add to them; see the port."""
        return await asyncio.to_thread(self._register, schema)

    @asynccontextmanager
    async def load(self, size: int, /) -> AsyncIterator["IcebergLoad"]:
        """Begin a load; its staged files are gone when this ends."""
        with translated():
            table = await asyncio.to_thread(self._table_made)
            if self._spill is not None:
                self._spill.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(prefix="interlock-load-", dir=self._spill)
        workers = self._processes if size >= POOL_BYTES else 1
        pool = (
            ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
            if workers > 1
            else ThreadPoolExecutor(1, "interlock-load")
        )
        try:
            yield IcebergLoad(table, pool, workers, Path(folder.name), size)
        finally:
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
            await asyncio.to_thread(folder.cleanup)

    def table(self) -> Table | None:
        """Give the table as it is now, or None where it was never made; blocks."""
        with translated():
            try:
                return self._opened().load_table(self._name)
            except NoSuchTableError:
                return None

    def close(self) -> None:
        """Let go of the catalog's connections."""
        with self._lock:
            if self._catalog is not None:
                self._catalog.close()
                self._catalog = None

    def _opened(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                self._catalog = self._make()
            return self._catalog

    def _table_made(self) -> Table:
        found = self.table()
        if found is not None:
            return found
        with translated():
            catalog = self._opened()
            catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
            try:
                return catalog.create_table(self._name, BASE, partition_spec=PARTITION, properties=_PROPERTIES)
            except TableAlreadyExistsError:
                return catalog.load_table(self._name)

    def _register(self, schema: EventSchema) -> EventSchema:
        for _ in range(ATTEMPTS):
            table = self._table_made()
            known = schemas_of(table)
            before = known.get(schema.type)
            wanted = schema if before is None else evolve(before, schema)
            check_view(known, wanted)
            if wanted == before:
                return wanted
            with translated():
                try:
                    with table.transaction() as change:
                        if wanted.columns:
                            with change.update_schema() as columns:
                                columns.union_by_name(table_schema([wanted]))
                        if before is not None and before.view != wanted.view:
                            change.remove_properties(SCHEMA + before.view)
                        change.set_properties(dict([_property(wanted)]))
                except CommitFailedException:
                    continue
            return wanted
        raise Contention(self._name, ATTEMPTS)


class IcebergLoad:
    """A load: staged in files beside the table, and committed in one snapshot."""

    def __init__(self, table: Table, pool: Executor, workers: int, folder: Path, size: int) -> None:
        self._table = table
        self._pool = pool
        self._workers = workers
        schemas = tuple(schemas_of(table).values())
        parts = min(MOST_PARTS, -(-size // PART_BYTES) * workers) if workers > 1 else 1
        self._plan = Plan(folder, parts, arrow_schema(table.schema()), schemas)
        self._files: list[StagedFile] = []

    async def stage(self, objects: Sequence[PackedObject], /) -> Staged:
        """Read objects by the daily rule in a worker."""
        staged, files = await self._run(stage, self._plan, objects)
        self._files += files
        return staged

    async def commit(self) -> Committed:
        """Merge what is staged with what the table holds, in workers, and put the outcome in place in one snapshot."""
        if self._files:
            for _ in range(ATTEMPTS):
                done = await self._attempt()
                if done is not None:
                    return done
                self._table = await asyncio.to_thread(_refreshed, self._table)
            raise Contention(".".join(self._table.name()), ATTEMPTS)
        return Committed(0, 0, {}, _version(self._table), 0, 0)

    async def _attempt(self) -> Committed | None:
        """Merge and commit; None where another writer was first."""
        with translated():
            small, others = await asyncio.to_thread(self._plan_files)
        plan = self._plan
        paths = tuple(file.path for file in self._files)
        io = {str(name): str(value) for name, value in self._table.io.properties.items()}
        merge = Merge(self._table.metadata, io, plan.folder, plan.parts, uuid4(), paths)
        rows = [await self._run(stage_rows, merge, small)] if small else []
        keys = [
            await self._run(stage_keys, merge, others[start :: self._workers])
            for start in range(self._workers)
            if others[start :: self._workers]
        ]
        made: list[Merged] = []
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    self._run(merge_parts, merge, number, range(number, plan.parts, self._workers), rows, keys)
                )
                for number in range(min(self._workers, plan.parts))
            ]
        made = [task.result() for task in tasks]
        days: Counter[date] = Counter()
        for one in made:
            days.update(one.days)
        staged = sum(file.rows for file in self._files)
        if not days:
            await asyncio.to_thread(self._drop, made)
            return Committed(0, staged, {}, _version(self._table), 0, 0)
        files = [file for one in made for file in one.files]
        with translated():
            try:
                await asyncio.to_thread(self._put_in_place, files, [task.file for task in small])
            except (CommitFailedException, ValidationException):
                await asyncio.to_thread(self._drop, made)
                return None
        return Committed(
            days.total(),
            staged - days.total(),
            dict(sorted(days.items())),
            _version(self._table),
            len(files),
            len(small),
        )

    def _plan_files(self) -> tuple[list[FileScanTask], list[FileScanTask]]:
        """Give the small files of the days that get rows, and the other files that may hold the same keys."""
        touched = frozenset[date]().union(*(file.days for file in self._files))
        near = touched | {day + _DAY for day in touched} | {day - _DAY for day in touched}
        start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (min(near), max(near) + _DAY))
        between = And(GreaterThanOrEqual("time", start.isoformat()), LessThan("time", end.isoformat()))
        small: list[FileScanTask] = []
        others: list[FileScanTask] = []
        for task in self._table.scan(row_filter=between).plan_files():
            day = date(1970, 1, 1) + timedelta(days=task.file.partition[0])
            if day in touched and task.file.file_size_in_bytes < SMALL_FILE_BYTES:
                small.append(task)
            elif day in near:
                others.append(task)
        return small, others

    def _put_in_place(self, added: Sequence[DataFile], replaced: Sequence[DataFile]) -> None:
        with self._table.transaction() as change:
            seen = frozenset[str]().union(*(file.types for file in self._files))
            views = new_views(schemas_of(self._table), seen)
            if views:
                change.set_properties(dict(map(_property, views)))
            with change.update_snapshot().overwrite() as snapshot:
                for file in replaced:
                    snapshot.delete_data_file(file)
                for file in added:
                    snapshot.append_data_file(file)

    def _drop(self, made: Sequence[Merged]) -> None:
        for one in made:
            for file in one.files:
                self._table.io.delete(file.file_path)

    async def _run(self, work: Callable[..., T], *given: object) -> T:
        with translated():
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)


def schemas_of(table: Table) -> dict[str, EventSchema]:
    """Read the declarations out of the table's properties."""
    found = [schema_from(json.loads(value)) for name, value in table.properties.items() if name.startswith(SCHEMA)]
    return {schema.type: schema for schema in found}


def _property(schema: EventSchema) -> tuple[str, str]:
    return SCHEMA + schema.view, json.dumps(schema.to_json())


def _refreshed(table: Table) -> Table:
    with translated():
        return table.refresh()


def _version(table: Table) -> str | None:
    snapshot = table.current_snapshot()
    return None if snapshot is None else str(snapshot.snapshot_id)
