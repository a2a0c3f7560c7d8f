"""The second half of a load: of the staged rows of one part after the other, what is new goes into files by day.

Runs in worker processes. What one holds at a time is a part's keys, one staged batch, and rows that wait for a file
(`day_files.WAITING_BYTES`); so it needs as much memory for a large day as for a small one (goal G23).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask

from adapters.iceberg.columns import arrow_schema
from adapters.iceberg.day_files import KEY, DayFiles, Target, read_file
from adapters.iceberg.staging import write_parts
from domain.event_schema import BASE_COLUMNS

ORDER: Final = ("arrived_at", "message_id", "position")


@dataclass(frozen=True, slots=True)
class Merge:
    """What merging needs to know: the table as it was when it was planned, and where the staged rows are."""

    target: Target
    folder: Path
    parts: int
    staged: tuple[Path, ...]


class Merged(NamedTuple):
    """What one worker made: files, and new rows by day."""

    files: list[DataFile]
    days: Mapping[date, int]


def stage_rows(merge: Merge, task: FileScanTask) -> Path:
    """Stage the rows of a small file of the table, to be written again beside the new ones."""
    return _stage(merge, task, arrow_schema(merge.target.metadata.schema()))


def stage_keys(merge: Merge, task: FileScanTask) -> Path:
    """Stage the keys of a file of the table that stays as it is."""
    columns = arrow_schema(merge.target.metadata.schema())
    return _stage(merge, task, pa.schema([columns.field(name) for name in KEY]))


def merge_parts(merge: Merge, parts: Sequence[int], rows: Sequence[Path], keys: Sequence[Path]) -> Merged:
    """Merge some parts.

    Args:
        merge: the plan.
        parts: which.
        rows: staged files of `stage_rows`; all these rows are written again.
        keys: staged files of `stage_keys`.
    """
    out = DayFiles(merge.target)
    for part in parts:
        for path in rows:
            out.add(pa.Table.from_batches([_batch(path, part)]), new=False)
        there = (_keys(path, part, KEY) for path in (*rows, *keys))
        for path, first in _first_copies(merge.staged, part, there):
            out.add(pa.Table.from_batches([_batch(path, part)]).take(first), new=True)
    return Merged(out.close(), dict(out.new))


def _first_copies(staged: Sequence[Path], part: int, there: Iterable[pa.Table]) -> Iterator[tuple[Path, Any]]:
    """Give for each staged file the places of those rows of a part that are new, each source and id once."""
    found: list[pa.Table] = []
    for number, path in enumerate(staged):
        table = _keys(path, part, (*KEY, *ORDER))
        table = table.append_column("file", pa.repeat(pa.scalar(number, pa.int32()), table.num_rows))
        found.append(table.append_column("row", pa.array(range(table.num_rows), pa.int32())))
    keys = pa.concat_tables(found).sort_by([(name, "ascending") for name in (*ORDER, "file", "row")])
    del found
    keys = keys.select([*KEY, "file", "row"]).append_column("at", pa.array(range(keys.num_rows), pa.int64()))
    first = keys.group_by(list(KEY), use_threads=False).aggregate([("at", "min")])
    for known in there:
        first = first.join(known, list(KEY), join_type="left anti", use_threads=False)
    kept = keys.select(["file", "row"]).take(first["at_min"])
    for number, path in enumerate(staged):
        rows = kept.filter(pc.equal(kept["file"], pa.scalar(number, pa.int32())))["row"].combine_chunks()
        if len(rows):
            yield path, rows


def _stage(merge: Merge, task: FileScanTask, columns: pa.Schema) -> Path:
    return write_parts(merge.folder, merge.parts, read_file(merge.target, task, columns), columns)


def _keys(path: Path, part: int, names: Sequence[str]) -> pa.Table:
    return pa.Table.from_batches([_batch(path, part, names)])


def _batch(path: Path, part: int, names: Sequence[str] = ()) -> pa.RecordBatch:
    """Read one part of a staged file; of files of keys and of whole rows alike, columns are where they are in a row."""
    fields = [BASE_COLUMNS.index(name) for name in names] or None
    with pa.OSFile(str(path), "rb") as file:
        options = ipc.IpcReadOptions(use_threads=False, included_fields=fields)
        found = ipc.open_file(file, options=options).get_batch(part)
    return found.select(list(names)) if names else found
