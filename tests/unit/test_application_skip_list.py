"""Bulk edits of the skip list, and the router's own view of it."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.skip_list_store import MemorySkipListStore
from application.skip_list import (
    Edited,
    SkipListReader,
    add_reports,
    list_reports,
    remove_reports,
)
from domain.errors import BadCursor, Invalid, Unavailable
from domain.skip_list import MAX_IDS, SkipEntry
from tests.examples import START

pytestmark = pytest.mark.anyio

DAILY = "ReportRunCompletedEvent"


class Store(MemorySkipListStore):
    """A store that can be down, or slow, and counts how often the list was read."""

    def __init__(self) -> None:
        super().__init__()
        self.readings = 0
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def everything(self) -> list[SkipEntry]:
        self.readings += 1
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return await super().everything()


class World:
    """A reader and what is around it."""

    def __init__(self, *, patience: float = 5.0) -> None:
        self.store = Store()
        self.clock = ManualClock(START)
        self.metrics = MemoryMetrics()
        self.told: list[tuple[Exception, datetime | None]] = []
        self.reader = SkipListReader(
            self.store,
            self.clock,
            self.metrics,
            patience=patience,
            on_failure=lambda error, read_at: self.told.append((error, read_at)),
        )

    async def skipped(self, *report_ids: str) -> list[bool]:
        return [await self.reader.reason(DAILY, report_id) is not None for report_id in report_ids]

    async def settled(self) -> None:
        """Let the reading beside the events end."""
        if self.reader._reading is not None:
            await asyncio.wait([self.reader._reading])

    def stale(self, known: str) -> int:
        return self.metrics.total("skip_list_stale_answers_total", known=known)


async def add(store: MemorySkipListStore, *report_ids: str, event_type: str = DAILY) -> Edited:
    return await add_reports(store, ManualClock(START), event_type, report_ids, "known bad")


async def test_fc24_counts_say_what_happened_to_every_id_that_was_given() -> None:
    store = MemorySkipListStore()
    assert await add(store, "R1", " R1 ", "R2") == Edited(2, 1)
    assert await add(store, "R2", "R3") == Edited(1, 1)
    assert await remove_reports(store, DAILY, [" R1 ", "R1", "R9"]) == Edited(1, 2)
    assert [entry.key.report_id for entry in (await list_reports(store, DAILY, 0, "")).entries] == ["R2", "R3"]


async def test_a_bad_argument_changes_nothing() -> None:
    store = MemorySkipListStore()
    bad: list[Sequence[str]] = [[], ["R1", ""], ["R"] * (MAX_IDS + 1)]
    for report_ids in bad:
        with pytest.raises(Invalid, match="report_ids"):
            await add_reports(store, ManualClock(START), DAILY, report_ids, "")
    with pytest.raises(Invalid, match="reason"):
        await add_reports(store, ManualClock(START), DAILY, ["R1"], "x" * 501)
    assert await store.everything() == []


async def test_pages_joined_are_the_list_and_the_last_one_has_no_token() -> None:
    store = MemorySkipListStore()
    await add(store, *(f"R{number}" for number in range(10)))
    await add(store, "R1", event_type="")
    token, sizes = "", []
    while True:
        page = await list_reports(store, DAILY, 5, token)
        sizes.append(len(page.entries))
        token = page.next_page_token
        if not token:
            break
    assert sizes == [5, 5]
    everything = await list_reports(store, "", 5, "")
    assert [entry.key.event_type for entry in everything.entries] == ["", *[DAILY] * 4]
    with pytest.raises(BadCursor):
        await list_reports(store, DAILY, 5, everything.next_page_token)
    with pytest.raises(Invalid, match="page_size"):
        await list_reports(store, DAILY, -1, "")


async def test_r307_a_change_counts_within_the_cache_time_and_a_warm_event_asks_no_store() -> None:
    world = World()
    await add(world.store, "R1")
    assert await world.skipped("R1", "R2", "R1") == [True, False, True]
    assert world.store.readings == 1
    await add(world.store, "R2")
    world.clock.advance(7)
    assert await world.skipped("R2") == [False]
    assert world.store.readings == 1
    world.clock.advance(8)
    assert await world.skipped("R2") == [True]
    assert world.store.readings == 2
    await remove_reports(world.store, DAILY, ["R1", "R2"])
    world.clock.advance(15)
    assert await world.skipped("R1", "R2") == [False, False]


async def test_the_list_is_read_again_beside_the_events_before_it_is_too_old() -> None:
    world = World()
    await world.skipped("R1")
    world.clock.advance(8)
    await add(world.store, "R1")
    world.store.gate.clear()
    assert await world.skipped("R1", "R1") == [False, False], "no event waits"
    await asyncio.sleep(0)
    assert await world.skipped("R1") == [False]
    assert world.store.readings == 2, "one reading at a time"
    world.store.gate.set()
    await world.settled()
    assert await world.skipped("R1") == [True]


async def test_fc24_with_the_store_down_the_last_known_list_is_used_and_says_so() -> None:
    world = World()
    await add(world.store, "R1")
    await world.skipped("R1")
    world.store.failure = Unavailable("DynamoDB", "throttled")
    for minutes in (1, 60, 60 * 24):
        world.clock.advance(minutes * 60)
        assert await world.skipped("R1", "R2") == [True, False]
    assert [(type(error), read_at) for error, read_at in world.told] == [(Unavailable, START)] * 3
    assert world.stale("yes") == 6
    world.store.failure = None
    await add(world.store, "R2")
    world.clock.advance(2)
    assert await world.skipped("R2") == [True]
    assert world.stale("yes") == 6


async def test_fc24_without_any_list_nothing_is_skipped_and_that_is_said() -> None:
    world = World()
    world.store.failure = Unavailable("DynamoDB", "throttled")
    assert await world.skipped("R1", "R2", "R3") == [False] * 3
    assert (world.store.readings, world.stale("no")) == (1, 3)
    assert world.told[0][1] is None
    world.clock.advance(1.4)
    await world.skipped("R1")
    assert world.store.readings == 1, "a store that failed is left alone for a moment"
    world.clock.advance(0.2)
    await world.skipped("R1")
    assert world.store.readings == 2


async def test_a_mistake_of_ours_fails_no_event_either_and_is_told() -> None:
    world = World()
    world.store.failure = TypeError("a mistake")
    assert await world.skipped("R1") == [False]
    assert isinstance(world.told[0][0], TypeError)


async def test_a_slow_store_costs_one_wait_not_one_an_event() -> None:
    world = World(patience=0.05)
    world.store.gate.clear()
    loop = asyncio.get_running_loop()
    await world.skipped("R1")
    started = loop.time()
    assert await world.skipped(*(f"R{number}" for number in range(100))) == [False] * 100
    assert loop.time() - started < 0.05
    assert world.store.readings == 1
    await add(world.store, "R1")
    world.store.gate.set()
    await world.settled()
    assert await world.skipped("R1") == [True]


async def test_events_without_a_report_ask_nothing() -> None:
    world = World()
    assert await world.reader.reason(DAILY, None) is None
    assert world.store.readings == 0


def test_fc22_a_reading_of_a_loop_that_is_gone_is_made_again() -> None:
    world = World(patience=0.01)

    async def cut_off() -> None:
        world.store.gate.clear()
        await world.skipped("R1")

    loop = asyncio.new_event_loop()
    loop.run_until_complete(cut_off())
    left = world.reader._reading
    assert left is not None
    assert not left.done()

    async def again() -> list[bool]:
        world.store.gate = asyncio.Event()
        world.store.gate.set()
        await add(world.store, "R1")
        return await world.skipped("R1")

    assert asyncio.run(again()) == [True]
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(left)
    loop.close()


async def test_closing_ends_a_reading_that_is_under_way() -> None:
    world = World(patience=0.01)
    await world.reader.aclose()
    world.store.gate.clear()
    await world.skipped("R1")
    await world.reader.aclose()
    assert world.reader._reading is not None
    assert world.reader._reading.cancelled()
