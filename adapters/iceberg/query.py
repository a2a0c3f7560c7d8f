"""SQL over the table: DuckDB reads its files through Arrow, and may read nothing else.

What does not fit into its memory it writes to a folder that is gone when it ends. The files are those of the snapshot
that was current at the start, so that a load that ends meanwhile changes nothing.
Columns that a file lacks are null in it: columns are added only, under names of their own, and never renamed.
"""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow.dataset as ds
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from adapters.iceberg.columns import BASE, arrow_schema
from adapters.iceberg.commits import schemas_of
from adapters.iceberg.errors import translated
from domain.errors import Invalid, Misconfigured
from domain.event_schema import BASE_COLUMNS, EVENTS, EventSchema

MEMORY: Final = "1GB"
FETCHED: Final = 1000
STOP_SECONDS: Final = 0.05
"""How often a question that is to stop is told so: DuckDB hears it only while it works."""

_SAFE: Final = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class Answer(NamedTuple):
    """The names of the columns, and the rows, which come as they are asked for."""

    columns: Sequence[str]
    rows: Iterator[Sequence[Any]]


async def ask(table: Table | None, sql: str, take: Callable[[Answer], None], *, spill: Path | None = None) -> None:
    """Ask one question, in a thread that has ended when this does; where this is cancelled, at once.

    Args:
        table: as it is now; None where it was never made: then there are no events.
        sql: one SELECT statement of DuckDB over `events` and the views of event types.
        take: takes the rows, in that thread.
        spill: where is kept what memory does not hold, for as long as it runs; the system's folder for such files if
            None.

    Raises:
        Invalid: it is no SELECT, or DuckDB refuses it; with DuckDB's reason.
        Misconfigured: another program left the table in a form that this reader does not know.
    """
    if spill is not None:
        await asyncio.to_thread(spill.mkdir, parents=True, exist_ok=True)
    stop = threading.Event()
    with (
        tempfile.TemporaryDirectory(prefix="interlock-query-", dir=spill) as folder,
        duckdb.connect(":memory:", config={"temp_directory": folder, "memory_limit": MEMORY}) as connection,
    ):
        asking = asyncio.ensure_future(asyncio.to_thread(lambda: take(_answer(connection, table, sql, stop))))
        try:
            await asyncio.shield(asking)
        except asyncio.CancelledError:
            stop.set()
            while not asking.done():
                connection.interrupt()
                await asyncio.wait([asking], timeout=STOP_SECONDS)
            asking.exception()  # what it says of its being stopped is no news
            raise


def _answer(connection: duckdb.DuckDBPyConnection, table: Table | None, sql: str, stop: threading.Event) -> Answer:
    try:
        _check(connection, sql)
        connection.register(EVENTS, _dataset(table))
        for schema in () if table is None else schemas_of(table).values():
            _make_view(connection, schema)
        for setting in _SAFE:
            connection.execute(setting)
        connection.execute(sql)
    except duckdb.Error as error:
        raise Invalid("query", _first_lines(error)) from None
    names = [column[0] for column in connection.description or []]
    return Answer(names, _rows(connection, stop))


def _check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Invalid("query", "must be one SELECT statement")


def _dataset(table: Table | None) -> Any:
    if table is None:
        return arrow_schema(BASE).empty_table()
    schema = arrow_schema(table.schema())
    with translated():
        tasks = list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise Misconfigured("the lake's table", "has delete files of another program; rewrite its data files first")
        if not tasks:
            return schema.empty_table()
        io = table.io
        if not isinstance(io, PyArrowFileIO):
            raise Misconfigured("the lake's table", "is on files that pyarrow does not read")
        scheme, netloc, _ = PyArrowFileIO.parse_location(tasks[0].file.file_path)
        paths = [PyArrowFileIO.parse_location(task.file.file_path)[2] for task in tasks]
        return ds.dataset(paths, schema=schema, format="parquet", filesystem=io.fs_by_scheme(scheme, netloc))


def _make_view(connection: duckdb.DuckDBPyConnection, schema: EventSchema) -> None:
    """Make the view of an event type: the base columns without the type, then the declared ones."""
    base = ", ".join(_quoted(name) for name in BASE_COLUMNS if name != "type")
    own = "".join(f", {_quoted(schema.view)}.{_quoted(column.name)}" for column in schema.columns)
    of_type = "'" + schema.type.replace("'", "''") + "'"
    connection.execute(
        f"CREATE VIEW {_quoted(schema.view)} AS SELECT {base}{own} FROM {EVENTS} WHERE type = {of_type}"  # noqa: S608 - quoted
    )


def _rows(connection: duckdb.DuckDBPyConnection, stop: threading.Event) -> Iterator[Sequence[Any]]:
    try:
        while not stop.is_set() and (some := connection.fetchmany(FETCHED)):
            yield from some
    except duckdb.Error as error:
        raise Invalid("query", _first_lines(error)) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _first_lines(error: duckdb.Error) -> str:
    return " ".join(str(error).split("\n\n", maxsplit=1)[0].split())[:500]
