"""The command `interlock`: puts the commands together, and turns errors into one line and an exit code."""

import sys
from typing import Final

import typer

from domain.errors import InterlockError, Invalid
from entrypoints.cli import events, serve, tables, tokens
from entrypoints.cli.config import config
from entrypoints.cli.demo import demo
from entrypoints.cli.doctor import doctor
from entrypoints.cli.output import tell

EXTRA_OF: Final = {
    "boto3": "aws",
    "botocore": "aws",
    "dependency_injector": "http",
    "fastapi": "http",
    "prometheus_client": "http",
    "starlette": "http",
    "uvicorn": "http",
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
app.command()(serve.dev)
app.command()(demo)
app.add_typer(serve.api, name="api")
app.add_typer(serve.worker, name="worker")
app.add_typer(events.app, name="events")
app.add_typer(tables.app, name="tables")
app.add_typer(tokens.app, name="token")
app.command()(config)
app.command()(doctor)


def main() -> None:
    """Run the command; an expected error is one line on stderr, never a traceback: code 2 where the input was wrong."""
    try:
        app(prog_name="interlock")
    except InterlockError as error:
        tell(f"error: {error}")
        sys.exit(2 if isinstance(error, Invalid) else 1)
    except ModuleNotFoundError as error:
        extra = EXTRA_OF.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        tell(f"error: {error.name} is not installed; it comes with: pip install 'interlock-platform[{extra}]'")
        sys.exit(1)


if __name__ == "__main__":
    main()
