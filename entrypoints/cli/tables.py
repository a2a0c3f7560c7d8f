"""`interlock tables create`: what the engine needs before its first event; running it again changes nothing."""

from typing import Annotated

import typer

from entrypoints.cli.output import Json, emit, run, table, tell
from entrypoints.cli.session import loaded
from entrypoints.settings import Settings, variable

app = typer.Typer(no_args_is_help=True, help="Tables, topic and queues of the configured engine.")


@app.callback()
def tables() -> None:
    """Keep `create` a command of its own: an app of one command would become that command."""


@app.command()
def create(
    name: Annotated[
        str | None,
        typer.Option(help="Of topic and queue on aws; else as in the topic's ARN, else interlock-lifecycle."),
    ] = None,
    event_queue: Annotated[
        bool,
        typer.Option("--event-queue", help="On aws, also a queue for `interlock worker events`, fed by a rule."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the tables, topic and queues on aws, or the files on sqlite; what is there already stays.

    On aws the table of settings too; and where the dedup cache's backend is dynamodb, its table; where the
    intake's bucket is set, that bucket and the intake's queues.

    Prints the variables by which processes find what was made.

    Example: INTERLOCK_ENGINE=aws interlock tables create
    """
    settings = loaded().settings
    made = run(_create(settings, name, event_queue=event_queue), "Making tables and queues")
    if as_json:
        emit(made)
        return
    if not made:
        tell("the memory engine keeps nothing, so there is nothing to make")
        return
    table(("variable", "value"), made.items())


async def _create(settings: Settings, name: str | None, *, event_queue: bool) -> dict[str, str]:
    made = await _create_for_events(settings, name)
    if event_queue and settings.engine == "aws":
        from entrypoints.cli import aws

        made |= await aws.create_for_bus(settings)
    if settings.dedup.backend == "dynamodb":
        from entrypoints.cli import aws

        made |= await aws.create_for_dedup(settings)
    if settings.engine == "aws" and settings.intake.bucket is not None:
        from entrypoints.cli import aws_intake

        made |= await aws_intake.create_for_intake(settings, settings.intake.bucket)
    return made


async def _create_for_events(settings: Settings, name: str | None) -> dict[str, str]:
    match settings.engine:
        case "memory":
            return {}
        case "sqlite":
            from adapters.memory.metrics import MemoryMetrics
            from entrypoints.engines.sqlite import SqliteEngine
            from entrypoints.wiring import open_activity

            engine, activity = SqliteEngine(settings), open_activity(settings, MemoryMetrics())
            try:
                await engine.store.head("-")
                await engine.queue.delete([])
                await activity.history.check()
            finally:
                await engine.aclose()
                await activity.aclose()
            return {variable(("data_dir",)): str(settings.data_dir.absolute())}
        case "aws":
            from entrypoints.cli import aws

            return await aws.create(settings, name)
