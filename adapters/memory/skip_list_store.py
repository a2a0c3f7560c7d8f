"""A skip list in one process's memory (ports/skip_list_store.py)."""

from collections.abc import Sequence

from domain.skip_list import SkipEntry, SkipKey, SkipListQuery, matching


class MemorySkipListStore:
    """Entries in a dict; no edit gives way to another before it is done."""

    def __init__(self) -> None:
        """List nothing."""
        self._entries: dict[SkipKey, SkipEntry] = {}

    async def add(self, entries: Sequence[SkipEntry], /) -> int:
        """List entries; see the port."""
        before = len(self._entries)
        for entry in entries:
            self._entries.setdefault(entry.key, entry)
        return len(self._entries) - before

    async def remove(self, keys: Sequence[SkipKey], /) -> int:
        """Take entries off the list."""
        return sum(self._entries.pop(key, None) is not None for key in keys)

    async def page(self, query: SkipListQuery, /) -> list[SkipEntry]:
        """Give a page."""
        return matching(self._entries.values(), query)

    async def everything(self) -> list[SkipEntry]:
        """Give the whole list."""
        return list(self._entries.values())
