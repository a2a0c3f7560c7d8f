"""A load into the lake's table by Spark: the same rule, files and commit as on one machine, spread over executors.

Executors read objects and make rows by `mapInArrow`; Spark finds the first copy of each key; executors write the
files; the driver commits them in one snapshot (ADR 0018).
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.storagelevel import StorageLevel

from adapters.iceberg.columns import arrow_schema, to_batch
from adapters.iceberg.commits import drop, plan_files, put_in_place, schemas_of, target_of, version_of
from adapters.iceberg.day_files import KEY, DayFiles, Target, read_file
from adapters.iceberg.merging import ORDER
from adapters.iceberg.staging import views_of
from adapters.zstd.raw_objects import read_object
from domain.daily import Committed, PackedObject, Rule, Staged
from domain.errors import Contention, Malformed
from domain.event_schema import EventSchema
from domain.objects import StoredObject

ATTEMPTS: Final = 5
PARTITION_BYTES: Final = 8 * 1024 * 1024
"""Packed bytes of objects that one Spark task reads."""

_STEPS: Final = 3
"""In the name of a raw object: `raw/date=…/….jsonl.zst`."""

_SUMMARY: Final = "_object"
_NEW: Final = "_new"
_SUMMARY_TYPE: Final = pa.struct(
    [
        ("name", pa.string()),
        ("messages", pa.int64()),
        ("events", pa.int64()),
        ("rejects", pa.int64()),
        ("quarantine", pa.string()),
        ("packed", pa.binary()),
        ("damaged", pa.string()),
    ]
)
_FILES: Final = pa.schema([("files", pa.binary()), ("days", pa.binary())])

Map = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _Made(NamedTuple):
    files: list[DataFile]
    days: Counter[date]


def load_by_spark(
    spark: SparkSession,
    table: Table,
    root: str,
    objects: Sequence[StoredObject],
    keep: Callable[[Sequence[PackedObject]], None],
) -> tuple[list[Staged], Committed]:
    """Load objects.

    Args:
        spark: the session; its time zone must be UTC.
        table: as it is now.
        root: what stands before the names of objects, as executors read them: `s3://bucket/` or `file:///folder/`.
        objects: which.
        keep: stores objects of the quarantine; is called before the commit.

    Raises:
        Contention: other writers were first, again and again.
    """
    if not objects:
        return [], Committed(0, 0, {}, version_of(table), 0, 0)
    read = _read(spark, table, root, objects).persist(StorageLevel.DISK_ONLY)
    try:
        staged = list(_staged(read, keep))
        rows = read.filter(F.col(_SUMMARY).isNull()).drop(_SUMMARY)
        return staged, _commit(spark, table, rows, sum(one.events - one.rejects for one in staged))
    finally:
        read.unpersist()


def _read(spark: SparkSession, table: Table, root: str, objects: Sequence[StoredObject]) -> DataFrame:
    """Give a row for each event, and one for each object, with a summary of it."""
    columns = _small(arrow_schema(table.schema()))
    out = _nullable(columns).append(pa.field(_SUMMARY, _SUMMARY_TYPE))
    parts = max(spark.sparkContext.defaultParallelism, -(-sum(one.size for one in objects) // PARTITION_BYTES))
    files = spark.read.format("binaryFile").load([root + one.name for one in objects]).repartition(parts)
    reader = _reader(tuple(schemas_of(table).values()), columns, out)
    return files.select("path", "content").mapInArrow(reader, from_arrow_schema(out))


def _reader(schemas: Sequence[EventSchema], columns: pa.Schema, out: pa.Schema) -> Map:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rule, views = Rule(schemas), views_of(schemas)
        for batch in batches:
            contents: list[Any] = batch["content"].to_pylist()
            for path, content in zip(batch["path"].to_pylist(), contents, strict=True):
                summary: dict[str, Any] = {"name": path, "messages": 0, "events": 0, "rejects": 0}
                try:
                    found = read_object(rule, content)
                except Malformed as error:
                    yield _summary_batch({**summary, "damaged": error.reason}, out)
                    continue
                if found.rows:
                    rows = to_batch(found.rows, columns, views)
                    nothing = pa.nulls(len(found.rows), _SUMMARY_TYPE)
                    yield pa.RecordBatch.from_arrays([*rows.columns, nothing], schema=out)
                events = len(found.rows) + found.rejects
                summary |= {"messages": found.messages, "events": events, "rejects": found.rejects}
                for name, packed in found.quarantine:
                    summary |= {"quarantine": name, "packed": packed}
                yield _summary_batch(summary, out)

    return read


def _summary_batch(summary: dict[str, Any], out: pa.Schema) -> pa.RecordBatch:
    nothing = [pa.nulls(1, field.type) for field in list(out)[:-1]]
    return pa.RecordBatch.from_arrays([*nothing, pa.array([summary], _SUMMARY_TYPE)], schema=out)


def _staged(read: DataFrame, keep: Callable[[Sequence[PackedObject]], None]) -> Iterator[Staged]:
    """Give what came of each object, and keep what is rejected of it."""
    for row in read.filter(F.col(_SUMMARY).isNotNull()).select(f"{_SUMMARY}.*").toLocalIterator():
        if row["quarantine"] is not None:
            keep([PackedObject(row["quarantine"], bytes(row["packed"]))])
        damaged = () if row["damaged"] is None else ((_name(row["name"]), row["damaged"]),)
        yield Staged(row["messages"], row["events"], row["rejects"], (), damaged)


def _commit(spark: SparkSession, table: Table, rows: DataFrame, staged: int) -> Committed:
    first = Window.partitionBy(*KEY).orderBy(*ORDER)
    copies = rows.withColumn("_copy", F.row_number().over(first)).filter("_copy = 1").drop("_copy")
    days = [row[0] for row in rows.select(F.to_date("time")).distinct().collect()]
    types = [row[0] for row in rows.select("type").distinct().collect()]
    if not days:
        return Committed(0, 0, {}, version_of(table), 0, 0)
    for _ in range(ATTEMPTS):
        small, others = plan_files(table, days)
        made = _write(spark, table, copies, small, others)
        duplicates = staged - made.days.total()
        if not made.days:
            drop(table, made.files)
            return Committed(0, duplicates, {}, version_of(table), 0, 0)
        if put_in_place(table, made.files, [task.file for task in small], types):
            new = dict(sorted(made.days.items()))
            return Committed(sum(new.values()), duplicates, new, version_of(table), len(made.files), len(small))
        table.refresh()
    raise Contention(".".join(table.name()), ATTEMPTS)


def _write(
    spark: SparkSession,
    table: Table,
    copies: DataFrame,
    small: Sequence[FileScanTask],
    others: Sequence[FileScanTask],
) -> _Made:
    """Have executors write what is new, and the rows of small files again."""
    target, columns = target_of(table), _small(arrow_schema(table.schema()))
    keys = pa.schema([columns.field(name) for name in KEY])
    if small or others:
        known = _table_rows(spark, target, [*small, *others], keys)
        copies = copies.join(known, list(KEY), "left_anti").select(*copies.columns)
    rows = copies.withColumn(_NEW, F.lit(True))  # noqa: FBT003 - a column of it
    if small:
        again = _table_rows(spark, target, small, columns)
        rows = rows.unionByName(again.withColumn(_NEW, F.lit(False)))  # noqa: FBT003 - the same
    made = _Made([], Counter())
    for row in rows.mapInArrow(_writer(target), from_arrow_schema(_FILES)).collect():
        made.files.extend(pickle.loads(row["files"]))  # noqa: S301 - our own executors made it
        made.days.update(pickle.loads(row["days"]))  # noqa: S301 - the same
    return made


def _writer(target: Target) -> Map:
    whole = arrow_schema(target.metadata.schema())

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = DayFiles(target)
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            is_new = rows[_NEW]
            rows = rows.select(whole.names).cast(whole)
            files.add(rows.filter(is_new), new=True)
            files.add(rows.filter(pc.invert(is_new)), new=False)
        made = [pickle.dumps(files.close()), pickle.dumps(files.new)]
        yield pa.RecordBatch.from_arrays([pa.array([one], pa.binary()) for one in made], schema=_FILES)

    return write


def _table_rows(spark: SparkSession, target: Target, tasks: Sequence[FileScanTask], columns: pa.Schema) -> DataFrame:
    """Give columns of some of the table's files."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pickles: list[Any] = batch["task"].to_pylist()
            for task in pickles:
                yield from read_file(target, pickle.loads(task), columns)  # noqa: S301 - the driver made it

    pickled = spark.createDataFrame([(bytearray(pickle.dumps(task)),) for task in tasks], "task binary")
    out = _nullable(columns)
    return pickled.repartition(len(tasks)).mapInArrow(read, from_arrow_schema(out))


def _name(path: str) -> str:
    """Give the name of a raw object by its path; Spark may write `file:/…` for `file:///…`."""
    return "/".join(path.split("/")[-_STEPS:])


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Give the same for Spark, which takes no promise that a column has no nulls."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _small(schema: pa.Schema) -> pa.Schema:
    """Give the same with strings and lists of 32-bit offsets, which are all that Spark takes in nested columns."""
    return pa.schema([field.with_type(_small_type(field.type)) for field in schema])


def _small_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_large_list(type_) or pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_small_type(type_.value_type)))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_small_type(field.type)) for field in type_])
    return type_
