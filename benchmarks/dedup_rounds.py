"""R-201: 64 askers, each with a connection of its own, ask for the same keys at once, through two server processes.

    python -m benchmarks.dedup_rounds [--one-by-one] [rounds] [redis|sqlite|memory|dynamodb ...]

A round is one key that all 64 ask for; each asker asks for 50 rounds in one message, and the messages of all cross.
With --one-by-one he asks for one at a time, so that the server gathers what different askers ask (ADR 0019).
Exactly one asker must be told that a key is new. Memory is served by one process. By default 10,000 rounds on Redis,
SQLite and in memory; DynamoDB runs on ministack, which takes some hundred rounds a minute.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from adapters.grpc.client import DedupClient
from domain.dedup import make_scope
from tests import engines
from tests.entrypoints.dedup_server import interlock, server_process
from tests.redis_engines import server

ASKERS = 64
AT_ONCE = 50
SCOPE = make_scope("rounds", "run-1")


@contextmanager
def settings(backend: str) -> Iterator[Mapping[str, str]]:
    match backend:
        case "redis":
            with server() as one:
                yield {"INTERLOCK_DEDUP__PRIMARY_URL": one.url}
        case "sqlite":
            with tempfile.TemporaryDirectory() as folder:
                yield {"INTERLOCK_DATA_DIR": folder}
        case "dynamodb":
            with engines.ministack() as engine:
                aws = {
                    "AWS_ENDPOINT_URL": engine.url or "",
                    "AWS_REGION": "eu-west-1",
                    "INTERLOCK_DEDUP__DEADLINE_SECONDS": "60",
                }
                keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
                made = interlock(
                    "tables", "create", INTERLOCK_DEDUP__BACKEND=backend, INTERLOCK_ENGINE="memory", **aws, **keys
                )
                assert made.returncode == 0, made.stderr
                yield {**aws, **keys}
        case _:
            yield {}


async def ask(address: str, rounds: int, at_once: int) -> tuple[int, int]:
    """Give how many keys were told new once, and how many answers were degraded."""
    clients = [DedupClient(address, deadline=120) for _ in range(ASKERS)]
    once = degraded = 0
    try:
        for start in range(0, rounds, at_once):
            keys = [str(number) for number in range(start, min(start + at_once, rounds))]
            told = await asyncio.gather(*(client.check(SCOPE, keys) for client in clients))
            degraded += sum(verdict.degraded for verdict in told)
            once += sum(sum(verdict.is_new[index] for verdict in told) == 1 for index in range(len(keys)))
    finally:
        await asyncio.gather(*(client.aclose() for client in clients))
    return once, degraded


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--one-by-one"]
    at_once = AT_ONCE if words == sys.argv[1:] else 1
    rounds = int(words[0]) if words else 10_000
    for backend in words[1:] or ("redis", "sqlite", "memory"):
        processes = "1" if backend == "memory" else "2"
        with settings(backend) as extra:
            variables = {"INTERLOCK_DEDUP__BACKEND": backend, **extra}
            with server_process("--processes", processes, variables=variables) as served:
                start = time.perf_counter()
                once, degraded = asyncio.run(ask(served.address, rounds, at_once))
                seconds = time.perf_counter() - start
        print(
            f"R-201 {backend:9} {processes} process(es): {rounds:,} rounds of {ASKERS} askers: {once:,} keys new once, "
            f"{degraded} degraded answers, {rounds * ASKERS / seconds:,.0f} questions/s",
            flush=True,
        )
        assert (once, degraded) == (rounds, 0)


if __name__ == "__main__":
    main()
