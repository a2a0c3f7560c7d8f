"""`interlock daily-job`, `interlock query` and `interlock schema`: the lake's table (CONTRACTS § 9)."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domain.errors import Invalid
from domain.times import EARLIEST, LATEST
from entrypoints.cli.output import Json, emit, run, say, table, tell
from entrypoints.cli.rows import Shape, print_rows
from entrypoints.cli.session import shared_settings

if TYPE_CHECKING:
    from application.daily_job import Progress, RunReport
    from domain.event_schema import Column, EventSchema
    from entrypoints.engines.lake import LakeEngine

schema = typer.Typer(no_args_is_help=True, help="Declared columns of event types in the lake's table.")


def daily_job(
    day: Annotated[
        str | None, typer.Option("--date", help="UTC day of arrival, such as 2026-01-31; yesterday if not given.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Read what was loaded once more, into a new table for instance.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Load what arrived on a day, and what came late before it, into the lake's table; again changes nothing.

    Example: interlock daily-job --date 2026-01-31
    """
    from application.daily_job import load_here, run_daily_job

    settings = shared_settings()
    of = datetime.now(UTC).date() - timedelta(days=1) if day is None else _day(day)

    async def work(progress: "Progress") -> "RunReport":
        async with _opened() as engine:
            loader = load_here(progress)
            return await run_daily_job(engine.lake, of, loader, back=settings.lake.back_days, again=again)

    with _bar("Loading") as progress:
        report = asyncio.run(work(progress))
    if as_json:
        emit(report.to_json())
    else:
        shown = {name: value for name, value in report.to_json().items() if name not in ("days", "damaged")}
        table(("what", "value"), shown.items())
        if report.days:
            table(("event day", "rows"), report.days.items())
    for name, reason in report.damaged.items():
        tell(f"damaged: {name} {reason}; a later run tries it again")
    if report.damaged:
        raise typer.Exit(1)


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT; `events` has every event, and each type has its view.")],
    shape: Annotated[Shape, typer.Option("--format", help="How rows are printed.")] = Shape.TABLE,
) -> None:
    """Ask the lake's table by SQL; nothing can be changed by it, and no file read.

    Example: interlock query "select type, count(*) from events group by type"
    """
    from adapters.iceberg.query import ask

    spill = shared_settings().lake.spill_dir

    async def work() -> None:
        async with _opened() as engine:
            table_now = await asyncio.to_thread(engine.table.table)
            await ask(table_now, sql, lambda answer: print_rows(answer, shape), spill=spill)

    run(work(), "Asking")


@schema.command()
def register(
    file: Annotated[Path, typer.Argument(help="JSON file with type, view and columns; see docs/reference/lake.md.")],
    as_json: Json = False,
) -> None:
    """Declare the columns of an event type, or add some; rows that are there read null in new ones.

    Example: interlock schema register flight_delayed.json
    """
    from adapters.file.regular import read_regular
    from domain.event_schema import read_schema

    try:
        raw, _ = read_regular(file)
    except Invalid as error:
        raise Invalid(str(file), error.reason) from None
    declared = read_schema(raw)

    async def work() -> "EventSchema":
        async with _opened() as engine:
            return await engine.table.register(declared)

    registered = run(work(), "Registering")
    if as_json:
        emit(registered.to_json())
    else:
        say(f"{registered.type}\t{registered.view}\t{len(registered.columns)} columns")


@schema.command()
def show(
    event_type: Annotated[str | None, typer.Argument(help="Event type; all if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Print what is declared.

    Example: interlock schema show FlightDelayed
    """

    async def work() -> "list[EventSchema]":
        async with _opened() as engine:
            return sorted((await engine.table.schemas()).values(), key=lambda one: one.type)

    found = [one for one in run(work(), "Reading") if event_type in (None, one.type)]
    if event_type is not None and not found:
        raise Invalid("event type", f"{event_type!r} is neither declared nor in the table")
    if as_json:
        emit([one.to_json() for one in found])
        return
    rows = [(one.type, one.view, column.name, column.field, _type(column)) for one in found for column in one.columns]
    bare = [(one.type, one.view, "", "", "") for one in found if not one.columns]
    table(("type", "view", "column", "field", "column type"), [*rows, *bare])


@asynccontextmanager
async def _opened() -> "AsyncIterator[LakeEngine]":
    from entrypoints.wiring import open_lake

    engine = open_lake(shared_settings())
    try:
        yield engine
    finally:
        await engine.aclose()


def _day(text: str) -> date:
    """Read a day in the one form that names of objects have, of the years that events may be of."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if day.isoformat() != text or not EARLIEST.date() <= day <= LATEST.date():
        raise Invalid("--date", "must be a day such as 2026-01-31")
    return day


def _type(column: "Column") -> str:
    import json

    from domain.event_schema import column_to_json

    kind = column_to_json(column)["type"]
    return kind if isinstance(kind, str) else json.dumps(kind)


@contextmanager
def _bar(label: str) -> "Iterator[Progress]":
    """Show how far a load is, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size)
