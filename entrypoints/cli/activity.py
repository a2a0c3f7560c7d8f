"""`interlock activity`: what happened in an account, redacted, on the configured engine (R-402, R-403)."""

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from entrypoints.cli.output import Json, emit, run, say, table, tell
from entrypoints.cli.session import shared_settings

if TYPE_CHECKING:
    from application.activity_history import ActivityHistory
    from domain.activity import ActivityQuery
    from entrypoints.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Read the activity of accounts, redacted, on the configured engine.")

Account = Annotated[str, typer.Option(help="Whose activity.", show_default=False)]
Type = Annotated[str | None, typer.Option("--type", help="Events of this type.")]
Report = Annotated[str | None, typer.Option("--report-id", help="Events about this report.")]
Earliest = Annotated[str | None, typer.Option("--from", help="From this time on, RFC 3339.")]
Latest = Annotated[str | None, typer.Option("--to", help="Up to this time, RFC 3339.")]


@app.command("list")
def list_(
    *,
    account: Account,
    type_: Type = None,
    report_id: Report = None,
    earliest: Earliest = None,
    latest: Latest = None,
    order: Annotated[str, typer.Option(help="asc or desc, by the time of the event.")] = "desc",
    limit: Annotated[int, typer.Option(min=1, max=500, help="Events on a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Continue where a page ended.")] = None,
    as_json: Json = False,
) -> None:
    """List an account's events, newest first.

    Example: interlock activity list --account acme --type ReportRunCompletedEvent --from 2013-01-01T00:00:00Z
    """
    query = _query(account, type_, report_id, earliest, latest, order, limit)
    settings = shared_settings()

    async def work() -> dict[str, Any]:
        async with _open_history(settings) as history:
            page = await history.page(query, cursor)
        return {"items": page.items, "next_cursor": page.next_cursor}

    answer = run(work(), "Reading the activity")
    if as_json:
        emit(answer)
        return
    columns = ("time", "type", "subject", "id", "data")
    table(columns, [[_cell(item.get(column)) for column in columns] for item in answer["items"]])
    if answer["next_cursor"]:
        tell(f"more: --cursor {answer['next_cursor']}")


@app.command()
def export(
    *,
    account: Account,
    type_: Type = None,
    report_id: Report = None,
    earliest: Earliest = None,
    latest: Latest = None,
    order: Annotated[str, typer.Option(help="asc or desc, by the time of the event.")] = "asc",
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if not given.")] = None,
) -> None:
    """Write all of an account's events as NDJSON: one event a line, oldest first, redacted.

    A file is written beside its place, as `.<name>.<process>.unfinished`, and moved there when it is whole. Killed on
    the way, an export leaves that one behind.

    Example: interlock activity export --account acme --out acme.ndjson
    """
    from domain.event import MAX_LIMIT

    query = _query(account, type_, report_id, earliest, latest, order, MAX_LIMIT)
    settings = shared_settings()

    async def work(write: Callable[[str], None], tell_so_far: Callable[[int], None]) -> int:
        written, cursor = 0, None
        async with _open_history(settings) as history:
            while True:
                page = await history.page(query, cursor)
                if page.items:
                    write("\n".join(json.dumps(item, ensure_ascii=False) for item in page.items))
                written += len(page.items)
                tell_so_far(written)
                cursor = page.next_cursor
                if cursor is None:
                    return written

    import asyncio

    with _output(out) as write, _progress() as tell_so_far:
        number = asyncio.run(work(write, tell_so_far))
    tell(f"{number} events")


def _query(
    account: str,
    type_: str | None,
    report_id: str | None,
    earliest: str | None,
    latest: str | None,
    order: str,
    limit: int,
) -> "ActivityQuery":
    from domain.activity import ActivityQuery
    from domain.times import parse_time

    if order not in {"asc", "desc"}:
        raise typer.BadParameter("must be asc or desc", param_hint="--order")
    return ActivityQuery(
        account=account,
        type=type_,
        report_id=report_id,
        earliest=None if earliest is None else parse_time(earliest, "--from"),
        latest=None if latest is None else parse_time(latest, "--to"),
        descending=order == "desc",
        limit=limit,
    )


@contextlib.asynccontextmanager
async def _open_history(settings: "Settings") -> "AsyncIterator[ActivityHistory]":
    from adapters.memory.metrics import MemoryMetrics
    from entrypoints.wiring import open_activity

    engine = open_activity(settings, MemoryMetrics())
    try:
        yield engine.history
    finally:
        await engine.aclose()


@contextlib.contextmanager
def _output(out: Path | None) -> Iterator[Callable[[str], None]]:
    """Give what writes lines: to standard output, or to a file that is there only once it is whole.

    A link stays one, and the file it leads to is replaced. What is there and no file, such as a pipe or `/dev/null`,
    cannot be replaced, and is written to as it is. Two exports to one place do not meet before it.
    """
    if out is None:
        yield say
        return
    out = out.resolve()
    if out.exists() and not out.is_file():
        with out.open("w", encoding="utf-8") as file:
            yield _writer(file)
        return
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            yield _writer(file)
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def _writer(file: TextIO) -> Callable[[str], None]:
    def write(lines: str) -> None:
        file.write(lines + "\n")

    return write


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Show on a terminal how many events there are so far; how many there will be nobody knows."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} events"),
        TimeElapsedColumn(),
    )
    with Progress(*parts, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Exporting", total=None)
        yield lambda written: progress.update(task, completed=written)


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
