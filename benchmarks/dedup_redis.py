"""Calls a second to one Redis: our connection and key store, beside redis-benchmark, redis-py and valkey-glide.

    python -m benchmarks.dedup_redis

All in one run on a Valkey server of its own: the clients send the same command, `SET key 1 NX EX 86400`; the key store
claims new keys. redis-benchmark is the limit; it comes with Debian's redis-tools. Without it its ratios are left out.
"""

import asyncio
import shutil
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from typing import Any

import glide
import redis.asyncio
import uvloop

from adapters.redis.connection import Settings
from adapters.redis.key_store import open_channel, open_key_store
from adapters.redis.target import parse_target
from adapters.redis.wire import command
from benchmarks.figures import rate, show
from domain.dedup import Scope
from tests.redis_engines import Server, server

SECONDS = 0.7
ROUNDS = 5
TASKS = 64
DAY = timedelta(days=1)
SCOPE = Scope("pricing", "run")
NUMBERS = count()

Work = Callable[[], Awaitable[int]]


async def rate_of(work: Work, tasks: int) -> float:
    """Give the keys a second of so many tasks that repeat the work; each gives how many keys it did."""
    end, done = time.perf_counter() + SECONDS, 0

    async def repeat() -> None:
        nonlocal done
        while time.perf_counter() < end:
            keys = await work()
            done += keys

    await work()
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(repeat())
    return done / (time.perf_counter() - start)


def new_key() -> str:
    return f"https://shop.example/item/{next(NUMBERS)}"


async def our_connection(one: Server) -> float:
    channel = open_channel(parse_target(one.url), Settings())

    async def work() -> int:
        await channel.call(command("SET", new_key(), "1", "NX", "EX", "86400"), 0, again=False)
        return 1

    try:
        return await rate_of(work, TASKS)
    finally:
        await channel.aclose()


async def our_store(one: Server, batch: int, tasks: int) -> float:
    store = open_key_store(one.url)

    async def work() -> int:
        assert all(await store.claim(SCOPE, [new_key() for _ in range(batch)], DAY))
        return batch

    try:
        return await rate_of(work, tasks)
    finally:
        await store.aclose()


async def redis_py(one: Server, batch: int, tasks: int) -> float:
    pool = redis.asyncio.BlockingConnectionPool(port=one.port, max_connections=tasks, protocol=2)
    client: Any = redis.asyncio.Redis(connection_pool=pool)

    async def work() -> int:
        if batch == 1:
            await client.set(new_key(), "1", nx=True, ex=86_400)
        else:
            pipeline = client.pipeline(transaction=False)
            for _ in range(batch):
                pipeline.set(new_key(), "1", nx=True, ex=86_400)
            await pipeline.execute()
        return batch

    try:
        return await rate_of(work, tasks)
    finally:
        await client.aclose()
        await pool.disconnect()


async def valkey_glide(one: Server, batch: int, tasks: int) -> float:
    address = glide.NodeAddress("127.0.0.1", one.port)
    client = await glide.GlideClient.create(glide.GlideClientConfiguration([address]))
    only_new, expiry = glide.ConditionalChange.ONLY_IF_DOES_NOT_EXIST, glide.ExpirySet(glide.ExpiryType.SEC, 86_400)

    async def work() -> int:
        if batch == 1:
            await client.set(new_key(), "1", conditional_set=only_new, expiry=expiry)
        else:
            many = glide.Batch(is_atomic=False)
            for _ in range(batch):
                many.set(new_key(), "1", conditional_set=only_new, expiry=expiry)
            await client.exec(many, raise_on_error=True)
        return batch

    try:
        return await rate_of(work, tasks)
    finally:
        await client.close()


def redis_benchmark(one: Server, pipeline: int) -> float:
    tool = shutil.which("redis-benchmark")
    if tool is None:
        return 0.0
    options = ["-p", str(one.port), "-c", "50", "-P", str(pipeline), "-n", str(150_000 if pipeline == 1 else 600_000)]
    words = ["-r", "100000000", "--csv", "SET", "key:__rand_int__", "1", "NX", "EX", "86400"]
    out = subprocess.run([tool, *options, *words], capture_output=True, text=True, check=True).stdout
    return float(out.strip().splitlines()[-1].split('","')[1])


def main() -> None:
    with server() as one, one.client() as client, asyncio.Runner() as plain, asyncio.Runner(
        loop_factory=uvloop.new_event_loop
    ) as fast:  # fmt: skip
        runs: dict[str, Callable[[], float]] = {
            "redis-benchmark -P1": lambda: redis_benchmark(one, 1),
            "redis-benchmark -P100": lambda: redis_benchmark(one, 100),
            "connection": lambda: plain.run(our_connection(one)),
            "connection, uvloop": lambda: fast.run(our_connection(one)),
            "redis-py": lambda: plain.run(redis_py(one, 1, TASKS)),
            "redis-py, uvloop": lambda: fast.run(redis_py(one, 1, TASKS)),
            "valkey-glide": lambda: plain.run(valkey_glide(one, 1, TASKS)),
            "claim": lambda: plain.run(our_store(one, 1, TASKS)),
            "claim, uvloop": lambda: fast.run(our_store(one, 1, TASKS)),
            "claim 100": lambda: plain.run(our_store(one, 100, 4)),
            "claim 1000": lambda: plain.run(our_store(one, 1000, 4)),
            "redis-py 100": lambda: plain.run(redis_py(one, 100, 4)),
            "valkey-glide 100": lambda: plain.run(valkey_glide(one, 100, 4)),
        }
        figures: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, run in runs.items():
                client.execute_command("FLUSHALL", "SYNC")
                figures[name].append(run())
    median = {name: statistics.median(values) for name, values in figures.items()}
    if not median["redis-benchmark -P1"]:
        print("redis-benchmark is not here (Debian: apt-get install redis-tools): no ratios to the limit")
    table = [
        ("one SET a call, 64 in flight: our connection", "connection", "redis-py", ">= 5x"),
        ("...", "connection", "valkey-glide", ">= 2x"),
        ("...", "connection", "redis-benchmark -P1", "-"),
        ("... with uvloop", "connection, uvloop", "redis-py, uvloop", "-"),
        ("one claim a call, 64 in flight", "claim", "redis-py", "-"),
        ("... with uvloop", "claim, uvloop", "redis-benchmark -P1", "-"),
        ("claims of 100 keys, 4 in flight", "claim 100", "redis-benchmark -P100", ">= 0.25x"),
        ("...", "claim 100", "redis-py 100", ">= 2.5x"),
        ("...", "claim 100", "valkey-glide 100", "-"),
        ("claims of 1,000 keys, 4 in flight", "claim 1000", "redis-benchmark -P100", "-"),
    ]
    for what, ours, peer, wanted in table:
        ratio = (
            statistics.median(a / b for a, b in zip(figures[ours], figures[peer], strict=True))
            if median[peer]
            else None
        )
        show("-", what, rate(median[ours]), f"{rate(median[peer])} {peer}", ratio, wanted)


if __name__ == "__main__":
    main()
