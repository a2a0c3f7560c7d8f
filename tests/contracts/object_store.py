"""What every object store promises (ports/object_store.py). Subclass it and provide the `objects` fixture."""

import asyncio
from typing import ClassVar

import pytest

from domain.errors import Invalid
from ports.object_store import ObjectStore

pytestmark = pytest.mark.anyio

UNSAFE = [
    "",
    "/etc/passwd",
    "../up",
    "a/../../b",
    "a//b",
    "a/",
    ".hidden",
    "a/.parts/b",
    "a b",
    "a\\b",
    "a\nb",
    "a%2e",
    "é",
    "a" * 256,
    "/".join(["a"] * 600),
]


async def names(objects: ObjectStore, prefix: str, limit: int = 1000) -> list[str]:
    """Give all names, page by page."""
    found: list[str] = []
    after = ""
    while True:
        page = await objects.list(prefix, after=after, limit=limit)
        assert len(page.objects) <= limit
        found += [one.name for one in page.objects]
        if page.after is None:
            return found
        after = page.after


class ObjectStoreContract:
    """One class of tests an adapter.

    Attributes:
        adapter: the module under test.
    """

    adapter: ClassVar[str]

    async def test_an_object_comes_back_as_it_was(self, objects: ObjectStore) -> None:
        data = bytes(range(256)) * 5000
        assert await objects.put("raw/date=2026-01-31/a.jsonl.zst", data) is True
        assert await objects.get("raw/date=2026-01-31/a.jsonl.zst") == data
        assert await objects.put("empty", b"") is True
        assert await objects.get("empty") == b""

    async def test_fc43_an_object_that_is_there_stays_as_it_is(self, objects: ObjectStore) -> None:
        assert await objects.put("raw/a", b"first") is True
        assert await objects.put("raw/a", b"second") is False
        assert await objects.get("raw/a") == b"first"
        assert await names(objects, "") == ["raw/a"]

    async def test_what_is_not_there_is_none(self, objects: ObjectStore) -> None:
        assert await objects.get("raw/nothing") is None
        await objects.put("raw/a", b"x")
        assert await objects.get("raw") is None
        assert await objects.get("raw/a/b") is None
        assert await names(objects, "quarantine/") == []

    async def test_deleting_takes_away_and_may_be_repeated(self, objects: ObjectStore) -> None:
        await objects.put("raw/a", b"x")
        await objects.put("raw/b", b"y")
        for _ in range(2):
            await objects.delete("raw/a")
            assert await objects.get("raw/a") is None
        assert await names(objects, "") == ["raw/b"]
        assert await objects.put("raw/a", b"again") is True
        assert await objects.get("raw/a") == b"again"

    async def test_names_are_listed_in_order_by_prefix_with_sizes(self, objects: ObjectStore) -> None:
        kept = ["a-1/x", "a/b", "a/b-1", "a/c/d", "a0", "b/a", "raw/date=2026-01-01/x", "raw/date=2026-01-11/x"]
        for name in reversed(kept):
            await objects.put(name, b"x" * len(name))
        assert await names(objects, "") == kept
        assert await names(objects, "a/") == ["a/b", "a/b-1", "a/c/d"]
        assert await names(objects, "a/b") == ["a/b", "a/b-1"]
        assert await names(objects, "raw/date=2026-01-1") == ["raw/date=2026-01-11/x"]
        assert await names(objects, "a/c/d/e") == []
        page = await objects.list("b/")
        assert [one.name for one in page.objects] == ["b/a"]
        assert page.objects[0].size > 0

    async def test_fc25_pages_joined_are_all_names_once_also_where_the_last_is_full(self, objects: ObjectStore) -> None:
        stored = [f"raw/date=2026-01-{day:02}/{number:02}" for day in (1, 2, 3) for number in range(4)]
        async with asyncio.TaskGroup() as tasks:
            for name in stored:
                tasks.create_task(objects.put(name, b"x"))
        for limit in (1, 4, 5, 6, 12, 13):
            assert await names(objects, "raw/", limit) == stored
        assert await names(objects, "raw/date=2026-01-02/", 2) == stored[4:8]
        page = await objects.list("raw/", after="raw/date=2026-01-02", limit=1)
        assert [one.name for one in page.objects] == [stored[4]]
        assert (await objects.list("raw/", after=stored[-1])).objects == []

    @pytest.mark.parametrize("name", UNSAFE)
    async def test_fc43_names_that_could_lead_elsewhere_are_refused(self, objects: ObjectStore, name: str) -> None:
        with pytest.raises(Invalid, match="name: must be steps"):
            await objects.put(name, b"x")
        with pytest.raises(Invalid, match="name: must be steps"):
            await objects.get(name)
        with pytest.raises(Invalid, match="name: must be steps"):
            await objects.delete(name)

    @pytest.mark.parametrize("prefix", ["../", "/", "a//", "a/../", ".p", "a b", "é"])
    async def test_prefixes_that_no_name_has_are_refused(self, objects: ObjectStore, prefix: str) -> None:
        with pytest.raises(Invalid, match="prefix: must be the beginning of a name"):
            await objects.list(prefix)


class ConcurrentObjectStoreContract:
    """What is promised to writers that come at the same moment; an engine for one caller at a time does without."""

    async def test_fc43_of_many_writers_at_once_one_is_first(self, objects: ObjectStore) -> None:
        for number in range(5):
            name = f"raw/{number}"
            async with asyncio.TaskGroup() as tasks:
                writers = [tasks.create_task(objects.put(name, f"{writer}".encode() * 1000)) for writer in range(12)]
            won = [writer for writer, task in enumerate(writers) if task.result()]
            assert len(won) == 1
            assert await objects.get(name) == f"{won[0]}".encode() * 1000
