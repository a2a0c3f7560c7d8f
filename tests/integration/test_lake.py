"""The lake's table under crashes, readers and writers side by side, on files and worker processes (FC-47, G23)."""

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from adapters.iceberg import commits, event_table, query
from adapters.iceberg.event_table import IcebergEventTable
from adapters.iceberg.query import Answer, ask
from adapters.memory.event_table import MemoryEventTable
from domain.errors import Contention, Unavailable
from domain.event_schema import BASE_COLUMNS
from domain.intake import RawMessage
from entrypoints.engines.lake import open_table
from tests import nasty
from tests.contracts.event_table import declared, event, load, message, packed
from tests.lakes import asked, put_all, quarantine_of, rows_of, settings_of
from tests.waiting import wait_until

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAYS = 3


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def messages(start: int, count: int) -> Iterator[RawMessage]:
    """Give good messages over three days, each tenth of them broken."""
    for number in range(start, start + count):
        body = "{" if number % 10 == 9 else event(f"e{number}", time=f"2026-01-{29 + number % DAYS}T00:00:00Z")
        yield message(number, body, NOON + timedelta(milliseconds=number))


def command(folder: Path, *arguments: str, processes: int = 2) -> "subprocess.Popen[bytes]":
    """Start `interlock` as a user would."""
    variables = {"INTERLOCK_DATA_DIR": str(folder), "INTERLOCK_LAKE__PROCESSES": str(processes)}
    variables |= {"INTERLOCK_LAKE__SPILL_DIR": str(folder / "spill"), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "entrypoints.cli.main", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.fixture
def table(tmp_path: Path) -> Iterator[IcebergEventTable]:
    found = open_table(settings_of(tmp_path, processes=2))
    yield found
    found.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_fc47_killed_anywhere_and_run_again_the_table_is_whole(tmp_path: Path) -> None:
    rnd = random.Random(7)
    put_all(tmp_path, messages(0, 600), 100)
    for kill in range(4):
        put_all(tmp_path, messages(600 + 100 * kill, 100), 100)
        job = command(tmp_path, "daily-job", "--date", "2026-01-31")
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(1.0 + rnd.random() * 2.5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, 9)
        job.communicate()
        found = [row["id"] for row in rows_of(tmp_path)]
        assert len(found) == len(set(found))
    for _ in range(2):
        job = command(tmp_path, "daily-job", "--date", "2026-01-31", processes=1)
        _, told = job.communicate(timeout=120)
        assert job.returncode == 0, told.decode()
        assert sorted(row["id"] for row in rows_of(tmp_path)) == sorted(
            f"e{number}" for number in range(1000) if number % 10 != 9
        )
    assert sorted(line["message_id"] for line in quarantine_of(tmp_path)) == sorted(f"m{n}" for n in range(9, 1000, 10))


@pytest.mark.slow
def test_worker_processes_end_with_a_job_that_is_killed(tmp_path: Path) -> None:
    rnd = random.Random(1)
    put_all(tmp_path, [message(n, event(f"e{n}", data=rnd.randbytes(2000).hex())) for n in range(3000)], 1000)
    job = command(tmp_path, "daily-job", "--date", "2026-01-31")
    wait_until(lambda: any((tmp_path / "spill").rglob("*.arrow")))  # the workers are at work
    job.kill()
    job.communicate()
    wait_until(lambda: not group_of(job.pid))


def group_of(leader: int) -> list[int]:
    """Give the processes of a group that still run."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


async def test_fc47_files_that_were_written_without_a_commit_are_nobodys(
    tmp_path: Path, table: IcebergEventTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    await load(table, packed("a", *messages(0, 30)))
    with monkeypatch.context() as patch:
        patch.setattr(event_table, "put_in_place", crash)
        with pytest.raises(Unavailable, match="No space left"):
            await load(table, packed("b", *messages(30, 30)))
    assert len(rows_of(tmp_path)) == 27
    _, committed = await load(table, packed("b", *messages(30, 30)))
    assert (committed.rows, len(rows_of(tmp_path))) == (27, 54)


async def test_fc47_readers_see_the_old_state_or_the_new_and_never_a_gap(
    tmp_path: Path, table: IcebergEventTable
) -> None:
    await load(table, packed("a", *messages(0, 100)))
    seen: set[int] = set()
    done = asyncio.Event()

    async def read() -> None:
        while not done.is_set():
            seen.update(row[0] for row in await asked(table, "select count(*) from events"))

    reading = asyncio.create_task(read())
    for number in range(1, 6):
        await load(table, packed("b", *messages(100 * number, 100)))
    done.set()
    await reading
    assert seen <= {90 * number for number in range(1, 7)}
    assert len(seen) > 1
    assert len(rows_of(tmp_path)) == 540


async def test_a_query_that_began_before_a_load_ends_reads_what_was_there(table: IcebergEventTable) -> None:
    await load(table, packed("a", *messages(0, 100)))
    begun, loaded = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    rows: list[Sequence[Any]] = []

    def take(answer: Answer) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert loaded.wait(30)
        rows.extend(answer.rows)

    asking = asyncio.create_task(ask(table.table(), "select id from events", take))
    await begun.wait()
    await load(table, packed("b", *messages(100, 100)))
    loaded.set()
    await asking
    assert len(rows) == 90


@pytest.mark.parametrize(
    "sql", ["select count(*) from range(100000000000) a, range(100) b", "from range(100000000000)"]
)
async def test_a_question_that_is_given_up_ends_at_once_and_leaves_nothing(
    tmp_path: Path, table: IcebergEventTable, sql: str
) -> None:
    spill, started = tmp_path / "spill", time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await ask(table.table(), sql, lambda answer: deque(answer.rows, maxlen=0).clear(), spill=spill)
    assert time.monotonic() - started < 20
    assert names_in(spill) == []


async def test_what_memory_does_not_hold_is_written_where_it_is_told_and_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "MEMORY", "100MB")
    monkeypatch.chdir(tmp_path)
    spill, spilt = tmp_path / "spill", list[str]()

    def take(answer: Answer) -> None:
        assert next(answer.rows)
        spilt.extend(path.name for path in spill.rglob("duckdb_temp*"))

    await ask(None, "select a from range(20000000) t(a) order by hash(a)", take, spill=spill)
    assert spilt
    assert names_in(tmp_path) == ["spill"]
    assert names_in(spill) == []


async def test_small_files_are_written_again_with_the_next_rows_of_their_day(table: IcebergEventTable) -> None:
    for number in range(6):
        _, committed = await load(table, packed("a", *messages(number * 30, 30)))
        assert committed.files_replaced == (DAYS if number else 0)
    found = table.table()
    assert found is not None
    assert len(list(found.scan().plan_files())) == DAYS


async def test_large_files_stay_as_they_are_and_their_keys_count(
    table: IcebergEventTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "SMALL_FILE_BYTES", 0)
    await load(table, packed("a", *messages(0, 60)))
    _, committed = await load(table, packed("b", *messages(30, 60)))
    assert (committed.rows, committed.duplicates, committed.files_replaced) == (27, 27, 0)
    found = table.table()
    assert found is not None
    assert len(list(found.scan().plan_files())) == 2 * DAYS


async def test_fc47_two_loads_at_once_keep_each_event_once(tmp_path: Path, table: IcebergEventTable) -> None:
    async with table.load(0) as one, table.load(0) as other:
        await one.stage([packed("a", *messages(0, 60))])
        await other.stage([packed("b", *messages(30, 60))])
        first, second = await one.commit(), await other.commit()
    assert (first.rows, second.rows, second.duplicates) == (54, 27, 27)
    assert sorted(row["id"] for row in rows_of(tmp_path)) == sorted(f"e{n}" for n in range(90) if n % 10 != 9)


async def test_a_load_that_always_comes_second_gives_up_and_leaves_no_file(
    tmp_path: Path, table: IcebergEventTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CommitFailedException

    monkeypatch.setattr(Table, "_do_commit", refuse)
    async with table.load(0) as into:
        await into.stage([packed("a", *messages(0, 30))])
        with pytest.raises(Contention):
            await into.commit()
    assert not list((tmp_path / "lake" / "warehouse").rglob("*.parquet"))


async def test_worker_processes_do_what_a_thread_does(tmp_path: Path, table: IcebergEventTable) -> None:
    await load(table, packed("a", *messages(0, 60)))
    objects = [packed(f"o{number}", *messages(number * 30, 60)) for number in range(20)]
    async with table.load(100_000_000) as into:
        staged = [await into.stage(objects[:10]), await into.stage(objects[10:])]
        committed = await into.commit()
    assert sum(one.events for one in staged) == 1200
    assert committed.rows + committed.duplicates == 1080
    assert sorted(row["id"] for row in rows_of(tmp_path)) == sorted(f"e{n}" for n in range(630) if n % 10 != 9)
    assert not list((tmp_path / "spill").iterdir())


async def test_a_worker_process_that_is_killed_is_told_and_leaves_nothing(
    tmp_path: Path, table: IcebergEventTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_table, "stage", _die)
    with pytest.raises(Unavailable, match="a worker process is unavailable"):
        async with table.load(100_000_000) as into:
            await into.stage([packed("a", *messages(0, 30))])
    assert rows_of(tmp_path) == []
    assert not list((tmp_path / "spill").iterdir())


def _die(*_: object) -> None:
    os.kill(os.getpid(), 9)


async def test_g23_days_without_number_do_not_fill_the_memory_with_files(
    tmp_path: Path, table: IcebergEventTable
) -> None:
    spread = [
        message(number, event(f"e{number}", time=f"{1971 + number // 12}-{1 + number % 12:02d}-01T00:00:00Z"))
        for number in range(200)
    ]
    _, committed = await load(table, packed("a", *spread))
    assert (committed.rows, len(committed.days)) == (200, 200)
    assert len(rows_of(tmp_path)) == 200


async def test_fc46_a_query_over_all_days_reads_null_where_a_column_is_new(table: IcebergEventTable) -> None:
    def struct(*names: str) -> dict[str, Any]:
        return {"name": "s", "type": {"struct": [{"name": name, "type": "long"} for name in names]}}

    double = {"name": "v", "type": "double"}
    columns: list[list[dict[str, Any]]] = [[double]] * 4 + [[double, struct("a", "z")], [double, struct("a", "m", "z")]]
    values: list[Any] = [{"v": 1.5}, {"v": 2}, {"v": None}, {"v": "x"}, {"s": {"a": 1, "z": 2}}]
    values.append({"s": {"a": 3, "m": 4, "z": 5}, "v": 6})
    rejects = 0
    for number, (of_day, data) in enumerate(zip(columns, values, strict=True), 1):
        await table.register(declared(*of_day))
        day = event(f"e{number}", time=f"2026-01-0{number}T00:00:00Z", data=data)
        staged, _ = await load(table, packed("a", message(number, day)))
        rejects += staged.rejects
    found = await asked(table, "select id, v, s.a, s.m, s.z from priced order by id")
    assert found == [
        ("e1", 1.5, None, None, None),
        ("e2", 2.0, None, None, None),
        ("e3", None, None, None, None),
        ("e5", None, 1, None, 2),
        ("e6", 6.0, 3, 4, 5),
    ]
    assert rejects == 1
    assert await asked(table, "select sum(v), count(*) from priced where time < '2026-01-03'") == [(3.5, 2)]


async def test_r506_memory_and_iceberg_keep_the_same_rows_of_nasty_events(table: IcebergEventTable) -> None:
    memory = MemoryEventTable()
    for schema in nasty.SCHEMAS:
        await memory.register(schema)
        await table.register(schema)
    everything = list(nasty.messages(1500, seed=3))
    for start in range(0, len(everything), 350):  # each load has some messages of the one before
        objects = packed("a", *everything[max(0, start - 50) : start + 350])
        ours, theirs = await load(memory, objects), await load(table, objects)
        assert ours[0] == theirs[0]
        assert (ours[1].rows, ours[1].duplicates, ours[1].days) == (
            theirs[1].rows,
            theirs[1].duplicates,
            theirs[1].days,
        )
    found = table.table()
    assert found is not None
    kept = {(row["source"], row["id"]): row for row in found.scan().to_arrow().to_pylist()}
    assert len(kept) == found.scan().count()
    rows = [row for day in memory.days.values() for row in day.values()]
    assert len(rows) == len(kept)
    for row in rows:
        one = kept[row.source, row.id]
        assert {name: one[name] for name in BASE_COLUMNS} == {name: getattr(row, name) for name in BASE_COLUMNS}
        assert row.type not in ("Priced", "Sold") or one["priced" if row.type == "Priced" else "sales"] == row.typed


async def test_a_catalog_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "catalog.db").write_bytes(b"no database" * 100)
    table = open_table(settings_of(tmp_path))
    with pytest.raises(Unavailable, match="the lake's catalog"):
        await table.schemas()
