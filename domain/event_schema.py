"""Declared columns of an event type: what of `data` becomes typed columns of the lake's table (R-506, FC-46).

Types come from the declaration and never from the values of a day. A value that does not fit its column is the
event's fault: the event is rejected with the place, and its neighbours are stored.

    {"type": "FlightDelayed", "view": "flight_delayed", "columns": [
        {"name": "arrival_delay", "type": "long"},
        {"name": "fare", "type": "decimal(10,2)", "field": "Fare"},
        {"name": "crew", "type": {"list": "string"}},
        {"name": "gate", "type": {"struct": [{"name": "terminal", "type": "string"}]}}]}
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import JsonValue

from domain.envelope import framed_digest
from domain.errors import Invalid
from domain.json_reader import place_of, read_json

SCALARS: Final = ("string", "boolean", "long", "double", "date", "timestamp", "json")
MAX_COLUMNS: Final = 500
MAX_DEPTH: Final = 8
MAX_FIELD: Final = 256
MOST_VIEWS: Final = 1000
"""Views that are made for event types by themselves: types come from outside."""

BASE_COLUMNS: Final = (
    "source",
    "id",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
    "data",
    "extensions",
    "message_id",
    "position",
    "arrived_at",
)
"""Columns that every event has. Views of event types have them too, so no declared column may take such a name."""

EVENTS: Final = "events"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)", re.ASCII)
MAX_DIGITS: Final = 38
_TYPES: Final = f"must be one of {', '.join(SCALARS)}, decimal(digits,scale), {{'list': …}} or {{'struct': […]}}"


class DecimalType(NamedTuple):
    """Numbers of a fixed scale: at most 38 digits, `scale` of them after the point."""

    digits: int
    scale: int


class ListType(NamedTuple):
    """A list of values of one type."""

    of: "ColumnType"


class StructType(NamedTuple):
    """A group of columns."""

    columns: "tuple[Column, ...]"


ColumnType = str | DecimalType | ListType | StructType


class Column(NamedTuple):
    """A declared column.

    Attributes:
        name: in the table: lower-case letters, digits and `_`, so that engines that fold case agree with the rest.
        type: one of `SCALARS`, or a composed type.
        field: the key in the event; `Id` and `id` are two fields and need two names.
    """

    name: str
    type: ColumnType
    field: str


@dataclass(frozen=True, slots=True)
class EventSchema:
    """The declared columns of an event type, and the name of its view."""

    type: str
    view: str
    columns: tuple[Column, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Write the declaration, as `read_schema` takes it."""
        return {"type": self.type, "view": self.view, "columns": [column_to_json(column) for column in self.columns]}


def read_schema(raw: bytes) -> EventSchema:
    """Read a declaration.

    Args:
        raw: JSON, as in the head of this module. Without `view`, a name is made of `type`.

    Raises:
        Invalid: with the place and the rule that is broken.
    """
    return schema_from(read_json(raw))


def schema_from(value: JsonValue) -> EventSchema:
    """Check a declaration that was read.

    Raises:
        Invalid: with the place and the rule that is broken.
    """
    given = _object(value, ["type", "view", "columns"], [])
    type_ = given.get("type")
    if not isinstance(type_, str) or not 1 <= len(type_) <= 128:  # noqa: PLR2004 - CONTRACTS § 1
        raise _invalid(["type"], "must be the event type: a string of 1 to 128 characters")
    view = given.get("view", view_of(type_))
    if not isinstance(view, str) or _NAME.fullmatch(view) is None or view == EVENTS or view in BASE_COLUMNS:
        raise _invalid(
            ["view"], "must be lower-case letters, digits and '_', at most 63, from a letter on, and no column's name"
        )
    columns = _columns(given.get("columns"), ["columns"], 1)
    for index, column in enumerate(columns):
        if column.name in BASE_COLUMNS:
            raise _invalid(["columns", index, "name"], f"{column.name!r} is a column of every event; take another name")
    if sum(1 for _ in _leaves(columns)) > MAX_COLUMNS:
        raise _invalid(["columns"], f"must be at most {MAX_COLUMNS} in all")
    return EventSchema(type_, view, columns)


def view_of(type_: str) -> str:
    """Make a view's name of an event type: `FlightDelayed` gives `flight_delayed`; odd ones get a digest."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type_)
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    if _NAME.fullmatch(name) and name != EVENTS and name not in BASE_COLUMNS:
        return name
    return _digested(type_)


def new_views(known: Mapping[str, EventSchema], seen: Collection[str]) -> list[EventSchema]:
    """Give a bare view for each event type that is seen for the first time, no more than `MOST_VIEWS` in all.

    Args:
        known: what is registered, by event type.
        seen: event types.
    """
    taken = {schema.view for schema in known.values()}
    found: list[EventSchema] = []
    for type_ in sorted(set(seen) - known.keys())[: max(0, MOST_VIEWS - len(known))]:
        view = view_of(type_)
        if view in taken:
            view = _digested(type_)
        taken.add(view)
        found.append(EventSchema(type_, view, ()))
    return found


def check_view(known: Mapping[str, EventSchema], schema: EventSchema) -> None:
    """Refuse a view's name that another event type has.

    Raises:
        Invalid: naming the place.
    """
    if any(other.view == schema.view and other.type != schema.type for other in known.values()):
        raise _invalid(["view"], f"{schema.view!r} is another event type's; give this one another name")


def evolve(old: EventSchema, new: EventSchema) -> EventSchema:
    """Give what a type's declaration becomes: columns are added, at any depth, and never changed or dropped.

    Args:
        old: what is registered; while it has no columns, its view may still get another name.
        new: what is to be.

    Raises:
        Invalid: a column would change or go away.
    """
    if new.view != old.view and old.columns:
        raise _invalid(["view"], f"is {old.view!r} for this type and stays so")
    return EventSchema(new.type, new.view, _evolved(old.columns, new.columns, ["columns"]))


def _columns(value: JsonValue, path: list[str | int], depth: int) -> tuple[Column, ...]:
    if not isinstance(value, list) or (depth > 1 and not value):
        raise _invalid(path, "must be a list of columns")
    if depth > MAX_DEPTH:
        raise _invalid(path, f"is nested deeper than {MAX_DEPTH} levels")
    found: dict[str, Column] = {}
    for index, item in enumerate(value):
        place = [*path, index]
        given = _object(item, ["name", "type", "field"], place)
        name = given.get("name")
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            reason = (
                "must be lower-case letters, digits and '_', at most 63, from a letter on; name the event's own key"
                " in 'field'"
            )
            raise _invalid([*place, "name"], reason)
        if name in found:
            raise _invalid([*place, "name"], f"{name!r} is declared twice")
        field = given.get("field", name)
        if not isinstance(field, str) or not 1 <= len(field) <= MAX_FIELD:
            raise _invalid([*place, "field"], f"must be a key of the event: a string of 1 to {MAX_FIELD} characters")
        found[name] = Column(name, _type(given.get("type"), [*place, "type"], depth), field)
    return tuple(found.values())


def _type(value: JsonValue, path: list[str | int], depth: int) -> ColumnType:
    if isinstance(value, str):
        if value in SCALARS:
            return value
        match = _DECIMAL.fullmatch(value)
        if match is not None:
            digits, scale = int(match[1]), int(match[2])
            if not 1 <= digits <= MAX_DIGITS or scale > digits:
                raise _invalid(path, f"must have 1 to {MAX_DIGITS} digits, and no more of them after the point")
            return DecimalType(digits, scale)
    elif isinstance(value, dict) and len(value) == 1:
        if "list" in value:
            if depth >= MAX_DEPTH:
                raise _invalid(path, f"is nested deeper than {MAX_DEPTH} levels")
            return ListType(_type(value["list"], [*path, "list"], depth + 1))
        if "struct" in value:
            return StructType(_columns(value["struct"], [*path, "struct"], depth + 1))
    raise _invalid(path, _TYPES)


def _evolved(old: Sequence[Column], new: Sequence[Column], path: list[str | int]) -> tuple[Column, ...]:
    wanted = {column.name: column for column in new}
    for column in old:
        if column.name not in wanted:
            raise _invalid(path, f"lacks {column.name!r}, which is registered; columns are never dropped")
    known = {column.name: column for column in old}
    merged: list[Column] = []
    for index, column in enumerate(new):
        before = known.get(column.name)
        place = [*path, index]
        if before is None:
            merged.append(column)
            continue
        if before.field != column.field:
            raise _invalid([*place, "field"], f"is {before.field!r} for this column and stays so")
        merged.append(column._replace(type=_evolved_type(before.type, column.type, [*place, "type"])))
    return tuple(merged)


def _evolved_type(old: ColumnType, new: ColumnType, path: list[str | int]) -> ColumnType:
    if isinstance(old, StructType) and isinstance(new, StructType):
        return StructType(_evolved(old.columns, new.columns, [*path, "struct"]))
    if isinstance(old, ListType) and isinstance(new, ListType):
        return ListType(_evolved_type(old.of, new.of, [*path, "list"]))
    if old != new:
        raise _invalid(path, "is another than the registered one; a column keeps its type, so add a new column")
    return new


def _digested(type_: str) -> str:
    return "type_" + framed_digest(type_)[:12]


def _leaves(columns: Sequence[Column]) -> Iterator[Column]:
    for column in columns:
        inner = column.type
        while isinstance(inner, ListType):
            inner = inner.of
        if isinstance(inner, StructType):
            yield from _leaves(inner.columns)
        else:
            yield column


def column_to_json(column: Column) -> dict[str, JsonValue]:
    """Write a column of a declaration."""
    field: dict[str, JsonValue] = {} if column.field == column.name else {"field": column.field}
    return {"name": column.name, "type": _type_to_json(column.type), **field}


def _type_to_json(type_: ColumnType) -> JsonValue:
    match type_:
        case str():
            return type_
        case DecimalType(digits, scale):
            return f"decimal({digits},{scale})"
        case ListType(of):
            return {"list": _type_to_json(of)}
        case StructType(columns):
            return {"struct": [column_to_json(column) for column in columns]}


def _object(value: JsonValue, keys: Sequence[str], path: list[str | int]) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise _invalid(path, "must be a JSON object")
    for key in value:
        if key not in keys:
            raise _invalid([*path, key], f"is no key here; there are {', '.join(keys)}")
    return value


def _invalid(path: Sequence[str | int], reason: str) -> Invalid:
    return Invalid(place_of(path), reason, path=tuple(path))
