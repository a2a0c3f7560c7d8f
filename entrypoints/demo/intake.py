"""The demo's front door: usage events over HTTP, a processor that is killed, the daily job, a query (R-501 to R-506).

Everything runs as in production: events come through `POST /v1/intake`, `interlock worker intake` keeps them, and is
killed once half of them are sent, `interlock daily-job` loads the table, and `interlock query` answers. What the query
says has to be what the flights say.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from threading import local
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from domain.errors import Unavailable
from domain.intake import QUARANTINE, split_lines
from entrypoints.demo import processes
from entrypoints.demo.flights import january, year
from entrypoints.demo.usage import SCHEMA, Post, posts, totals
from entrypoints.engines.intake import DEAD_LETTERS, QUEUE, IntakeEngine
from entrypoints.settings import Settings

SENDERS: Final = 4
BATCH: Final = 200
VISIBILITY: Final = {"INTERLOCK_INTAKE__VISIBILITY_SECONDS": "8", "INTERLOCK_INTAKE__WINDOW_SECONDS": "0.5"}
"""Short, so that what the killed processor had in hand comes again while somebody watches."""

SQL: Final = (
    "SELECT carrier, count(*) AS flights, sum(distance) AS miles, sum(air_time) AS minutes "
    "FROM aircraft_used GROUP BY carrier ORDER BY carrier"
)

WAITING: Final = "SELECT count(*) FROM messages WHERE queue = ?"

Told = Callable[[int, int], None]


class FrontDoor(BaseModel):
    """What the front door's part of the demo counted.

    Attributes:
        posts: requests, each answered with 202.
        events: good ones that were sent, each counted once.
        repeated: good ones that were sent again.
        broken: in one of twenty ways.
        objects: that the daily job read.
        rows: in the table.
        duplicates: that the daily job left out.
        quarantined: messages with something broken in them, kept with the reason.
        in_hand_when_killed: messages that the processor had not finished.
        posted_per_second: events.
        job_seconds: of the daily job, its start included.
        answer: of the query, by carrier: flights, miles, minutes in the air.
    """

    model_config = ConfigDict(frozen=True)

    posts: int
    events: int
    repeated: int
    broken: int
    objects: int
    rows: int
    duplicates: int
    quarantined: int
    in_hand_when_killed: int
    posted_per_second: int
    job_seconds: float
    answer: dict[str, tuple[int, int, int]]


async def run(folder: Path, port: int, told: Told, *, whole_year: bool) -> tuple[FrontDoor, dict[str, bool]]:
    """Send everything, kill the processor half-way, load the table and ask it.

    Args:
        folder: of the engine.
        port: of the API.
        told: is told how many requests are answered, and how many there are.
        whole_year: or January alone.

    Returns:
        What was counted, and what has to hold.

    Raises:
        Unavailable: a process ended early, a request was not answered with 202, or nothing came of it in five minutes.
    """
    read = year if whole_year else january
    sent = list(posts(read()))
    started = time.monotonic()
    in_hand = _send_and_kill(folder, port, sent, told)
    posted = time.monotonic() - started
    with processes.running(processes.intake_worker(BATCH), folder, "intake.log", VISIBILITY) as worker:
        processes.wait_until(lambda: not _count(folder, WAITING, QUEUE), [worker])
    job, job_seconds = _load(folder)
    rows = processes.told(["query", SQL, "--format", "json"], folder)
    quarantined = await _quarantined(folder)
    good = [post for post in sent if not post.repeats]
    found = FrontDoor(
        posts=len(sent),
        events=sum(post.good for post in good),
        repeated=sum(post.good for post in sent) - sum(post.good for post in good),
        broken=sum(post.broken for post in good),
        objects=job["objects"],
        rows=job["rows"],
        duplicates=job["duplicates"],
        quarantined=len(quarantined),
        in_hand_when_killed=in_hand,
        posted_per_second=round(sum(post.good + post.broken for post in sent) / posted),
        job_seconds=round(job_seconds, 1),
        answer={row["carrier"]: (int(row["flights"]), int(row["miles"]), int(row["minutes"])) for row in rows},
    )
    return found, {
        "front door: the query's answer is what was sent": found.answer == totals(read()),
        "front door: each good event is one row": found.rows == found.events,
        "front door: each broken message is in quarantine": len(quarantined) == sum(post.broken for post in sent),
        "front door: events = rows + duplicates + rejects": job["events"]
        == job["rows"] + job["duplicates"] + job["rejects"],
        "front door: the processor was killed with messages in hand": in_hand > 0,
        "front door: no message is among the dead letters": not _count(folder, WAITING, DEAD_LETTERS),
    }


def _send_and_kill(folder: Path, port: int, sent: Sequence[Post], told: Told) -> int:
    """Send everything; once half of it is there, kill the processor in the middle of its work.

    Returns:
        How many messages it had in hand.
    """
    half = len(sent) // 2
    with processes.running(processes.intake_worker(BATCH), folder, "intake.log", VISIBILITY) as worker:
        _post_all(port, sent[:half], lambda done: told(done, len(sent)))
        with ThreadPoolExecutor(1) as others:
            rest = others.submit(_post_all, port, sent[half:], lambda done: told(half + done, len(sent)))
            processes.wait_until(lambda: _in_hand(folder) > 0, [worker])
            worker.kill()
            worker.wait()
            in_hand = _in_hand(folder)
            rest.result()
    return in_hand


def _post_all(port: int, sent: Sequence[Post], told: Callable[[int], None]) -> None:
    """Send requests side by side, and see each answered with 202.

    Raises:
        Unavailable: one was not.
    """
    own = local()

    def post(one: Post) -> int:
        if not hasattr(own, "connection"):
            own.connection = HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Content-Type": "application/json"}
        own.connection.request("POST", "/v1/intake", one.body, headers)
        answer = own.connection.getresponse()
        answer.read()
        return int(answer.status)

    with ThreadPoolExecutor(SENDERS) as senders:
        for done, status in enumerate(senders.map(post, sent), start=1):
            if status != 202:  # noqa: PLR2004 - HTTP
                raise Unavailable("the front door", f"request {done} was answered with {status}")
            told(done)


def _load(folder: Path) -> tuple[dict[str, Any], float]:
    """Declare the columns and run the daily job for what arrived, over midnight too; give its report."""
    declared = folder / "aircraft_used.json"
    declared.write_text(json.dumps(SCHEMA))
    processes.told(["schema", "register", str(declared), "--json"], folder)
    started = time.monotonic()
    today = datetime.now(UTC).date().isoformat()
    report: dict[str, Any] = processes.told(["daily-job", "--date", today, "--json"], folder)
    return report, time.monotonic() - started


async def _quarantined(folder: Path) -> set[str]:
    """Give the ids of messages in quarantine; what was kept twice because of the kill counts once."""
    engine = IntakeEngine(Settings(engine="sqlite", data_dir=folder))
    found: set[str] = set()
    after: str | None = ""
    while after is not None:
        page = await engine.objects.list(f"{QUARANTINE}/", after=after)
        for kept in page.objects:
            lines = split_lines(await engine.objects.get(kept.name) or b"")
            found |= {json.loads(line)["message_id"] for line in lines}
        after = page.after
    await engine.aclose()
    return found


def _in_hand(folder: Path) -> int:
    return _count(folder, WAITING + " AND receipt IS NOT NULL", QUEUE)


def _count(folder: Path, sql: str, queue: str) -> int:
    with closing(sqlite3.connect(f"file:{folder / 'queues.db'}?mode=ro", uri=True)) as database:
        number: int = database.execute(sql, (queue,)).fetchone()[0]
        return number
