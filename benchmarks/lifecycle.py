"""G14 to G16: fold, append and load-add-save, beside the `eventsourcing` package in the same run.

python -m benchmarks.lifecycle
"""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from adapters.memory.event_store import MemoryEventStore
from adapters.memory.id_source import CountingIds
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.publisher import MemoryPublisher
from adapters.sqlite.database import Database
from adapters.sqlite.event_store import EVENTS as EVENTS_SCHEMA
from adapters.sqlite.event_store import SqliteEventStore
from adapters.system.clock import SystemClock
from application.move import move
from application.platform import Platform
from benchmarks.figures import in_turn, micro, per_call, rate, show
from domain.envelope import Envelope
from domain.event import Head, RecordedEvent
from domain.lifecycle import LifecycleDefinition, Move, Transition, fold
from domain.times import format_time
from ports.event_store import EventStore

AGGREGATES = 300
EVENTS = 20
CALLERS = 64
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CYCLE = LifecycleDefinition(
    name="cycle", initial="a", terminal=frozenset({"z"}), moves={"a": ("b", "z"), "b": ("a",), "z": ()}
)
ENVELOPE = Envelope(specversion="1.0", id="x", source="/bench", type="Bench", subject="entity")


class Run(Aggregate):
    """The peer's aggregate: as many small events as ours has transitions."""

    @event("Registered")
    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.done = 0

    @event("Progressed")
    def progress(self, done: int) -> None:
        """Add to what is done."""
        self.done += done


def history(event_id: str, number: int = EVENTS) -> list[Transition]:
    return [
        Transition(
            event_id, "entity", "ba"[n % 2] if n else None, "ab"[n % 2], NOW, "bench", None, f"{event_id}-{n}", n + 1
        )
        for n in range(number)
    ]


def head(fact: Transition) -> Head:
    return Head(fact.event_id, "entity", "Bench", "/bench", NOW, fact.to_state, fact.sequence, fact.at)


def peer_application(folder: str | None) -> Application[UUID]:
    if folder is None:
        return Application(env={})
    path = Path(folder) / f"peer-{time.monotonic_ns()}.db"
    return Application(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)})


def peer_appends(folder: str | None, *, one_at_a_time: bool = False) -> float:
    """Give the peer's seconds an event: whole aggregates saved at once, or one event a save."""
    application = peer_application(folder)
    runs = [Run("me") for _ in range(AGGREGATES)]
    if one_at_a_time:
        for run in runs:
            application.save(run)
        start = time.perf_counter()
        for run in runs:
            run.progress(1)
            application.save(run)
        seconds = (time.perf_counter() - start) / AGGREGATES
    else:
        start = time.perf_counter()
        for run in runs:
            for _ in range(EVENTS - 1):
                run.progress(1)
            application.save(run)
        seconds = (time.perf_counter() - start) / (AGGREGATES * EVENTS)
    application.close()
    return seconds


async def prepared(store: EventStore) -> list[list[Transition]]:
    ids = [f"e{number}" for number in range(AGGREGATES)]
    await store.record([RecordedEvent(event_id, "entity", NOW, ENVELOPE) for event_id in ids])
    return [history(event_id) for event_id in ids]


async def our_appends(store: EventStore, events: int, callers: int) -> float:
    """Give our seconds an event: so many events a save, by so many callers that each wait for their saves."""
    histories = iter(await prepared(store))

    async def caller() -> None:
        for facts in histories:
            await store.append(head(facts[events - 1]), facts[:events])

    start = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(callers):
            tasks.create_task(caller())
    return (time.perf_counter() - start) / (AGGREGATES * events)


async def our_single_appends(store: MemoryEventStore) -> float:
    histories = await prepared(store)
    start = time.perf_counter()
    for facts in histories:
        for fact in facts:
            await store.append(head(fact), (fact,))
    return (time.perf_counter() - start) / (AGGREGATES * EVENTS)


def sqlite_appends(folder: str, events: int, callers: int) -> float:
    async def run() -> float:
        database = Database(Path(folder) / f"ours-{time.monotonic_ns()}.db", EVENTS_SCHEMA)
        try:
            return await our_appends(SqliteEventStore(database), events, callers)
        finally:
            await database.aclose()

    return asyncio.run(run())


def bare_appends(folder: str, events: int) -> float:
    """Give the limit of a lone caller: sqlite3 itself on our tables, a durable commit a save, no loop and no thread."""
    path = Path(folder) / f"bare-{time.monotonic_ns()}.db"

    async def prepare() -> list[list[Transition]]:
        database = Database(path, EVENTS_SCHEMA)
        histories = await prepared(SqliteEventStore(database))
        await database.aclose()
        return histories

    saves = []
    for facts in asyncio.run(prepare()):
        last = head(facts[events - 1])
        since = format_time(last.since)
        row = (*last[:4], format_time(last.occurred_at), last.state, last.sequence, since)
        saves.append((row, [(*fact[:1], fact.sequence, *fact[1:4], since, *fact[5:8]) for fact in facts[:events]]))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    start = time.perf_counter()
    for row, facts_rows in saves:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO heads VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", facts_rows)
        connection.execute("COMMIT")
    seconds = (time.perf_counter() - start) / (AGGREGATES * events)
    connection.close()
    return seconds


def peer_rebuild() -> Callable[[], float]:
    application = peer_application(None)
    run = Run("me")
    for _ in range(EVENTS - 1):
        run.progress(1)
    application.save(run)
    return lambda: per_call(lambda: application.repository.get(run.id), 50) / EVENTS


def peer_load_add_save() -> float:
    application = peer_application(None)
    ids = []
    for _ in range(100):
        run = Run("me")
        for _ in range(EVENTS - 1):
            run.progress(1)
        application.save(run)
        ids.append(run.id)
    start = time.perf_counter()
    for aggregate_id in ids:
        loaded: Run = application.repository.get(aggregate_id)
        loaded.progress(1)
        application.save(loaded)
    return (time.perf_counter() - start) / len(ids)


def our_load_add_save() -> float:
    async def run() -> float:
        clock = SystemClock()
        queue = MemoryQueue(clock, CountingIds())
        store = MemoryEventStore()
        platform = Platform(store, MemoryPublisher(queue), clock, CountingIds(), MemoryMetrics(), CYCLE)
        for facts in await prepared(store):
            await store.append(head(facts[-1]), facts)
        names = count()
        start = time.perf_counter()
        for number in range(100):
            await move(platform, Move(f"e{number}", "", "a", "bench", f"move-{next(names)}"))
        return (time.perf_counter() - start) / 100

    return asyncio.run(run())


def main() -> None:
    facts = history("e")
    rebuild = peer_rebuild()
    ours, peer, ratio = in_turn(lambda: per_call(lambda: fold(facts), 2000) / EVENTS, rebuild)
    show(
        "G14",
        "fold, per event; rebuilt beside eventsourcing's",
        micro(ours),
        f"{micro(peer)} eventsourcing",
        1 / ratio,
        "<= 1.0 us, >= 8x",
    )

    ours, peer, ratio = in_turn(lambda: asyncio.run(our_single_appends(MemoryEventStore())), lambda: peer_appends(None))
    show(
        "G15",
        "append in memory, one at a time",
        rate(1 / ours),
        f"{rate(1 / peer)} eventsourcing",
        1 / ratio,
        ">= 250,000/s",
    )

    with tempfile.TemporaryDirectory() as folder:
        for events in (EVENTS, 1):
            peer_saves = partial(peer_appends, folder, one_at_a_time=events == 1)
            ours, peer, ratio = in_turn(partial(sqlite_appends, folder, events, CALLERS), peer_saves)
            what = f"append to SQLite, {events} a save, {CALLERS} callers"
            show("G15b", what, rate(1 / ours), f"{rate(1 / peer)} eventsourcing", 1 / ratio, ">= 2x")
            alone = partial(sqlite_appends, folder, events, 1)
            for name, beside in (
                ("eventsourcing", peer_saves),
                ("bare sqlite3", partial(bare_appends, folder, events)),
            ):
                ours, other, ratio = in_turn(alone, beside)
                what = "the same, one caller that waits for the disk"
                show("", what, rate(1 / ours), f"{rate(1 / other)} {name}", 1 / ratio, "-")

    ours, peer, ratio = in_turn(our_load_add_save, peer_load_add_save)
    show(
        "G16",
        f"load, add one, save in memory ({EVENTS} events)",
        micro(ours),
        f"{micro(peer)} eventsourcing",
        1 / ratio,
        "<= 150 us",
    )


if __name__ == "__main__":
    main()
