"""The second half of a load: of the staged rows of one part after the other, what is new goes into files by day.

Runs in worker processes. What one holds at a time is a part's keys, one staged batch, and rows that wait for a file
(`FILE_BYTES`); so it needs as much memory for a large day as for a small one (goal G23).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import FileScanTask, WriteTask
from pyiceberg.table.metadata import TableMetadata

from adapters.iceberg.columns import arrow_schema
from adapters.iceberg.staging import write_parts

FILE_BYTES: Final = 64 * 1024 * 1024
"""Rows of this size in memory make a file; on the disk it is a third or less."""

KEY: Final = ("source", "id")
ORDER: Final = ("arrived_at", "message_id", "position")
_DAY_MICROSECONDS: Final = 86_400_000_000
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Merge:
    """What merging needs to know: the table as it was when it was planned, and where the staged rows are."""

    metadata: TableMetadata
    io: Mapping[str, str]
    folder: Path
    parts: int
    write_id: UUID
    staged: tuple[Path, ...]


class Merged(NamedTuple):
    """What one worker made: files, and new rows by day."""

    files: list[DataFile]
    days: Mapping[date, int]


def stage_rows(merge: Merge, tasks: Sequence[FileScanTask]) -> Path:
    """Stage the rows of small files of the table, to be written again beside the new ones."""
    columns = arrow_schema(merge.metadata.schema())
    return write_parts(merge.folder, merge.parts, _read(merge, tasks, columns), columns)


def stage_keys(merge: Merge, tasks: Sequence[FileScanTask]) -> Path:
    """Stage the keys of files of the table that stay as they are."""
    whole = arrow_schema(merge.metadata.schema())
    columns = pa.schema([whole.field(name) for name in KEY])
    return write_parts(merge.folder, merge.parts, _read(merge, tasks, columns), columns)


def merge_parts(merge: Merge, worker: int, parts: Sequence[int], rows: Sequence[Path], keys: Sequence[Path]) -> Merged:
    """Merge some parts.

    Args:
        merge: the plan.
        worker: a number of its own, for the names of files.
        parts: which.
        rows: staged files of `stage_rows`; all these rows are written again.
        keys: staged files of `stage_keys`.
    """
    out = _Out(merge, worker)
    for part in parts:
        there = [_keys(path, part, KEY) for path in (*rows, *keys)]
        for path in rows:
            out.add(pa.Table.from_batches([_batch(path, part)]))
        for path, first in _first_copies(merge.staged, part, there):
            out.add(pa.Table.from_batches([_batch(path, part)]).take(first), new=True)
    return Merged(out.close(), dict(out.days))


@dataclass
class _Out:
    """Rows by day, until there are enough of them for a file."""

    merge: Merge
    worker: int
    days: Counter[date] = field(default_factory=Counter)
    _waiting: dict[int, list[pa.Table]] = field(default_factory=dict)
    _sizes: Counter[int] = field(default_factory=Counter)
    _files: list[DataFile] = field(default_factory=list)

    def add(self, rows: pa.Table, *, new: bool = False) -> None:
        """Take rows; the day with the most of them is written when there are too many."""
        for day, some in _by_day(rows):
            if new:
                self.days[_EPOCH.fromordinal(_EPOCH.toordinal() + day)] += some.num_rows
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
        table = pa.concat_tables(self._waiting.pop(day)).combine_chunks()
        del self._sizes[day]
        table = table.sort_by([(name, "ascending") for name in ("type", "time", "source", "id")]).combine_chunks()
        metadata = self.merge.metadata
        spec = metadata.spec()
        key = PartitionKey([PartitionFieldValue(spec.fields[0], day)], spec, metadata.schema())
        number = self.worker * 100_000 + len(self._files)
        task = WriteTask(self.merge.write_id, number, metadata.schema(), table.to_batches(), partition_key=key)
        self._files += write_file(load_file_io(dict(self.merge.io)), metadata, iter([task]))


def _first_copies(staged: Iterable[Path], part: int, there: Sequence[pa.Table]) -> Iterator[tuple[Path, pa.Array]]:
    """Give for each staged file the places of those rows of a part that are new, each source and id once."""
    paths = list(staged)
    found = [_keys(path, part, (*KEY, *ORDER)) for path in paths]
    keys = pa.concat_tables(
        table.append_column("file", pa.repeat(pa.scalar(number, pa.int32()), table.num_rows)).append_column(
            "row", pa.array(range(table.num_rows), pa.int64())
        )
        for number, table in enumerate(found)
    )
    keys = keys.sort_by([(name, "ascending") for name in (*ORDER, "file", "row")]).select([*KEY, "file", "row"])
    first = (
        keys.append_column("at", pa.array(range(keys.num_rows), pa.int64()))
        .group_by(list(KEY), use_threads=False)
        .aggregate([("at", "min")])
    )
    if there:
        first = first.join(pa.concat_tables(there), list(KEY), join_type="left anti", use_threads=False)
    kept = keys.select(["file", "row"]).take(first["at_min"])
    for number, path in enumerate(paths):
        rows = kept.filter(pc.equal(kept["file"], number))["row"].combine_chunks()
        if len(rows):
            yield path, rows


def _by_day(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    if not rows.num_rows:
        return
    days = pc.divide(rows["time"].cast(pa.int64()), _DAY_MICROSECONDS).combine_chunks()
    order = pc.array_sort_indices(days)
    days = days.take(order)
    counts = days.value_counts().to_pylist()
    if len(counts) > 1:
        rows = rows.take(order)
    start = 0
    for one in counts:
        yield one["values"], rows.slice(start, one["counts"])
        start += one["counts"]


def _keys(path: Path, part: int, names: Sequence[str]) -> pa.Table:
    return pa.Table.from_batches([_batch(path, part, names)])


def _batch(path: Path, part: int, names: Sequence[str] | None = None) -> pa.RecordBatch:
    with pa.OSFile(str(path)) as file:
        fields = None if names is None else [ipc.open_file(file).schema.get_field_index(name) for name in names]
        options = ipc.IpcReadOptions(use_threads=False, included_fields=fields)
        found = ipc.open_file(file, options=options).get_batch(part)
    return found if names is None else found.select(list(names))


def _read(merge: Merge, tasks: Sequence[FileScanTask], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    schema = merge.metadata.schema()
    scan = ArrowScan(merge.metadata, load_file_io(dict(merge.io)), schema.select(*columns.names), AlwaysTrue())
    for batch in scan.to_record_batches(tasks):
        yield pa.RecordBatch.from_arrays([batch[field.name].cast(field.type) for field in columns], schema=columns)
