"""The dedup service over gRPC beside a bare grpc.aio echo of the same messages: rates, and CPU of the server.

    python -m benchmarks.dedup_grpc [rounds]

In each round, in turn, on loopback: the echo (the floor: no store, no checks), the service over one Valkey and over
two, and a service as it is usually written (redis-py, a pipeline of SET NX). All get the same bytes from the same
client, always new keys. Ratios are taken within a round. G6 and G10 are measured against redis-benchmark -P100 where
it is installed (Debian: redis-tools); G3 and G8 need a client in C (h2load, Debian: nghttp2-client).
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
import redis.asyncio

from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from benchmarks.figures import micro, rate, show
from domain.dedup import key_hash, make_scope
from tests.entrypoints.dedup_server import server_process
from tests.redis_engines import Server, server

SECONDS: Final = 2.0
WARM_UP: Final = 0.5
SERVICE: Final = "/interlock.dedup.v1.DedupCache/"
TICK: Final = os.sysconf("SC_CLK_TCK")
NUMBERS: Final = count()


class Load(NamedTuple):
    """What is asked: a method, keys a message, and how many ask at a time."""

    method: str
    keys: int
    tasks: int


CHECK: Final = Load("CheckIfNew", 1, 64)
BATCH: Final = Load("CheckManyIfNew", 100, 8)
BATCH_1000: Final = Load("CheckManyIfNew", 1000, 4)
STREAM_OF_1: Final = Load("CheckStream", 1, 64)
STREAM_OF_100: Final = Load("CheckStream", 100, 8)


class Measured(NamedTuple):
    """Keys a second, and seconds of the server's CPU for each message."""

    keys: float
    cpu: float


def message(load: Load) -> bytes:
    keys = [
        f"https://shop.example/catalogue/item/{next(NUMBERS)}?ref=abcdefghijklmnopqrstuvwxyz" for _ in range(load.keys)
    ]
    if load.method == "CheckIfNew":
        return pb.CheckIfNewRequest(service_code="pricing", run_id="run-1", key=keys[0]).SerializeToString()
    return pb.CheckManyIfNewRequest(service_code="pricing", run_id="run-1", keys=keys).SerializeToString()


def cpu(pid: int) -> float:
    """Give the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


async def measure(address: str, pid: int, load: Load) -> Measured:
    """Ask for some seconds, each task as soon as it has its answer."""
    async with grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        await asyncio.wait_for(channel.channel_ready(), 10)
        start = time.perf_counter() + WARM_UP
        end, done = start + SECONDS, 0

        def counted(began: float) -> None:
            nonlocal done
            done += began >= start

        async def unary() -> None:
            call: Any = channel.unary_unary(SERVICE + load.method)
            while (began := time.perf_counter()) < end:
                await call(message(load), timeout=20)
                counted(began)

        async def stream() -> None:
            call: Any = channel.stream_stream(SERVICE + load.method)()
            while (began := time.perf_counter()) < end:
                await call.write(message(load))
                await call.read()
                counted(began)
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF

        tasks = [asyncio.create_task((stream if load.method == "CheckStream" else unary)()) for _ in range(load.tasks)]
        await asyncio.sleep(WARM_UP)
        before = cpu(pid)
        await asyncio.gather(*tasks)
        return Measured(done * load.keys / SECONDS, (cpu(pid) - before) / done)


# ------------------------------------------------------------------------------------------- the servers beside ours
async def serve_peer(kind: str, redis_port: int) -> None:
    """Serve the same messages: `echo` answers at once, `usual` asks redis-py."""
    client = redis.asyncio.Redis(
        connection_pool=redis.asyncio.BlockingConnectionPool(port=redis_port, max_connections=64)
    )

    async def claim(service_code: str, run_id: str, keys: list[str]) -> list[bool]:
        if kind == "echo":
            return [True] * len(keys)
        scope = make_scope(service_code, run_id)
        prefix = f"{service_code}:{run_id}:".encode()
        if len(keys) == 1:
            return [await client.set(prefix + key_hash(scope, keys[0]), b"1", nx=True, ex=86_400) is True]
        pipeline = client.pipeline(transaction=False)
        for key in keys:
            pipeline.set(prefix + key_hash(scope, key), b"1", nx=True, ex=86_400)
        return [bool(answer) for answer in await pipeline.execute()]

    async def check(request: pb.CheckIfNewRequest, _: object) -> pb.CheckIfNewResponse:
        is_new = await claim(request.service_code, request.run_id, [request.key])
        return pb.CheckIfNewResponse(is_new=is_new[0])

    async def check_many(request: pb.CheckManyIfNewRequest, _: object) -> pb.CheckManyIfNewResponse:
        return pb.CheckManyIfNewResponse(is_new=await claim(request.service_code, request.run_id, list(request.keys)))

    async def check_stream(
        requests: AsyncIterator[pb.CheckManyIfNewRequest], context: object
    ) -> AsyncIterator[pb.CheckManyIfNewResponse]:
        async for request in requests:
            yield await check_many(request, context)

    one = (pb.CheckIfNewRequest.FromString, pb.CheckIfNewResponse.SerializeToString)
    many = (pb.CheckManyIfNewRequest.FromString, pb.CheckManyIfNewResponse.SerializeToString)
    handlers: dict[str, Any] = {
        "CheckIfNew": grpc.unary_unary_rpc_method_handler(check, *one),
        "CheckManyIfNew": grpc.unary_unary_rpc_method_handler(check_many, *many),
        "CheckStream": grpc.stream_stream_rpc_method_handler(check_stream, *many),
    }
    peer = grpc.aio.server()
    peer.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.strip("/"), handlers),))
    port = peer.add_insecure_port("127.0.0.1:0")
    await peer.start()
    print(port, flush=True)
    await peer.wait_for_termination()


@contextmanager
def peer_process(kind: str, redis_port: int) -> Iterator[tuple[str, int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.dedup_grpc", kind, str(redis_port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield f"127.0.0.1:{int(process.stdout.readline())}", process.pid
    finally:
        process.terminate()
        process.wait()


# ----------------------------------------------------------------------------------------------------------- a round
def redis_benchmark(port: int) -> float | None:
    """Give redis-benchmark's SETs a second, 100 in a pipeline; None where it is not installed."""
    if shutil.which("redis-benchmark") is None:
        return None
    command = ["redis-benchmark", "-p", str(port), "-c", "50", "-P", "100", "-n", "500000", "-r", "100000000", "--csv"]
    words = ["SET", "key:__rand_int__", "1", "NX", "EX", "86400"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1].split('","')[1])


def h2load(address: str, load: Load) -> float | None:
    """Give the keys a second that a client in C gets answered, of one message again and again."""
    if shutil.which("h2load") is None:
        return None
    body = message(load)
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"\0" + len(body).to_bytes(4, "big") + body)
        file.flush()
        headers = ["-H", "content-type: application/grpc", "-H", "te: trailers", "-d", file.name]
        command = ["h2load", "-c", "2", "-m", str(load.tasks // 2), "-t", "1", "-D", "3", *headers]
        done = subprocess.run(
            [*command, f"http://{address}{SERVICE}{load.method}"], capture_output=True, text=True, check=True
        )
    requests = next(line for line in done.stdout.splitlines() if line.startswith("requests:"))
    return int(requests.split(" succeeded")[0].rpartition(" ")[2]) * load.keys / 3


def a_round(first: Server, second: Server) -> dict[str, float]:
    """Measure everything once, and give the figures by name."""
    figures: dict[str, float | None] = {}

    def flush() -> None:
        for one in (first, second):
            with one.client() as client:
                client.flushall()

    def take(name: str, address: str, pid: int, *loads: Load) -> None:
        for load in loads:
            flush()
            measured = asyncio.run(measure(address, pid, load))
            figures[f"{name} {load.method} {load.keys}"] = measured.keys
            figures[f"{name} {load.method} {load.keys} cpu"] = measured.cpu

    ours = {"INTERLOCK_DEDUP__BACKEND": "redis", "INTERLOCK_DEDUP__PRIMARY_URL": first.url}
    figures["redis-benchmark"] = redis_benchmark(first.port)
    with peer_process("echo", first.port) as (address, pid):
        take("echo", address, pid, CHECK)
        figures["echo h2"] = h2load(address, CHECK)
    with peer_process("usual", first.port) as (address, pid):
        take("usual", address, pid, CHECK, BATCH)
    with server_process(variables=ours) as process:
        take("one", process.address, process.process.pid, CHECK, BATCH, STREAM_OF_1, STREAM_OF_100)
        figures["one h2"] = h2load(process.address, CHECK)
        figures["batch h2"] = h2load(process.address, BATCH_1000)
    with server_process(variables={**ours, "INTERLOCK_DEDUP__SECONDARY_URL": second.url}) as process:
        take("two", process.address, process.process.pid, CHECK)
    return {name: figure for name, figure in figures.items() if figure is not None}


def main(rounds: int = 5) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(server()) for _ in range(2))
        taken = [a_round(first, second) for _ in range(rounds)]

    def tell(goal: str, what: str, name: str, beside: str, wanted: str) -> None:
        if name not in taken[0] or beside not in taken[0]:
            show(goal, what, "-", "a tool is not installed", None, wanted)
            return
        write = micro if name.endswith("cpu") else rate
        ours, peer = (statistics.median(one[key] for one in taken) for key in (name, beside))
        show(goal, what, write(ours), write(peer), statistics.median(one[name] / one[beside] for one in taken), wanted)

    echo, echo_cpu = "echo CheckIfNew 1", "echo CheckIfNew 1 cpu"
    tell("G1", "a check a call, one Redis, beside the echo", "one CheckIfNew 1", echo, ">= 0.70x, aim 0.90x")
    tell("", "the usual service beside the echo", "usual CheckIfNew 1", echo, "-")
    tell("G2", "the same with a secondary", "two CheckIfNew 1", echo, ">= 0.60x, aim 0.80x")
    tell("G3", "the same from a client in C, one Redis", "one h2", "echo h2", ">= 1.0x")
    tell("G4", "CPU of the server for a check", "one CheckIfNew 1 cpu", echo_cpu, "<= 1.25x")
    tell("G4", "the same with a secondary", "two CheckIfNew 1 cpu", echo_cpu, "<= 1.6x")
    tell("G6", "keys a second, 100 a call, beside -P100", "one CheckManyIfNew 100", "redis-benchmark", ">= 0.25x")
    tell("G6", "the same beside the usual", "one CheckManyIfNew 100", "usual CheckManyIfNew 100", ">= 2.5x")
    tell("G8", "keys a second, 1,000 a call, client in C", "batch h2", "redis-benchmark", ">= 0.70x, aim 1.0x")
    tell("G9", "a stream, one key a message, beside the echo", "one CheckStream 1", echo, ">= 2.5x")
    tell("G10", "a stream, 100 keys a message, beside -P100", "one CheckStream 100", "redis-benchmark", ">= 0.35x")


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in {"echo", "usual"}:
        asyncio.run(serve_peer(sys.argv[1], int(sys.argv[2])))
    else:
        main(*map(int, sys.argv[1:2]))
