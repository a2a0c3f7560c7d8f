"""A process of its own on SQLite files: `python -m tests.integration.sqlite_process ingest|work|race FOLDER …`.

It prints one line for each answer it got, after it got it: what was printed must survive whatever happens next.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from adapters.memory.metrics import MemoryMetrics
from adapters.sqlite.database import Database
from adapters.sqlite.event_store import EVENTS, SqliteEventStore
from adapters.sqlite.message_queue import QUEUES, SqliteMessageQueue
from adapters.sqlite.publisher import SqlitePublisher
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from application.ingest import Ingested, ingest
from application.move import apply_message, move
from application.platform import Platform
from domain.errors import InterlockError
from domain.lifecycle import DEFAULT_LIFECYCLE, LifecycleDefinition, Move
from domain.messages import EventIngested, read_message
from tests.examples import an_envelope

BATCH: Final = 4
ENTITIES: Final = 7
VISIBILITY_SECONDS: Final = 0.1
PING_PONG: Final = LifecycleDefinition(
    name="ping pong",
    initial="ping",
    terminal=frozenset({"done"}),
    moves={"ping": ("pong", "done"), "pong": ("ping", "done"), "done": ()},
)


@asynccontextmanager
async def opened(
    folder: Path, definition: LifecycleDefinition = DEFAULT_LIFECYCLE, visibility_seconds: float = 30
) -> AsyncIterator[tuple[Platform, SqliteMessageQueue]]:
    """Open the files of a folder."""
    events, queues = Database(folder / "events.db", EVENTS), Database(folder / "queues.db", QUEUES)
    clock, ids = SystemClock(), RandomIds()
    publisher = SqlitePublisher(queues, "lifecycle", clock)
    # Deliveries that a kill cut short are no failures of the message, so they may be many.
    queue = SqliteMessageQueue(
        queues,
        "lifecycle",
        clock,
        ids,
        visibility_seconds=visibility_seconds,
        max_receives=1000,
        dead_letters="lifecycle-dead",
    )
    try:
        yield Platform(SqliteEventStore(events), publisher, clock, ids, MemoryMetrics(), definition), queue
    finally:
        await events.aclose()
        await queues.aclose()


def say(*words: object) -> None:
    """Print a line in one piece, at once."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def feed(folder: Path, first: int) -> None:
    """Ingest e<first>, e<first + 1>, … until killed; say each id that was accepted."""
    async with opened(folder) as (platform, _):
        while True:
            numbers = range(first, first + BATCH)
            answers = await ingest(platform, [an_envelope(f"e{n}", entity=f"N{n % ENTITIES}") for n in numbers])
            for answer in answers:
                if not isinstance(answer, Ingested):
                    raise answer
                say(answer.event_id)
            first += BATCH


async def work(folder: Path) -> None:
    """Start ingested events and open them, until killed; say each fact that was accepted."""
    async with opened(folder, visibility_seconds=VISIBILITY_SECONDS) as (platform, queue):
        say("up")
        while True:
            for received in await queue.receive(BATCH, 0.05):
                message = read_message(received.body)
                if not isinstance(message, EventIngested):
                    raise TypeError(type(message))
                event_id = message.event.id
                await apply_message(platform, message)
                say(event_id, "to_review")
                await move(platform, Move(event_id, "", "open", "ada", f"open-{event_id}"))
                say(event_id, "open")
                await queue.delete([received])


async def race(folder: Path, process: str, writers: int, moves: int) -> None:
    """Move one event to and fro, with many writers; say what each was told."""

    async def writer(platform: Platform, number: int) -> None:
        for step in range(moves):
            command_id = f"{process}-{number}-{step}"
            command = Move("e0", "", ("pong", "ping")[step % 2], f"{process}-{number}", command_id)
            try:
                decision = await move(platform, command)
            except InterlockError as error:
                say(command_id, error.code)
            else:
                say(command_id, type(decision).__name__, decision.transition.sequence)

    async with opened(folder, PING_PONG) as (platform, _):
        say("ready")
        sys.stdin.readline()
        async with asyncio.TaskGroup() as tasks:
            for number in range(writers):
                tasks.create_task(writer(platform, number))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ingest", folder, first]:
            asyncio.run(feed(Path(folder), int(first)))
        case ["work", folder]:
            asyncio.run(work(Path(folder)))
        case ["race", folder, process, writers, moves]:
            asyncio.run(race(Path(folder), process, int(writers), int(moves)))
        case _:
            sys.exit(__doc__)
