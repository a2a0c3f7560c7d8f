"""The sqlite engine's folder and files, for `doctor`."""

import sqlite3
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

from adapters.sqlite.activity_store import ACTIVITY
from adapters.sqlite.database import Database
from adapters.sqlite.event_store import EVENTS
from adapters.sqlite.message_queue import QUEUES
from domain.errors import Misconfigured
from entrypoints.cli.checks import Check, attempt
from entrypoints.engines.activity import FILE as ACTIVITY_FILE
from entrypoints.engines.intake import DEAD_LETTERS as INTAKE_DEAD_LETTERS
from entrypoints.engines.sqlite import DEAD_LETTERS, SqliteEngine
from entrypoints.settings import Settings, load_definition, variable

# One step in the index `heads_by_state` for each state, however many events there are.
STATES: Final = """
    WITH RECURSIVE states (state) AS (
        SELECT min(state) FROM heads
        UNION ALL SELECT (SELECT min(state) FROM heads WHERE heads.state > states.state) FROM states WHERE state NOTNULL
    ) SELECT state FROM states WHERE state NOTNULL"""
DEAD: Final = f"SELECT count(*) FROM messages WHERE queue IN ('{DEAD_LETTERS}', '{INTAKE_DEAD_LETTERS}')"  # noqa: S608 - names of ours


async def checks(settings: Settings) -> AsyncIterator[Check]:
    """Look at the folder, at the files that are there, and at what waits in them for a person; nothing is made."""
    events, queues = SqliteEngine(settings).files
    files = ((events, EVENTS), (queues, QUEUES), (settings.data_dir / ACTIVITY_FILE, ACTIVITY))
    there = [(file, schema) for file, schema in files if file.exists()]
    fix = f"check the folder, its permissions and its files, or set {variable(('data_dir',))}"
    engine = await attempt("engine", lambda: _engine(settings.data_dir, there), fix)
    yield engine
    if engine.status == "failed":
        return
    if events.exists():
        yield await attempt("states", lambda: _states(events, settings), fix)
    if queues.exists():
        yield await attempt("dead letters", lambda: _dead_letters(queues), fix)


async def _engine(folder: Path, there: Sequence[tuple[Path, tuple[str, ...]]]) -> str:
    _writable(folder)
    for file, schema in there:
        await _read(file, schema, "SELECT 1")
    return f"sqlite: {folder}" if there else f"sqlite: no files in {folder} yet; they are made at first use"


def _writable(folder: Path) -> None:
    """Make a file without a name in the folder, or in the one where it would be made. It is gone when it is closed.

    Raises:
        Misconfigured: it cannot be made.
    """
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise Misconfigured(str(nearest), f"files cannot be made in it: {error.strerror}") from error


async def _states(file: Path, settings: Settings) -> str | Check:
    known = load_definition(settings).states
    lost = [state for (state,) in await _read(file, EVENTS, STATES) if state not in known]
    if not lost:
        return "every event is in a state of the lifecycle"
    name = variable(("lifecycle", "definition_file"))
    return Check(
        "states",
        "warning",
        f"events are in states that the lifecycle does not have: {', '.join(lost)}",
        f"put the states back into the file of {name}, with moves out of them",
    )


async def _dead_letters(file: Path) -> str | Check:
    ((number,),) = await _read(file, QUEUES, DEAD)
    if not number:
        return "none"
    return Check("dead letters", "warning", f"{number} wait in {file}", "see docs/how-to/dead-letters.md")


async def _read(file: Path, schema: tuple[str, ...], statement: str) -> list[tuple[Any, ...]]:
    """Open a file, see that it can be written, and read from it."""

    def nothing(_: sqlite3.Connection) -> None:
        """Begin and commit: that takes the right to write."""

    def select(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
        return connection.execute(statement).fetchall()

    database = Database(file, schema)
    try:
        await database.write(nothing)
        return await database.read(select)
    finally:
        await database.aclose()
