"""An event bus in one process's memory."""

from collections.abc import Sequence

from adapters.memory.message_queue import MemoryQueue
from domain.envelope import Envelope
from domain.errors import InterlockError
from domain.eventbridge import delivered, refusal, to_entry
from domain.json_reader import write_json
from domain.messages import Outgoing
from ports.clock import Clock
from ports.id_source import IdSource


class MemoryEventBus:
    """Hands each event, as EventBridge delivers it, to a queue. Every message is a group of its own: none waits."""

    def __init__(self, queue: MemoryQueue, clock: Clock, ids: IdSource) -> None:
        """Publish to this queue; `ids` names what is delivered."""
        self._queue = queue
        self._clock = clock
        self._ids = ids

    async def publish(self, events: Sequence[Envelope], /) -> list[InterlockError | None]:
        """Publish events; see the port."""
        answers = [refusal(event) for event in events]
        for event, answer in zip(events, answers, strict=True):
            if answer is None:
                name = self._ids.new_id()
                body = write_json(delivered(to_entry(event), name, self._clock.now()))
                self._queue.put(Outgoing(name, name, body))
        return answers
