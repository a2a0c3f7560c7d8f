"""What every activity store promises (ports/activity_store.py). Subclass it; provide `store` and `remove` fixtures."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import ClassVar

import pytest

from domain.activity import Activity, ActivityQuery, Place, Pointer, Sealed, Stretch, place_of
from ports.activity_store import ActivityStore
from tests.activity import Remove, a_query, a_row, in_order
from tests.examples import START

pytestmark = pytest.mark.anyio

MONTH = timedelta(days=31).total_seconds()


async def stretches(
    store: ActivityStore, query: ActivityQuery, *, wanted: int = 500, rows: int = 500
) -> AsyncIterator[list[Activity]]:
    """Give what each stretch of a query holds, to its end."""
    after: Place | None = None
    while True:
        found = await store.find(Stretch(query, after, wanted, rows))
        assert len(found.activities) <= wanted
        yield list(found.activities)
        if found.next is None:
            return
        assert after is None or (found.next < after if query.descending else found.next > after)
        after = found.next


async def everything(store: ActivityStore, query: ActivityQuery, *, wanted: int = 500, rows: int = 500) -> list[Place]:
    """Give the places of all that a query holds."""
    return [place_of(row) async for stretch in stretches(store, query, wanted=wanted, rows=rows) for row in stretch]


class ActivityStoreContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    async def test_gives_back_what_was_recorded(self, store: ActivityStore) -> None:
        row = a_row(1, report_id="R1", note="日本😀", price=30.40)
        large = a_row(2)._replace(payload=Pointer("activity/ab/abc/0123", 700_000))
        assert row.report_id == "R1"
        assert large.report_id is None
        assert await store.record([row, large]) == [True, True]
        found = await store.find(Stretch(a_query(), None, 10, 10))
        assert list(found.activities) == [row, large]
        assert isinstance(found.activities[0].payload, Sealed)

    async def test_records_an_event_once_whatever_its_copy_says(self, store: ActivityStore) -> None:
        first = a_row(1)
        assert await store.record([first, a_row(2), first]) == [True, True, False]
        copy = first._replace(account="other", occurred_at=START + timedelta(days=40), type="Other")
        assert await store.record([copy, a_row(3), first]) == [False, True, False]
        assert await everything(store, a_query()) == in_order([first, a_row(2), a_row(3)])
        assert await everything(store, a_query(account="other")) == []
        assert await store.record([]) == []

    async def test_of_many_recorders_of_one_event_one_is_told_that_it_is_new(self, store: ActivityStore) -> None:
        copies = [a_row(1, seconds=number * MONTH) for number in range(8)]
        async with asyncio.TaskGroup() as tasks:
            answers = [tasks.create_task(store.record([copy])) for copy in copies]
        assert sorted(answer.result() for answer in answers) == [[False]] * 7 + [[True]]
        [place] = await everything(store, a_query())
        assert place in in_order(copies)

    async def test_accounts_are_kept_apart(self, store: ActivityStore) -> None:
        accounts = [
            "a",
            "A",
            "a#2026-01",
            "a#",
            "#a",
            "é",
            "e\u0301",
            "日本😀",
            " a",
            "x" * 256,
            "m#a",
            "%",
            "a/b",
            "_",
        ]
        rows = {account: a_row(number, account=account) for number, account in enumerate(accounts)}
        await store.record(list(rows.values()))
        for account in accounts:
            assert await everything(store, a_query(account=account)) == in_order([rows[account]])
        assert await everything(store, a_query(account="nobody")) == []

    @pytest.mark.parametrize("descending", [False, True])
    @pytest.mark.parametrize(("wanted", "looked_at"), [(1, 1), (2, 3), (3, 2), (7, 100), (100, 7)])
    async def test_stretches_joined_are_every_row_once_over_months_and_equal_times(
        self, store: ActivityStore, wanted: int, looked_at: int, *, descending: bool
    ) -> None:
        rows = [a_row(number, seconds=number // 3 * MONTH / 2) for number in range(15)]
        await store.record(rows[::-1])
        found = await everything(store, a_query(descending=descending), wanted=wanted, rows=looked_at)
        assert found == in_order(rows, descending=descending)

    @pytest.mark.parametrize("descending", [False, True])
    async def test_r402_filters_by_type_report_and_window(self, store: ActivityStore, *, descending: bool) -> None:
        rows = [
            a_row(number, seconds=number * MONTH / 4, type=f"T{number % 2}", report_id=f"R{number % 3}")
            for number in range(12)
        ]
        await store.record(rows)

        async def numbers(**query: object) -> list[int]:
            found = await everything(store, a_query(descending=descending, **query), wanted=2, rows=3)
            ids = {place_of(row): number for number, row in enumerate(rows)}
            return [ids[place] for place in found][:: -1 if descending else 1]

        assert await numbers(type="T1") == [1, 3, 5, 7, 9, 11]
        assert await numbers(report_id="R2") == [2, 5, 8, 11]
        assert await numbers(type="T1", report_id="R2") == [5, 11]
        assert await numbers(type="T2") == []
        first, last = rows[2].occurred_at, rows[9].occurred_at
        assert await numbers(earliest=first, latest=last) == [2, 3, 4, 5, 6, 7, 8, 9]
        assert await numbers(earliest=first + timedelta(microseconds=1), latest=last) == [3, 4, 5, 6, 7, 8, 9]
        assert await numbers(earliest=first, latest=last - timedelta(microseconds=1)) == [2, 3, 4, 5, 6, 7, 8]
        assert await numbers(earliest=first, latest=first) == [2]
        assert await numbers(type="T0", report_id="R2", earliest=first, latest=last) == [2, 8]
        assert await numbers(earliest=last + timedelta(days=3650)) == []
        assert await numbers(latest=first - timedelta(days=3650)) == []

    async def test_a_stretch_looks_at_no_more_rows_than_it_is_told(self, store: ActivityStore) -> None:
        await store.record([a_row(number, type="rare" if number == 9 else "often") for number in range(10)])
        found = await store.find(Stretch(a_query(type="rare"), None, 5, 4))
        assert list(found.activities) == []
        assert found.next is not None
        assert found.next <= place_of(a_row(3, type="often"))

    async def test_goes_on_from_a_row_that_is_gone(self, store: ActivityStore, remove: Remove) -> None:
        rows = [a_row(number, seconds=number // 2 * MONTH) for number in range(8)]
        await store.record(rows)
        for descending in (False, True):
            query = a_query(descending=descending)
            found = await store.find(Stretch(query, None, 3, 3))
            last = found.activities[-1]
            await remove([last])
            rest = await store.find(Stretch(query, place_of(last), 100, 100))
            joined = [place_of(row) for row in (*found.activities, *rest.activities)]
            assert joined == in_order(rows, descending=descending)
            rows.remove(last)

    async def test_a_place_of_any_account_and_time_is_a_start(self, store: ActivityStore) -> None:
        rows = [a_row(number, seconds=number * MONTH) for number in range(4)]
        await store.record(rows)
        between = Place(START + timedelta(seconds=1.5 * MONTH), "f" * 32)
        for descending, expected in ((False, rows[2:]), (True, rows[:2])):
            found = await store.find(Stretch(a_query(descending=descending), between, 100, 100))
            assert [place_of(row) for row in found.activities] == in_order(expected, descending=descending)

    async def test_the_key_of_cursors_is_made_once(self, store: ActivityStore) -> None:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(store.cursor_key()) for _ in range(8)]
        assert {task.result() for task in asked} == {await store.cursor_key()}
        assert len(await store.cursor_key()) == 32
