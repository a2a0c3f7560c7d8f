"""`interlock doctor`: is everything that the settings name there, reachable and right?"""

import typer

from entrypoints.cli.output import Json, emit, run, table
from entrypoints.cli.session import loaded


def doctor(as_json: Json = False) -> None:
    """Check settings, engine, tables, topic, queue, dedup targets, tokens file, lifecycle; say how to fix what fails.

    Example: interlock doctor

    Ends with code 1 when a check fails; a warning does not count.
    """
    from entrypoints.cli.checks import Check, checks

    settings = loaded()

    async def work() -> list[Check]:
        return [check async for check in checks(settings)]

    found = run(work(), "Looking")
    if as_json:
        emit([check._asdict() for check in found])
    else:
        table(("check", "status", "detail", "fix"), found)
    if any(check.status == "failed" for check in found):
        raise typer.Exit(1)
