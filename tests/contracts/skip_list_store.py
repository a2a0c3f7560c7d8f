"""What every store of the skip list promises (ports/skip_list_store.py). Subclass it and give the `store` fixture."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from domain.skip_list import MAX_IDS, SkipEntry, SkipKey, SkipListQuery
from ports.skip_list_store import SkipListStore
from tests.examples import START

DAILY = "ReportRunCompletedEvent"


def keys(*report_ids: str, event_type: str = DAILY) -> list[SkipKey]:
    """Give the keys of reports."""
    return [SkipKey(event_type, report_id) for report_id in report_ids]


def entries(*report_ids: str, event_type: str = DAILY, reason: str = "known bad") -> list[SkipEntry]:
    """Give entries for reports."""
    return [SkipEntry(key, reason, START) for key in keys(*report_ids, event_type=event_type)]


async def listed(store: SkipListStore, event_type: str | None = DAILY) -> list[str]:
    """Give the report ids of a list."""
    return [entry.key.report_id for entry in await store.page(SkipListQuery(event_type, MAX_IDS))]


async def pages(store: SkipListStore, event_type: str | None, limit: int) -> list[list[SkipKey]]:
    """Read a list to its end."""
    found: list[list[SkipKey]] = []
    after: SkipKey | None = None
    while page := await store.page(SkipListQuery(event_type, limit, after)):
        found.append([entry.key for entry in page])
        after = page[-1].key
    return found


class SkipListStoreContract:
    """One class of tests an adapter.

    Attributes:
        adapter: the module under test.
        rounds: how often edits cross.
        bulk: how many ids go in one call.
    """

    adapter: ClassVar[str]
    rounds: ClassVar[int] = 10
    bulk: ClassVar[int] = MAX_IDS

    async def test_r307_what_is_added_is_listed_until_it_is_removed(self, store: SkipListStore) -> None:
        assert await store.add(entries("R1", "R2")) == 2
        assert await store.add(entries("R2", "R3")) == 1
        assert await listed(store) == ["R1", "R2", "R3"]
        assert await store.remove(keys("R1", "R9")) == 1
        assert await listed(store) == ["R2", "R3"]

    async def test_what_is_listed_keeps_its_reason_and_its_time(self, store: SkipListStore) -> None:
        await store.add(entries("R1"))
        later = SkipEntry(SkipKey(DAILY, "R1"), "another", START + timedelta(days=1))
        assert await store.add([later]) == 0
        assert await store.everything() == entries("R1")

    async def test_times_and_reasons_come_back_as_they_went_in(self, store: SkipListStore) -> None:
        odd = SkipEntry(SkipKey("", "日本😀"), 'é "x"\n\ty', START + timedelta(microseconds=1))
        await store.add([odd])
        assert await store.everything() == [odd] == await store.page(SkipListQuery(None, 5))
        assert await store.remove([odd.key]) == 1

    async def test_fc24_emptying_works_and_reads_back_as_empty(self, store: SkipListStore) -> None:
        names = [f"R{number}" for number in range(60)]
        await store.add(entries(*names))
        assert await store.remove(keys(*names)) == 60
        assert await store.everything() == []
        assert await store.page(SkipListQuery(None, 5)) == []
        assert await store.remove(keys(*names)) == 0
        assert await store.add(entries(*names)) == 60

    async def test_fc24_edits_that_cross_lose_nothing(self, store: SkipListStore) -> None:
        """{R1, R2}; at once A adds {R3, R4}, B removes {R1}, C adds {R5}: {R2, R3, R4, R5}."""
        for _ in range(self.rounds):
            await store.add(entries("R1", "R2"))
            async with asyncio.TaskGroup() as tasks:
                edits = [
                    tasks.create_task(store.add(entries("R3", "R4"))),
                    tasks.create_task(store.remove(keys("R1"))),
                    tasks.create_task(store.add(entries("R5"))),
                ]
            assert [edit.result() for edit in edits] == [2, 1, 1]
            assert await listed(store) == ["R2", "R3", "R4", "R5"]
            await store.remove(keys("R2", "R3", "R4", "R5"))

    async def test_fc24_two_bulk_edits_at_once_lose_nothing(self, store: SkipListStore) -> None:
        first = [f"A{number:03}" for number in range(120)]
        second = [f"B{number:03}" for number in range(120)]
        gone = [f"C{number:03}" for number in range(120)]
        await store.add(entries(*gone))
        async with asyncio.TaskGroup() as tasks:
            edits = [
                tasks.create_task(store.add(entries(*first))),
                tasks.create_task(store.add(entries(*second))),
                tasks.create_task(store.remove(keys(*gone))),
            ]
        assert [edit.result() for edit in edits] == [120, 120, 120]
        assert await listed(store) == first + second

    async def test_entries_of_types_are_kept_apart(self, store: SkipListStore) -> None:
        kinds = ["", "A", "A.b", "A b", "a", "B"]
        for kind in kinds:
            assert await store.add(entries("R1", "R2", event_type=kind)) == 2
        for kind in kinds:
            assert await listed(store, kind) == ["R1", "R2"]
        assert await store.remove(keys("R1", event_type="A")) == 1
        assert await listed(store, "A") == ["R2"]
        assert len(await store.everything()) == 11

    async def test_pages_joined_are_all_entries_once_in_order(self, store: SkipListStore) -> None:
        kinds: Sequence[str] = ("", "A", "A.b", "é", "\U0001f600")
        names = ["1", "10", "2", "R", "R 1", "R.1", "r", "é", "\uffee", "\U0001f600"]
        for kind in kinds:
            await store.add(entries(*names, event_type=kind))
        everything = sorted(key for kind in kinds for key in keys(*names, event_type=kind))
        assert sorted(entry.key for entry in await store.everything()) == everything
        for limit in (1, 7, 10, 50, 51):
            if limit > 1:
                found = await pages(store, None, limit)
                assert [key for page in found for key in page] == everything
                assert {len(page) for page in found[:-1]} <= {limit}
            found = await pages(store, "A", limit)
            assert [key for page in found for key in page] == sorted(keys(*names, event_type="A"))

    async def test_a_page_goes_on_after_a_key_that_was_removed(self, store: SkipListStore) -> None:
        await store.add(entries("R1", "R2", "R3"))
        (first,) = await store.page(SkipListQuery(DAILY, 1))
        await store.remove([first.key])
        after = await store.page(SkipListQuery(DAILY, 5, first.key))
        assert [entry.key.report_id for entry in after] == ["R2", "R3"]

    async def test_r307_ten_thousand_ids_go_in_one_call(self, store: SkipListStore) -> None:
        names = [f"report-{number:05}" for number in range(self.bulk)]
        assert await store.add(entries(*names)) == self.bulk
        assert await store.add(entries(*names[:100], "new")) == 1
        found = await store.everything()
        assert len(found) == self.bulk + 1
        assert {entry.key.report_id for entry in found} == {*names, "new"}
        assert await store.remove(keys(*names)) == self.bulk
        assert await listed(store) == ["new"]
