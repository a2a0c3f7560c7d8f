"""The in-memory key store keeps its contract, and its bound."""

from datetime import timedelta

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.key_store import BYTES_A_KEY, KEYS_A_RUN, MemoryKeyStore
from adapters.memory.metrics import MemoryMetrics
from domain.dedup import make_scope
from domain.errors import Unavailable
from tests.contracts.key_store import HOUR, PRICING, KeyStoreContract, LetPass
from tests.examples import START

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


class TestMemoryKeyStore(KeyStoreContract):
    adapter = "adapters.memory.key_store"

    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryKeyStore:
        return MemoryKeyStore(clock)

    @pytest.fixture
    def let_pass(self, clock: ManualClock) -> LetPass:
        return clock.sleep


def keys(number: int, start: int = 0) -> list[str]:
    return [f"k{n}" for n in range(start, start + number)]


async def test_a_full_store_drops_the_run_that_was_longest_without_a_write(clock: ManualClock) -> None:
    metrics = MemoryMetrics()
    store = MemoryKeyStore(clock, max_keys=3 * (100 + KEYS_A_RUN), metrics=metrics)
    first, second, third, fourth = (make_scope("s", str(number)) for number in range(4))
    for scope in (first, second, third):
        await store.claim(scope, keys(99), HOUR)
        await store.put(scope, "v", b"value", HOUR)
    assert metrics.total("dedup_evicted_keys_total") == 0
    assert await store.claim(first, ["k1"], HOUR) == [False]
    await store.claim(fourth, ["a"], HOUR)
    assert [await store.count(scope) for scope in (first, second, third, fourth)] == [99, 0, 99, 1]
    assert metrics.total("dedup_evicted_keys_total") == 100, "keys and values that were to live on"


async def test_what_has_expired_goes_before_a_run_that_lives(clock: ManualClock) -> None:
    metrics = MemoryMetrics()
    store = MemoryKeyStore(clock, max_keys=3 * (100 + KEYS_A_RUN), metrics=metrics)
    living, short, third, fourth = (make_scope("s", str(number)) for number in range(4))
    await store.claim(living, keys(100), HOUR)
    await store.claim(short, keys(90), timedelta(seconds=1))
    await store.put(short, "v", b"x" * BYTES_A_KEY * 9, timedelta(seconds=1))
    await store.claim(third, keys(100), HOUR)
    clock.advance(1)
    await store.claim(fourth, keys(100), HOUR)
    assert [await store.count(scope) for scope in (living, short, third, fourth)] == [100, 0, 100, 100]
    assert metrics.total("dedup_evicted_keys_total") == 0
    assert list(store._runs) == [store_key for store_key in store._runs if store._runs[store_key].claimed]


async def test_a_run_that_fills_the_store_alone_is_refused_and_keeps_what_it_has(clock: ManualClock) -> None:
    store = MemoryKeyStore(clock, max_keys=100 + KEYS_A_RUN)
    await store.claim(make_scope("s", "other"), ["a"], HOUR)
    await store.claim(PRICING, keys(100), HOUR)
    for _ in range(2):
        with pytest.raises(Unavailable, match="one run fills all of its 105 places"):
            await store.claim(PRICING, ["k1", "one more"], HOUR)
    with pytest.raises(Unavailable):
        await store.put(PRICING, "k1", b"", HOUR)
    assert await store.claim(PRICING, ["k99", "k0"], HOUR) == [False, False]
    assert await store.count(PRICING) == 100
    assert await store.exist(PRICING, ["one more"]) == [False]


async def test_values_count_by_their_size_and_make_room_when_replaced(clock: ManualClock) -> None:
    store = MemoryKeyStore(clock, max_keys=KEYS_A_RUN + 10)
    await store.put(PRICING, "a", b"x" * BYTES_A_KEY * 9, HOUR)
    with pytest.raises(Unavailable):
        await store.put(PRICING, "b", b"", HOUR)
    await store.put(PRICING, "a", b"small", HOUR)
    await store.put(PRICING, "b", b"x" * BYTES_A_KEY * 8, HOUR)
    assert await store.get(PRICING, "a") == b"small"


async def test_what_has_expired_does_not_pile_up(clock: ManualClock) -> None:
    store = MemoryKeyStore(clock)
    for number in range(200):
        scope = make_scope("s", str(number))
        await store.claim(scope, keys(100), timedelta(minutes=1))
        await store.put(PRICING, f"v{number}", b"x" * 1000, timedelta(minutes=1))
        clock.advance(20)
        held = sum(run.weight for run in store._runs.values())
        assert held == store._weight
        assert held < 2500, "three runs live, and as much again may wait to be dropped"


async def test_forgetting_makes_room(clock: ManualClock) -> None:
    store = MemoryKeyStore(clock, max_keys=100 + KEYS_A_RUN)
    await store.claim(PRICING, keys(99), HOUR)
    await store.put(PRICING, "v", b"", HOUR)
    assert await store.forget(PRICING) == 99
    assert store._weight == 0
    assert await store.claim(PRICING, keys(100), HOUR) == [True] * 100
