"""`interlock dlq` on the embedded engine: what is chosen goes back, once, whoever is killed when (R-503)."""

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from adapters.sqlite.database import Database
from adapters.sqlite.dead_letters import SqliteDeadLetters
from adapters.sqlite.message_queue import QUEUES
from adapters.sqlite.publisher import SqlitePublisher
from adapters.system.clock import SystemClock
from application.dead_letters import RedriveReport, redrive
from domain.dead_letters import Selection
from domain.messages import Outgoing
from entrypoints.engines import event_bus
from entrypoints.engines.sqlite import DEAD_LETTERS
from tests.entrypoints.cli import Interlock
from tests.examples import an_envelope

ROOT = Path(__file__).parents[2]
LETTERS = 200


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    """The command, in an empty folder."""
    return Interlock(tmp_path, monkeypatch, capsys)


def bury(folder: Path, bodies: Sequence[str], queue: str = DEAD_LETTERS, file: str = "queues.db") -> None:
    async def work() -> None:
        database = Database(folder / file, QUEUES)
        messages = [Outgoing(f"G{number % 7}", f"d{number}", body) for number, body in enumerate(bodies)]
        await SqlitePublisher(database, queue, SystemClock()).publish(messages)
        await database.aclose()

    asyncio.run(work())


def lying(folder: Path, queue: str, file: str = "queues.db") -> list[str]:
    with closing(sqlite3.connect(folder / file)) as database:
        rows = database.execute("SELECT body FROM messages WHERE queue = ? ORDER BY seq", (queue,)).fetchall()
    return [body for (body,) in rows]


def requested(number: int) -> str:
    return json.dumps({"kind": "transition_requested", "event_id": f"e{number}", "to": "open"})


def test_r503_letters_are_listed_shown_rehearsed_and_put_back(interlock: Interlock) -> None:
    folder = interlock.folder / ".interlock"
    bury(folder, ["secret: no JSON", *map(requested, range(1, 4))])
    listed = interlock("dlq", "list", "lifecycle", "--json")
    answer = json.loads(listed.out)
    assert (listed.code, answer["waiting"]) == (0, 4)
    assert [item["event_id"] for item in answer["items"]] == [None, "e1", "e2", "e3"]
    assert "secret" not in listed.out + listed.err, "lists hold no content"
    line = interlock("dlq", "list", "lifecycle").out.splitlines()[2].split("\t")
    assert (line[:2], line[3:5]) == (["2", "G1"], ["queue", "transition_requested"])
    sent = answer["items"][1]["at"]
    for rule in ("--from", "--until"):
        assert len(json.loads(interlock("dlq", "list", "lifecycle", "--json", rule, sent).out)["items"]) == 4
    assert json.loads(interlock("dlq", "list", "lifecycle", "--json", "--until", "2026-01-01T00:00:00Z").out) == {
        "waiting": 4, "items": [],
    }  # fmt: skip
    shown = interlock("dlq", "show", "lifecycle", "1", "--json")
    assert json.loads(shown.out)["body"] == "secret: no JSON"
    chosen = ("--contains", "transition_requested", "--limit", "2", "--reason", "the event is there now")
    rehearsed = interlock("dlq", "redrive", "lifecycle", *chosen, "--dry-run", "--json")
    assert [item["outcome"] for item in json.loads(rehearsed.out)["items"]] == ["would go back"] * 2
    assert len(lying(folder, "lifecycle-dead")) == 4
    done = interlock("dlq", "redrive", "lifecycle", *chosen, "--actor", "ada")
    assert (done.code, "redriven 2, failed 0" in done.err) == (0, True)
    logged = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    assert [(line["actor"], line["why"], line["event_id"]) for line in logged] == [
        ("ada", "the event is there now", event_id) for event_id in ("e1", "e2")
    ]
    assert lying(folder, "lifecycle") == [requested(1), requested(2)]
    assert lying(folder, "lifecycle-dead") == ["secret: no JSON", requested(3)]


def test_r503_what_the_router_failed_at_goes_back_to_the_queue_that_its_worker_drains(interlock: Interlock) -> None:
    folder = interlock.folder / ".interlock"
    given = [json.dumps(an_envelope(name).attributes()) for name in ("first", "second")]
    (interlock.folder / "in.jsonl").write_text("\n".join(given))
    assert interlock("events", "publish", "in.jsonl").code == 0
    sent = lying(folder, event_bus.QUEUE, "bus.db")
    with closing(sqlite3.connect(folder / "bus.db", isolation_level=None)) as database:
        database.execute("DELETE FROM messages")
    bury(folder, sent, event_bus.DEAD_LETTERS, "bus.db")
    listed = json.loads(interlock("dlq", "list", "router", "--json").out)["items"]
    assert [(item["type"], item["group_id"]) for item in listed] == [("FlightDelayed", "G0"), ("FlightDelayed", "G1")]
    assert json.loads(interlock("dlq", "show", "router", listed[1]["message_id"], "--json").out)["body"] == sent[1]
    done = interlock("dlq", "redrive", "router", "--contains", "second", "--reason", "its workflow is there now")
    assert (done.code, "redriven 1, failed 0" in done.err) == (0, True)
    assert lying(folder, event_bus.QUEUE, "bus.db") == sent[1:]
    assert lying(folder, event_bus.DEAD_LETTERS, "bus.db") == sent[:1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("redrive", "lifecycle", "--all"), "--reason"),
        (("redrive", "lifecycle", "--all", "--reason", ""), "1 to 2000"),
        (("redrive", "lifecycle", "--reason", "r"), "--all"),
        (("redrive", "lifecycle", "--reason", "r", "--all", "--type", "T"), "--all"),
        (("redrive", "lifecycle", "--reason", "r", "--all", "--rate", "0"), "0.1"),
        (("redrive", "lifecycle", "--reason", "r", "--all", "--to", "x"), "--to"),
        (("list", "nobody"), "lifecycle, intake, router"),
        (("list", "lifecycle", "--from", "yesterday"), "--from"),
    ],
)
def test_what_cannot_work_is_wrong_usage(interlock: Interlock, arguments: tuple[str, ...], complaint: str) -> None:
    bury(interlock.folder / ".interlock", [requested(1)])
    answer = interlock("dlq", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert complaint in answer.err
    assert lying(interlock.folder / ".interlock", "lifecycle") == []


def test_a_letter_that_is_not_there_is_told(interlock: Interlock) -> None:
    bury(interlock.folder / ".interlock", [requested(1)])
    answer = interlock("dlq", "show", "lifecycle", "42")
    assert (answer.code, answer.out) == (1, "")
    assert "'42'" in answer.err


def test_r503_of_two_redrives_at_once_each_letter_goes_back_once(tmp_path: Path) -> None:
    bodies = [requested(number) for number in range(LETTERS)]
    bury(tmp_path, bodies)

    async def one() -> RedriveReport:
        database = Database(tmp_path / "queues.db", QUEUES)
        letters = SqliteDeadLetters(database, DEAD_LETTERS, "lifecycle", SystemClock())
        try:
            return await redrive(letters, Selection(), SystemClock(), limit=1000, rate=1000, told=lambda *_: None)
        finally:
            await database.aclose()

    async def both() -> list[RedriveReport]:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(one()) for _ in range(2)]
        return [task.result() for task in asked]

    reports = asyncio.run(both())
    assert sum(report.redriven for report in reports) == LETTERS
    assert all(report.seen == report.redriven + report.failed for report in reports)
    assert sorted(lying(tmp_path, "lifecycle")) == sorted(bodies)


def test_r503_killed_at_any_moment_a_redrive_leaves_each_letter_in_one_place_and_a_repeat_ends_it(
    tmp_path: Path,
) -> None:
    bodies = [requested(number) for number in range(LETTERS)]
    bury(tmp_path, bodies)
    command = [sys.executable, "-m", "entrypoints.cli.main", "dlq", "redrive", "lifecycle", "--all", "--reason", "test"]
    environment = {**os.environ, "INTERLOCK_DATA_DIR": str(tmp_path)}
    chance = random.Random(5)
    for _ in range(2):
        before = len(lying(tmp_path, "lifecycle"))
        process = subprocess.Popen(
            [*command, "--rate", "150"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        until = before + chance.randint(1, 25)
        while len(lying(tmp_path, "lifecycle")) < until:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.kill()
        process.wait()
        assert sorted(lying(tmp_path, "lifecycle") + lying(tmp_path, "lifecycle-dead")) == sorted(bodies)
    assert lying(tmp_path, "lifecycle-dead"), "it was killed half-way"
    subprocess.run([*command, "--rate", "1000"], cwd=ROOT, env=environment, check=True, capture_output=True)
    assert lying(tmp_path, "lifecycle") == bodies
