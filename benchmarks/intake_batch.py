"""G21: 1,000 messages of 1 KB, checked and compressed, beside a bare pydantic model and zstd; then 200 such batches.

python -m benchmarks.intake_batch
"""

import asyncio
import random
import time
from functools import partial
from pathlib import Path

import zstandard
from pydantic import BaseModel, ConfigDict, JsonValue

from adapters.memory.metrics import MemoryMetrics
from adapters.memory.object_store import MemoryObjectStore
from adapters.system.clock import SystemClock
from adapters.zstd.object_store import LEVEL, ZstdObjectStore
from application.intake import Intake, store_batch
from benchmarks.figures import in_turn, show
from domain.envelope import Envelope
from domain.messages import Received

WORDS = ("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "kelp", "lagoon")
BATCH = 1000
BATCHES = 200
ROUNDS = 25


class Bare(BaseModel):
    """The peer's model: the same attributes, and no rule about any of them."""

    model_config = ConfigDict(extra="allow")

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: str
    data: JsonValue


def a_batch(seed: int, numbers: int = 0) -> list[Received]:
    """Give messages of about 1 KB: ids, words and a token, and so many numbers in the place of words."""
    spread = random.Random(seed)
    now = SystemClock().now()
    found: list[Received] = []
    for number in range(BATCH):
        data: dict[str, JsonValue] = {
            "sku": f"AB-{spread.randrange(10**6)}",
            "amount": f"{spread.randrange(10**6) / 100:.2f}",
            "token": f"{spread.getrandbits(256):064x}",
            "figures": [spread.randrange(1000) / 4 for _ in range(numbers)],
        }
        envelope = Envelope(
            specversion="1.0",
            id=f"{spread.getrandbits(128):032x}",
            source="/pricing/eu-west-1",
            type=("Created", "Priced", "Shipped", "Closed")[number % 4],
            subject=f"order#{spread.randrange(10**9):012d}",
            time=f"2026-01-{1 + number % 3:02d}T{number % 24:02d}:00:00.{spread.randrange(10**6):06d}Z",
            data=data,
        )
        note = ""
        while len(note) + len(envelope.to_json()) < 990:
            note += spread.choice(WORDS) + " "
        body = envelope.to_json().replace('"figures"', f'"note":"{note}","figures"')
        found.append(Received(f"{seed}-{number}", None, body, "receipt", 1, now))
    return found


def ours(batch: list[Received], runner: asyncio.Runner) -> float:
    """Give the seconds of CPU from the messages to the object."""
    intake = Intake(ZstdObjectStore(MemoryObjectStore()), SystemClock(), MemoryMetrics())
    start = time.process_time()
    report = runner.run(store_batch(intake, batch))
    seconds = time.process_time() - start
    assert report.stored == BATCH
    return seconds


def bare(batch: list[Received]) -> float:
    """Give the seconds of CPU that a model and a compressor take, and nothing else."""
    start = time.process_time()
    for received in batch:
        Bare.model_validate_json(received.body)
    zstandard.ZstdCompressor(level=LEVEL).compress("\n".join([received.body for received in batch]).encode())
    return time.process_time() - start


def resident() -> float:
    """Give the process's memory in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1024**2


async def many(batches: list[list[Received]]) -> tuple[float, float]:
    """Keep 200 batches one after the other; give the memory after 20 of them, and after all."""
    early = 0.0
    for number in range(BATCHES):
        intake = Intake(ZstdObjectStore(MemoryObjectStore()), SystemClock(), MemoryMetrics())
        await store_batch(intake, batches[number % len(batches)])
        if number == 20:
            early = resident()
    return early, resident()


def main() -> None:
    with asyncio.Runner() as runner:
        for numbers, goal in ((0, "<= 20 ms"), (30, "-")):
            batch = a_batch(0, numbers)
            size = sum(len(received.body) for received in batch) / BATCH
            assert 980 < size < 1020
            mine, peer, ratio = in_turn(partial(ours, batch, runner), partial(bare, batch), rounds=ROUNDS)
            what = "1,000 x 1 KB, check + compress" + (f", {numbers} numbers each" if numbers else "")
            show("G21", what, f"{mine * 1e3:.1f} ms", f"{peer * 1e3:.1f} ms pydantic, zstd-{LEVEL}", ratio, goal)
        early, late = runner.run(many([a_batch(seed) for seed in range(10)]))
        what = f"memory after {BATCHES} batches, beside after 20"
        show("G21", what, f"{late:.1f} MiB", f"{early:.1f} MiB", late / early, "<= 1.05x")
    assert late <= early * 1.05


if __name__ == "__main__":
    main()
