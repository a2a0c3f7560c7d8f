"""The first half of a load: objects become rows in files beside the table, parted by a hash of their keys.

Runs in worker processes: everything here takes and gives what can be pickled. A staged file is an Arrow file with one
batch a part, so that the second half can take one part of all files at a time, whatever the day's size (goal G23).
"""

import multiprocessing
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

from adapters.iceberg.columns import counts_of, to_batch
from adapters.zstd.raw_objects import read_object
from domain.daily import PackedObject, Row, Rule, Staged
from domain.errors import Malformed
from domain.event_schema import EventSchema

FLUSH_BYTES: Final = 16 * 1024 * 1024
"""A worker writes its rows out once their data is this large."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What staging needs to know: where, in how many parts, and which columns."""

    folder: Path
    parts: int
    columns: pa.Schema
    schemas: tuple[EventSchema, ...]


class StagedFile(NamedTuple):
    """A staged file: how many rows it has, of which days, and of which types."""

    path: Path
    rows: int
    days: frozenset[date]
    types: frozenset[str]


def set_up_worker() -> None:
    """Set up a worker process.

    It has one thread, since there are several workers, gives memory back at once, and ends when its parent does: one
    that waits for work would else wait for ever.
    """
    pa.set_cpu_count(1)
    pa.set_memory_pool(pa.system_memory_pool())
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def stage(plan: Plan, objects: Sequence[PackedObject]) -> tuple[Staged, list[StagedFile]]:
    """Read objects and write their rows to files."""
    rule = Rule(plan.schemas)
    views = views_of(plan.schemas)
    rows: list[Row] = []
    files: list[StagedFile] = []
    quarantine: list[PackedObject] = []
    damaged: list[tuple[str, str]] = []
    messages = rejects = size = 0
    for name, packed in objects:
        try:
            found = read_object(rule, packed)
        except Malformed as error:
            damaged.append((name, error.reason))
            continue
        rows += found.rows
        messages += found.messages
        rejects += found.rejects
        quarantine += found.quarantine
        size += sum(len(row.data or "") for row in found.rows)
        if size >= FLUSH_BYTES:
            files += _write(plan, rows, views)
            rows, size = [], 0
    files += _write(plan, rows, views)
    pa.default_memory_pool().release_unused()
    events = sum(file.rows for file in files) + rejects
    return Staged(messages, events, rejects, tuple(quarantine), tuple(damaged)), files


def views_of(schemas: Iterable[EventSchema]) -> dict[str, str]:
    """Give the struct of each event type that has declared columns."""
    return {schema.type: schema.view for schema in schemas if schema.columns}


def write_parts(folder: Path, parts: int, batches: Iterable[pa.RecordBatch], columns: pa.Schema) -> Path:
    """Write batches to one Arrow file of a batch a part.

    Args:
        folder: where.
        parts: how many; a row's is told by its source and id.
        batches: with the columns `source` and `id`.
        columns: of the batches.
    """
    table = pa.Table.from_batches(batches, columns)
    path = folder / f"{uuid4().hex}.arrow"
    with ipc.new_file(str(path), columns, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
        for rows in _parted(table, parts):
            writer.write_batch(rows)
    return path


def _parted(table: pa.Table, parts: int) -> Iterator[pa.RecordBatch]:
    if parts > 1 and table.num_rows:
        keys = pc.binary_join_element_wise(table["source"], table["id"], pa.scalar("\n", table["id"].type))
        keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        part = BucketTransform(parts).pyarrow_transform(StringType())(keys)
        order = pc.array_sort_indices(part)
        table = table.take(order)
        part = part.take(order)
    else:
        part = pa.nulls(table.num_rows, pa.int32()).fill_null(0)
    counts = counts_of(part)
    start = 0
    for number in range(parts):
        rows = table.slice(start, counts.get(number, 0)).combine_chunks()
        start += rows.num_rows
        found = rows.to_batches()
        yield found[0] if found else pa.RecordBatch.from_pylist([], table.schema)


def _write(plan: Plan, rows: Sequence[Row], views: Mapping[str, str]) -> list[StagedFile]:
    if not rows:
        return []
    path = write_parts(plan.folder, plan.parts, [to_batch(rows, plan.columns, views)], plan.columns)
    days = frozenset({row.time.date() for row in rows})
    return [StagedFile(path, len(rows), days, frozenset({row.type for row in rows}))]
