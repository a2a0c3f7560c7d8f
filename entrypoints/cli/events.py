"""`interlock events`: the operator's questions and moves, on the configured engine (R-103, R-104, R-109)."""

import getpass
from typing import Annotated, Any

import typer

from entrypoints.cli.output import Json, emit, run, table, tell
from entrypoints.cli.session import open_platform, shared_settings

app = typer.Typer(no_args_is_help=True, help="Look at events and move them, on the configured engine.")

EventId = Annotated[str, typer.Argument(help="Id of the event.", show_default=False)]


@app.command("list")
def list_(
    *,
    state: Annotated[str | None, typer.Option(help="Events that are in this state.")] = None,
    entity: Annotated[str | None, typer.Option(help="Events that concern this entity.")] = None,
    earliest: Annotated[str | None, typer.Option("--from", help="From this time on, RFC 3339.")] = None,
    latest: Annotated[str | None, typer.Option("--to", help="Up to this time, RFC 3339.")] = None,
    order: Annotated[str, typer.Option(help="asc or desc, by the time of the event.")] = "asc",
    limit: Annotated[int, typer.Option(min=1, max=500, help="Events on a page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Continue where a page ended.")] = None,
    as_json: Json = False,
) -> None:
    """List events by state, entity, or both.

    Example: interlock events list --state to_review --from 2013-01-01T00:00:00Z --limit 10
    """
    from application.queries import list_events
    from domain.event import ListQuery, read_cursor
    from domain.times import parse_time
    from entrypoints import shapes

    if order not in {"asc", "desc"}:
        raise typer.BadParameter("must be asc or desc", param_hint="--order")
    query = ListQuery(
        state=state,
        entity=entity,
        earliest=None if earliest is None else parse_time(earliest, "--from"),
        latest=None if latest is None else parse_time(latest, "--to"),
        descending=order == "desc",
        limit=limit,
    )
    if cursor is not None:
        query = read_cursor(query, cursor)
    settings = shared_settings()

    async def work() -> dict[str, Any]:
        async with open_platform(settings) as platform:
            page = await list_events(platform, query)
        return shapes.page(page)

    answer = run(work(), "Reading the list")
    if as_json:
        emit(answer)
        return
    columns = ("event_id", "entity", "type", "state", "since", "occurred_at")
    table(columns, [[item[column] for column in columns] for item in answer["items"]])
    if answer["next_cursor"]:
        tell(f"more: --cursor {answer['next_cursor']}")


@app.command()
def show(event_id: EventId, as_json: Json = False) -> None:
    """Show where an event stands, and where it may go.

    Example: interlock events show 2013-01-01-UA-1545-EWR-0515
    """
    from application import queries
    from entrypoints import shapes

    settings = shared_settings()

    async def work() -> dict[str, Any]:
        async with open_platform(settings) as platform:
            view = await queries.show(platform, event_id)
        return shapes.event(view)

    answer = run(work(), "Reading the event")
    if as_json:
        emit(answer)
        return
    table(("field", "value"), [(name, _words(value)) for name, value in answer.items()])


@app.command()
def history(event_id: EventId, as_json: Json = False) -> None:
    """Show every transition of an event, oldest first, and the moves that it missed.

    Example: interlock events history 2013-01-01-UA-1545-EWR-0515
    """
    from application import queries
    from entrypoints import shapes

    settings = shared_settings()

    async def work() -> dict[str, Any]:
        async with open_platform(settings) as platform:
            stream = await queries.history(platform, event_id)
        return shapes.history(stream)

    answer = run(work(), "Reading the history")
    if as_json:
        emit(answer)
        return
    columns = ("sequence", "from", "to", "at", "actor", "reason", "command_id")
    table(columns, [[item[column] for column in columns] for item in answer["items"]])
    for missed in answer["missed"]:
        tell(f"missed: to {missed['to']} at {missed['at']} (command {missed['command_id']}): {missed['reason']}")


@app.command()
def move(
    event_id: EventId,
    to: Annotated[str, typer.Argument(help="The state to move to.", show_default=False)],
    reason: Annotated[str | None, typer.Option(help="Why, for the history; up to 2,000 characters.")] = None,
    expected_state: Annotated[str | None, typer.Option(help="Move only if the event is in this state.")] = None,
    command_id: Annotated[str | None, typer.Option(help="Repeat a command safely: the same id moves once.")] = None,
    actor: Annotated[str | None, typer.Option(help="Who moves it; your login name if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Move an event to another state.

    Example: interlock events move 2013-01-01-UA-1545-EWR-0515 open --reason "called the crew"
    """
    from adapters.system.id_source import RandomIds
    from application.move import move as move_event
    from domain.lifecycle import Duplicate, Move
    from entrypoints import shapes

    command = Move(
        event_id=event_id,
        entity="",
        to=to,
        actor=_within("--actor", actor or login_name(), 256),
        command_id=shapes.command_id_of(_within("--command-id", command_id, 255))
        if command_id
        else RandomIds().new_id(),
        reason=None if reason is None else _within("--reason", reason, 2000),
        expected_state=expected_state,
    )
    settings = shared_settings()

    async def work() -> tuple[dict[str, Any], bool]:
        async with open_platform(settings) as platform:
            decision = await move_event(platform, command)
        return shapes.transition(decision.transition), isinstance(decision, Duplicate)

    transition, repeated = run(work(), "Moving the event")
    if as_json:
        emit(transition)
        return
    if repeated:
        tell("this command had moved it already; nothing was changed")
    table(("field", "value"), transition.items())


def login_name() -> str:
    """Say who types."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        raise typer.BadParameter("you have no login name here; say who moves it", param_hint="--actor") from None


def _words(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _within(option: str, text: str, limit: int) -> str:
    if not 1 <= len(text) <= limit:
        raise typer.BadParameter(f"must have 1 to {limit} characters", param_hint=option)
    return text
