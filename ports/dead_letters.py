"""Looking at dead letters, and putting them back (R-503)."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from domain.dead_letters import DeadLetter
from domain.errors import InterlockError


class DeadLetters(Protocol):
    """One dead-letter queue, and where its letters go back to."""

    async def waiting(self) -> int:
        """Say how many letters there are; on SQS about how many, those that somebody else holds included."""
        ...

    def pages(self) -> AsyncGenerator[Sequence[DeadLetter], None]:
        """Give the letters, each at most once, page by page; a group's in order.

        What was not redriven by then is there for others when the generator is closed, in order. Where a queue has to
        hold what it shows, the letters are hidden from others until then, or until the time of holding is over: so it
        is after the process was killed.
        """
        ...

    async def redrive(self, letters: Sequence[DeadLetter], /) -> list[InterlockError | None]:
        """Put letters of the last page back, each group's in order.

        A letter is taken out of here once the other side has acknowledged it, never before: whoever dies in between
        leaves it in both places. The second time it is put back under the same deduplication id.

        Returns:
            For each letter None, or why it is still here. Behind one that failed its group waits, each as
            `Unavailable`.
        """
        ...
