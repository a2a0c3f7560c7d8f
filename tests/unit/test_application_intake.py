"""Keeping a batch: what is begun before the deadline, and what waits (application/intake.py)."""

import asyncio
from datetime import datetime, timedelta

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.object_store import MemoryObjectStore
from application.intake import TURN, Intake, store_batch
from domain.errors import Unavailable
from domain.intake import Decoded, decode, read_line, split_lines
from domain.messages import Received
from tests.examples import START, an_envelope

pytestmark = pytest.mark.anyio


class TickingClock(ManualClock):
    """A clock on which each look takes a second."""

    def now(self) -> datetime:
        self.advance(1)
        return super().now()


def a_batch(number: int) -> list[Received]:
    return [Received(f"m{n}", None, an_envelope(f"e{n}").to_json(), "r", 1, START) for n in range(number)]


def kept(objects: MemoryObjectStore) -> list[str]:
    return [read_line(line).message_id for data in objects._objects.values() for line in split_lines(data)]


async def test_r502_nothing_is_begun_in_the_second_half_of_the_time_and_what_was_is_stored() -> None:
    objects = MemoryObjectStore()
    intake = Intake(objects, TickingClock(START), MemoryMetrics())
    report = await store_batch(intake, a_batch(100), deadline=START + timedelta(seconds=41))
    assert report.stored == len(kept(objects)) == 19
    assert report.returned == [f"m{number}" for number in range(19, 100)]
    assert report.failures == {}, "no time was left: that is no failure"
    assert report.received == report.stored + report.quarantined + len(report.returned)


async def test_a_store_that_refuses_late_is_not_asked_again_after_the_deadline() -> None:
    asked: list[str] = []

    class Away(MemoryObjectStore):
        async def put(self, name: str, data: bytes, /) -> bool:
            asked.append(f"{name}: {len(data)}")
            clock.advance(60)
            raise Unavailable("store", "told to")

    clock = ManualClock(START)
    report = await store_batch(
        Intake(Away(), clock, MemoryMetrics()), a_batch(10), deadline=START + timedelta(seconds=50)
    )
    assert len(asked) == 1
    assert len(report.returned) == 10
    assert {str(error) for error in report.failures.values()} == {
        "object store is unavailable: no time was left to ask it"
    }


async def test_a_message_without_a_time_of_sending_arrived_now() -> None:
    objects = MemoryObjectStore()
    message = a_batch(1)[0]._replace(sent_at=None)
    await store_batch(Intake(objects, ManualClock(START + timedelta(days=3)), MemoryMetrics()), [message])
    assert [name[:20] for name in objects._objects] == ["raw/date=2026-01-04/"]


async def test_a_fault_in_one_messages_check_returns_that_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(body: str, arrived_at: datetime) -> Decoded:
        if '"e3"' in body:
            raise KeyError("a bug of ours")
        return decode(body, arrived_at)

    monkeypatch.setattr("application.intake.decode", faulty)
    objects = MemoryObjectStore()
    report = await store_batch(Intake(objects, ManualClock(START), MemoryMetrics()), a_batch(5))
    assert (report.returned, report.stored) == (["m3"], 4)
    assert isinstance(report.failures["m3"], KeyError)


async def test_others_on_the_event_loop_have_their_turn_while_a_batch_is_checked() -> None:
    body = an_envelope("e1", data="x" * 1000).to_json()
    batch = [Received(f"m{number}", None, body, "r", 1, START) for number in range(5 * TURN // 1000)]
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await store_batch(Intake(MemoryObjectStore(), ManualClock(START), MemoryMetrics()), batch)
    task.cancel()
    assert turns >= 5
