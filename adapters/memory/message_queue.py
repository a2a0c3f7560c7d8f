"""A FIFO queue in one process's memory, with the rules of SQS (ports/message_queue.py)."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from domain.messages import Outgoing, Received
from ports.clock import Clock
from ports.id_source import IdSource

DEDUPLICATION_WINDOW: Final = timedelta(minutes=5)
MAX_HANDOUTS: Final = 100
"""Hand-outs after which a message is taken for one that kills its consumers."""


@dataclass(slots=True)
class _Message:
    message_id: str
    group_id: str
    body: str
    sent_at: datetime
    receive_count: int = 0
    handouts: int = 0
    receipt: str = ""
    hidden_until: datetime | None = None


class MemoryQueue:
    """One queue; `dead_letters` is another, where messages go that failed too often; without it none goes.

    A hand-out that ends by timeout says that the consumer died, and nothing of the message: it is not counted.
    """

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        *,
        visibility_seconds: float = 30,
        max_receives: int = 5,
        dead_letters: "MemoryQueue | None" = None,
    ) -> None:
        """Make an empty queue."""
        self._clock = clock
        self._ids = ids
        self._visibility = timedelta(seconds=visibility_seconds)
        self._max_receives = max_receives
        self._dead_letters = dead_letters
        self._groups: OrderedDict[str, deque[_Message]] = OrderedDict()
        self._seen: OrderedDict[str, datetime] = OrderedDict()
        self._arrival = asyncio.Event()

    def __len__(self) -> int:
        """Give the number of messages that are not deleted."""
        return sum(len(group) for group in self._groups.values())

    def put(self, message: Outgoing) -> None:
        """Take a message, unless its deduplication id came in the last five minutes."""
        now = self._clock.now()
        while self._seen and next(iter(self._seen.values())) <= now - DEDUPLICATION_WINDOW:
            self._seen.popitem(last=False)
        if message.deduplication_id in self._seen:
            return
        self._seen[message.deduplication_id] = now
        self._add(_Message(self._ids.new_id(), message.group_id, message.body, now))

    async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
        """Take messages; see the port. Waiting ends at the first message or after `wait_seconds` of real time."""
        taken = self._take(limit)
        if taken or wait_seconds <= 0:
            return taken
        try:
            async with asyncio.timeout(wait_seconds):
                while not taken:
                    self._arrival.clear()
                    await self._arrival.wait()
                    taken = self._take(limit)
        except TimeoutError:
            taken = self._take(limit)
        return taken

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        """Delete handled messages; give back those whose receipt had run out."""
        return [message for message in messages if not self._delete(message)]

    async def release(self, messages: Sequence[Received], /) -> None:
        """Make messages visible at once."""
        for message in messages:
            held = self._held(message)
            if held is not None:
                held.hidden_until = None
                held.receipt = ""
        self._arrival.set()

    def listed(self) -> list[tuple[str, str, str, datetime]]:
        """Give id, group, body and time of every message, group by group; for looking at dead letters."""
        return [
            (message.message_id, group_id, message.body, message.sent_at)
            for group_id, group in self._groups.items()
            for message in group
        ]

    def take_out(self, group_id: str, message_id: str) -> bool:
        """Take out a message, whoever holds it; false where it is not there."""
        group = self._groups.get(group_id, deque())
        found = next((message for message in group if message.message_id == message_id), None)
        if found is not None:
            self._remove(group_id, found)
        return found is not None

    def _add(self, message: _Message) -> None:
        self._groups.setdefault(message.group_id, deque()).append(message)
        self._arrival.set()

    def _take(self, limit: int) -> list[Received]:
        now = self._clock.now()
        taken: list[Received] = []
        for group_id, group in list(self._groups.items()):
            for message in list(group):
                if len(taken) >= limit or not self._is_visible(message, now):
                    break
                if self._is_spent(message):
                    group.remove(message)
                    self._bury(message)
                    continue
                if not message.receipt:
                    message.receive_count += 1
                message.handouts += 1
                message.receipt = self._ids.new_id()
                message.hidden_until = now + self._visibility
                taken.append(
                    Received(
                        message.message_id,
                        group_id,
                        message.body,
                        message.receipt,
                        message.receive_count,
                        message.sent_at,
                    )
                )
            if not group:
                del self._groups[group_id]
            if len(taken) >= limit:
                break
        return taken

    def _is_visible(self, message: _Message, now: datetime) -> bool:
        return message.hidden_until is None or message.hidden_until <= now

    def _is_spent(self, message: _Message) -> bool:
        """Say whether a visible message has been tried as often as it may."""
        failed = message.receive_count >= self._max_receives and not message.receipt
        return self._dead_letters is not None and (failed or message.handouts >= MAX_HANDOUTS)

    def _bury(self, message: _Message) -> None:
        if self._dead_letters is not None:
            dead = _Message(message.message_id, message.group_id, message.body, message.sent_at)
            self._dead_letters._add(dead)  # noqa: SLF001 - same class

    def _held(self, message: Received) -> _Message | None:
        """Find a message that is still in flight under this receipt."""
        for held in self._groups.get(message.group_id or "", ()):
            if held.message_id == message.message_id:
                in_flight = held.hidden_until is not None and held.hidden_until > self._clock.now()
                return held if in_flight and held.receipt == message.receipt else None
        return None

    def _delete(self, message: Received) -> bool:
        held = self._held(message)
        if held is None:
            return False
        self._remove(held.group_id, held)
        return True

    def _remove(self, group_id: str, message: _Message) -> None:
        group = self._groups[group_id]
        group.remove(message)
        if not group:
            del self._groups[group_id]
        self._arrival.set()
