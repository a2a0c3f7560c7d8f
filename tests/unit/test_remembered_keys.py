"""Keys that a process remembers as seen: never a wrong answer, and no trip for hot keys (R-204, R-209)."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.key_store import MemoryKeyStore
from adapters.memory.remembered_keys import RememberedKeys
from domain.dedup import MAX_TTL, Scope, make_scope
from domain.errors import Unavailable
from tests.contracts.key_store import HOUR, PRICING, KeyStoreContract, LetPass
from tests.examples import START

pytestmark = pytest.mark.anyio


class Watched(MemoryKeyStore):
    """Counts the keys that it is asked to claim, and can hold up its answers."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_down = False

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        self.asked.extend(keys)
        answer = await super().claim(scope, keys, ttl)
        await self.gate.wait()
        return answer

    async def forget(self, scope: Scope, /) -> int:
        if self.is_down:
            raise Unavailable("a store", "is down")
        return await super().forget(scope)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def inner(clock: ManualClock) -> Watched:
    return Watched(clock)


def remembering(inner: Watched, clock: ManualClock, max_keys: int = 1000) -> RememberedKeys:
    return RememberedKeys(inner, max_keys, lambda: clock.now().timestamp())


class TestRememberedKeys(KeyStoreContract):
    adapter = "adapters.memory.remembered_keys"

    @pytest.fixture
    def store(self, inner: Watched, clock: ManualClock) -> RememberedKeys:
        return remembering(inner, clock)

    @pytest.fixture
    def let_pass(self, clock: ManualClock) -> LetPass:
        return clock.sleep


async def test_a_hot_key_costs_one_trip(inner: Watched, clock: ManualClock) -> None:
    store = remembering(inner, clock)
    assert await store.claim(PRICING, ["a", "b"], HOUR) == [True, True]
    assert await store.claim(PRICING, ["a", "c", "b"], HOUR) == [False, True, False]
    for _ in range(3):
        assert await store.claim(PRICING, ["a", "c", "b"], HOUR) == [False, False, False]
    assert inner.asked == ["a", "b", "c"]


async def test_what_others_claimed_is_asked_for_each_time(inner: Watched, clock: ManualClock) -> None:
    """Nobody says how long it still lives."""
    store = remembering(inner, clock)
    await inner.claim(PRICING, ["a"], timedelta(seconds=10))
    assert await store.claim(PRICING, ["a"], timedelta(seconds=1)) == [False]
    await clock.sleep(10)
    assert await store.claim(PRICING, ["a"], HOUR) == [True]


async def test_nothing_is_remembered_past_its_time(inner: Watched, clock: ManualClock) -> None:
    store = remembering(inner, clock)
    await store.claim(PRICING, ["a"], timedelta(seconds=8))
    await clock.sleep(8)
    assert await store.claim(PRICING, ["a"], timedelta(seconds=1)) == [False]
    await clock.sleep(1.125)
    inner.asked.clear()
    assert await store.claim(PRICING, ["a"], HOUR) == [True]
    assert inner.asked == ["a"]


async def test_a_longer_life_span_reaches_the_store(inner: Watched, clock: ManualClock) -> None:
    store = remembering(inner, clock)
    assert await store.claim(PRICING, ["a"], timedelta(seconds=1)) == [True]
    assert await store.claim(PRICING, ["a"], HOUR) == [False]
    await clock.sleep(3599)
    assert await inner.exist(PRICING, ["a"]) == [True]
    inner.asked.clear()
    assert await store.claim(PRICING, ["a"], timedelta(seconds=1)) == [False]
    assert inner.asked == [], "it is remembered for longer here as well"


async def test_a_hot_key_of_one_life_span_costs_a_trip_in_an_eighth_of_it(inner: Watched, clock: ManualClock) -> None:
    store = remembering(inner, clock)
    for second in range(100):
        assert await store.claim(PRICING, ["a"], timedelta(seconds=80)) == [second == 0]
        await clock.sleep(1)
    assert len(inner.asked) == 10, "every 11 seconds"
    await store.claim(PRICING, ["b"], MAX_TTL)
    await clock.sleep(MAX_TTL.total_seconds() - 1)
    assert await store.claim(PRICING, ["b"], timedelta(seconds=1)) == [False]
    await clock.sleep(1)
    assert await store.claim(PRICING, ["b"], timedelta(seconds=1)) == [True], (
        "the store was not given more than 30 days"
    )


async def test_r209_a_claim_under_way_while_its_run_is_forgotten(inner: Watched, clock: ManualClock) -> None:
    store = remembering(inner, clock)
    inner.gate.clear()
    claim = asyncio.create_task(store.claim(PRICING, ["a"], HOUR))
    await asyncio.sleep(0)
    assert await store.forget(PRICING) == 1
    inner.gate.set()
    assert await claim == [True]
    assert await store.claim(PRICING, ["a"], HOUR) == [True]


async def test_r209_a_run_that_the_store_did_not_forget_is_asked_for_again(inner: Watched, clock: ManualClock) -> None:
    store = remembering(inner, clock)
    await store.claim(PRICING, ["a"], HOUR)
    inner.is_down = True
    with pytest.raises(Unavailable):
        await store.forget(PRICING)
    inner.asked.clear()
    assert await store.claim(PRICING, ["a"], HOUR) == [False]
    assert inner.asked == ["a"]


async def test_its_memory_is_bounded(inner: Watched, clock: ManualClock) -> None:
    store = remembering(inner, clock, max_keys=10)
    for number in range(100):
        await store.claim(PRICING, [str(number)], HOUR)
    assert len(store._until) == 10
    for number in range(5000):
        await store.claim(make_scope("pricing", str(number)), ["a"], HOUR)
    assert len(store._runs) == 4096
    assert len(store._until) == 10
    assert await store.claim(PRICING, ["99"], HOUR) == [False]
