"""What every payload store promises (ports/payload_store.py). Subclass it and provide the `store` fixture."""

import asyncio
from typing import ClassVar

import pytest

from ports.payload_store import PayloadStore

pytestmark = pytest.mark.anyio

KEY = "activity/ab/abc/0123.json"


class PayloadStoreContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    async def test_gives_back_what_was_put(self, store: PayloadStore) -> None:
        assert await store.get(KEY) is None
        content = bytes(range(256)) * 5000
        await store.put(KEY, content)
        await store.put("activity/ab/abc/4567.json", b"")
        assert await store.get(KEY) == content
        assert await store.get("activity/ab/abc/4567.json") == b""
        assert await store.get("activity/ab/abc") is None

    async def test_putting_it_again_changes_nothing(self, store: PayloadStore) -> None:
        await store.put(KEY, b"first")
        await store.put(KEY, b"first")
        assert await store.get(KEY) == b"first"

    async def test_many_writers_of_one_key_all_end_with_its_content(self, store: PayloadStore) -> None:
        content = b"x" * 300_000
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(store.put(KEY, content))
        assert await store.get(KEY) == content
