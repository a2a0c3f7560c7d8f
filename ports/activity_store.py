"""Where the activity of accounts is kept (R-401, R-402; ADR 0015)."""

from collections.abc import Sequence
from typing import Protocol

from domain.activity import Activity, Found, Stretch


class ActivityStore(Protocol):
    """Rows of accounts, each in the order of its events' times. Every method may raise `Unavailable`.

    What it gives is as writers sent it. `application.activity_history` redacts it, and is the only reader.
    """

    async def record(self, activities: Sequence[Activity], /) -> list[bool]:
        """Keep rows, each under an activity id that nobody used.

        Returns:
            For each, in order, whether it is new; else an earlier one of this id is kept, whatever the copy says.

        Raises:
            TooLarge: a row that the store cannot hold. Nothing was written of the call.
        """
        ...

    async def find(self, stretch: Stretch, /) -> Found:
        """Look through a part of an account's rows; an answer holds every row whose `record` was answered before."""
        ...

    async def cursor_key(self) -> bytes:
        """Give 32 random bytes, made by whoever asks first and the same for everybody after that."""
        ...
