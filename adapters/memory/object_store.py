"""Objects in one process's memory (ports/object_store.py)."""

from bisect import bisect_right

from domain.objects import ObjectPage, StoredObject, check_object_name, check_prefix


class MemoryObjectStore:
    """A dict."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    async def put(self, name: str, data: bytes, /) -> bool:
        """Store an object unless there is one of this name."""
        check_object_name(name)
        is_new = name not in self._objects
        self._objects.setdefault(name, bytes(data))
        return is_new

    async def get(self, name: str, /) -> bytes | None:
        """Give an object, or None."""
        check_object_name(name)
        return self._objects.get(name)

    async def list(self, prefix: str, /, *, after: str = "", limit: int = 1000) -> ObjectPage:
        """Give a page of names; see the port."""
        check_prefix(prefix)
        names = sorted(name for name in self._objects if name.startswith(prefix))
        start = bisect_right(names, after)
        page = [StoredObject(name, len(self._objects[name])) for name in names[start : start + limit]]
        return ObjectPage(page, page[-1].name if start + limit < len(names) else None)

    async def delete(self, name: str, /) -> None:
        """Delete an object."""
        check_object_name(name)
        self._objects.pop(name, None)
