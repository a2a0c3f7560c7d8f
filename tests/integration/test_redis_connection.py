"""Connections to Redis under every fault that a network and a caller can make."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from adapters.redis import connection
from adapters.redis.connection import Pool, Refusal, Settings, dial
from adapters.redis.target import Target
from adapters.redis.wire import Wire, command
from domain.errors import Unavailable
from tests.fake_redis import FakeRedis, running
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(
    scope="module",
    params=[("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})],
    ids=["asyncio", "uvloop"],
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both event loops: their transports differ."""
    backend: tuple[str, dict[str, bool]] = request.param
    return backend


@asynccontextmanager
async def pool_to(fake: FakeRedis, **settings: object) -> AsyncIterator[Pool]:
    chosen = Settings(**settings)  # type: ignore[arg-type]
    pool = Pool(partial(dial, fake.address, Target("single", (fake.address,)), chosen), chosen)
    try:
        yield pool
    finally:
        await pool.aclose()


async def echo(pool: Pool, word: bytes, *, again: bool = False) -> bytes:
    reply: bytes = await pool.call(command("ECHO", word), again=again)
    return reply


@pytest.mark.parametrize("seed", range(12))
async def test_no_caller_is_handed_the_reply_of_another(seed: int) -> None:
    """Slow and split replies, connections that end in the middle of one, callers that leave at any moment."""
    chance = random.Random(seed)
    fake = FakeRedis(seed, delay=0.004, split=True, death=0.02 if seed % 2 else 0.0)
    outcomes = {"right": 0, "left": 0, "lost": 0}

    async def ask(pool: Pool, name: int) -> None:
        word = b"%d" % name * chance.choice((1, 3, 2000))
        try:
            async with asyncio.timeout(chance.choice((None, 0.0, 0.001, 0.004, 0.02))):
                reply = await echo(pool, word, again=chance.random() < 0.5)
        except TimeoutError:
            outcomes["left"] += 1
        except Unavailable:
            outcomes["lost"] += 1
        else:
            assert reply == word
            outcomes["right"] += 1

    async with running(fake), pool_to(fake, connections=3, in_flight=5) as pool:
        for wave in range(8):
            async with asyncio.TaskGroup() as tasks:
                for name in range(60):
                    tasks.create_task(ask(pool, wave * 1000 + name))
                    if chance.random() < 0.2:
                        await asyncio.sleep(0)
        fake.death = fake.delay = 0.0
        await until(lambda: len(pool._wires) == 3, seconds=2)
        async with asyncio.timeout(1):  # every place is free again: as many calls as there are places, at once
            async with asyncio.TaskGroup() as tasks:
                last = [tasks.create_task(echo(pool, b"end%d" % name)) for name in range(15)]
        assert [task.result() for task in last] == [b"end%d" % name for name in range(15)]
    assert sum(outcomes.values()) == 480
    assert outcomes["right"] > 50
    assert outcomes["left"] > 50
    if seed % 2:
        assert fake.connections > 3
    else:
        assert outcomes["lost"] == 0


async def test_fc02_a_burst_waits_for_room_and_says_how_long() -> None:
    waits: list[float] = []
    fake = FakeRedis(delay=0.001)
    async with running(fake), pool_to(fake, connections=4, in_flight=8, on_wait=waits.append) as pool:
        await echo(pool, b"first")
        waits.clear()
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(echo(pool, b"%d" % number)) for number in range(1000)]
        assert [task.result() for task in asked] == [b"%d" % number for number in range(1000)]
    assert fake.connections == 4
    assert len(waits) >= 1000 - 32
    assert all(wait >= 0 for wait in waits)


async def test_fc02_a_caller_whose_time_runs_out_while_it_waits_leaves_no_hole() -> None:
    gate = asyncio.Event()

    class Slow(FakeRedis):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.read(1000)) and b"+OK\r\n")
            await gate.wait()
            await super().serve(reader, writer)

    fake = Slow()
    async with running(fake), pool_to(fake, connections=1, in_flight=2) as pool:
        async with asyncio.TaskGroup() as tasks:
            held = [tasks.create_task(echo(pool, b"held%d" % number)) for number in range(2)]
            await asyncio.sleep(0.02)
            for number in range(20):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.005):
                        await echo(pool, b"late%d" % number)
            patient = tasks.create_task(echo(pool, b"patient"))
            await asyncio.sleep(0)
            gate.set()
        assert [task.result() for task in held] == [b"held0", b"held1"]
        assert patient.result() == b"patient"
    assert not any(words[1].startswith(b"late") for words in fake.heard)


async def test_a_call_that_is_cancelled_before_it_is_written_never_happens() -> None:
    fake = FakeRedis()
    async with running(fake), pool_to(fake) as pool:
        await echo(pool, b"first")
        task = asyncio.create_task(echo(pool, b"never"))
        await asyncio.sleep(0)  # sent, and to be written at the end of the turn
        task.cancel()
        await asyncio.wait([task])
        await echo(pool, b"last")
    assert [words[1] for words in fake.heard] == [b"first", b"last"]


async def test_what_may_have_been_written_is_sent_again_only_where_that_is_harmless() -> None:
    fake = FakeRedis(answer=lambda words: b"+OK\r\n" if words[1] == b"first" else None)
    async with running(fake), pool_to(fake, connections=1) as pool:
        await echo(pool, b"first")
        with pytest.raises(Unavailable, match="the connection was lost before the reply came"):
            await echo(pool, b"once")
        with pytest.raises(Unavailable, match=r"3 times in a row|do not last"):
            await echo(pool, b"thrice", again=True)
    words = [words[1] for words in fake.heard]
    assert words.count(b"once") == 1
    assert 1 <= words.count(b"thrice") <= 3


async def test_fc02_stale_connections_are_replaced_and_the_call_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time and again: connections that did last count as no failure when they end."""
    monkeypatch.setattr(connection, "SHORT_LIFE", 0.05)
    fake = FakeRedis()
    async with running(fake), pool_to(fake, connections=3) as pool:
        await echo(pool, b"first")
        for turn in range(1, 7):
            await until(lambda turn=turn: fake.connections == 3 * turn)  # type: ignore[misc]
            await asyncio.sleep(0.06)
            for writer in list(fake.writers):
                writer.transport.abort()
            assert await echo(pool, b"again", again=True) == b"again"
            assert await echo(pool, b"once") == b"once"


async def test_a_place_that_was_given_to_a_caller_who_leaves_goes_to_the_next() -> None:
    fake = FakeRedis(delay=0.01)
    async with running(fake), pool_to(fake, connections=1, in_flight=1) as pool:
        await echo(pool, b"first")

        async def first() -> None:
            await echo(pool, b"a")
            second.cancel()  # its turn has come in this very turn of the loop

        async with asyncio.timeout(1), asyncio.TaskGroup() as tasks:
            tasks.create_task(first())
            second = tasks.create_task(echo(pool, b"b"))
            third = tasks.create_task(echo(pool, b"c"))
        assert second.cancelled()
        assert third.result() == b"c"
    assert [words[1] for words in fake.heard] == [b"first", b"a", b"c"]


async def test_a_place_that_was_not_used_in_the_end_goes_to_the_next() -> None:
    fake = FakeRedis()
    async with running(fake), pool_to(fake, connections=1, in_flight=1) as pool:
        await echo(pool, b"first")
        async with asyncio.timeout(1), asyncio.TaskGroup() as tasks:
            never = tasks.create_task(echo(pool, b"never"))
            next_one = tasks.create_task(echo(pool, b"next"))
            await asyncio.sleep(0)
            never.cancel()
        assert next_one.result() == b"next"
    assert [words[1] for words in fake.heard] == [b"first", b"next"]


async def test_a_connection_that_ends_before_it_is_used_is_replaced() -> None:
    fake = FakeRedis()
    async with running(fake):
        chosen, made = Settings(connections=2), []

        async def connect() -> Wire:
            wire = await dial(fake.address, Target("single", (fake.address,)), chosen)
            made.append(wire)
            if len(made) == 1:
                wire.abort()
                await asyncio.sleep(0.01)
            return wire

        pool = Pool(connect, chosen)
        try:
            with pytest.raises(Unavailable):
                await echo(pool, b"x")
            await until(lambda: len(pool._wires) == 2)
            assert await echo(pool, b"x") == b"x"
            assert made[0] not in pool._wires
        finally:
            await pool.aclose()


async def test_r208_while_the_server_is_down_calls_fail_at_once() -> None:
    fake = FakeRedis()
    async with running(fake):
        address = fake.address
    fake.address = address
    loop = asyncio.get_running_loop()
    async with pool_to(fake) as pool:
        with pytest.raises(Unavailable, match="ConnectionRefusedError"):
            await echo(pool, b"first")
        start = loop.time()
        for _ in range(100):
            with pytest.raises(Unavailable):
                await echo(pool, b"x", again=True)
        assert loop.time() - start < 0.25


async def test_r208_a_server_that_hangs_is_given_up() -> None:
    fake = FakeRedis(answer=lambda words: b"+OK\r\n" if words[1] != b"hang" else b"")
    async with running(fake), pool_to(fake, connections=1, stall=0.2) as pool:
        for _ in range(3):  # silence counts from the call, not from the call before it
            await echo(pool, b"fine")
            await asyncio.sleep(0.15)
        start = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable):
            await echo(pool, b"hang")
        assert 0.19 < asyncio.get_running_loop().time() - start < 1
        assert await echo(pool, b"fine", again=True) == b"OK"
    assert fake.connections == 2


async def test_a_slow_server_is_not_given_up_while_replies_come() -> None:
    fake = FakeRedis()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"interlock\r\n")
        writer.write(b"+OK\r\n")
        await reader.readuntil(b"wait\r\n")
        for piece in (b"$", b"4", b"\r\n", b"do", b"ne", b"\r", b"\n"):
            await asyncio.sleep(0.05)
            writer.write(piece)
        await reader.read()
        writer.close()

    fake.serve = serve  # type: ignore[method-assign]
    async with running(fake), pool_to(fake, connections=1, stall=0.2) as pool:
        assert await echo(pool, b"wait") == b"done"


@pytest.mark.parametrize("nonsense", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+OK\r\n+OK\r\n", b"\x00\xff" * 100])
async def test_a_server_that_speaks_otherwise_is_unavailable(nonsense: bytes) -> None:
    fake = FakeRedis(answer=lambda words: nonsense if words[1] == b"odd" else b"+OK\r\n")
    async with running(fake), pool_to(fake, connections=1) as pool:
        with contextlib.suppress(Unavailable):  # one good reply, and one that nobody asked for, is an answer
            assert await echo(pool, b"odd") == b"OK"
        await until(lambda: fake.connections == 2)
        assert await echo(pool, b"fine", again=True) == b"OK"


async def test_fc02_a_replica_makes_all_connections_be_replaced_and_the_call_succeeds() -> None:
    old, new = FakeRedis(), FakeRedis()
    async with running(old), running(new):
        chosen, primary = Settings(connections=3), old

        async def connect() -> Wire:
            return await dial(primary.address, Target("single", (primary.address,)), chosen)

        pool = Pool(connect, chosen)
        try:
            await echo(pool, b"first")
            await until(lambda: old.connections == 3)
            old.answer = lambda _: b"-READONLY You can't write against a read only replica.\r\n"
            old.delay = 0.01  # so that some answers come when others have led to new connections
            primary = new
            async with asyncio.TaskGroup() as tasks:
                asked = [tasks.create_task(echo(pool, b"%d" % number)) for number in range(50)]
            assert [task.result() for task in asked] == [b"%d" % number for number in range(50)]
            await until(lambda: new.connections == 3 and not old.writers)
            assert old.connections == 3
        finally:
            await pool.aclose()


async def test_a_server_that_stays_a_replica_is_unavailable_and_not_flooded() -> None:
    fake = FakeRedis(answer=lambda _: b"-READONLY You can't write against a read only replica.\r\n")
    async with running(fake), pool_to(fake, connections=2) as pool:
        for _ in range(200):
            with pytest.raises(Unavailable):
                await echo(pool, b"x")
    assert fake.connections < 20


async def test_an_error_reply_is_a_refusal_that_repeats_only_its_code() -> None:
    fake = FakeRedis(answer=lambda _: b"-WRONGTYPE about 'a-secret'\r\n")
    async with running(fake), pool_to(fake) as pool:
        with pytest.raises(Refusal) as refusal:
            await echo(pool, b"x")
    assert refusal.value.code == "WRONGTYPE"
    assert "secret" not in str(refusal.value)


async def test_after_close_calls_are_unavailable_and_none_is_left_waiting() -> None:
    fake = FakeRedis(answer=lambda words: b"" if words[1] == b"hang" else b"+OK\r\n")
    async with running(fake), pool_to(fake, connections=1, in_flight=1) as pool:
        await echo(pool, b"first")
        asked = [asyncio.create_task(echo(pool, b"hang")) for _ in range(3)]
        await asyncio.sleep(0.02)
        await pool.aclose()
        outcomes = await asyncio.gather(*asked, echo(pool, b"x"), return_exceptions=True)
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)


async def test_closed_before_its_first_call_nothing_is_connected() -> None:
    fake = FakeRedis()
    async with running(fake), pool_to(fake) as pool:
        await pool.aclose()
        with pytest.raises(Unavailable, match="closed"):
            await echo(pool, b"x")
    assert fake.connections == 0


async def test_fc09_a_mistake_of_ours_surfaces() -> None:
    async def connect() -> Wire:
        raise KeyError("a mistake")

    pool = Pool(connect, Settings())
    for _ in range(2):
        with pytest.raises(KeyError, match="a mistake"):
            await echo(pool, b"x")
    await pool.aclose()


async def test_closing_ends_where_a_library_swallows_the_cancellation() -> None:
    """As redis-py does now and then, while it asks a Sentinel for the next connection's address."""
    fake = FakeRedis(0)
    asked = asyncio.Event()

    async def connect() -> Wire:
        if len(pool._wires) == 1:
            asked.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        return await dial(fake.address, Target("single", (fake.address,)), Settings())

    async with running(fake):
        pool = Pool(connect, Settings())
        assert await echo(pool, b"a") == b"a"
        await asked.wait()
        async with asyncio.timeout(5):
            await pool.aclose()
        await until(lambda: not pool._wires)
