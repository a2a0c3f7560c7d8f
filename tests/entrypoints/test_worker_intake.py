"""The front door's processor as a process (R-502 to R-504): outages, stopping, kills."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters.embedded.intake_queue import EmbeddedIntakeQueue
from adapters.filesystem.object_store import PARTS
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.object_store import MemoryObjectStore
from adapters.memory.publisher import MemoryPublisher
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from application.intake import Intake
from domain.errors import Misconfigured, Unavailable
from domain.intake import RawMessage, read_line, split_lines
from domain.messages import Received
from domain.objects import ObjectPage
from domain.retry import RetryRule
from entrypoints.engines.intake import IntakeEngine
from entrypoints.settings import Settings
from entrypoints.worker.intake import Gathering, process
from ports.object_store import ObjectStore
from tests.examples import an_envelope
from tests.waiting import until

ROOT = Path(__file__).parents[2]
HOW = Gathering(
    batch=100,
    receivers=1,
    wait_seconds=0.05,
    window_seconds=0.05,
    visibility_seconds=30,
    backoff=RetryRule(attempts=10**6, base=0.001, ceiling=0.01),
)
KILLS = 30
BROKEN = "{broken"


class FaultyObjects(MemoryObjectStore):
    """A store that raises what it is told to, or holds writers up."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Exception | None = None
        self.faults_left = sys.maxsize
        self.asked = 0
        self.puts = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def put(self, name: str, data: bytes, /) -> bool:
        self.puts += 1
        await self.gate.wait()
        self._fail()
        return await super().put(name, data)

    async def list(self, prefix: str, /, *, after: str = "", limit: int = 1000) -> ObjectPage:
        self.asked += 1
        self._fail()
        return await super().list(prefix, after=after, limit=limit)

    def _fail(self) -> None:
        if self.fault is not None and self.faults_left:
            self.faults_left -= 1
            raise self.fault


class FaultyQueue(EmbeddedIntakeQueue):
    """A queue whose calls raise so often, each kind on its own."""

    faults: dict[str, int]

    async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
        self._fail("receive")
        return await super().receive(limit, wait_seconds)

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        self._fail("delete")
        return await super().delete(messages)

    def _fail(self, call: str) -> None:
        if self.faults.get(call, 0) > 0:
            self.faults[call] -= 1
            raise Unavailable("queue", "told to")


class World:
    """A queue in memory, a store that may fail, and a worker between them."""

    def __init__(self, how: Gathering = HOW) -> None:
        self.how = how
        clock, ids = SystemClock(), RandomIds()
        self.dead_letters = MemoryQueue(clock, ids)
        self.waiting = MemoryQueue(
            clock, ids, visibility_seconds=how.visibility_seconds, dead_letters=self.dead_letters
        )
        self.queue = FaultyQueue(MemoryPublisher(self.waiting), self.waiting, ids)
        self.queue.faults = {}
        self.objects = FaultyObjects()
        self.intake = Intake(self.objects, clock, MemoryMetrics())
        self.stop = asyncio.Event()

    async def work_until(self, done: Callable[[], bool]) -> None:
        worker = asyncio.create_task(process(self.intake, self.queue, self.how, self.stop))
        try:
            await until(done, worker)
        finally:
            self.stop.set()
            await worker

    def kept(self, kind: str) -> list[RawMessage]:
        found = [data for name, data in self.objects._objects.items() if name.startswith(f"{kind}/")]
        return [read_line(line) for data in found for line in split_lines(data)]


def event(number: int) -> str:
    return an_envelope(f"e{number}").to_json()


def batches(logs: Sequence[Any]) -> list[dict[str, Any]]:
    return [line for line in logs if line["event"] == "batch"]


@pytest.mark.anyio
async def test_r502_messages_are_gathered_into_few_objects_and_counts_add_up() -> None:
    world = World(HOW._replace(batch=250, receivers=3))
    ids = await world.queue.send([event(number) if number % 10 else "{" for number in range(1000)])
    with capture_logs() as logs:
        await world.work_until(lambda: len(world.waiting) == 0)
    assert sorted(line.message_id for kind in ("raw", "quarantine") for line in world.kept(kind)) == sorted(ids)
    assert len(world.kept("quarantine")) == 100
    told = batches(logs)
    for line in told:
        assert line["received"] == line["stored"] + line["quarantined"] + line["returned"] <= 250
    assert sum(line["stored"] for line in told) == 900
    assert world.objects.puts <= 20


class HurriedClock(SystemClock):
    """A clock of a machine so busy that it looks at the clock only every few milliseconds."""

    def __init__(self) -> None:
        self._hurry = timedelta()

    def now(self) -> datetime:
        self._hurry += timedelta(milliseconds=8)
        return super().now() + self._hurry


@pytest.mark.anyio
async def test_r503_messages_for_which_no_time_was_left_have_not_failed_and_are_not_buried() -> None:
    world = World(HOW._replace(visibility_seconds=0.4))
    world.intake = replace(world.intake, clock=HurriedClock())
    ids = await world.queue.send([event(number) for number in range(100)])
    with capture_logs() as logs:
        await world.work_until(lambda: len(world.waiting) == 0)
    assert len(world.dead_letters) == 0
    assert {line.message_id for line in world.kept("raw")} == set(ids)
    assert sum(line["returned"] for line in batches(logs)) > 300, "each of the last ones was returned over and over"


@pytest.mark.anyio
async def test_r502_messages_that_come_within_the_window_share_an_object() -> None:
    world = World(HOW._replace(window_seconds=5, batch=3))
    worker = asyncio.create_task(process(world.intake, world.queue, world.how, world.stop))
    for number in range(3):
        await world.queue.send([event(number)])
        await asyncio.sleep(0.02)
    await until(lambda: len(world.waiting) == 0, worker)
    world.stop.set()
    await worker
    assert world.objects.puts == 1


@pytest.mark.anyio
async def test_r504_malformed_messages_are_logged_with_id_and_reason_but_never_with_content() -> None:
    world = World()
    secret = json.dumps({**json.loads(event(1)), "time": "hunter2", "data": {"hunter2": 1}})
    ids = await world.queue.send([secret, "hunter2", '{"hunter2":NaN}'])
    with capture_logs() as logs:
        await world.work_until(lambda: len(world.waiting) == 0)
    rejected = [line for line in logs if line["event"] == "message rejected"]
    assert sorted(line["message_id"] for line in rejected) == sorted(ids)
    assert all(line["reason"] and line["stage"] in {"decode", "validate"} for line in rejected)
    assert "hunter2" not in json.dumps(logs)
    assert len(world.kept("quarantine")) == 3
    assert len(world.dead_letters) == 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "times"), [(Unavailable("store", "told to"), 12), (OSError("a fault that nobody foresaw"), 1)]
)
async def test_an_outage_of_the_store_costs_a_message_no_more_than_one_receive(fault: Exception, times: int) -> None:
    world = World()
    world.objects.gate.clear()
    await world.queue.send([event(number) for number in range(10)])

    async def outage() -> None:
        await until(lambda: world.objects.puts == 1)  # the worker has the messages in hand
        world.objects.fault, world.objects.faults_left = fault, times
        world.objects.gate.set()

    with capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(outage())
            await world.work_until(lambda: len(world.waiting) == 0)
    assert len(world.kept("raw")) == 10
    assert {line.receive_count for line in world.kept("raw")} == {2}
    assert len(world.dead_letters) == 0
    assert len([line for line in logs if line["event"] == "message failed"]) == 10


@pytest.mark.anyio
async def test_no_message_is_taken_before_the_store_answers() -> None:
    world = World()
    await world.queue.send([event(1)])
    world.objects.fault = Unavailable("store", "told to")
    worker = asyncio.create_task(process(world.intake, world.queue, world.how, world.stop))
    await until(lambda: world.objects.asked >= 5, worker)
    world.stop.set()
    await worker
    assert [message.receive_count for message in await world.queue.receive(10, 0)] == [1]


@pytest.mark.anyio
async def test_a_store_that_is_not_set_up_ends_the_worker() -> None:
    world = World()
    await world.queue.send([event(1)])
    world.objects.fault = Misconfigured("bucket", "does not exist")
    with pytest.raises(Misconfigured, match="bucket: does not exist"):
        await process(world.intake, world.queue, world.how, world.stop)
    assert [message.receive_count for message in await world.queue.receive(10, 0)] == [1]


@pytest.mark.anyio
async def test_a_queue_that_does_not_answer_is_asked_again() -> None:
    world = World()
    world.queue.faults = {"receive": 3}
    await world.queue.send([event(1)])
    with capture_logs() as logs:
        await world.work_until(lambda: len(world.waiting) == 0)
    assert [line["attempt"] for line in logs if line["event"] == "no answer from the queue"] == [1, 2, 3]
    assert len(world.kept("raw")) == 1


@pytest.mark.anyio
async def test_fc43_a_batch_that_was_kept_and_not_deleted_is_kept_once_when_it_comes_again() -> None:
    world = World(HOW._replace(visibility_seconds=0.3))
    world.queue.faults = {"delete": 1}
    await world.queue.send([event(number) for number in range(20)])
    with capture_logs() as logs:
        await world.work_until(lambda: len(world.waiting) == 0)
    assert [line["code"] for line in logs if line["event"] == "the queue will deliver again"] == ["unavailable"]
    assert world.objects.puts == 2
    assert len(world.kept("raw")) == 20


@pytest.mark.anyio
async def test_stopping_finishes_the_batch_in_hand_and_takes_no_other() -> None:
    world = World(HOW._replace(batch=1))
    world.objects.gate.clear()
    await world.queue.send([event(1), event(2)])
    worker = asyncio.create_task(process(world.intake, world.queue, world.how, world.stop))
    await until(lambda: world.objects.puts == 1, worker)
    world.stop.set()
    assert not worker.done()
    world.objects.gate.set()
    await worker
    assert len(world.kept("raw")) == len(world.waiting) == 1


@pytest.mark.anyio
async def test_stopping_ends_the_gathering() -> None:
    world = World(HOW._replace(window_seconds=20, visibility_seconds=90))
    await world.queue.send([event(1)])
    worker = asyncio.create_task(process(world.intake, world.queue, world.how, world.stop))
    await until(lambda: all(one.receipt for group in world.waiting._groups.values() for one in group), worker)
    world.stop.set()
    async with asyncio.timeout(5):
        await worker
    assert len(world.kept("raw")) == 1


@pytest.mark.anyio
async def test_a_store_that_hangs_is_given_up_while_the_messages_are_still_ours() -> None:
    world = World(HOW._replace(visibility_seconds=0.6))
    world.objects.gate.clear()
    await world.queue.send([event(1)])
    with capture_logs() as logs:
        worker = asyncio.create_task(process(world.intake, world.queue, world.how, world.stop))
        await until(lambda: bool(batches(logs)), worker)
        world.objects.gate.set()
        await until(lambda: len(world.waiting) == 0, worker)
        world.stop.set()
        await worker
    first = batches(logs)[0]
    assert (first["received"], first["returned"]) == (1, 1)
    assert 0.3 < first["seconds"] < 0.6
    assert [line.receive_count for line in world.kept("raw")] == [2]


def environment(folder: Path) -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return others | {
        "INTERLOCK_DATA_DIR": str(folder),
        "INTERLOCK_INTAKE__VISIBILITY_SECONDS": "2",
        "INTERLOCK_INTAKE__WINDOW_SECONDS": "0",
    }


def ask(folder: Path, *arguments: str) -> Any:
    """Run a command, and read what it prints as JSON."""
    command = [sys.executable, "-m", "entrypoints.cli.main", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def start(folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "worker.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "entrypoints.cli.main", "worker", "intake", "--batch", "40"],
            cwd=ROOT,
            env=environment(folder),
            stdout=log,
            stderr=log,
        )


async def kept_in(objects: ObjectStore) -> dict[str, RawMessage]:
    """Read every object whole, and give the messages by id."""
    found: dict[str, RawMessage] = {}
    after: str | None = ""
    while after is not None:
        page = await objects.list("", after=after)
        for one in page.objects:
            data = await objects.get(one.name)
            assert data, "an object is whole or not there"
            found |= {line.message_id: line for line in map(read_line, split_lines(data))}
        after = page.after
    return found


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.timeout(240)  # thirty processes start, and a slow machine takes its time
async def test_killed_thirty_times_at_random_each_event_is_in_the_table_once(tmp_path: Path) -> None:
    """SIGKILL at random moments while messages come in, then SIGTERM: each message is kept whole, exit code 0.

    Then the daily job, twice: each accepted event is in the table exactly once.
    """
    spread = random.Random(4711)
    engine = IntakeEngine(Settings(data_dir=tmp_path))
    sent: dict[str, str] = {}

    async def post(number: int) -> None:
        bodies = [event(number * 100 + one) if one % 9 else BROKEN for one in range(100)]
        sent.update(zip(await engine.queue.send(bodies), bodies, strict=True))

    worker = start(tmp_path)
    try:
        for kill in range(KILLS):
            await post(kill)
            # From before its first look at the queue to the middle of a batch: it starts in about half a second.
            await asyncio.sleep(spread.uniform(0.1, 0.9))
            worker.kill()
            worker.wait()
            worker = start(tmp_path)

        async def all_kept() -> bool:
            return len(await kept_in(engine.objects)) == len(sent)

        await until(all_kept)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(10) == 0
    finally:
        worker.kill()
        worker.wait()
    kept = await kept_in(engine.objects)
    assert {message_id: line.body for message_id, line in kept.items()} == sent
    assert await engine.queue.receive(10, 0) == []
    await engine.aclose()
    logs = [json.loads(line) for line in (tmp_path / "worker.log").read_text().splitlines() if line.endswith("}")]
    assert len(batches(logs)) > KILLS / 3, "it was killed at work, not only while it started"
    for line in batches(logs):
        assert line["received"] == line["stored"] + line["quarantined"] + line["returned"]
    assert len(list((tmp_path / "objects" / PARTS).iterdir())) <= KILLS
    accepted = sorted(json.loads(body)["id"] for body in sent.values() if body != BROKEN)
    last = max(line.arrived_at for line in kept.values()).date()
    for _ in range(2):
        ask(tmp_path, "daily-job", "--date", last.isoformat(), "--json")
        rows = ask(tmp_path, "query", "select id, count(*) as n from events group by id", "--format", "json")
        assert sorted(row["id"] for row in rows) == accepted
        assert {row["n"] for row in rows} == {1}
