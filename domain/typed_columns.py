"""Typed columns of an event, made of its `data` by the declaration of its type (FC-46)."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import to_json

from domain.errors import Invalid
from domain.event_schema import MAX_DIGITS, Column, ColumnType, DecimalType, EventSchema, ListType, StructType
from domain.json_reader import place_of
from domain.times import EARLIEST, LATEST, parse_time

Convert = Callable[[Any], Any]

_LONG: Final = 2**63
_DIGITS: Final = Context(prec=MAX_DIGITS)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def compile_schema(schema: EventSchema) -> Callable[[JsonValue], dict[str, Any] | None]:
    """Give the function that makes the typed columns of an event out of its `data`.

    It gives None where the event has no data; a field that is missing or null is null. It raises `Invalid` with the
    place, below `data`, of a value that does not fit.
    """
    convert = _struct(schema.columns)

    def typed(data: JsonValue) -> dict[str, Any] | None:
        if data is None:
            return None
        try:
            return convert(data)  # type: ignore[no-any-return]
        except _Misfit as misfit:
            path = ("data", *reversed(misfit.path))
            raise Invalid(place_of(path), misfit.reason, path=path) from None

    return typed


class _Misfit(Exception):  # noqa: N818 - never leaves this module
    """A value that does not fit, with the steps to it from the inside out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str | int] = []


def _converter(type_: ColumnType) -> Convert:
    match type_:
        case str():
            return _SCALAR_CONVERTERS[type_]
        case DecimalType(digits, scale):
            return _decimal(digits, scale)
        case ListType(of):
            return _list(_converter(of))
        case StructType(columns):
            return _struct(columns)


def _struct(columns: Sequence[Column]) -> Convert:
    plan = [(column.name, column.field, _converter(column.type)) for column in columns]

    def convert(value: JsonValue) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _Misfit("must be a JSON object, as its columns are declared")
        found: dict[str, Any] = {}
        for name, field, inner in plan:
            child = value.get(field)
            if child is not None:
                try:
                    child = inner(child)
                except _Misfit as misfit:
                    misfit.path.append(field)
                    raise
            found[name] = child
        return found

    return convert


def _list(inner: Convert) -> Convert:
    def convert(value: JsonValue) -> list[Any]:
        if not isinstance(value, list):
            raise _Misfit("must be a list, as its column is declared")
        found: list[Any] = []
        for index, child in enumerate(value):
            try:
                found.append(None if child is None else inner(child))
            except _Misfit as misfit:
                misfit.path.append(index)
                raise
        return found

    return convert


def _decimal(digits: int, scale: int) -> Convert:
    step = Decimal(1).scaleb(-scale)
    limit = Decimal(10) ** (digits - scale)
    reason = f"must be a number, or a number in text, of at most {digits} digits, {scale} of them after the point"

    def convert(value: Any) -> Decimal:
        if type(value) not in (int, float, str):
            raise _Misfit(reason)
        try:
            number = Decimal(str(value))
            fitting = number.quantize(step, context=_DIGITS)
        except InvalidOperation:
            raise _Misfit(reason) from None
        if not number.is_finite() or fitting != number or fitting.copy_abs() >= limit:
            raise _Misfit(reason)
        return fitting

    return convert


def _string(value: Any) -> str:
    if type(value) is not str:
        raise _Misfit("must be a string, as its column is declared")
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _Misfit("must be true or false, as its column is declared")
    return value


def _long(value: Any) -> int:
    """Take whole numbers, written as 2 or 2.0, of 64 bits."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not -_LONG <= value < _LONG:
        raise _Misfit("must be a whole number of 64 bits, as its column is declared")
    return value


def _double(value: Any) -> float:
    """Take numbers, written as 2 or 2.0, but not `true`."""
    if type(value) not in (int, float):
        raise _Misfit("must be a number, as its column is declared")
    return float(value)


def _date(value: Any) -> date:
    try:
        if type(value) is str and _DATE.fullmatch(value):
            found = date.fromisoformat(value)
            if EARLIEST.date() <= found <= LATEST.date():
                return found
    except ValueError:
        pass
    raise _Misfit("must be a date such as 2013-01-31, in the years 1970 to 2200, as its column is declared")


def _timestamp(value: Any) -> datetime:
    try:
        return parse_time(value).astimezone(UTC)
    except Invalid as error:
        raise _Misfit(error.reason) from None


def _json(value: Any) -> str:
    return to_json(value).decode()


_SCALAR_CONVERTERS: Final[Mapping[str, Convert]] = {
    "string": _string,
    "boolean": _boolean,
    "long": _long,
    "double": _double,
    "date": _date,
    "timestamp": _timestamp,
    "json": _json,
}
