"""`interlock events publish` and `interlock worker events`, as commands."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import QUEUES, SqliteMessageQueue
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from domain.eventbridge import from_eventbridge
from tests.entrypoints.cli import Interlock
from tests.entrypoints.test_cli_skiplist import Stdin
from tests.examples import an_envelope


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    return Interlock(tmp_path, monkeypatch, capsys)


def published(interlock: Interlock) -> list[str]:
    """Give the ids of what waits in the queue."""

    async def work() -> list[str]:
        database = Database(interlock.folder / ".interlock" / "bus.db", QUEUES)
        queue = SqliteMessageQueue(database, "events", SystemClock(), RandomIds())
        found = [from_eventbridge(json.loads(message.body)).id for message in await queue.receive(100, 0)]
        await database.aclose()
        return sorted(found)

    return asyncio.run(work())


def lines(*ids: str) -> str:
    return "".join(an_envelope(event_id).to_json() + "\n" for event_id in ids)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (lines("e1"), ["e1"]),
        (lines("e1", "e2") + "\r\n\n" + lines("e3"), ["e1", "e2", "e3"]),
        (f"[{an_envelope('e1').to_json()},\n{an_envelope('e2').to_json()}]", ["e1", "e2"]),
        (json.dumps(json.loads(an_envelope("e1").to_json()), indent=2), ["e1"]),
    ],
    ids=["one", "lines", "array", "printed over lines"],
)
def test_events_come_alone_in_an_array_or_in_lines(interlock: Interlock, text: str, ids: list[str]) -> None:
    file = interlock.folder / "events.json"
    file.write_text(text, encoding="utf-8")
    run = interlock("events", "publish", str(file))
    assert (run.code, run.out) == (0, f"published {len(ids)}, refused 0\n")
    assert published(interlock) == ids


def test_events_come_from_standard_input_too(interlock: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(io.BytesIO(lines("e1", "e2").encode())))
    assert json.loads(interlock("events", "publish", "-", "--json").out) == {"published": 2, "refused": []}
    assert published(interlock) == ["e1", "e2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no event"),
        ("\n \n", "there is no event"),
        (lines("e1") + "{\n", "line 2: "),
        (lines("e1") + '{"specversion":"1.0","id":"","source":"s","type":"T"}', "line 2: id: must not be empty"),
        ("{", "error: "),
        ("nonsense", "error: "),
        ("[]", "a batch must hold 1 to 1000 events"),
        (f"[{an_envelope('e1').to_json()},5]", "event 1: an event must be a JSON object"),
    ],
    ids=lambda value: value[-12:],
)
def test_nothing_is_published_where_an_event_is_broken(interlock: Interlock, text: str, message: str) -> None:
    file = interlock.folder / "events.json"
    file.write_text(text, encoding="utf-8")
    run = interlock("events", "publish", str(file))
    assert run.code == 2
    assert message in run.err
    assert not (interlock.folder / ".interlock" / "bus.db").exists()


def test_fc21_refused_events_are_named_and_the_others_published(interlock: Interlock) -> None:
    file = interlock.folder / "events.json"
    file.write_text(lines("e1") + an_envelope("e2", source="aws.ec2").to_json() + "\n" + lines("e3"), encoding="utf-8")
    run = interlock("events", "publish", str(file), "--json")
    assert run.code == 1
    told = json.loads(run.out)
    assert (told["published"], [one["id"] for one in told["refused"]]) == (2, ["e2"])
    assert published(interlock) == ["e1", "e3"]
    assert "refused: event 1 (e2): source" in interlock("events", "publish", str(file)).err


def test_a_bus_of_one_process_and_a_missing_queue_are_told(interlock: Interlock) -> None:
    file = interlock.folder / "events.json"
    file.write_text(lines("e1"), encoding="utf-8")
    assert interlock("events", "publish", "missing.json").code == 1
    assert interlock("events", "publish", str(file), INTERLOCK_ENGINE="memory").code == 2
    run = interlock("worker", "events", INTERLOCK_ENGINE="aws", AWS_REGION="us-east-1")
    assert run.code == 2
    assert "INTERLOCK_BUS__QUEUE_URL" in run.err
