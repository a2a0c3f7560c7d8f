"""Where the skip list is kept (R-307)."""

from collections.abc import Sequence
from typing import Protocol

from domain.skip_list import SkipEntry, SkipKey, SkipListQuery


class SkipListStore(Protocol):
    """One fact an entry. No edit reads the list to write it back, so edits that cross lose nothing (FC-24).

    Keys are checked before they come here (`domain.skip_list`), and are different within a call. Every method may raise
    `Unavailable`; an edit may then have taken place in part, and repeating it is safe.
    """

    async def add(self, entries: Sequence[SkipEntry], /) -> int:
        """List entries, and give how many were not listed before. What is listed keeps its reason and its time.

        Raises:
            PartlyDone: naming the entries that are not listed.
        """
        ...

    async def remove(self, keys: Sequence[SkipKey], /) -> int:
        """Take entries off the list, and give how many were on it.

        Raises:
            PartlyDone: naming the entries that may still be listed.
        """
        ...

    async def page(self, query: SkipListQuery, /) -> list[SkipEntry]:
        """Give up to `limit` entries after a key, in order. Fewer mean that there are no more."""
        ...

    async def everything(self) -> list[SkipEntry]:
        """Give the whole list, in any order, with every edit that was answered."""
        ...
