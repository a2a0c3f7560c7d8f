"""Dead letters of a queue in memory (ports/dead_letters.py)."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from adapters.memory.message_queue import MemoryQueue
from domain.dead_letters import DeadLetter, redrive_id
from domain.errors import InterlockError, StaleReceipt
from domain.messages import Outgoing

_PAGE: Final = 100


class MemoryDeadLetters:
    """A dead-letter queue, and the queue where its letters go back to."""

    def __init__(self, dead_letters: MemoryQueue, queue: MemoryQueue) -> None:
        """Look at these two."""
        self._dead_letters = dead_letters
        self._queue = queue

    async def waiting(self) -> int:
        """Say how many letters there are."""
        return len(self._dead_letters)

    async def pages(self) -> AsyncGenerator[Sequence[DeadLetter], None]:
        """Give the letters that are there now, each once; nothing is held meanwhile."""
        letters = [
            DeadLetter(name, body, name, group, sent_at=sent_at)
            for name, group, body, sent_at in self._dead_letters.listed()
        ]
        for start in range(0, len(letters), _PAGE):
            yield letters[start : start + _PAGE]

    async def redrive(self, letters: Sequence[DeadLetter], /) -> list[InterlockError | None]:
        """Move letters to the end of their queue; see the port. `StaleReceipt`: somebody else did."""
        return [self._move(letter) for letter in letters]

    def _move(self, letter: DeadLetter) -> InterlockError | None:
        if not self._dead_letters.take_out(letter.group_id or "", letter.message_id):
            return StaleReceipt(letter.message_id)
        self._queue.put(Outgoing(letter.group_id or "", redrive_id(letter), letter.body))
        return None
