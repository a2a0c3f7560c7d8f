"""The transitions worker: order, isolation, outages, and every way to stop it (R-105 to R-107, R-110, FC-48)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters.memory.event_store import MemoryEventStore
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.publisher import MemoryPublisher
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from application.ingest import ingest
from application.platform import Platform
from domain.errors import InterlockError, Misconfigured, Unavailable
from domain.event import Head, Stream
from domain.lifecycle import Transition
from domain.messages import Outgoing, Received, TransitionRequested, requested_message
from domain.retry import RetryRule
from entrypoints.settings import Settings
from entrypoints.wiring import make_platform, open_engine
from entrypoints.worker.transitions import Consumption, consume
from tests.examples import STATES, an_envelope
from tests.waiting import until

ROOT = Path(__file__).parents[2]
HOW = Consumption(
    batch=10,
    receivers=2,
    wait_seconds=0.05,
    visibility_seconds=30,
    max_receives=5,
    backoff=RetryRule(attempts=10**6, base=0.001, ceiling=0.01),
)


class FaultyStore(MemoryEventStore):
    """A store that raises what it is told to, or holds writers up."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Exception | None = None
        self.faults_left = sys.maxsize
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def head(self, event_id: str, /) -> Head | None:
        self._fail()
        return await super().head(event_id)

    async def stream(self, event_id: str, /) -> Stream:
        self._fail()
        return await super().stream(event_id)

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        await self.gate.wait()
        await super().append(head, facts)

    def _fail(self) -> None:
        self.asked += 1
        if self.fault is not None and self.faults_left:
            self.faults_left -= 1
            raise self.fault


class FaultyQueue(MemoryQueue):
    """A queue whose calls raise so often, each kind on its own."""

    faults: dict[str, int]
    receive_counts: list[int]

    async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
        self._fail("receive")
        batch = await super().receive(limit, wait_seconds)
        self.receive_counts += [message.receive_count for message in batch]
        return batch

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        self._fail("delete")
        return await super().delete(messages)

    def _fail(self, call: str) -> None:
        if self.faults.get(call, 0) > 0:
            self.faults[call] -= 1
            raise Unavailable("queue", "told to")


class World:
    """A platform in memory, its queue, and a worker on it."""

    def __init__(self, how: Consumption = HOW) -> None:
        self.how = how
        self.clock = SystemClock()
        self.dead_letters = MemoryQueue(self.clock, RandomIds())
        self.queue = FaultyQueue(
            self.clock, RandomIds(), visibility_seconds=how.visibility_seconds, dead_letters=self.dead_letters
        )
        self.queue.faults = {}
        self.queue.receive_counts = []
        self.store = FaultyStore()
        self.platform = Platform(self.store, MemoryPublisher(self.queue), self.clock, RandomIds(), MemoryMetrics())
        self.stop = asyncio.Event()

    async def ingest(self, event_id: str, entity: str) -> None:
        await ingest(self.platform, [an_envelope(event_id, entity=entity)])

    async def ask(self, event_id: str, entity: str, to: str) -> None:
        request = TransitionRequested(
            event_id=event_id,
            entity=entity,
            to=to,
            actor="ada",
            command_id=f"{event_id}-{to}",
            requested_at="2026-01-01T12:00:00Z",
        )
        await self.platform.publisher.publish([requested_message(request)])

    def put(self, entity: str, body: str) -> None:
        self.queue.put(Outgoing(entity, f"{entity}-{body}", body))

    async def work_until(self, done: Callable[[], bool | Awaitable[bool]]) -> None:
        worker = asyncio.create_task(consume(self.platform, self.queue, self.how, self.stop))
        try:
            await until(done, worker)
        finally:
            self.stop.set()
            await worker

    async def states(self, event_id: str) -> list[str]:
        return [fact.to_state for fact in (await self.store.stream(event_id)).history]


def batches(logs: Sequence[Any]) -> list[dict[str, Any]]:
    return [line for line in logs if line["event"] == "batch"]


@pytest.mark.anyio
async def test_r107_receivers_side_by_side_keep_each_entity_in_order() -> None:
    world = World(HOW._replace(batch=3, receivers=4))
    entities = [f"N{number}" for number in range(30)]
    for entity in entities:
        await world.ingest(f"e-{entity}", entity)
        for state in STATES[1:]:
            await world.ask(f"e-{entity}", entity, state)
    with capture_logs() as logs:
        await world.work_until(lambda: len(world.queue) == 0)
    for entity in entities:
        assert await world.states(f"e-{entity}") == list(STATES)
    told = batches(logs)
    assert sum(line["received"] for line in told) == sum(line["done"] for line in told) == 150


@pytest.mark.anyio
async def test_fc48_a_poisoned_group_goes_to_the_dead_letters_and_the_others_carry_on() -> None:
    world = World()
    await world.ingest("a", "A")
    world.put("B", "poison, and no JSON")
    await world.ingest("b", "B")
    await world.ask("c", "C", "open")
    with capture_logs() as logs:
        await world.work_until(lambda: len(world.queue) == 0)
    assert await world.states("a") == await world.states("b") == ["to_review"]
    assert len(world.dead_letters) == 2
    told = batches(logs)
    for line in told:
        assert line["received"] == line["done"] + line["duplicate"] + line["rejected"] + line["returned"]
    assert sum(line["done"] for line in told) == 2
    missed = (await world.store.stream("c")).missed
    assert [miss.reason for miss in missed] == ["sent to the dead-letter queue: not_found"]


@pytest.mark.anyio
async def test_failures_are_logged_with_id_code_and_reason_but_never_with_content() -> None:
    world = World()
    world.put("A", '{"kind": "secret-kind", "event": "secret-payload"}')
    with capture_logs() as logs:
        await world.work_until(lambda: len(world.queue) == 0)
    failed = [line for line in logs if line["event"] == "message failed"]
    assert [line["receive_count"] for line in failed] == [1, 2, 3, 4, 5]
    assert all(line["message_id"] and line["code"] == "invalid" and "kind" in line["reason"] for line in failed)
    assert "secret" not in json.dumps(logs)


@pytest.mark.anyio
async def test_r110_a_message_that_comes_again_is_told_as_a_duplicate() -> None:
    world = World()
    await world.ingest("a", "A")
    world.queue.faults = {"delete": 1}
    world.how = HOW._replace(receivers=1)
    with capture_logs() as logs:
        await world.work_until(lambda: bool(batches(logs)))
    assert [line["code"] for line in logs if line["event"] == "the queue will deliver again"] == ["unavailable"]
    assert len(world.queue) == 1
    again = World()
    again.store, again.platform = world.store, world.platform
    await ingest(
        Platform(again.store, MemoryPublisher(again.queue), again.clock, RandomIds(), MemoryMetrics()),
        [an_envelope("a", entity="A")],
    )
    with capture_logs() as logs:
        await again.work_until(lambda: len(again.queue) == 0)
    assert [(line["done"], line["duplicate"]) for line in batches(logs)] == [(0, 1)]
    assert await world.states("a") == ["to_review"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "times"), [(Unavailable("store", "told to"), 10), (OSError("a fault that nobody foresaw"), 1)]
)
async def test_an_outage_of_the_store_costs_a_message_no_more_than_one_receive(fault: Exception, times: int) -> None:
    world = World()
    world.store.gate.clear()
    await world.ingest("a", "A")
    await world.ingest("b", "A")

    async def outage() -> None:
        await until(lambda: world.store.asked >= 2)  # the worker has looked at the store, and has the messages in hand
        world.store.fault, world.store.faults_left = fault, times
        world.store.gate.set()

    with capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(outage())
            await world.work_until(lambda: len(world.queue) == 0)
    assert await world.states("a") == await world.states("b") == ["to_review"]
    assert len(world.dead_letters) == world.store.faults_left == 0
    assert max(line["receive_count"] for line in logs if line["event"] == "message failed") <= 2


@pytest.mark.anyio
async def test_no_message_is_taken_before_the_store_answers() -> None:
    world = World()
    await world.ingest("a", "A")
    world.store.fault = Unavailable("store", "told to")
    worker = asyncio.create_task(consume(world.platform, world.queue, HOW, world.stop))
    await until(lambda: world.store.asked >= 5, worker)
    world.stop.set()
    await worker
    assert [message.receive_count for message in await world.queue.receive(10, 0)] == [1]


@pytest.mark.anyio
async def test_a_store_that_is_not_set_up_ends_the_worker_and_costs_no_receive() -> None:
    world = World()
    await world.ingest("a", "A")
    world.store.fault = Misconfigured("table", "does not exist")
    with pytest.raises(Misconfigured, match="table: does not exist"):
        await consume(world.platform, world.queue, HOW, world.stop)
    assert [message.receive_count for message in await world.queue.receive(10, 0)] == [1]


@pytest.mark.anyio
async def test_a_store_that_breaks_under_way_ends_the_worker_without_giving_messages_back() -> None:
    world = World(HOW._replace(receivers=1))
    worker = asyncio.create_task(consume(world.platform, world.queue, world.how, world.stop))
    await until(lambda: world.store.asked == 1, worker)
    world.store.fault = Misconfigured("table", "was deleted")
    await world.ingest("a", "A")
    with pytest.raises(InterlockError, match="was deleted"):
        await worker
    assert len(world.queue) == 1
    assert await world.queue.receive(10, 0) == []


@pytest.mark.anyio
async def test_a_queue_that_does_not_answer_is_asked_again() -> None:
    world = World(HOW._replace(receivers=1))
    world.queue.faults = {"receive": 3}
    await world.ingest("a", "A")
    with capture_logs() as logs:
        await world.work_until(lambda: len(world.queue) == 0)
    assert [line["attempt"] for line in logs if line["event"] == "no answer from the queue"] == [1, 2, 3]
    assert await world.states("a") == ["to_review"]


@pytest.mark.anyio
async def test_stopping_finishes_the_batch_in_hand_and_takes_no_other() -> None:
    world = World(HOW._replace(receivers=1, batch=1))
    world.store.gate.clear()
    await world.ingest("a", "A")
    await world.ingest("b", "B")
    worker = asyncio.create_task(consume(world.platform, world.queue, world.how, world.stop))
    await until(lambda: world.store.asked >= 2, worker)
    world.stop.set()
    assert not worker.done()
    world.store.gate.set()
    await worker
    assert await world.states("a") == ["to_review"]
    assert await world.states("b") == []
    assert [message.receive_count for message in await world.queue.receive(10, 0)] == [1]


@pytest.mark.anyio
async def test_messages_that_arrive_while_stopping_are_given_back() -> None:
    world = World(HOW._replace(receivers=1, wait_seconds=5))
    worker = asyncio.create_task(consume(world.platform, world.queue, world.how, world.stop))
    await until(lambda: world.store.asked == 1, worker)
    world.stop.set()
    await world.ingest("a", "A")
    await worker
    assert await world.states("a") == []
    assert [message.receive_count for message in await world.queue.receive(10, 0)] == [2]


@pytest.mark.anyio
async def test_no_message_is_started_late_in_its_visibility() -> None:
    world = World(HOW._replace(receivers=1, visibility_seconds=0.4))
    world.store.gate.clear()
    for name in ("a", "b"):
        await world.ingest(name, "A")

    async def slow() -> None:
        await until(lambda: world.store.asked >= 2)
        await asyncio.sleep(0.25)  # past half of the visibility: `b` must not be started on this delivery
        world.store.gate.set()

    with capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(slow())
            await world.work_until(lambda: len(world.queue) == 0)
    first = batches(logs)[0]
    assert (first["received"], first["done"], first["returned"]) == (2, 1, 1)
    assert await world.states("b") == ["to_review"]
    assert world.queue.receive_counts == [1, 1, 1]  # what no time was left for has not failed


def start(folder: Path) -> "subprocess.Popen[bytes]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    environment |= {"INTERLOCK_DATA_DIR": str(folder), "INTERLOCK_LIFECYCLE__VISIBILITY_SECONDS": "2"}
    with (folder / "worker.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "entrypoints.cli.main", "worker", "transitions", "--batch", "20"],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
        )


def told(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "worker.log").read_text().splitlines()
    return batches([json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")])


@pytest.mark.anyio
@pytest.mark.slow
async def test_r110_killed_and_started_again_it_applies_each_message_once(tmp_path: Path) -> None:
    """SIGKILL at any moment, then SIGTERM: nothing lost, nothing twice, exit code 0."""
    settings = Settings(data_dir=tmp_path)
    engine = open_engine(settings)
    platform = make_platform(settings, engine, MemoryMetrics())
    for start_at in range(0, 2000, 500):
        await ingest(platform, [an_envelope(f"e{n}", entity=f"N{n % 50}") for n in range(start_at, start_at + 500)])
    worker = start(tmp_path)
    try:
        for kill in range(1, 5):
            await until(lambda kill=kill: len(told(tmp_path)) >= 4 * kill)  # type: ignore[misc]
            worker.kill()
            worker.wait()
            worker = start(tmp_path)

        async def empty() -> bool:
            heads = [await platform.store.head(f"e{n}") for n in range(2000)]
            return None not in heads

        await until(empty)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(10) == 0
    finally:
        worker.kill()
        worker.wait()
    histories = [(await platform.store.stream(f"e{n}")).history for n in range(2000)]
    assert {len(history) for history in histories} == {1}
    assert await engine.queue.receive(10, 0) == []
    await engine.aclose()
    for line in told(tmp_path):
        assert line["received"] == line["done"] + line["duplicate"] + line["rejected"] + line["returned"]
