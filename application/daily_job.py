"""The daily job: what arrived goes into the lake's table, each event once (R-506, FC-47; ADR 0018).

What was loaded is told by our own ledger, by names of objects and never by times of files. The order of writes is
quarantine, table, ledger, report: after a crash anywhere the next run reads the same objects again, and the table
drops what it has.

    loads/date=2026-01-31/<run>.json     which objects of that day a run has loaded
    reports/date=2026-01-31/<run>.json   the report of a run for that day
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

from domain.daily import Committed, PackedObject, Staged, days_to_load
from domain.errors import Invalid, Misconfigured
from domain.intake import RAW, prefix_of
from domain.objects import StoredObject, check_object_name
from domain.times import format_time
from ports.clock import Clock
from ports.event_table import EventTable, Load
from ports.id_source import IdSource
from ports.object_store import ObjectStore

LOADS: Final = "loads"
REPORTS: Final = "reports"

GROUP_BYTES: Final = 1024 * 1024
GROUP_OBJECTS: Final = 32
IN_HAND: Final = 4

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Lake:
    """The ports of the job.

    Attributes:
        objects: as they are kept, packed; `application.intake` writes them through a store that packs them.
        table: where events go.
        clock: for the report.
        ids: to name the run.
    """

    objects: ObjectStore
    table: EventTable
    clock: Clock
    ids: IdSource


class RunReport(NamedTuple):
    """What a run did: events = rows + duplicates + rejects, always.

    Attributes:
        run_id: names its ledger entries and its report.
        day: that was asked for.
        started_at: RFC 3339.
        ended_at: RFC 3339.
        objects: how many were read.
        messages: in them.
        events: in these; a message that cannot be read counts as one.
        rows: new in the table.
        duplicates: there already, or more than once in what was read.
        rejects: kept in quarantine with their reasons.
        days: new rows by the day of the event.
        version: of the table.
        files_added: to the table.
        files_replaced: small ones that were written again beside new rows.
        damaged: objects that cannot be read, with the reason; a later run tries them again.
    """

    run_id: str
    day: str
    started_at: str
    ended_at: str
    objects: int
    messages: int
    events: int
    rows: int
    duplicates: int
    rejects: int
    days: dict[str, int]
    version: str | None
    files_added: int
    files_replaced: int
    damaged: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Write it."""
        return self._asdict()


Loader = Callable[[Lake, Sequence[StoredObject]], Awaitable[tuple[Sequence[Staged], Committed]]]
"""Loads objects into the table: reads them, keeps the rejects in quarantine, and commits the rows."""


async def run_daily_job(lake: Lake, day: date, loader: Loader, *, back: int, again: bool = False) -> RunReport:
    """Load what arrived on a day, and what earlier runs came too early for.

    Running it again changes nothing.

    Args:
        lake: the ports.
        day: the UTC day of arrival.
        loader: how; see `load_here`.
        back: how many days before it are looked at for objects that no run has loaded.
        again: whether objects that were loaded are read once more, for instance into a new table; no row doubles.

    Raises:
        Retryable: a store failed; run it again.
        Misconfigured: the table cannot be written, or an entry of the ledger is damaged.
    """
    started_at, run_id = lake.clock.now(), lake.ids.new_id()
    todo: list[StoredObject] = []
    foreign: dict[str, str] = {}
    for arrival in days_to_load(day, back):
        loaded = set[str]() if again else await _loaded(lake.objects, arrival)
        for found in await _all(lake.objects, prefix_of(RAW, arrival)):
            if (reason := _foreign(found.name)) is not None:
                foreign[_printable(found.name)] = reason
            elif found.name not in loaded:
                todo.append(found)
    staged, committed = await loader(lake, todo)
    damaged = dict(pair for one in staged for pair in one.damaged)
    await _remember(lake.objects, run_id, [found.name for found in todo if found.name not in damaged])
    report = _report(run_id, day, (format_time(started_at), format_time(lake.clock.now())), staged, committed)
    report = report._replace(objects=len(todo) - len(damaged), damaged=damaged | foreign)
    if todo or foreign:
        await lake.objects.put(f"{REPORTS}/date={day.isoformat()}/{run_id}.json", _json(report.to_json()))
    return report


def load_here(progress: Progress = lambda _done, _size: None) -> Loader:
    """Give the loader of one machine.

    Args:
        progress: is told how many bytes are read, and how many there are.
    """

    async def load(lake: Lake, todo: Sequence[StoredObject]) -> tuple[Sequence[Staged], Committed]:
        size = sum(found.size for found in todo)
        async with lake.table.load(size) as into:
            staged = await _stage_all(lake.objects, into, todo, lambda done: progress(done, size))
            return staged, await into.commit()

    return load


async def _stage_all(
    objects: ObjectStore, load: Load, todo: Sequence[StoredObject], done: Callable[[int], None]
) -> list[Staged]:
    """Stage objects in groups, a few groups side by side, and keep what is rejected in quarantine."""
    turns = asyncio.Semaphore(IN_HAND)
    finished = 0

    async def stage(group: Sequence[StoredObject]) -> Staged:
        nonlocal finished
        async with turns:
            packed = [PackedObject(found.name, await objects.get(found.name) or b"") for found in group]
            staged = await load.stage(packed)
            for kept in staged.quarantine:
                await objects.put(kept.name, kept.packed)
        finished += sum(found.size for found in group)
        done(finished)
        return staged._replace(quarantine=())

    try:
        async with asyncio.TaskGroup() as tasks:
            staging = [tasks.create_task(stage(group)) for group in _groups(todo)]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in staging]


def _groups(todo: Sequence[StoredObject]) -> Iterator[list[StoredObject]]:
    group: list[StoredObject] = []
    size = 0
    for found in todo:
        if group and (size + found.size > GROUP_BYTES or len(group) == GROUP_OBJECTS):
            yield group
            group, size = [], 0
        group.append(found)
        size += found.size
    if group:
        yield group


async def _all(objects: ObjectStore, prefix: str) -> list[StoredObject]:
    found: list[StoredObject] = []
    after: str | None = ""
    while after is not None:
        page = await objects.list(prefix, after=after)
        found += [one for one in page.objects if not one.name.endswith("/")]  # S3's consoles make such for folders
        after = page.after
    return found


async def _loaded(objects: ObjectStore, arrival: date) -> set[str]:
    """Give the names of a day's objects that earlier runs have loaded.

    Raises:
        Misconfigured: an entry of the ledger is damaged.
    """
    prefix = prefix_of(RAW, arrival)
    names: set[str] = set()
    for entry in await _all(objects, f"{LOADS}/date={arrival.isoformat()}/"):
        try:
            value: dict[str, list[str]] = json.loads(await objects.get(entry.name) or b"")
            names.update(prefix + name for name in value["objects"])
        except (ValueError, LookupError, TypeError, Invalid) as error:
            fix = "is damaged; delete it: its objects will be read again, and no row doubles"
            raise Misconfigured(_printable(entry.name), fix) from error
    return names


def _foreign(name: str) -> str | None:
    """Say what is wrong with a name that nobody of ours gives, and no store takes."""
    try:
        check_object_name(name)
    except Invalid as error:
        return f"is none of ours: its name {error.reason}"
    return None


def _printable(name: str) -> str:
    """Write a name, also one that is no text, as a folder may hold."""
    return name.encode(errors="backslashreplace").decode()


async def _remember(objects: ObjectStore, run_id: str, names: Sequence[str]) -> None:
    """Enter objects into the ledger, one entry for each day of arrival."""
    by_folder: dict[str, list[str]] = {}
    for name in names:
        folder, _, own = name.rpartition("/")
        by_folder.setdefault(folder, []).append(own)
    for folder, loaded in by_folder.items():
        entry = _json({"run_id": run_id, "objects": loaded})
        await objects.put(f"{LOADS}{folder.removeprefix(RAW)}/{run_id}.json", entry)


def _report(
    run_id: str, day: date, times: tuple[str, str], staged: Sequence[Staged], committed: Committed
) -> RunReport:
    return RunReport(
        run_id=run_id,
        day=day.isoformat(),
        started_at=times[0],
        ended_at=times[1],
        objects=0,
        messages=sum(one.messages for one in staged),
        events=sum(one.events for one in staged),
        rows=committed.rows,
        duplicates=committed.duplicates,
        rejects=sum(one.rejects for one in staged),
        days={of.isoformat(): rows for of, rows in committed.days.items()},
        version=committed.version,
        files_added=committed.files_added,
        files_replaced=committed.files_replaced,
        damaged={},
    )


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
