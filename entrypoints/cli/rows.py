"""Rows of any types on stdout: as a table, as JSON lines in an array, or as CSV; a batch at a time."""

import base64
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from domain.times import format_time
from entrypoints.cli.output import say, table, tell

if TYPE_CHECKING:
    from adapters.iceberg.query import Answer

MOST_IN_A_TABLE: Final = 10_000


class Shape(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def print_rows(answer: "Answer", shape: Shape) -> None:
    """Print an answer; a table has at most 10,000 rows, the other shapes any number."""
    match shape:
        case Shape.TABLE:
            shown = list(islice(answer.rows, MOST_IN_A_TABLE))
            table(answer.columns, ([_cell(value) for value in row] for row in shown))
            if next(answer.rows, None) is not None:
                tell(f"only the first {MOST_IN_A_TABLE} rows; --format csv or json prints all")
        case Shape.JSON:
            say("[")
            for text in _separated(answer.rows, _keys(answer.columns)):
                say(text)
            say("]")
        case Shape.CSV:
            say(_csv(answer.columns))
            for row in answer.rows:
                say(_csv([_cell(value) for value in row]))


def _separated(rows: Iterator[Sequence[Any]], columns: Sequence[str]) -> Iterator[str]:
    before: str | None = None
    for row in rows:
        if before is not None:
            yield before + ","
        before = "  " + json.dumps(
            dict(zip(columns, (_plain(value) for value in row), strict=True)),
            ensure_ascii=False,
            separators=(", ", ": "),
        )
    if before is not None:
        yield before


def _keys(columns: Sequence[str]) -> list[str]:
    """Give each column a key of its own, as a JSON object needs: `id`, `id_1`, as DuckDB itself does."""
    taken = set(columns)
    keys: list[str] = []
    for column in columns:
        key, number = column, 0
        while key in keys or (number and key in taken):
            number += 1
            key = f"{column}_{number}"
        keys.append(key)
    return keys


def _csv(values: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _cell(value: Any) -> object:
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, bool):
        return "true" if plain else "false"
    return plain if isinstance(plain, (str, int, float)) else json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Make JSON values of what DuckDB gives: times in our one form, decimals and durations as text, bytes as base64.

    | value | JSON |
    |---|---|
    | a time with an offset | RFC 3339 in UTC with microseconds |
    | a date, a time without an offset, a time of day | ISO 8601 |
    | NaN and infinities, which JSON has not | text |
    """
    match value:
        case None | bool() | str() | int():
            return value
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case float() if value - value == 0:
            return value
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case _:
            return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return format_time(value)
    return value.isoformat() if isinstance(value, (date, time)) else str(value)
