"""An event bus that feeds one queue of a SQLite file (ports/event_bus.py)."""

from collections.abc import Sequence

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import put
from domain.envelope import Envelope
from domain.errors import InterlockError
from domain.eventbridge import delivered, refusal, to_entry
from domain.json_reader import write_json
from domain.messages import Outgoing
from ports.clock import Clock
from ports.id_source import IdSource


class SqliteEventBus:
    """Puts each event, as EventBridge delivers it, into a queue. Every message is a group of its own: none waits.

    Args:
        database: a file opened with `QUEUES`; whoever opened it closes it.
        queue: the name of the queue.
        clock: says when an event without a time was taken.
        ids: names what is delivered.
    """

    def __init__(self, database: Database, queue: str, clock: Clock, ids: IdSource) -> None:
        self._database = database
        self._queue = queue
        self._clock = clock
        self._ids = ids

    async def publish(self, events: Sequence[Envelope], /) -> list[InterlockError | None]:
        """Publish events, those that are taken in one transaction; see the port."""
        answers = [refusal(event) for event in events]
        now = self._clock.now()
        messages: list[Outgoing] = []
        for event, answer in zip(events, answers, strict=True):
            if answer is None:
                name = self._ids.new_id()
                messages.append(Outgoing(name, name, write_json(delivered(to_entry(event), name, now))))
        await self._database.write(lambda connection: put(connection, self._queue, messages, now))
        return answers
