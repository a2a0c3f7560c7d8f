"""Large content in one process's memory (ports/payload_store.py)."""


class MemoryPayloadStore:
    """Content in a dict."""

    def __init__(self) -> None:
        """Start empty."""
        self._contents: dict[str, bytes] = {}

    async def put(self, key: str, content: bytes, /) -> None:
        """Keep content."""
        self._contents.setdefault(key, content)

    async def get(self, key: str, /) -> bytes | None:
        """Give content."""
        return self._contents.get(key)
