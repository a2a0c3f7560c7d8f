"""`interlock skiplist`: reports that the router leaves out, edited in bulk (R-307, CONTRACTS §§ 3 and 9)."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from domain.errors import Invalid
from entrypoints.cli.output import Json, emit, run, say, table, tell
from entrypoints.cli.session import shared_settings

if TYPE_CHECKING:
    from domain.skip_list import SkipEntry
    from ports.skip_list_store import SkipListStore

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="Reports that the router leaves out.")

ReportIds = Annotated[
    list[str] | None, typer.Argument(help="Report ids; without any and without --file, the lines of standard input.")
]
EventType = Annotated[
    str, typer.Option("--type", help="Type of event for which they are left out; every type if not given.")
]
IdFile = Annotated[Path | None, typer.Option("--file", help="File of report ids, one a line.")]


@app.command()
def add(
    report_ids: ReportIds = None,
    event_type: EventType = "",
    reason: Annotated[str, typer.Option(help="Why, for people.")] = "",
    file: IdFile = None,
    as_json: Json = False,
) -> None:
    """List reports; what is listed already keeps its reason.

    Example: interlock skiplist add R1 R2 --type ReportRunCompletedEvent --reason "source is wrong until Monday"
    """
    from adapters.system.clock import SystemClock
    from application.skip_list import Edited, add_reports

    async def edit(store: "SkipListStore", some: list[str]) -> Edited:
        return await add_reports(store, SystemClock(), event_type, some, reason)

    done, unchanged = _edit(_ids(report_ids, file), edit)
    if as_json:
        emit({"added": done, "already_listed": unchanged})
    else:
        say(f"added {done}, already listed {unchanged}")


@app.command()
def remove(
    report_ids: ReportIds = None, event_type: EventType = "", file: IdFile = None, as_json: Json = False
) -> None:
    """Take reports off the list of a type; without --type, those that were listed for every type.

    Example: interlock skiplist remove --type ReportRunCompletedEvent --file reports.txt
    """
    from application.skip_list import Edited, remove_reports

    async def edit(store: "SkipListStore", some: list[str]) -> Edited:
        return await remove_reports(store, event_type, some)

    done, unchanged = _edit(_ids(report_ids, file), edit)
    if as_json:
        emit({"removed": done, "not_listed": unchanged})
    else:
        say(f"removed {done}, not listed {unchanged}")


@app.command("list")
def list_entries(event_type: EventType = "", as_json: Json = False) -> None:
    """Print the list, in order of type and id: of a type, or all of it.

    Example: interlock skiplist list --json
    """
    from application.skip_list import list_reports
    from domain.skip_list import MAX_PAGE
    from domain.times import format_time

    async def read(store: "SkipListStore") -> "list[SkipEntry]":
        page = await list_reports(store, event_type, MAX_PAGE, "")
        entries = list(page.entries)
        while page.next_page_token:
            page = await list_reports(store, event_type, MAX_PAGE, page.next_page_token)
            entries += page.entries
        return entries

    columns = ("report_id", "event_type", "reason", "added_at")
    rows = [
        (entry.key.report_id, entry.key.event_type, entry.reason, format_time(entry.added_at))
        for entry in run(_with_store(read), "Reading")
    ]
    if as_json:
        emit([dict(zip(columns, row, strict=True)) for row in rows])
    elif rows:
        table(columns, rows)
    else:
        tell("nothing is listed")


def _edit(
    report_ids: list[str], edit: "Callable[[SkipListStore, list[str]], Awaitable[tuple[int, int]]]"
) -> tuple[int, int]:
    """Edit in calls of 10,000 ids, and add up what became of them. Ids are checked before the first is sent.

    Raises:
        Invalid: an id breaks a rule; nothing was changed.
    """
    from domain.skip_list import MAX_IDS, check_report_ids

    parts = [report_ids[start : start + MAX_IDS] for start in range(0, max(len(report_ids), 1), MAX_IDS)]
    for number, part in enumerate(parts):
        try:
            check_report_ids(part)
        except Invalid as error:
            raise _numbered(error, number * MAX_IDS) from None

    async def work(store: "SkipListStore") -> tuple[int, int]:
        answers = [await edit(store, part) for part in parts]
        return sum(done for done, _ in answers), sum(unchanged for _, unchanged in answers)

    return run(_with_store(work), "Editing")


def _numbered(error: Invalid, before: int) -> Invalid:
    """Name an id by its number among all that were given, from 1."""
    index = error.place.partition("[")[2].rstrip("]")
    return Invalid(f"report id {before + int(index) + 1}", error.reason) if index else error


def _ids(arguments: list[str] | None, file: Path | None) -> list[str]:
    """Give the ids of the arguments, a file, or standard input; there, empty lines are none.

    Raises:
        Invalid: they come from two places, or are not UTF-8.
    """
    if file is None:
        return arguments or list(_lines(sys.stdin.buffer if sys.stdin else (), "standard input"))
    if arguments:
        raise Invalid("--file", "comes instead of ids as arguments; give one of them")
    with file.open("rb") as lines:
        return list(_lines(lines, str(file)))


def _lines(lines: "Iterator[bytes] | tuple[()]", name: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            raise Invalid(f"line {number} of {name}", "must be UTF-8") from None
        if text:
            yield text


async def _with_store(work: "Callable[[SkipListStore], Awaitable[T]]") -> T:
    async with _store() as store:
        return await work(store)


@asynccontextmanager
async def _store() -> "AsyncIterator[SkipListStore]":
    from adapters.memory.metrics import MemoryMetrics
    from entrypoints.wiring import open_skip_list

    engine = open_skip_list(shared_settings(), MemoryMetrics())
    try:
        yield engine.store
    finally:
        await engine.aclose()
