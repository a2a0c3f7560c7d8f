"""The machine's clock."""

import asyncio
from datetime import UTC, datetime


class SystemClock:
    """UTC time of this machine."""

    def now(self) -> datetime:
        """Give the time, in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float, /) -> None:
        """Wait without holding the event loop."""
        await asyncio.sleep(seconds)
