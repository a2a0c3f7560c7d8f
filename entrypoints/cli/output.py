"""How commands print: data on stdout, everything else on stderr."""

import asyncio
import json
import os
import sys
from collections.abc import Coroutine, Iterable, Sequence
from typing import Annotated, Any, Final, TypeVar

import typer

from domain.errors import Unavailable

T = TypeVar("T")

QUIET_SECONDS: Final = 2.0

Json = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]


def emit(value: object) -> None:
    """Print data as JSON."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """Print a line of data.

    Raises:
        Unavailable: whatever takes the data took it not: the disk is full, or the reader has gone.
    """
    if sys.stdout is None:
        raise Unavailable("standard output", "it is closed")
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError as error:
        write_nothing_more()
        raise Unavailable("standard output", error.strerror or type(error).__name__) from None


def write_nothing_more() -> None:
    """Let go of data that nobody takes: Python would try again when it ends, and complain."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def tell(text: str) -> None:
    """Print a line for the person, beside the data."""
    sys.stderr.write(text + "\n")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows: a table on a terminal, and lines of tab-separated values where something else reads them."""
    if sys.stdout is None or not sys.stdout.isatty():
        say("\n".join("\t".join(_text(cell) for cell in row) for row in [columns, *rows]))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    printed = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        printed.add_column(column, overflow="fold")
    for row in rows:
        printed.add_row(*(Text(_text(cell)) for cell in row))
    Console().print(printed)


def run(work: Coroutine[Any, Any, T], label: str) -> T:
    """Run a command's work; on a terminal, show that it goes on once it takes longer than two seconds."""
    return asyncio.run(_watched(work, label))


async def _watched(work: Coroutine[Any, Any, T], label: str) -> T:
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=QUIET_SECONDS)
        if not task.done() and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            parts = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            with Progress(*parts, console=Console(stderr=True), transient=True) as progress:
                progress.add_task(label, total=None)
                await asyncio.wait([task])
        return await task
    finally:
        task.cancel()


def _text(cell: object) -> str:
    """Write a cell on one line: ids and reasons come from outside, and must not steer a terminal."""
    text = "" if cell is None else str(cell)
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)
