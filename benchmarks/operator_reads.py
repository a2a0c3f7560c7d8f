"""Operator reads stay flat (R-108): p99 of `GET /v1/events/{id}` with ingestion at full speed, beside its idle p99.

    python -m benchmarks.operator_reads

On the SQLite engine, with the API, the feed and the reader in processes of their own. Five rounds, idle and busy in
turn.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from itertools import count
from pathlib import Path

from adapters.memory.metrics import MemoryMetrics
from application.ingest import ingest
from benchmarks.figures import show
from domain.envelope import envelope_from
from entrypoints.demo import processes
from entrypoints.demo.flights import is_event, january, to_envelope
from entrypoints.demo.operators import Latency, read_until
from entrypoints.settings import YIELDING, Settings
from entrypoints.wiring import make_platform, open_engine

ROUNDS = 5
READS = 1000
EVENTS = 250


async def pour(folder: Path, *, forever: bool) -> None:
    """Ingest January's first flights once, or fresh copies of January until stopped."""
    settings = Settings(engine="sqlite", data_dir=folder)
    engine = open_engine(settings)
    platform = make_platform(settings, engine, MemoryMetrics())
    flights = [to_envelope(flight) for flight in january() if is_event(flight)]
    try:
        for lap in count():
            for start in range(0, len(flights) if forever else EVENTS, EVENTS):
                batch = flights[start : start + EVENTS]
                if forever:
                    batch = [{**attributes, "id": f"{attributes['id']}-{lap}"} for attributes in batch]
                await ingest(platform, [envelope_from(attributes) for attributes in batch])
                if lap == start == 0:
                    print("pouring", flush=True)
            if not forever:
                return
    finally:
        await engine.aclose()


def read(port: int, event_ids: list[str]) -> Latency:
    enough = threading.Event()
    enough.set()
    return read_until(port, event_ids, enough, at_least=READS)


def main() -> None:
    event_ids = [str(to_envelope(flight)["id"]) for flight in january() if is_event(flight)][:EVENTS]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = processes.free_port()
        with processes.running(processes.api(port), folder, "api.log") as api:
            processes.wait_until(lambda: processes.is_ready(port), [api])
            asyncio.run(pour(folder, forever=False))
            read(port, event_ids)
            idle: list[Latency] = []
            busy: list[Latency] = []
            for _ in range(ROUNDS):
                idle.append(read(port, event_ids))
                feed = subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.operator_reads", name], stdout=subprocess.PIPE
                )
                assert feed.stdout is not None
                feed.stdout.readline()
                try:
                    busy.append(read(port, event_ids))
                finally:
                    feed.terminate()
                    feed.wait()
    for figure in ("p50_ms", "p99_ms"):
        calm, loaded = ([getattr(latency, figure) for latency in latencies] for latencies in (idle, busy))
        ratio = statistics.median(b / a for a, b in zip(calm, loaded, strict=True))
        ours, peer = f"{statistics.median(loaded)} ms", f"{statistics.median(calm)} ms idle"
        show(
            "R-108",
            f"GET one event while ingesting, {figure[:3]}",
            ours,
            peer,
            ratio,
            "<= 3x" if figure == "p99_ms" else "-",
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.nice(YIELDING)
        asyncio.run(pour(Path(sys.argv[1]), forever=True))
    else:
        main()
