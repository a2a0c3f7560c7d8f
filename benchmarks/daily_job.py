"""G22 to G24: the daily job on one machine and on Spark, beside DuckDB, polars and a bare Spark job on the same lines.

    python -m benchmarks.daily_job                      1,000,000 events in 1,000 objects; then a tenth, for memory
    python -m benchmarks.daily_job --events 300000 --spark

Every engine runs in a process of its own and does the same work: reads every line, leaves out the events whose time is
none (1 in 100), keeps one event of a source and id, and writes Parquet (zstd) by event day. All must count the same.
Only ours checks the whole envelope, keeps what is rejected, and commits to a table. Time is of the whole process,
memory the peak of its process tree. Spark cannot unpack zstd from pip: its bare job reads the same lines as gzip, and
is timed without the start of the session, as ours on Spark is.
"""

import argparse
import asyncio
import gzip
import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from adapters.zstd.object_store import compress, decompress
from application.daily_job import load_here, run_daily_job
from benchmarks.figures import micro, rate, show
from domain.intake import RawMessage, join_lines, object_name, write_line
from entrypoints.engines.lake import LakeEngine
from tests.lakes import settings_of

DAY: Final = date(2026, 1, 2)
NOON: Final = datetime(2026, 1, 2, 12, tzinfo=UTC)
PER_OBJECT: Final = 1000
WORDS: Final = (
    "amber",
    "basin",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "haven",
    "inlet",
    "jetty",
    "kelp",
    "mesa",
)
TYPES: Final = ("Created", "Priced", "Shipped", "Closed", "Returned", "Refunded")
DATA: Final = {"sku": "VARCHAR", "amount": "VARCHAR", "token": "VARCHAR", "note": "VARCHAR"}
PAGE: Final = 4096


def lines(events: int) -> Iterator[RawMessage]:
    """Give messages of one event of about 555 bytes; one in a hundred has no good time, one in fifty is a copy."""
    rnd = random.Random(11)
    notes = [" ".join(rnd.choices(WORDS, k=45)) for _ in range(2000)]
    for n in range(events):
        number = n - 25 if n % 50 == 49 else n
        when = (
            f"2026-01-{1 + number % 2:02d}T{number % 24:02d}:{number % 60:02d}:{number % 59:02d}.{number % 10**6:06d}Z"
        )
        event = {
            "specversion": "1.0",
            "id": f"{number:032x}",
            "source": "/shop/pricing",
            "type": TYPES[number % 6],
            "subject": f"order#{rnd.randrange(10**9):012d}",
            "time": "yesterday" if n % 100 == 13 else when,
            "data": {
                "sku": f"AB-{rnd.randrange(10**6)}",
                "amount": f"{rnd.randrange(10**6) / 100:.2f}",
                "token": f"{rnd.getrandbits(256):064x}",
                "note": notes[rnd.randrange(2000)],
            },
        }
        body = json.dumps(event, separators=(",", ":"))
        yield RawMessage(f"{rnd.getrandbits(128):032x}", NOON + timedelta(milliseconds=n % 80_000), 1, body)


def make(folder: Path, events: int) -> None:
    """Write the objects as the processor does."""
    waiting: list[RawMessage] = []
    for number, message in enumerate(lines(events), 1):
        waiting.append(message)
        if len(waiting) == PER_OBJECT or number == events:
            file = folder / "objects" / object_name("raw", waiting)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(compress(join_lines(write_line(one) for one in waiting)))
            waiting = []


def raw(folder: Path) -> str:
    return str(folder / "objects" / "raw" / "*" / "*.zst")


def ours(folder: Path) -> tuple[int, int]:
    async def work() -> tuple[int, int]:
        engine = LakeEngine(settings_of(folder, processes=2))
        report = await run_daily_job(engine.lake, DAY, load_here(), back=1)
        return report.rows, report.rejects

    return asyncio.run(work())


def duckdb(folder: Path) -> tuple[int, int]:
    import duckdb as engine  # noqa: PLC0415 - our own workers must not load it

    of_data = json.dumps({**dict.fromkeys(["id", "source", "type", "subject", "time"], "VARCHAR"), "data": "JSON"})
    columns = "{message_id: 'VARCHAR', arrived_at: 'TIMESTAMPTZ', receive_count: 'INT', body: 'VARCHAR'}"
    at = engine.connect()
    at.execute("set threads = 2; set TimeZone = 'UTC'")
    at.execute(f"""create temp table read as select *, try_cast(e.time as timestamptz) at_ from (
        select message_id, arrived_at, from_json(body, '{of_data}') e
        from read_json('{raw(folder)}', format = 'newline_delimited', columns = {columns}))""")  # noqa: S608 - our own
    at.execute(f"""copy (select message_id, arrived_at, unnest(e), at_, at_::date as "day" from read where at_ notnull
        qualify row_number() over (partition by e.source, e.id order by arrived_at, message_id) = 1)
        to '{folder}/duckdb' (format parquet, compression zstd, partition_by ("day"))""")  # noqa: S608 - the same
    bad = at.execute("select count(*) from read where at_ is null").fetchone()
    good = at.execute(f"select count(*) from '{folder}/duckdb/*/*.parquet'").fetchone()  # noqa: S608 - the same
    assert good is not None
    assert bad is not None
    return good[0], bad[0]


def polars(folder: Path) -> tuple[int, int]:
    import polars as pl  # noqa: PLC0415 - our own workers must not load it

    text = pl.String
    attributes = dict.fromkeys(("specversion", "id", "source", "type", "subject", "time"), text)
    body = pl.Struct({**attributes, "data": pl.Struct(dict.fromkeys(DATA, text))})
    schema = {"message_id": text, "arrived_at": text, "receive_count": pl.Int64, "body": text}
    read = pl.scan_ndjson(raw(folder), schema=schema).with_columns(pl.col("body").str.json_decode(body)).collect()
    read = read.unnest("body").with_columns(pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", strict=False))
    good = read.filter(pl.col("time").is_not_null()).sort("arrived_at", "message_id").unique(["source", "id"])
    for (day,), rows in good.with_columns(day=pl.col("time").dt.date()).partition_by("day", as_dict=True).items():
        (folder / "polars" / f"day={day}").mkdir(parents=True)
        rows.write_parquet(folder / "polars" / f"day={day}" / "0.parquet", compression="zstd")
    return good.height, read["time"].null_count()


def spark(folder: Path) -> tuple[int, int]:
    """Run ours on Spark."""
    from entrypoints.glue.daily_job import run  # noqa: PLC0415 - only this engine starts Java
    from tests.spark import local_spark  # noqa: PLC0415 - the same

    with local_spark(folder) as session:
        start = time.perf_counter()
        report = run(session, settings_of(folder), DAY)
        print(json.dumps({"seconds": time.perf_counter() - start}))
    return report.rows, report.rejects


def bare_spark(folder: Path) -> tuple[int, int]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it; only this engine starts Java

    from tests.spark import local_spark  # noqa: PLC0415 - the same

    gz = folder / "gz"
    gz.mkdir()
    for file in (folder / "objects" / "raw").rglob("*.zst"):
        (gz / f"{file.name[:64]}.json.gz").write_bytes(gzip.compress(decompress(file.read_bytes(), file.name), 1))
    with local_spark(folder) as session:
        start = time.perf_counter()
        of_data = ", ".join(f"{name}: string" for name in DATA)
        of_body = f"id string, source string, type string, subject string, time string, data struct<{of_data}>"
        read = session.read.schema("message_id string, arrived_at string, receive_count int, body string").json(str(gz))
        read = read.withColumn("e", F.from_json("body", of_body)).select("message_id", "arrived_at", "e.*")
        read = read.withColumn("at", F.to_timestamp("time", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSX")).persist()
        bad = read.filter("at is null").count()
        good = read.filter("at is not null").dropDuplicates(["source", "id"]).withColumn("day", F.to_date("at"))
        good.write.partitionBy("day").option("compression", "zstd").parquet(str(folder / "spark"))
        print(json.dumps({"seconds": time.perf_counter() - start}))
        return session.read.parquet(str(folder / "spark")).count(), bad


ENGINES: Final[dict[str, Callable[[Path], tuple[int, int]]]] = {
    "ours": ours,
    "duckdb": duckdb,
    "polars": polars,
    "spark": spark,
    "bare_spark": bare_spark,
}


def measured(folder: Path, engine: str) -> dict[str, Any]:
    """Run an engine in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.daily_job", "--engine", engine, "--folder", str(folder)]
    start, before, peak, done = time.perf_counter(), _children(), [0], threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        watching = threading.Thread(target=_watch, args=(process.pid, peak, done))
        watching.start()
        out, _ = process.communicate()
        seconds = time.perf_counter() - start
        done.set()
        watching.join()
    assert process.returncode == 0, engine
    found: dict[str, Any] = {"seconds": seconds, "peak": peak[0], "cpu": _children() - before}
    for line in out.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
    return found


def _children() -> float:
    """Give the processor seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(root: int, peak: list[int], done: threading.Event) -> None:
    while not done.wait(0.1):
        peak[0] = max(peak[0], _tree(root))


def _tree(root: int) -> int:
    """Give the resident bytes of a process and all below it."""
    children: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for process in (entry for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(process.name))
        resident[int(process.name)] = int(fields[21]) * PAGE
    total, todo = 0, [root]
    while todo:
        one = todo.pop()
        total += resident.get(one, 0)
        todo += children.get(one, [])
    return total


def compare(events: int, engines: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as name:
        folder = Path(name)
        make(folder, events)
        found = {engine: measured(folder, engine) for engine in engines}
    counts = {(one["rows"], one["rejects"]) for one in found.values()}
    assert len(counts) == 1, found
    return found


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--spark", action="store_true", help="Spark alone")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine is not None:
        rows, rejects = ENGINES[given.engine](given.folder)
        print(json.dumps({"rows": rows, "rejects": rejects}))
        return
    if given.spark:
        found = compare(given.events, ("spark", "bare_spark"))
        mine, bare = found["spark"]["seconds"], found["bare_spark"]["seconds"]
        show(
            "G24",
            f"{given.events:,} events on Spark",
            f"{mine:.1f} s",
            f"bare Spark job {bare:.1f} s",
            mine / bare,
            "<= 1.3x",
        )
        return
    found = compare(given.events, ("ours", "duckdb", "polars"))
    mine = given.events / found["ours"]["seconds"]
    for engine in ("duckdb", "polars"):
        theirs = given.events / found[engine]["seconds"]
        show("G22", f"{given.events:,} events", rate(mine), f"{engine} {rate(theirs)}", mine / theirs, ">= 45,000/s")
    for engine in ("duckdb", "polars"):
        cpu, theirs = (found[one]["cpu"] / given.events for one in ("ours", engine))
        show(
            "G22",
            "processor time an event",
            micro(cpu),
            f"{engine} {micro(theirs)}",
            cpu / theirs,
            "<= 44 us (2 cores)",
        )
    for engine in ("duckdb", "polars"):
        peak, theirs = found["ours"]["peak"], found[engine]["peak"]
        show("G23", "its peak memory", megabytes(peak), f"{engine} {megabytes(theirs)}", peak / theirs, "<= 1,000 MB")
    tenth = compare(given.events // 10, ("ours",))["ours"]["peak"]
    grown = found["ours"]["peak"] / tenth
    show(
        "G23",
        "its growth for ten times the events",
        megabytes(found["ours"]["peak"]),
        f"a tenth {megabytes(tenth)}",
        grown,
        "bounded",
    )


if __name__ == "__main__":
    main()
