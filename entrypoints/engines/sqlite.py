"""One machine, durable: SQLite files in the data folder, one for events and one for queues."""

from pathlib import Path
from typing import Final

from adapters.sqlite.database import Database
from adapters.sqlite.event_store import EVENTS, SqliteEventStore
from adapters.sqlite.message_queue import QUEUES, SqliteMessageQueue
from adapters.sqlite.publisher import SqlitePublisher
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from entrypoints.settings import Settings

QUEUE: Final = "lifecycle"
DEAD_LETTERS: Final = "lifecycle-dead"


class SqliteEngine:
    """Ports over files, which several processes may have open. A file is opened at first use."""

    def __init__(self, settings: Settings) -> None:
        """Keep files in `settings.data_dir`."""
        self.batch = 500
        self.receivers = 1
        self.wait_seconds = 1.0
        self._settings = settings
        self._opened: dict[Path, Database] = {}

    @property
    def files(self) -> tuple[Path, Path]:
        """Where events are kept, and queues."""
        return self._settings.data_dir / "events.db", self._settings.data_dir / "queues.db"

    @property
    def store(self) -> SqliteEventStore:
        """The event store."""
        return SqliteEventStore(self._open(self.files[0], EVENTS))

    @property
    def queue(self) -> SqliteMessageQueue:
        """The lifecycle queue."""
        return SqliteMessageQueue(
            self._open(self.files[1], QUEUES),
            QUEUE,
            SystemClock(),
            RandomIds(),
            visibility_seconds=self._settings.lifecycle.visibility_seconds,
            max_receives=self._settings.lifecycle.max_receives,
            dead_letters=DEAD_LETTERS,
        )

    @property
    def publisher(self) -> SqlitePublisher:
        """The lifecycle topic."""
        return SqlitePublisher(self._open(self.files[1], QUEUES), QUEUE, SystemClock())

    async def aclose(self) -> None:
        """Finish what waits and close the files."""
        for database in self._opened.values():
            await database.aclose()

    def _open(self, path: Path, migrations: tuple[str, ...]) -> Database:
        if path not in self._opened:
            self._opened[path] = Database(path, migrations)
        return self._opened[path]
