"""`interlock redaction`: what the policy in force does to a sample of events (R-403)."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, NamedTuple

import typer

from entrypoints.cli.output import QUIET_SECONDS, Json, emit, table, tell
from entrypoints.cli.session import loaded

if TYPE_CHECKING:
    from pydantic import JsonValue

    from domain.redaction import RedactionPolicy, Report

app = typer.Typer(no_args_is_help=True, help="What readers do not get to see.")

MAX_LINE: Final = 16 * 1024 * 1024
STDIN: Final = Path("-")
_TOLD: Final = 10


class _Unreadable(NamedTuple):
    """A line that is no JSON, and why; never what it holds."""

    line: int
    reason: str


@app.callback()
def redaction() -> None:
    """Keep `check` a command of its own."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="NDJSON: an envelope or a payload a line; - is standard input.")],
    policy_file: Annotated[
        Path | None, typer.Option("--policy", help="Policy to try, in place of the one that is set.")
    ] = None,
    event_type: Annotated[str, typer.Option("--type", help="Type of payloads without envelope, for safe-lists.")] = "*",
    as_json: Json = False,
) -> None:
    """Say which rules match what in a sample, and which never do. Nothing of what they match is printed.

    Example: interlock redaction check sample.ndjson --policy redaction.json
    """
    policy = _policy(policy_file)
    found, unreadable = _report(policy, file, event_type)
    rows = [
        (rule, place, count)
        for rule, places in sorted(found.matches.items())
        for place, count in sorted(places.items(), key=lambda item: -item[1])
    ]
    if as_json:
        emit(
            {
                "payloads": found.payloads,
                "changed": found.changed,
                "masked_whole": found.whole,
                "unreadable": [line._asdict() for line in unreadable],
                "matches": [dict(zip(("rule", "place", "count"), row, strict=True)) for row in rows],
                "unmatched": found.unmatched,
            }
        )
    else:
        table(("rule", "place", "count"), rows)
        tell(f"never matched: {', '.join(found.unmatched)}")
        tell(f"{found.payloads} payloads: {found.changed} changed, {found.whole} of them masked whole")
    for line in unreadable[:_TOLD]:
        tell(f"line {line.line}: {line.reason}")
    if unreadable:
        tell(f"{len(unreadable)} lines could not be read")
        raise typer.Exit(1)


def _policy(policy_file: Path | None) -> "RedactionPolicy":
    from entrypoints.groups.activity import RedactionSettings
    from entrypoints.redaction import load_policy

    settings = loaded().settings
    if policy_file is not None:
        group = RedactionSettings(policy_file=policy_file, mask_ips=settings.redaction.mask_ips)
        settings = settings.model_copy(update={"redaction": group})
    return load_policy(settings)


def _report(policy: "RedactionPolicy", file: Path, event_type: str) -> "tuple[Report, list[_Unreadable]]":
    from domain.redaction import report

    unreadable: list[_Unreadable] = []
    if file == STDIN:
        return report(policy, _payloads(_lines(sys.stdin.buffer, None), event_type, unreadable)), unreadable
    with file.open("rb") as opened:
        lines = _lines(opened, file.stat().st_size)
        return report(policy, _payloads(lines, event_type, unreadable)), unreadable


def _lines(file: BinaryIO, size: int | None) -> Iterator[bytes]:
    """Give the lines; on a terminal, show how far they are read once that takes longer than two seconds."""
    began, read = time.monotonic(), 0
    with contextlib.ExitStack() as shown:
        advance: Callable[[int], None] | None = None
        while raw := file.readline(MAX_LINE + 1):
            yield raw
            read += len(raw)
            if advance is not None:
                advance(read)
            elif time.monotonic() - began > QUIET_SECONDS and sys.stderr.isatty():
                advance = shown.enter_context(_progress(size))


@contextlib.contextmanager
def _progress(size: int | None) -> "Iterator[Callable[[int], None]]":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Reading the sample", total=size)
        yield lambda read: progress.update(task, completed=read)


def _payloads(
    lines: Iterator[bytes], event_type: str, unreadable: list[_Unreadable]
) -> "Iterator[tuple[str, JsonValue]]":
    from domain.errors import Invalid
    from domain.json_reader import read_json

    for number, raw in enumerate(lines, 1):
        if len(raw) > MAX_LINE:
            unreadable.append(_Unreadable(number, f"is over {MAX_LINE} bytes; the rest of the file was not read"))
            return
        if not raw.strip():
            continue
        try:
            value = read_json(raw)
        except Invalid as error:
            unreadable.append(_Unreadable(number, error.reason))
            continue
        if isinstance(value, dict) and "specversion" in value and isinstance(kind := value.get("type"), str):
            yield kind, value.get("data")
        else:
            yield event_type, value
