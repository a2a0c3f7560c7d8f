"""What the dedup cache must hold through real servers and real stores, whatever is killed (R-201, R-208, FC-02)."""

import asyncio
import os
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from adapters.grpc.client import DedupClient
from adapters.grpc.wire import rpc
from domain.dedup import make_scope
from tests.engines import Engine
from tests.entrypoints.dedup_server import ServerProcess, a_check, interlock, reached, server_process
from tests.redis_engines import Server, free_port, server
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]

PRICING = make_scope("pricing", "run-1")


@pytest.fixture
def redis() -> Iterator[Server]:
    with server() as one:
        yield one


@asynccontextmanager
async def clients_of(address: str, number: int, deadline: float = 20) -> AsyncIterator[list[DedupClient]]:
    clients = [DedupClient(address, deadline=deadline) for _ in range(number)]
    try:
        await asyncio.gather(*map(reached, clients))
        yield clients
    finally:
        await asyncio.gather(*(client.aclose() for client in clients))


def figures(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


async def rounds(served: ServerProcess, number: int) -> None:
    """Let 64 askers, each with a connection of its own, ask for the same key at once, time after time."""
    async with clients_of(served.address, 64) as clients:
        for key in range(number):
            told = await asyncio.gather(*(client.check(PRICING, [str(key)]) for client in clients))
            assert not any(verdict.degraded for verdict in told)
            assert sum(verdict.is_new[0] for verdict in told) == 1


async def test_r201_64_askers_through_two_processes_on_redis(redis: Server) -> None:
    variables = {"INTERLOCK_DEDUP__BACKEND": "redis", "INTERLOCK_DEDUP__PRIMARY_URL": redis.url}
    with server_process("--processes", "2", variables=variables) as served:
        await rounds(served, 200)


async def test_r201_64_askers_through_two_processes_on_two_redis_servers(redis: Server) -> None:
    with server() as second:
        variables = {
            "INTERLOCK_DEDUP__BACKEND": "redis",
            "INTERLOCK_DEDUP__PRIMARY_URL": redis.url,
            "INTERLOCK_DEDUP__SECONDARY_URL": second.url,
        }
        with server_process("--processes", "2", variables=variables) as served:
            await rounds(served, 100)


async def test_r201_64_askers_through_two_processes_on_dynamodb(ministack: Engine) -> None:
    variables = {
        "INTERLOCK_DEDUP__BACKEND": "dynamodb",
        "INTERLOCK_DEDUP__TABLE": f"dedup-{free_port()}",
        "INTERLOCK_DEDUP__DEADLINE_SECONDS": "20",
        **({"AWS_ENDPOINT_URL": ministack.url, "AWS_REGION": "eu-west-1"} if ministack.url else {}),
        "AWS_ACCESS_KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID", "test"),
        "AWS_SECRET_ACCESS_KEY": os.environ.get("AWS_SECRET_ACCESS_KEY", "test"),
    }
    made = interlock("tables", "create", "--json", **variables)
    assert made.returncode == 0, made.stderr
    with server_process("--processes", "2", variables=variables) as served:
        await rounds(served, 5)


async def test_r201_64_askers_of_one_process_in_memory() -> None:
    with server_process(variables={"INTERLOCK_DEDUP__BACKEND": "memory"}) as served:
        await rounds(served, 100)


async def test_r208_redis_killed_and_restarted_under_load_fails_no_call(redis: Server) -> None:
    variables = {"INTERLOCK_DEDUP__BACKEND": "redis", "INTERLOCK_DEDUP__PRIMARY_URL": redis.url}
    port = free_port()
    method = rpc("CheckIfNew")
    with server_process("--metrics-port", str(port), variables=variables) as served:
        stop = asyncio.Event()
        told: list[tuple[float, bool, bool]] = []

        async def ask(channel: grpc.aio.Channel, worker: int) -> None:
            call = channel.unary_unary(method.path, method.serialize, method.deserialize)
            number = 0
            while not stop.is_set():
                number += 1
                answer = await call(a_check(f"{worker}-{number}"), timeout=10)
                told.append((time.monotonic(), answer.is_new, answer.degraded))

        async def wait_for(count: int, *, degraded: bool) -> None:
            start = len(told)
            await until(lambda: sum(one[2] is degraded for one in told[start:]) >= count, seconds=20)

        async with grpc.aio.insecure_channel(served.address) as channel, asyncio.TaskGroup() as tasks:
            for worker in range(16):
                tasks.create_task(ask(channel, worker))
            await wait_for(100, degraded=False)
            redis.kill()
            await wait_for(100, degraded=True)
            await asyncio.to_thread(redis.start)
            back = time.monotonic()
            await wait_for(1, degraded=False)
            async with asyncio.timeout(10):
                while time.monotonic() < back + 3:  # noqa: ASYNC110 - the promise is about this time
                    await asyncio.sleep(0.05)
            stop.set()
        assert all(is_new for _, is_new, _ in told)
        assert [one for one in told if one[2] and one[0] > back + 2] == []
        counted = figures(port)
        marked = sum(degraded for _, _, degraded in told)
        assert counted['interlock_dedup_degraded_total{call="check"}'] == marked
        seen = sum(n for name, n in counted.items() if name.startswith("interlock_dedup_checked_keys_total{"))
        assert seen == len(told)


async def test_r208_a_primary_that_comes_back_empty_forgets_nothing_while_the_secondary_lives(redis: Server) -> None:
    with server() as second:
        variables = {
            "INTERLOCK_DEDUP__BACKEND": "redis",
            "INTERLOCK_DEDUP__PRIMARY_URL": redis.url,
            "INTERLOCK_DEDUP__SECONDARY_URL": second.url,
        }
        keys = [str(number) for number in range(500)]
        with server_process(variables=variables) as served:
            async with clients_of(served.address, 1) as (client,):
                first = await client.check(PRICING, keys)
                assert (first.is_new, first.degraded) == ([True] * 500, False)
                redis.kill()
                while_away = await client.check(PRICING, [*keys, "while away"])
                assert (while_away.is_new, while_away.degraded) == ([False] * 500 + [True], True)
                await asyncio.to_thread(redis.start)
                async with asyncio.timeout(5):
                    while (await client.check(PRICING, ["0"])).degraded:  # noqa: ASYNC110 - another process brings it about
                        await asyncio.sleep(0.02)
                after = await client.check(PRICING, [*keys, "while away", "new"])
                assert (after.is_new, after.degraded) == ([False] * 501 + [True], False)


async def test_fc02_a_burst_of_a_thousand_calls_on_four_connections_is_told_seen(redis: Server) -> None:
    variables = {"INTERLOCK_DEDUP__BACKEND": "redis", "INTERLOCK_DEDUP__PRIMARY_URL": redis.url}
    method = rpc("CheckIfNew")
    with server_process(variables=variables) as served:
        async with grpc.aio.insecure_channel(served.address) as channel:
            call = channel.unary_unary(method.path, method.serialize, method.deserialize)
            assert (await call(a_check("known"), timeout=10)).is_new
            told = await asyncio.gather(*(call(a_check("known"), timeout=20) for _ in range(1000)))
        assert [(answer.is_new, answer.degraded) for answer in told] == [(False, False)] * 1000
    with redis.client() as client:
        assert client.info("stats")["total_connections_received"] <= 4 + 2, "4 of the pool, and those of this test"


async def test_r201_sqlite_keeps_its_keys_when_the_server_is_killed(tmp_path: Path) -> None:
    variables = {"INTERLOCK_DEDUP__BACKEND": "sqlite", "INTERLOCK_DATA_DIR": str(tmp_path)}
    keys = [str(number) for number in range(200)]
    with server_process(variables=variables) as served:
        async with clients_of(served.address, 1) as (client,):
            assert (await client.check(PRICING, keys)).is_new == [True] * 200
            served.process.kill()
    with server_process(variables=variables) as served:
        async with clients_of(served.address, 1) as (client,):
            assert (await client.check(PRICING, [*keys, "new"])).is_new == [False] * 200 + [True]
