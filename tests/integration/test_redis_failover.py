"""Clusters that move slots and lose nodes, and Sentinels that name another primary."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ResponseError

from adapters.redis.connection import Settings
from adapters.redis.key_store import RedisKeyStore, open_key_store
from adapters.redis.layout import names_of
from domain.dedup import Scope, make_scope
from domain.errors import Unavailable
from tests.contracts.key_store import HOUR
from tests.redis_engines import ClusterOfSix, Server, cluster, sentinel_set

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(redis_cluster: ClusterOfSix) -> AsyncIterator[RedisKeyStore]:
    redis_cluster.flush()
    one = open_key_store(redis_cluster.url)
    yield one
    await one.aclose()


async def test_scopes_spread_over_the_cluster_and_each_lies_on_one_node(
    store: RedisKeyStore, redis_cluster: ClusterOfSix
) -> None:
    scopes = [make_scope("pricing", f"run-{number}") for number in range(60)]
    async with asyncio.TaskGroup() as tasks:
        for scope in scopes:
            tasks.create_task(store.claim(scope, [f"k{number}" for number in range(100)], HOUR))
    held = []
    for one in redis_cluster.servers[:3]:
        with one.client() as client:
            held.append({name.split(b":")[1] for name in client.scan_iter(count=1000)})
    assert all(held)
    assert sum(len(tags) for tags in held) == len(set.union(*held)) == 60


async def test_a_slot_that_moves_is_followed_and_nothing_is_claimed_twice(redis_cluster: ClusterOfSix) -> None:
    """Askers see every key as new once, while its slot moves to another node and back, bucket by bucket."""
    redis_cluster.flush()
    scope = make_scope("pricing", "moving")
    store = open_key_store(redis_cluster.url)
    new: dict[str, int] = {}
    is_over = False

    async def ask(number: int) -> None:
        turn = 0
        while not is_over:
            turn += 1
            for key in (f"shared:{turn // 4}", f"own:{number}:{turn}"):
                try:
                    told = await store.claim(scope, [key], HOUR)
                except Unavailable:
                    continue  # between two nodes; the caller is told "new, degraded"
                new[key] = new.get(key, 0) + told[0]
            await asyncio.sleep(0.001)

    try:
        await store.claim(scope, ["first"], HOUR)
        slot = names_of(scope, 256).slot
        async with asyncio.TaskGroup() as tasks:
            for number in range(8):
                tasks.create_task(ask(number))
            await asyncio.sleep(0.1)
            owner = _owner(redis_cluster, scope)
            other = next(one for one in redis_cluster.servers[:3] if one is not owner)
            await asyncio.to_thread(_move, redis_cluster, slot, owner, other)
            await asyncio.sleep(0.2)
            await asyncio.to_thread(_move, redis_cluster, slot, other, owner)
            await asyncio.sleep(0.2)
            is_over = True
        assert len(new) > 300
        assert max(new.values()) == 1
        assert await store.claim(scope, ["first"], HOUR) == [False]
        known = [key for key, count in new.items() if count][:5000]
        assert await store.exist(scope, known) == [True] * len(known)
    finally:
        await store.aclose()


async def test_fc02_a_node_of_the_cluster_dies_and_its_replica_takes_over() -> None:
    with cluster() as six:
        store = open_key_store(six.url, settings=Settings(connect_timeout=0.5))
        try:
            scopes = [make_scope("pricing", f"run-{number}") for number in range(30)]
            for scope in scopes:
                assert await store.claim(scope, ["k"], HOUR) == [True]
            dead = _owner(six, scopes[0])
            with dead.client() as client:
                assert client.execute_command("WAIT", 1, 1000) == 1
            dead.kill()
            async with asyncio.timeout(20):
                for scope in scopes:
                    assert await _claim_when_it_answers(store, scope) == [False]
            assert await store.claim(scopes[0], ["other"], HOUR) == [True]
        finally:
            await store.aclose()


async def test_fc02_the_sentinels_name_another_primary() -> None:
    with sentinel_set() as group:
        store = open_key_store(group.url, settings=Settings(connect_timeout=0.5))
        scope = make_scope("pricing", "run")
        try:
            assert await store.claim(scope, ["k"], HOUR) == [True]
            with group.primary.client() as client:
                assert client.execute_command("WAIT", 1, 1000) == 1
            group.primary.kill()
            async with asyncio.timeout(20):
                assert await _claim_when_it_answers(store, scope) == [False]
            with group.replica.client() as client:
                assert client.execute_command("ROLE")[0] == b"master"
            # The old primary comes back, as a replica in the end: nobody goes to it.
            group.primary.start()
            assert await store.claim(scope, ["other"], HOUR) == [True]
        finally:
            await store.aclose()


async def test_nobody_to_ask_is_unavailable() -> None:
    for url in ("redis+cluster://127.0.0.1:1", "redis+sentinel://127.0.0.1:1,127.0.0.1:2/main"):
        store = open_key_store(url)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await store.claim(make_scope("pricing", "run"), ["k"], HOUR)
        await store.aclose()


async def _claim_when_it_answers(store: RedisKeyStore, scope: Scope) -> list[bool]:
    """Claim `k`, which is known, until a server answers."""
    while True:
        try:
            return await store.claim(scope, ["k"], HOUR)
        except Unavailable:
            await asyncio.sleep(0.05)


def _owner(six: ClusterOfSix, scope: Scope) -> Server:
    for one in six.servers[:3]:
        with one.client() as client:
            try:
                client.exists(names_of(scope, 256).values)
            except ResponseError:  # MOVED
                continue
            return one
    raise AssertionError("no owner")


def _move(six: ClusterOfSix, slot: int, source: Server, target: Server) -> None:
    """Move a slot as resharding tools do: some keys at a time, the nodes serving all the while."""
    with source.client() as giving, target.client() as taking:
        from_name, to_name = (one.execute_command("CLUSTER", "MYID") for one in (giving, taking))
        taking.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", from_name)
        giving.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", to_name)
        while some := giving.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 20):
            giving.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 1000, "KEYS", *some)
        for one in [target, source, *six.servers[:3]]:
            with one.client() as client:
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", to_name)
