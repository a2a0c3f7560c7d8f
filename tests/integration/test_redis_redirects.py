"""What nodes of a Cluster say of slots that are elsewhere (the Cluster specification), played by fake nodes."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest

from adapters.redis.cluster import Cluster
from adapters.redis.connection import Pool, Refusal, Settings, dial
from adapters.redis.target import Address, Target
from adapters.redis.wire import command
from domain.errors import Unavailable
from tests.fake_redis import FakeRedis, Words, running
from tests.waiting import until

pytestmark = pytest.mark.anyio

SLOT = 42


@asynccontextmanager
async def cluster_of(owner: Callable[[], FakeRedis], of_others: FakeRedis | None = None) -> AsyncIterator[Cluster]:
    settings = Settings(connections=1)

    async def discover(_: Sequence[Address]) -> Mapping[int, Address]:
        return {**dict.fromkeys(range(16_384), (of_others or owner()).address), SLOT: owner().address}

    def pool(address: Address) -> Pool:
        return Pool(partial(dial, address, Target("cluster", (address,)), settings), settings)

    cluster = Cluster(discover, pool)
    try:
        yield cluster
    finally:
        await cluster.aclose()


async def echo(cluster: Cluster, word: bytes) -> bytes:
    reply: bytes = await cluster.call(command("ECHO", word), SLOT, again=False)
    return reply


def elsewhere(kind: bytes, node: FakeRedis) -> Callable[[Words], bytes]:
    return lambda _: b"-%b %d 127.0.0.1:%d\r\n" % (kind, SLOT, node.address[1])


async def test_moved_is_followed_at_once_and_remembered() -> None:
    old, new = FakeRedis(), FakeRedis()
    old.answer = elsewhere(b"MOVED", new)
    owner = old
    async with running(old), running(new), cluster_of(lambda: owner) as cluster:
        owner = new
        cluster._owners = {SLOT: old.address}
        assert [await echo(cluster, b"%d" % number) for number in range(20)] == [b"%d" % number for number in range(20)]
        assert len(old.heard) == 1


async def test_ask_is_followed_for_one_command_and_asking_stays_with_it() -> None:
    """Among commands that are not to be asked, on one connection, with callers that leave."""
    chance = random.Random(1)
    old, new = FakeRedis(), FakeRedis(delay=0.002, split=True)
    asked = [False]

    def answer(words: Words) -> bytes:
        if words[0] == b"ASKING":
            asked[0] = True
            return b"+OK\r\n"
        was_asked, asked[0] = asked[0], False
        if was_asked == words[1].startswith(b"moving"):
            return b"$%d\r\n%b\r\n" % (len(words[1]), words[1])
        return b"-ERR\r\n"

    new.answer = answer
    old.answer = elsewhere(b"ASK", new)
    async with running(old), running(new), cluster_of(lambda: old, new) as cluster:

        async def ask(number: int) -> None:
            try:
                async with asyncio.timeout(chance.choice((None, 0.003, 0.01))):
                    if number % 2:
                        word = b"moving%d" % number
                        assert await echo(cluster, word) == word
                    else:
                        word = b"there%d" % number
                        assert await cluster.call(command("ECHO", word), SLOT + 1, again=False) == word
            except TimeoutError:
                return

        async with asyncio.TaskGroup() as tasks:
            for number in range(300):
                tasks.create_task(ask(number))
        before = len(old.heard)
        assert await echo(cluster, b"moving") == b"moving"
        assert len(old.heard) == before + 1  # the owner is asked first, every time
    assert new.connections == 1


async def test_a_slot_between_two_nodes_is_tried_again_and_then_given_up() -> None:
    node = FakeRedis()
    left = 3

    def answer(words: Words) -> bytes:
        nonlocal left
        left -= 1
        return b"-TRYAGAIN Multiple keys\r\n" if left >= 0 else b"$%d\r\n%b\r\n" % (len(words[1]), words[1])

    node.answer = answer
    async with running(node), cluster_of(lambda: node) as cluster:
        assert await echo(cluster, b"x") == b"x"
        assert len(node.heard) == 4
        left = 1000
        with pytest.raises(Unavailable, match="could not be reached"):
            await echo(cluster, b"x")


async def test_nodes_that_send_us_in_circles_are_unavailable() -> None:
    one, two = FakeRedis(), FakeRedis()
    one.answer, two.answer = elsewhere(b"MOVED", two), elsewhere(b"MOVED", one)
    async with running(one), running(two), cluster_of(lambda: one) as cluster:
        with pytest.raises(Unavailable, match="could not be reached"):
            await echo(cluster, b"x")
        assert len(one.heard) + len(two.heard) == 8


async def test_other_refusals_are_the_callers() -> None:
    node = FakeRedis(answer=lambda _: b"-WRONGTYPE x\r\n")
    async with running(node), cluster_of(lambda: node) as cluster:
        with pytest.raises(Refusal, match="WRONGTYPE"):
            await echo(cluster, b"x")


async def test_closing_with_calls_under_way_leaves_no_task_behind() -> None:
    node = FakeRedis(answer=lambda _: b"")
    async with running(node), cluster_of(lambda: node) as cluster:
        asked = [asyncio.create_task(echo(cluster, b"x")) for _ in range(10)]
        await until(lambda: len(node.heard) >= 10)
        cluster._read_at = -math.inf  # long ago
        await cluster.aclose()
        outcomes = await asyncio.gather(*asked, echo(cluster, b"y"), return_exceptions=True)
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
        assert cluster._reading is not None
        assert cluster._reading.done()


async def test_a_node_that_left_is_let_go_once_its_replies_came() -> None:
    old, new = FakeRedis(delay=0.05), FakeRedis()
    owner = old
    async with running(old), running(new), cluster_of(lambda: owner) as cluster:
        await echo(cluster, b"first")
        under_way = [asyncio.create_task(echo(cluster, b"%d" % number)) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        owner = new
        await asyncio.sleep(0.26)  # the map is read at most so often
        reading = cluster._read_map()
        assert reading is not None
        await reading
        assert await echo(cluster, b"next") == b"next"
        assert [await task for task in under_way] == [b"%d" % number for number in range(20)]
        await until(lambda: not old.writers, seconds=1)
    assert new.heard[0][1] == b"next"
