"""The lake's table on Apache Iceberg (ports/event_table.py; ADR 0018)."""

import asyncio
import multiprocessing
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Final, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import FileScanTask, Table

from adapters.iceberg.columns import BASE, PARTITION, arrow_schema, table_schema
from adapters.iceberg.commits import (
    SCHEMA,
    drop,
    plan_files,
    property_of,
    put_in_place,
    schemas_of,
    target_of,
    version_of,
)
from adapters.iceberg.errors import translated
from adapters.iceberg.merging import Merge, Merged, merge_parts, stage_keys, stage_rows
from adapters.iceberg.staging import Plan, StagedFile, set_up_worker, stage
from domain.daily import Committed, PackedObject, Staged
from domain.errors import Contention
from domain.event_schema import EventSchema, check_view, evolve

T = TypeVar("T")

ATTEMPTS: Final = 5
POOL_BYTES: Final = 2 * 1024 * 1024
PART_BYTES: Final = 16 * 1024 * 1024
"""Packed bytes of objects that one worker takes as one part: some 100,000 events, of which it holds the keys."""

MOST_PARTS: Final = 512
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
            table = await asyncio.to_thread(self.made)
            if self._spill is not None:
                self._spill.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(prefix="interlock-load-", dir=self._spill)
        workers = self._processes if size >= POOL_BYTES else 1
        pool = (
            ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), set_up_worker)
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

    def made(self) -> Table:
        """Give the table as it is now; it is made where it never was; blocks."""
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
            table = self.made()
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
                        change.set_properties(dict([property_of(wanted)]))
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
        if not self._files:
            return Committed(0, 0, {}, version_of(self._table), 0, 0)
        for _ in range(ATTEMPTS):
            done = await self._attempt()
            if done is not None:
                return done
            self._table = await self._blocking(self._table.refresh)
        raise Contention(".".join(self._table.name()), ATTEMPTS)

    async def _attempt(self) -> Committed | None:
        """Merge and commit; None where another writer was first."""
        days = frozenset[date]().union(*(file.days for file in self._files))
        small, others = await self._blocking(plan_files, self._table, days)
        merged = await self._merge(small, others)
        files = [file for one in merged for file in one.files]
        new = Counter[date]()
        for one in merged:
            new.update(one.days)
        duplicates = sum(file.rows for file in self._files) - new.total()
        if not new:
            await self._blocking(drop, self._table, files)
            return Committed(0, duplicates, {}, version_of(self._table), 0, 0)
        types = frozenset[str]().union(*(file.types for file in self._files))
        if not await self._blocking(put_in_place, self._table, files, [task.file for task in small], types):
            return None
        version = version_of(self._table)
        return Committed(new.total(), duplicates, dict(sorted(new.items())), version, len(files), len(small))

    async def _merge(self, small: Sequence[FileScanTask], others: Sequence[FileScanTask]) -> list[Merged]:
        plan, workers = self._plan, self._workers
        merge = Merge(target_of(self._table), plan.folder, plan.parts, tuple(file.path for file in self._files))
        rows = await self._side_by_side([self._run(stage_rows, merge, task) for task in small])
        keys = await self._side_by_side([self._run(stage_keys, merge, task) for task in others])
        shares_of_parts = [range(start, plan.parts, workers) for start in range(min(workers, plan.parts))]
        return await self._side_by_side([self._run(merge_parts, merge, share, rows, keys) for share in shares_of_parts])

    async def _side_by_side(self, calls: Sequence[Coroutine[None, None, T]]) -> list[T]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(call) for call in calls]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return [task.result() for task in tasks]

    async def _run(self, work: Callable[..., T], *given: object) -> T:
        """Do something in a worker."""
        with translated():
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)

    async def _blocking(self, work: Callable[..., T], *given: object) -> T:
        """Do something in a thread of this process."""
        with translated():
            return await asyncio.to_thread(work, *given)
