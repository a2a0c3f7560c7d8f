"""The table's files: rows are gathered by day until there are enough for one; reading knows the columns of today."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import FileScanTask, WriteTask
from pyiceberg.table.metadata import TableMetadata

from adapters.iceberg.columns import counts_of

FILE_BYTES: Final = 32 * 1024 * 1024
"""Rows of this size in memory make a file; on the disk it is a third or less."""

KEY: Final = ("source", "id")
EPOCH: Final = date(1970, 1, 1)
_DAY_MICROSECONDS: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """A table as it was when it was looked at, and how to reach its files; can be pickled."""

    metadata: TableMetadata
    io: Mapping[str, str]


def read_files(target: Target, tasks: Sequence[FileScanTask], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read top-level columns of files, in the types of `columns`; what a file lacks is null."""
    schema = target.metadata.schema().select(*columns.names)
    scan = ArrowScan(target.metadata, load_file_io(dict(target.io)), schema, AlwaysTrue())
    for batch in scan.to_record_batches(tasks):
        yield pa.RecordBatch.from_arrays(
            [batch[name].cast(columns.field(name).type) for name in columns.names], schema=columns
        )


@dataclass
class DayFiles:
    """Rows on their way into files of their days. Nobody reads a file that no commit names."""

    target: Target
    new: Counter[date] = field(default_factory=Counter)
    _write_id: UUID = field(default_factory=uuid4)
    _waiting: dict[int, list[pa.Table]] = field(default_factory=dict)
    _sizes: Counter[int] = field(default_factory=Counter)
    _files: list[DataFile] = field(default_factory=list)

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
        while self._sizes.total() > FILE_BYTES:
            self._write(self._sizes.most_common(1)[0][0])

    def close(self) -> list[DataFile]:
        """Write what waits, and give all files."""
        for day in sorted(self._waiting):
            self._write(day)
        return self._files

    def _write(self, day: int) -> None:
        table = pa.concat_tables(self._waiting.pop(day))
        del self._sizes[day]
        table = table.sort_by([(name, "ascending") for name in ("type", "time", *KEY)]).combine_chunks()
        metadata = self.target.metadata
        spec = metadata.spec()
        key = PartitionKey([PartitionFieldValue(spec.fields[0], day)], spec, metadata.schema())
        task = WriteTask(self._write_id, len(self._files), metadata.schema(), table.to_batches(), partition_key=key)
        self._files += write_file(load_file_io(dict(self.target.io)), metadata, iter([task]))


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
