"""The table's columns, in the types of Iceberg and of Arrow: the base columns, and one struct for each event type."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)
from pyiceberg.types import DecimalType as IcebergDecimal
from pyiceberg.types import ListType as IcebergList
from pyiceberg.types import StructType as IcebergStruct

from domain.daily import Row
from domain.event_schema import BASE_COLUMNS, Column, ColumnType, DecimalType, EventSchema, ListType, StructType

TIME_ID: Final = 5
PARTITION: Final = PartitionSpec(PartitionField(TIME_ID, 1000, DayTransform(), "event_day"), spec_id=0)
_TYPED: Final = len(BASE_COLUMNS)

BASE: Final = Schema(
    NestedField(1, "source", StringType(), required=True, doc="URI reference of the sender"),
    NestedField(2, "id", StringType(), required=True, doc="unique for its source"),
    NestedField(3, "type", StringType(), required=True, doc="event type"),
    NestedField(4, "subject", StringType(), doc="the entity"),
    NestedField(TIME_ID, "time", TimestamptzType(), required=True, doc="when it happened, else when it arrived"),
    NestedField(6, "datacontenttype", StringType()),
    NestedField(7, "dataschema", StringType()),
    NestedField(8, "data", StringType(), doc="JSON text; null where the event has none"),
    NestedField(9, "extensions", StringType(), doc="JSON object of all other attributes; null where there are none"),
    NestedField(10, "message_id", StringType(), required=True, doc="of the queue message it came in"),
    NestedField(11, "position", IntegerType(), required=True, doc="its place in that message, from 0"),
    NestedField(12, "arrived_at", TimestamptzType(), required=True, doc="when that message arrived"),
    identifier_field_ids=[1, 2],
)

_SCALARS: Final[Mapping[str, IcebergType]] = {
    "string": StringType(),
    "boolean": BooleanType(),
    "long": LongType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "json": StringType(),
}


def typed_field(schema: EventSchema) -> NestedField:
    """Give the struct of an event type, with ids of its own that count from 1: a table gives it others."""
    return NestedField(1, schema.view, _struct(schema.columns, [1]), required=False, doc=schema.type)


def table_schema(schemas: Iterable[EventSchema]) -> Schema:
    """Give the schema of a table that does not exist yet."""
    last = [_TYPED]
    fields = list(BASE.fields)
    for schema in schemas:
        if schema.columns:
            number = _next(last)
            fields.append(NestedField(number, schema.view, _struct(schema.columns, last), doc=schema.type))
    return Schema(*fields, identifier_field_ids=[1, 2])


def arrow_schema(schema: Schema) -> pa.Schema:
    """Give the same for Arrow, without the ids."""
    return schema_to_pyarrow(schema, include_field_ids=False)


def to_batch(rows: Sequence[Row], schema: pa.Schema, views: Mapping[str, str]) -> pa.RecordBatch:
    """Make a batch of rows.

    Args:
        rows: at least one.
        schema: the table's, as `arrow_schema` gives it.
        views: the struct of each event type that has one.
    """
    *base, typed = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(base, schema, strict=False)]
    here = {views[row.type] for row in rows if row.typed is not None}
    for field in list(schema)[_TYPED:]:
        if field.name not in here:
            arrays.append(pa.nulls(len(rows), field.type))
            continue
        of_view = [
            values if views.get(row.type) == field.name else None for row, values in zip(rows, typed, strict=True)
        ]
        arrays.append(pa.array(of_view, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def counts_of(numbers: "pa.Array[Any]") -> dict[int, int]:
    """Count numbers, in the order in which they first come."""
    found: Any = pc.value_counts(numbers)
    return {one["values"]: one["counts"] for one in found.to_pylist()}


def _struct(columns: Sequence[Column], last: list[int]) -> IcebergStruct:
    numbers = [_next(last) for _ in columns]
    return IcebergStruct(
        *(
            NestedField(number, column.name, _type(column.type, last), required=False)
            for number, column in zip(numbers, columns, strict=True)
        )
    )


def _type(type_: ColumnType, last: list[int]) -> IcebergType:
    match type_:
        case str():
            return _SCALARS[type_]
        case DecimalType(digits, scale):
            return IcebergDecimal(digits, scale)
        case ListType(of):
            return IcebergList(element_id=_next(last), element_type=_type(of, last), element_required=False)
        case StructType(columns):
            return _struct(columns, last)


def _next(last: list[int]) -> int:
    last[0] += 1
    return last[0]
