"""Redis keeps the contract of the key store, on one server and on a Cluster of six."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
import redis

from adapters.redis.key_store import RedisKeyStore, open_key_store
from domain.dedup import make_scope
from tests.contracts.key_store import HOUR, KeyStoreContract, LetPass
from tests.redis_engines import ClusterOfSix

pytestmark = pytest.mark.anyio


class RedisContract(KeyStoreContract):
    short = 0.4

    @pytest.fixture
    def let_pass(self) -> LetPass:
        return asyncio.sleep

    async def test_r201_of_64_askers_for_thousands_of_keys_one_is_told_new_of_each(self, store: RedisKeyStore) -> None:
        for service in ("pricing", "long:pricing"):
            scope = make_scope(service, "crowd")
            keys = [f"https://shop.example/item/{number}" for number in range(3000)]
            new: dict[str, int] = dict.fromkeys(keys, 0)

            async def ask(mine: Sequence[str], size: int, new: dict[str, int] = new) -> None:
                for start in range(0, len(mine), size):
                    some = mine[start : start + size]
                    for key, is_new in zip(some, await store.claim(scope, some, HOUR), strict=True):  # noqa: B023
                        new[key] += is_new

            async with asyncio.TaskGroup() as tasks:
                for number in range(64):  # each in an order of its own, and in calls of other sizes
                    start = number * 47
                    tasks.create_task(ask(keys[start:] + keys[:start], 1 + number * 7))
            assert set(new.values()) == {1}
            assert await store.count(scope) == 3000
            assert await store.forget(scope) == 3000

    async def test_ten_thousand_keys_in_one_call(self, store: RedisKeyStore) -> None:
        for service in ("pricing", "long:pricing"):
            scope = make_scope(service, "batch")
            keys = [f"k{number}" for number in range(10_000)]
            assert await store.claim(scope, keys, HOUR) == [True] * 10_000
            assert await store.claim(scope, [*keys[1:], "other"], HOUR) == [False] * 9_999 + [True]

    async def test_r209_a_run_of_many_values_is_forgotten_whole(self, store: RedisKeyStore) -> None:
        scope = make_scope("long:pricing", "values")
        async with asyncio.TaskGroup() as tasks:
            for number in range(1200):
                tasks.create_task(store.put(scope, f"k{number}", b"v", HOUR))
        assert await store.forget(scope) == 0
        assert await store.exist(scope, [f"k{number}" for number in range(1200)]) == [False] * 1200


class TestRedisKeyStore(RedisContract, KeyStoreContract):
    adapter = "adapters.redis.key_store"

    @pytest.fixture
    async def store(self, redis_url: str) -> AsyncIterator[RedisKeyStore]:
        with redis.Redis.from_url(redis_url) as client:
            client.flushdb()
        store = open_key_store(redis_url)
        yield store
        await store.aclose()

    async def test_nothing_is_left_behind_without_an_expiry(self, store: RedisKeyStore, redis_url: str) -> None:
        for service in ("pricing", "long:pricing"):
            scope = make_scope(service, "run-1")
            await store.claim(scope, [f"k{number}" for number in range(500)], HOUR)
            await store.put(scope, "v", b"v", HOUR)
        with redis.Redis.from_url(redis_url) as client:
            names = list(client.scan_iter(count=1000))
            lives = [client.pttl(name) for name in names]
        assert len(names) > 600
        assert all(3_500_000 < life <= 3_600_000 for life in lives)

    async def test_r209_a_forgotten_run_leaves_no_key_in_the_server(self, store: RedisKeyStore, redis_url: str) -> None:
        for service in ("pricing", "long:pricing"):
            scope = make_scope(service, "run-1")
            await store.claim(scope, [f"k{number}" for number in range(500)], HOUR)
            await store.put(scope, "v", b"v", HOUR)
            await store.forget(scope)
        with redis.Redis.from_url(redis_url) as client:
            assert client.dbsize() == 0

    async def test_r204_keys_and_names_of_scopes_are_not_stored(self, store: RedisKeyStore, redis_url: str) -> None:
        scope = make_scope("pricing", "a-secret-run")
        await store.claim(scope, ["a-secret-key"], HOUR)
        await store.put(scope, "a-secret-key", b"v", HOUR)
        with redis.Redis.from_url(redis_url) as client:
            held = b"".join(name + (client.dump(name) or b"") for name in client.scan_iter())
        assert b"secret" not in held


class TestRedisKeyStoreOnACluster(RedisContract, KeyStoreContract):
    adapter = "adapters.redis.key_store"

    @pytest.fixture
    async def store(self, redis_cluster: ClusterOfSix) -> AsyncIterator[RedisKeyStore]:
        redis_cluster.flush()
        store = open_key_store(redis_cluster.url)
        yield store
        await store.aclose()
