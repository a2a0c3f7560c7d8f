"""`interlock dlq`: look at dead letters, and put them back once their cause is gone (R-503, FC-20)."""

from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from entrypoints.cli.output import Json, emit, run, table, tell
from entrypoints.cli.session import shared_settings

if TYPE_CHECKING:
    from application.dead_letters import Letter, RedriveReport
    from domain.dead_letters import Selection
    from domain.errors import InterlockError

_LOGGED: Final = ("message_id", "group_id", "type", "event_id", "outcome")

app = typer.Typer(no_args_is_help=True, help="Messages that failed for good: look at them, put them back.")

Queue = Annotated[
    str,
    typer.Argument(
        help="lifecycle, intake, router, or on aws the URL of a queue or of its dead letters.", show_default=False
    ),
]
Ids = Annotated[list[str] | None, typer.Option("--id", help="This message id; may be repeated.")]
Type = Annotated[str | None, typer.Option("--type", help="Events of this type.")]
Contains = Annotated[str | None, typer.Option(help="Messages whose body holds this text.")]
Error = Annotated[
    str | None,
    typer.Option(help="Failures whose code or reason holds this text; letters of EventBridge and Lambda tell them."),
]
From = Annotated[str | None, typer.Option("--from", help="Failed or sent from this time on, RFC 3339.")]
To = Annotated[str | None, typer.Option("--until", help="Failed or sent up to this time, RFC 3339.")]


@app.command("list")
def list_(
    queue: Queue,
    *,
    ids: Ids = None,
    event_type: Type = None,
    contains: Contains = None,
    error: Error = None,
    earliest: From = None,
    latest: To = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    as_json: Json = False,
) -> None:
    """List dead letters, without their content.

    On SQS the letters that were looked at are hidden from others for a moment.

    Example: interlock dlq list intake --type FlightDelayed --limit 10
    """
    from entrypoints.engines.dead_letters import open_dead_letters

    settings = shared_settings()
    chosen = _selection(ids, event_type, contains, error, earliest, latest)

    async def work() -> tuple[int, list[dict[str, Any]]]:
        from application.dead_letters import find

        async with open_dead_letters(settings, queue, only_look=True) as letters:
            waiting = await letters.waiting()
            async with aclosing(find(letters, chosen, limit)) as found:
                return waiting, [_line(letter) async for letter in found]

    waiting, items = run(work(), "Looking through the dead letters")
    if as_json:
        emit({"waiting": waiting, "items": items})
        return
    columns = ("message_id", "group_id", "at", "origin", "type", "event_id", "bytes", "code", "reason")
    table(columns, [[item[column] for column in columns] for item in items])
    tell(f"{len(items)} shown of {waiting} in the queue")


@app.command()
def show(
    queue: Queue,
    message_id: Annotated[str, typer.Argument(help="As `interlock dlq list` shows it.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Show one dead letter with its content.

    Example: interlock dlq show intake 5f2b6c1e-8a6e-4d7e-9a53-1d5d0f0a2b11
    """
    from domain.dead_letters import Selection
    from domain.errors import Misconfigured
    from entrypoints.engines.dead_letters import open_dead_letters

    settings = shared_settings()

    async def work() -> dict[str, Any] | None:
        from application.dead_letters import find

        async with open_dead_letters(settings, queue, only_look=True) as letters:
            chosen = Selection(message_ids=frozenset({message_id}))
            async with aclosing(find(letters, chosen, 1)) as found:
                return await anext((_line(one) | _content(one) async for one in found), None)

    item = run(work(), "Looking for the dead letter")
    if item is None:
        raise Misconfigured(f"the dead letters of {queue}", f"hold no message {message_id!r} that can be seen now")
    if as_json:
        emit(item)
        return
    table(("field", "value"), item.items())


@app.command()
def redrive(
    queue: Queue,
    *,
    reason: Annotated[str, typer.Option(help="Why it will work now, for the log; 1-2,000 characters.")],
    ids: Ids = None,
    event_type: Type = None,
    contains: Contains = None,
    error: Error = None,
    earliest: From = None,
    latest: To = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them; else say which ones.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which ones would go back.")] = False,
    rate: Annotated[float, typer.Option(min=0.1, max=1000, help="So many a second at most.")] = 50,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 10_000,
    to: Annotated[
        str | None, typer.Option(help="On aws: another queue's URL, or a function's name or ARN.", show_default=False)
    ] = None,
    actor: Annotated[str | None, typer.Option(help="Who does it; your login name if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Put dead letters back where they came from; each stays here until the other side has acknowledged it.

    A redrive may be stopped, killed and repeated at any moment.

    Example: interlock dlq redrive intake --all --reason "bucket policy corrected" --rate 20 --dry-run
    """
    from adapters.system.clock import SystemClock
    from domain.dead_letters import Selection
    from domain.errors import Unavailable
    from entrypoints.cli.events import login_name
    from entrypoints.engines.dead_letters import open_dead_letters
    from entrypoints.logs import set_up

    if not 1 <= len(reason) <= 2000:  # noqa: PLR2004 - the limit that the option names
        raise typer.BadParameter("must have 1 to 2000 characters", param_hint="--reason")
    chosen = _selection(ids, event_type, contains, error, earliest, latest)
    if everything == (chosen != Selection()):
        raise typer.BadParameter("say which ones: with --id, --type, --contains, --error, --from, --until, or --all")
    settings = shared_settings()
    set_up()
    items: list[dict[str, Any]] = []
    told = _teller(items, dry_run=dry_run, queue=queue, actor=actor or login_name(), why=reason)

    async def work() -> "RedriveReport":
        from application.dead_letters import redrive as put_back

        async with open_dead_letters(settings, queue, to) as letters:
            return await put_back(letters, chosen, SystemClock(), limit=limit, rate=rate, rehearse=dry_run, told=told)

    report = run(work(), "Putting dead letters back")
    counts = asdict(report)
    if as_json:
        emit({"reason": reason, "dry_run": dry_run, **counts, "items": items})
    else:
        columns = ("message_id", "group_id", "type", "event_id", "outcome")
        table(columns, [[item[column] for column in columns] for item in items])
        tell(", ".join(f"{name} {number}" for name, number in counts.items()))
    if report.failed:
        raise Unavailable("the redrive", f"{report.failed} letters are still here; see their outcome")


def _teller(
    items: list[dict[str, Any]], *, dry_run: bool, **why: str
) -> "Callable[[Letter, InterlockError | None], None]":
    """Give what notes each letter that was meant: for the answer and, with who and why, for the log."""
    import structlog

    log = structlog.get_logger("interlock.dlq")

    def told(one: "Letter", error: "InterlockError | None") -> None:
        outcome = "would go back" if dry_run else "redriven" if error is None else f"still here: {error}"
        line = _line(one) | {"outcome": outcome}
        items.append(line)
        if not dry_run:
            log.info("redrive", **why, **{name: line[name] for name in _LOGGED})

    return told


def _selection(
    ids: Iterable[str] | None,
    event_type: str | None,
    contains: str | None,
    error: str | None,
    earliest: str | None,
    latest: str | None,
) -> "Selection":
    from domain.dead_letters import Selection
    from domain.times import parse_time

    return Selection(
        message_ids=frozenset(ids or ()),
        event_type=event_type,
        contains=contains,
        error=error,
        earliest=None if earliest is None else parse_time(earliest, "--from"),
        latest=None if latest is None else parse_time(latest, "--until"),
    )


def _line(one: "Letter") -> dict[str, Any]:
    """Write what is told of a letter: ids, the failure, and its size."""
    from domain.times import format_time

    letter, failure = one
    at = failure.failed_at or letter.sent_at
    return {
        "message_id": letter.message_id,
        "group_id": letter.group_id,
        "at": None if at is None else format_time(at),
        "origin": failure.origin,
        "type": failure.event_type,
        "event_id": failure.event_id,
        "bytes": len(letter.body.encode()),
        "code": failure.code,
        "reason": failure.reason,
        "target": failure.target,
        "attempts": failure.attempts,
    }


def _content(one: "Letter") -> dict[str, Any]:
    """Write what a letter holds."""
    attributes = {
        name: given.value if isinstance(given.value, str) else f"{len(given.value)} bytes"
        for name, given in one.letter.attributes.items()
    }
    return {"attributes": attributes, "body": one.letter.body, "event": one.failure.event}
