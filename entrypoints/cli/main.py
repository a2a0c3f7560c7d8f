"""The command `interlock`: puts the commands together, and turns errors into one line and an exit code."""

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from domain.errors import InterlockError, Invalid, Misconfigured
from entrypoints.cli import (
    activity,
    bus,
    dedup,
    dlq,
    events,
    lake,
    redaction,
    router,
    serve,
    skiplist,
    tables,
    tokens,
)
from entrypoints.cli.config import config
from entrypoints.cli.demo import demo
from entrypoints.cli.doctor import doctor
from entrypoints.cli.output import say, tell, write_nothing_more
from entrypoints.settings import PREFIX, variable

EXTRA_OF: Final = {
    "boto3": "aws",
    "botocore": "aws",
    "dependency_injector": "http",
    "duckdb": "lake",
    "fastapi": "http",
    "jwt": "jwt",
    "prometheus_client": "http",
    "pyarrow": "lake",
    "pyiceberg": "lake",
    "starlette": "http",
    "temporalio": "temporal",
    "uvicorn": "http",
    "zstandard": "cli",
}
"""Which extra brings a library that a command may find missing."""

app: Final = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Interlock: every event once, in order, with its whole history.",
    epilog="Exit codes: 0 ok, 1 failed, 2 wrong usage. Settings: INTERLOCK_… variables, see `interlock config`.",
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say(version("interlock-platform"))
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


app.command()(serve.dev)
app.command()(demo)
app.add_typer(serve.api, name="api")
app.add_typer(serve.worker, name="worker")
app.add_typer(dedup.app, name="dedup")
app.add_typer(dlq.app, name="dlq")
app.command("daily-job")(lake.daily_job)
app.command()(lake.query)
app.add_typer(lake.schema, name="schema")
app.add_typer(events.app, name="events")
app.add_typer(skiplist.app, name="skiplist")
app.add_typer(router.app, name="router")
serve.worker.command("temporal")(router.temporal)
serve.worker.command("events")(bus.events)
events.app.command("publish")(bus.publish)
app.add_typer(activity.app, name="activity")
app.add_typer(redaction.app, name="redaction")
app.add_typer(tables.app, name="tables")
app.add_typer(tokens.app, name="token")
app.command()(config)
app.command()(doctor)


def main() -> None:
    """Run the command; an expected error is one line on stderr, never a traceback."""
    try:
        _refuse_undecodable(sys.argv[1:])
        app(prog_name="interlock")
    except InterlockError as error:
        tell(f"error: {error}")
        sys.exit(_code(error))
    except OSError as error:
        write_nothing_more()
        tell(f"error: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        sys.exit(1)
    except ModuleNotFoundError as error:
        extra = EXTRA_OF.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        tell(f"error: {error.name} is not installed; it comes with: pip install 'interlock-platform[{extra}]'")
        sys.exit(1)


PORTS: Final = {variable(path) for path in (("http", "port"), ("grpc", "port"), ("grpc", "metrics_port"))}


def _refuse_undecodable(arguments: Sequence[str]) -> None:
    """Refuse bytes that are no text: no id, state or name has any, and the stores would not take them.

    Raises:
        Invalid: an argument has some.
    """
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise Invalid(f"argument {number}", "is not UTF-8 text") from None


def _code(error: InterlockError) -> int:
    """Give the exit code: 2 where what was typed or set cannot work, 1 where the work failed.

    | error | code |
    |---|---|
    | `Invalid` | 2 |
    | `Misconfigured` that names one of our variables | 2 |
    | the same of the port: its number is good by now, but somebody else has it | 1 |
    | `Misconfigured` that names a file, a table or a service, and everything else | 1 |
    """
    if isinstance(error, Misconfigured):
        return 2 if error.setting.startswith(PREFIX) and error.setting not in PORTS else 1
    return 2 if isinstance(error, Invalid) else 1


if __name__ == "__main__":
    main()
