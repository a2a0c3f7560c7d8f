"""A clock that stands still until it is told otherwise."""

from datetime import datetime, timedelta


class ManualClock:
    """A clock that its owner moves; sleeping moves it too, at once."""

    def __init__(self, start: datetime) -> None:
        """Start at a time in UTC."""
        self._now = start

    def now(self) -> datetime:
        """Give the time that was set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock; backwards with a negative number."""
        self._now += timedelta(seconds=seconds)

    async def sleep(self, seconds: float, /) -> None:
        """Let the time pass at once."""
        self.advance(seconds)
