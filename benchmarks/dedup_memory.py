"""G11, G12: bytes of a Redis server's memory per remembered key, expiry included, beside other layouts. G13: an entry.

    python -m benchmarks.dedup_memory

A Valkey server of its own, emptied before each figure; bytes are the growth of its `used_memory`. What the server needs
once, for connections and scripts (0.4 MB), is not counted.
"""

import asyncio
import hashlib
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from adapters.redis.key_store import open_key_store
from adapters.redis.layout import BUCKETS, LONG_FACTOR, entries
from benchmarks.figures import micro, show
from domain.dedup import Scope
from tests.redis_engines import Server, server

DAY = timedelta(days=1)
SIZES = (10_000, 100_000, 1_000_000)
GOALS = {10_000: ("G12", "<= 16"), 100_000: ("G12", "<= 12"), 1_000_000: ("G11", "<= 10")}
BATCH = 1000


def url_of(number: int) -> str:
    return f"https://shop.example/category/{number % 977}/item/{number}"


def used(client: Any) -> int:
    """Give the memory in use, once it hardly moves any more."""
    last = -1
    while abs((now := int(client.info("memory")["used_memory"])) - last) > 4096:
        last = now
        time.sleep(0.2)
    return now


def growth(one: Server, fill: Callable[[int], None], keys: int) -> float:
    """Fill once with a batch, so that connections, scripts and Lua's heap have their memory, then empty and measure."""
    with one.client() as client:
        client.execute_command("FLUSHALL", "SYNC")
        fill(BATCH)
        client.execute_command("FLUSHALL", "SYNC")
        before = used(client)
        fill(keys)
        return (used(client) - before) / keys


def ours(one: Server, service: str, keys: int, buckets: int = BUCKETS) -> float:
    async def claim(count: int) -> None:
        store = open_key_store(one.url, buckets=buckets)
        for start in range(0, count, BATCH):
            some = [url_of(number) for number in range(start, start + BATCH)]
            assert all(await store.claim(Scope(service, "run"), some, DAY))
        await store.aclose()

    return growth(one, lambda count: asyncio.run(claim(count)), keys)


def piped(one: Server, keys: int, add: Callable[[Any, str], object]) -> float:
    def fill(count: int) -> None:
        with one.client() as client:
            for start in range(0, count, BATCH):
                pipeline = client.pipeline(transaction=False)
                for number in range(start, start + BATCH):
                    add(pipeline, url_of(number))
                pipeline.execute()

    return growth(one, fill, keys)


def string_key(pipeline: Any, key: str) -> None:
    digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    pipeline.set(f"pricing:run-2026-01-01:{digest}", 1, nx=True, ex=86_400)


def scrapy_redis(pipeline: Any, key: str) -> None:
    pipeline.sadd("pricing:dupefilter", hashlib.sha1(key.encode()).hexdigest())  # noqa: S324 - what it does


def cpu_of_entries(size: int) -> float:
    """Give the CPU seconds that one new key takes to become an entry."""
    scope, figures = Scope("pricing", "run"), []
    for turn in range(5):
        calls = [
            [url_of(turn * 10**6 + call * size + number) for number in range(size)] for call in range(60_000 // size)
        ]
        start = time.process_time()
        for keys in calls:
            entries(scope, keys, BUCKETS)
        figures.append((time.process_time() - start) / 60_000)
    return statistics.median(figures)


def main() -> None:
    with server() as one:
        for keys in SIZES:
            goal, wanted = GOALS[keys]
            peers = f"string {piped(one, keys, string_key):.1f}, scrapy-redis {piped(one, keys, scrapy_redis):.1f}"
            show(goal, f"bytes a key, {keys:,} keys a run", f"{ours(one, 'pricing', keys):.1f}", peers, None, wanted)
        for keys in SIZES:
            show("-", f"... long hashes, {keys:,} keys", f"{ours(one, 'long:pricing', keys):.1f}", "", None, "-")
        with one.client() as client:
            client.config_set("set-max-listpack-entries", 1024)
            show("-", "... long, 1,000,000 keys, listpacks to 1024", f"{ours(one, 'long:x', 10**6):.1f}", "", None, "-")
            client.config_set("set-max-intset-entries", 512)
            show(
                "-",
                "... short, 1,000,000 keys, stock limit of 512",
                f"{ours(one, 'pricing', 10**6):.1f}",
                "",
                None,
                "-",
            )
            show(
                "G11",
                "... the same with 4096 buckets",
                f"{ours(one, 'pricing', 10**6, 4096):.1f}",
                "",
                None,
                "<= 10",
            )
    print(f"      ({BUCKETS} buckets, for long hashes {BUCKETS * LONG_FACTOR}, unless said otherwise)")
    show("G13", "a key becomes an entry, 100 keys a call", micro(cpu_of_entries(100)), "", None, "<= 1.5 us")
    show("G13", "... one key a call", micro(cpu_of_entries(1)), "", None, "<= 1.5 us")


if __name__ == "__main__":
    main()
