"""The table's files: rows are gathered by day until there are enough for one; reading knows the columns of today."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan, ParquetFormatModel, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import FileScanTask
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata

from adapters.iceberg.columns import counts_of

WAITING_BYTES: Final = 16 * 1024 * 1024
"""Rows in memory that wait for their day's file; the day with the most of them is written first, as one row group."""

FILE_BYTES: Final = 512 * 1024 * 1024
"""Rows of this size in memory fill a file; on the disk it is a quarter or less."""

OPEN_FILES: Final = 4

KEY: Final = ("source", "id")
EPOCH: Final = date(1970, 1, 1)
_DAY_MICROSECONDS: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """A table as it was when it was looked at, and how to reach its files; can be pickled."""

    metadata: TableMetadata
    io: Mapping[str, str]


def read_file(target: Target, task: FileScanTask, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read top-level columns of a file, in the types of `columns`; what it lacks is null."""
    schema = target.metadata.schema().select(*columns.names)
    scan = ArrowScan(target.metadata, load_file_io(dict(target.io)), schema, AlwaysTrue())
    for batch in scan.to_record_batches([task]):
        yield pa.RecordBatch.from_arrays(
            [batch[name].cast(columns.field(name).type) for name in columns.names], schema=columns
        )


class _OpenFile:
    """A file of one day that still gets row groups."""

    def __init__(self, target: Target, day: int) -> None:
        metadata = target.metadata
        spec, schema = metadata.spec(), metadata.schema()
        key = PartitionKey([PartitionFieldValue(spec.fields[0], day)], spec, schema)
        locations = load_location_provider(metadata.location, metadata.properties)
        self._path = locations.new_data_location(f"{uuid4()}.parquet", key)
        self._output = load_file_io(dict(target.io)).new_output(self._path)
        self._writer = ParquetFormatModel().create_writer(self._output, schema, metadata.properties)
        self._columns = schema_to_pyarrow(schema)
        self._partition = key.partition
        self._spec_id = spec.spec_id
        self._size = 0

    @property
    def is_full(self) -> bool:
        return self._size >= FILE_BYTES

    def write(self, rows: pa.Table) -> None:
        self._writer.write(pa.Table.from_arrays(rows.columns, schema=self._columns))
        self._size += rows.nbytes

    def close(self) -> DataFile:
        statistics = self._writer.close()
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._path,
            file_format=FileFormat.PARQUET,
            partition=self._partition,
            file_size_in_bytes=len(self._output),
            sort_order_id=None,
            spec_id=self._spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


class DayFiles:
    """Rows on their way into files of their days. Nobody reads a file that no commit names."""

    def __init__(self, target: Target) -> None:
        """Write for a table.

        Args:
            target: the table, with the columns that rows will have.
        """
        self.new = Counter[date]()
        self._target = target
        self._waiting: dict[int, list[pa.Table]] = {}
        self._sizes = Counter[int]()
        self._open: dict[int, _OpenFile] = {}
        self._files: list[DataFile] = []

    def add(self, rows: pa.Table, *, new: bool) -> None:
        """Take rows; the day with the most of them is written when there are too many.

        Args:
            rows: with the columns of the table.
            new: whether they count as such.
        """
        for day, some in _by_day(rows):
            if new:
                self.new[EPOCH + timedelta(days=day)] += some.num_rows
            self._waiting.setdefault(day, []).append(some)
            self._sizes[day] += some.nbytes
        while self._sizes.total() > WAITING_BYTES:
            self._write(self._sizes.most_common(1)[0][0])

    def close(self) -> list[DataFile]:
        """Write what waits, and give all files."""
        for day in sorted(self._waiting):
            self._write(day)
        for day in list(self._open):
            self._close(day)
        return self._files

    def _write(self, day: int) -> None:
        table = pa.concat_tables(self._waiting.pop(day)).combine_chunks()
        del self._sizes[day]
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in ("type", "time", *KEY)])
        table = table.take(order)  # by now nothing holds the pieces, so that there are two copies and never three
        file = self._open.get(day)
        if file is None:
            if len(self._open) == OPEN_FILES:
                self._close(next(iter(self._open)))
            file = self._open[day] = _OpenFile(self._target, day)
        file.write(table)
        if file.is_full:
            self._close(day)
        del table
        pa.default_memory_pool().release_unused()  # else the next pieces find no place among these

    def _close(self, day: int) -> None:
        self._files.append(self._open.pop(day).close())


def _by_day(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    if not rows.num_rows:
        return
    days = pc.divide(rows["time"].cast(pa.int64()), _DAY_MICROSECONDS).combine_chunks()
    order = pc.array_sort_indices(days)
    days = days.take(order)
    counts = counts_of(days)
    if len(counts) > 1:
        rows = rows.take(order)
    start = 0
    for day, count in counts.items():
        yield day, rows.slice(start, count)
        start += count
