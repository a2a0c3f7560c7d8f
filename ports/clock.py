"""What time it is, and waiting: the core never asks the machine itself."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> datetime:
        """Give the time, in UTC."""
        ...

    async def sleep(self, seconds: float, /) -> None:
        """Wait."""
        ...
