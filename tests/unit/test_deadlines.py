"""Limits that share timers keep what `asyncio.timeout` promises, but for coming a grain early."""

import asyncio
from typing import Any

import pytest

from application.deadlines import GRAIN, Deadlines
from tests.virtual_time import VirtualLoop, run


@pytest.mark.parametrize("seconds", [0, GRAIN / 2, GRAIN, 0.1, 1.0, 29.999])
def test_what_takes_too_long_is_cancelled_in_time(seconds: float) -> None:
    ended: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def work() -> None:
        with pytest.raises(TimeoutError):
            await Deadlines().within(seconds, hang())

    _, took = run(work())
    assert seconds - GRAIN <= took <= seconds
    assert ended == ["cancelled"]


@pytest.mark.parametrize("start", [0, GRAIN / 10, 0.7 * GRAIN])
@pytest.mark.parametrize("seconds", [GRAIN / 5, GRAIN, 1.1 * GRAIN, 2.5 * GRAIN, 0.2, 1.0])
def test_no_limit_comes_early_by_more_than_a_tenth(start: float, seconds: float) -> None:
    async def work() -> str:
        await asyncio.sleep(start)
        return await Deadlines().within(seconds, asyncio.sleep(0.89 * seconds, "given"))

    assert run(work())[0] == "given"


def test_what_ends_in_time_is_given_or_raised() -> None:
    async def fail() -> None:
        await asyncio.sleep(0.05)
        raise LookupError

    async def work() -> str:
        deadlines = Deadlines()
        with pytest.raises(LookupError):
            await deadlines.within(1, fail())
        return await deadlines.within(1, asyncio.sleep(0.05, "given"))

    assert run(work())[0] == "given"


def test_a_caller_that_is_cancelled_is_not_told_of_a_timeout() -> None:
    async def work() -> None:
        call = asyncio.create_task(Deadlines().within(1, asyncio.sleep(60)))
        await asyncio.sleep(0.1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(work())


def test_many_calls_share_few_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[float] = []
    plain = VirtualLoop.call_at

    def call_at(self: VirtualLoop, when: float, *rest: Any, **context: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return plain(self, when, *rest, **context)

    monkeypatch.setattr(VirtualLoop, "call_at", call_at)

    async def work() -> None:
        deadlines = Deadlines()
        for _ in range(1000):
            await deadlines.within(1.0, asyncio.sleep(0))

    run(work())
    assert len(timers) == 1


def test_fc22_another_loop_starts_afresh() -> None:
    deadlines = Deadlines()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            run(deadlines.within(1.0, asyncio.sleep(60)))
