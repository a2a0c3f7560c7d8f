"""The daily job: what it loads, what it remembers, and what it says (R-506, FC-47)."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.event_table import MemoryEventTable, MemoryLoad
from adapters.memory.id_source import CountingIds
from adapters.memory.object_store import MemoryObjectStore
from adapters.zstd.object_store import ZstdObjectStore
from application.daily_job import IN_HAND, Lake, RunReport, load_here, run_daily_job
from domain.daily import Committed, PackedObject, Staged
from domain.errors import Misconfigured, Unavailable
from domain.intake import RawMessage, join_lines, object_name, write_line
from domain.objects import ObjectPage, StoredObject

pytestmark = pytest.mark.anyio

DAY = date(2026, 1, 31)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def message(number: int, arrived_at: datetime = NOON, time: str | None = None) -> RawMessage:
    event = {"specversion": "1.0", "id": f"e{number}", "source": "/shop", "type": "Priced"}
    return RawMessage(f"m{number}", arrived_at, 1, json.dumps(event if time is None else {**event, "time": time}))


class House:
    """The job's ports in memory."""

    def __init__(self, objects: MemoryObjectStore | None = None) -> None:
        self.objects = objects or MemoryObjectStore()
        self.table = MemoryEventTable()
        self.lake = Lake(self.objects, self.table, ManualClock(NOON), CountingIds())

    async def put(self, *messages: RawMessage) -> str:
        name = object_name("raw", messages)
        await ZstdObjectStore(self.objects).put(name, join_lines(map(write_line, messages)))
        return name

    async def run(self, day: date = DAY, *, back: int = 14, again: bool = False) -> RunReport:
        report = await run_daily_job(self.lake, day, load_here(), back=back, again=again)
        assert report.events == report.rows + report.duplicates + report.rejects
        return report

    async def names(self, prefix: str) -> list[str]:
        return [found.name for found in (await self.objects.list(prefix)).objects]

    def rows(self) -> dict[date, int]:
        return {day: len(rows) for day, rows in self.table.days.items()}


@pytest.fixture
def house() -> House:
    return House()


async def test_r506_a_run_loads_its_day_and_says_so(house: House) -> None:
    await house.put(message(1), message(2), message(1)._replace(message_id="m9"))
    await house.put(RawMessage("m3", NOON, 1, "{"))
    await house.put(message(4, NOON + timedelta(days=1)))
    report = await house.run()
    assert report == RunReport(
        run_id=report.run_id,
        day="2026-01-31",
        started_at="2026-01-31T12:00:00.000000Z",
        ended_at="2026-01-31T12:00:00.000000Z",
        objects=2,
        messages=4,
        events=4,
        rows=2,
        duplicates=1,
        rejects=1,
        days={"2026-01-31": 2},
        version="1",
        files_added=1,
        files_replaced=0,
        damaged={},
    )
    (name,) = await house.names("reports/")
    assert name == f"reports/date=2026-01-31/{report.run_id}.json"
    assert json.loads(await house.objects.get(name) or b"") == report.to_json()
    assert len(await house.names("quarantine/date=2026-01-31/")) == 1


async def test_fc47_a_rerun_reads_nothing_and_changes_nothing(house: House) -> None:
    await house.put(message(1))
    await house.run()
    before = sorted(await house.names(""))
    report = await house.run()
    assert (report.objects, report.events, report.version) == (0, 0, "1")
    assert sorted(await house.names("")) == before


async def test_fc47_a_touched_object_is_not_loaded_again(house: House) -> None:
    name = await house.put(message(1))
    await house.run()
    content = await house.objects.get(name)
    await house.objects.delete(name)
    await house.objects.put(name, content or b"")
    assert (await house.run()).objects == 0
    assert house.rows() == {DAY: 1}


async def test_fc47_an_object_that_arrives_at_the_edge_is_loaded_by_a_later_run_of_the_day(house: House) -> None:
    await house.put(message(1))
    await house.run()
    await house.put(message(2, datetime(2026, 1, 31, 23, 59, 59, 900_000, tzinfo=UTC)))
    report = await house.run()
    assert (report.objects, report.rows) == (1, 1)
    assert house.rows() == {DAY: 2}


async def test_fc47_or_by_the_run_of_the_next_day(house: House) -> None:
    await house.put(message(1))
    await house.run()
    await house.put(message(2, datetime(2026, 1, 31, 23, 59, 59, 900_000, tzinfo=UTC)))
    report = await house.run(DAY + timedelta(days=1))
    assert (report.objects, report.days) == (1, {"2026-01-31": 1})
    assert (await house.run()).objects == 0
    assert house.rows() == {DAY: 2}


async def test_a_run_looks_back_as_far_as_it_is_told(house: House) -> None:
    await house.put(message(1, NOON - timedelta(days=3)))
    assert (await house.run(back=2)).objects == 0
    assert (await house.run(back=3)).objects == 1


async def test_fc47_an_event_of_three_days_ago_lands_in_its_own_day_once(house: House) -> None:
    late = message(1, time="2026-01-28T08:00:00Z")
    await house.put(late)
    await house.run()
    await house.put(late._replace(message_id="m2", arrived_at=NOON + timedelta(days=1)))
    report = await house.run(DAY + timedelta(days=1))
    assert (report.rows, report.duplicates) == (0, 1)
    assert house.rows() == {date(2026, 1, 28): 1}


@pytest.mark.parametrize("prefix", ["quarantine/", "loads/", "reports/"])
async def test_fc47_a_crash_between_any_two_writes_is_made_good(
    house: House, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.put(message(1), RawMessage("m3", NOON, 1, "{"))
    put = house.objects.put

    async def failing(name: str, data: bytes) -> bool:
        if name.startswith(prefix):
            raise Unavailable("the disk", "gone")
        return await put(name, data)

    with monkeypatch.context() as patch:
        patch.setattr(house.objects, "put", failing)
        with pytest.raises(Unavailable):
            await house.run()
    if prefix == "quarantine/":
        assert house.rows() == {}
    await house.run()
    assert house.rows() == {DAY: 1}
    assert len(await house.names("quarantine/")) == 1
    assert (await house.run()).objects == 0


async def test_again_reads_what_was_loaded_and_doubles_nothing(house: House) -> None:
    await house.put(message(1), message(2))
    await house.run()
    report = await house.run(again=True)
    assert (report.objects, report.rows, report.duplicates) == (1, 0, 2)
    house.table.days.clear()
    assert (await house.run(again=True)).rows == 2


async def test_a_damaged_object_harms_no_other_and_is_tried_again(house: House) -> None:
    name = await house.put(message(1))
    await house.put(message(2))
    content = await house.objects.get(name) or b""
    await house.objects.delete(name)
    await house.objects.put(name, content[:-6])
    report = await house.run()
    assert (report.objects, report.rows, list(report.damaged)) == (1, 1, [name])
    await house.objects.delete(name)
    await house.objects.put(name, content)
    report = await house.run()
    assert (report.objects, report.rows, report.damaged) == (1, 1, {})


async def test_a_damaged_entry_of_the_ledger_is_told_with_the_fix(house: House) -> None:
    await house.objects.put("loads/date=2026-01-31/x.json", b"{")
    with pytest.raises(Misconfigured, match=r"loads/date=2026-01-31/x.json: is damaged; delete it"):
        await house.run()


class Shared(MemoryObjectStore):
    """A bucket into which others put what they like."""

    def __init__(self, *foreign: str) -> None:
        super().__init__()
        self._foreign = foreign

    async def list(self, prefix: str, /, *, after: str = "", limit: int = 1000) -> ObjectPage:
        page = await super().list(prefix, after=after, limit=limit)
        foreign = [StoredObject(name, 3) for name in self._foreign if name.startswith(prefix)]
        return page._replace(objects=[*foreign, *page.objects])


async def test_foreign_objects_beside_ours_are_told_and_harm_none() -> None:
    folder = "raw/date=2026-01-31/"
    objects = Shared(folder, f"{folder}café (1).zst", f"{folder}\udcff")
    house = House(objects)
    await house.put(message(1))
    report = await house.run()
    assert (report.objects, report.rows, list(report.damaged)) == (1, 1, [f"{folder}café (1).zst", f"{folder}\\udcff"])
    assert "must be steps of" in report.damaged[f"{folder}café (1).zst"]
    assert (await house.run()).objects == 0, "ours is in the ledger"


async def test_a_foreign_object_in_the_ledger_is_told_with_the_fix() -> None:
    with pytest.raises(Misconfigured, match=r"loads/date=2026-01-31/my notes: is damaged; delete it"):
        await House(Shared("loads/date=2026-01-31/my notes")).run()


async def test_more_objects_than_a_page_are_all_loaded(house: House) -> None:
    for number in range(1005):
        await house.put(message(number))
    report = await house.run()
    assert (report.objects, report.rows) == (1005, 1005)
    assert (await house.run()).objects == 0


async def test_few_groups_are_in_hand_at_a_time(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    now = most = 0
    stage = MemoryLoad.stage

    async def counted(load: MemoryLoad, objects: Sequence[PackedObject]) -> Staged:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        found = await stage(load, objects)
        now -= 1
        return found

    monkeypatch.setattr(MemoryLoad, "stage", counted)
    for number in range(400):
        await house.put(message(number))
    told: list[tuple[int, int]] = []
    await run_daily_job(house.lake, DAY, load_here(lambda done, size: told.append((done, size))), back=0)
    assert 1 <= most <= IN_HAND
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1] > 0


async def test_an_error_of_the_table_is_raised_as_it_is(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: MemoryLoad) -> Committed:
        raise Unavailable("the catalog", "gone")

    monkeypatch.setattr(MemoryLoad, "commit", away)
    await house.put(message(1))
    with pytest.raises(Unavailable):
        await house.run()
    assert await house.names("loads/") == []
