"""The front door's function (CONTRACTS § 6; R-502, R-504; FC-39, FC-40, FC-43)."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.memory.object_store import MemoryObjectStore
from adapters.zstd.object_store import ZstdObjectStore
from application.intake import Intake, store_batch
from domain.errors import Invalid, Misconfigured, Unavailable
from domain.intake import decode, prefix_of, read_line, split_lines
from entrypoints.aws_lambda import intake
from entrypoints.aws_lambda.batches import read_records
from entrypoints.aws_lambda.intake import IntakeRuntime
from tests.engines import Engine, bucket
from tests.entrypoints.lambda_events import Context, a_record, an_sqs_event, failed_ids
from tests.examples import START, an_envelope

ROOT = Path(__file__).parents[2]
DAY = START.date()
POISON = "no disk takes this"


class FaultyObjects(MemoryObjectStore):
    """A store that refuses objects with a text in them, as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Exception = Unavailable("object store", "told to")
        self.refuses: Callable[[str, bytes], bool] = lambda _, data: POISON.encode() in data
        self.puts = 0

    async def put(self, name: str, data: bytes, /) -> bool:
        self.puts += 1
        if self.refuses(name, data):
            raise self.fault
        return await super().put(name, data)


@pytest.fixture
def objects() -> FaultyObjects:
    return FaultyObjects()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, objects: FaultyObjects) -> Iterator[IntakeRuntime]:
    made = IntakeRuntime({"INTERLOCK_ENGINE": "memory"})
    monkeypatch.setattr(intake, "RUNTIME", made)
    made.intake = Intake(objects, made.intake.clock, made.metrics)
    yield made
    made.close()


def event(number: int, note: str = "") -> str:
    return an_envelope(f"e{number}", data={"number": number, "note": note}).to_json()


def record(message_id: str, body: str) -> dict[str, Any]:
    return a_record(message_id, body, group=None)


def kept(objects: MemoryObjectStore, kind: str) -> dict[str, str]:
    """Give the bodies that are kept, by message id, and insist that none is kept twice."""
    lines = [
        read_line(line)
        for name, data in objects._objects.items()
        if name.startswith(f"{kind}/")
        for line in split_lines(data)
    ]
    assert len({line.message_id for line in lines}) == len(lines)
    return {line.message_id: line.body for line in lines}


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def a_batch_of_fc40() -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Give 1,000 records, and the bodies of the six malformed ones."""
    wrong = json.dumps({**json.loads(event(0)), "time": "SECRET-4711"})
    malformed = {"m10": "{", "m200": " ", "m333": "null", "m500": "[]", "m501": '"text"', "m999": wrong}
    bodies = {f"m{number}": event(number) for number in range(1000)} | malformed | {"m700": event(700, POISON)}
    return [record(message_id, body) for message_id, body in bodies.items()], malformed


@pytest.mark.usefixtures("runtime")
def test_fc40_of_a_thousand_993_are_stored_six_quarantined_and_one_returned(
    objects: FaultyObjects, capsys: pytest.CaptureFixture[str]
) -> None:
    records, malformed = a_batch_of_fc40()
    assert failed_ids(intake.handler(an_sqs_event(*records), Context())) == ["m700"]
    stored = kept(objects, "raw")
    assert len(stored) == 993
    assert kept(objects, "quarantine") == malformed
    assert stored == {one["messageId"]: one["body"] for one in records if one["messageId"] not in {*malformed, "m700"}}
    lines = told(capsys)
    rejected = {line["message_id"]: line["reason"] for line in lines if line.get("event") == "message rejected"}
    assert rejected.keys() == malformed.keys()
    assert rejected["m999"].startswith("time: must be an RFC 3339 time")
    assert [line["message_id"] for line in lines if line.get("event") == "message failed"] == ["m700"]
    (batch,) = [line for line in lines if line.get("event") == "batch"]
    assert (batch["received"], batch["stored"], batch["quarantined"], batch["returned"]) == (1000, 993, 6, 1)
    assert "SECRET-4711" not in json.dumps(lines)
    assert objects.puts < 30, "one message that is not taken is found by halves"


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        None,
        [],
        {"Records": None},
        {"Records": [{"eventSource": "aws:s3", "s3": {"object": {"key": "a"}}}]},
        {"Records": [None]},
        {"detail-type": "x", "detail": {}},
    ],
)
def test_fc40_foreign_events_raise(wrong: Any, objects: FaultyObjects) -> None:
    with pytest.raises(Invalid, match="Records"):
        intake.handler(wrong, Context())
    assert objects.puts == 0


@pytest.mark.usefixtures("runtime")
def test_fc40_when_all_fail_for_storage_reasons_all_ids_are_returned(objects: FaultyObjects) -> None:
    objects.refuses = lambda *_: True
    records, _ = a_batch_of_fc40()
    ids = failed_ids(intake.handler(an_sqs_event(*records), Context()))
    assert ids == [one["messageId"] for one in records]
    assert objects.puts == 6, "whole and two halves of each object: a store that is away is not asked a thousand times"


@pytest.mark.usefixtures("runtime")
def test_fc40_a_quarantine_that_cannot_be_written_returns_the_malformed_ones_only(objects: FaultyObjects) -> None:
    objects.refuses = lambda name, _: name.startswith("quarantine/")
    records, malformed = a_batch_of_fc40()
    assert sorted(failed_ids(intake.handler(an_sqs_event(*records), Context()))) == sorted(malformed)
    assert len(kept(objects, "raw")) == 994


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("fault", [Misconfigured("bucket", "does not exist"), RuntimeError("SECRET-4711")])
def test_a_fault_that_no_message_makes_returns_all_at_once_and_is_told_without_content(
    fault: Exception, objects: FaultyObjects, capsys: pytest.CaptureFixture[str]
) -> None:
    objects.refuses, objects.fault = (lambda *_: True), fault
    records = [record(f"m{number}", event(number)) for number in range(8)]
    assert len(failed_ids(intake.handler(an_sqs_event(*records), Context()))) == 8
    assert objects.puts == 1
    assert "SECRET-4711" not in json.dumps(told(capsys))


@pytest.mark.usefixtures("runtime")
def test_several_messages_that_no_object_takes_are_all_found(objects: FaultyObjects) -> None:
    objects.fault = Invalid("object", "refused for good")
    bad = {3, 4, 400, 401, 999}
    records = [record(f"m{number}", event(number, POISON if number in bad else "")) for number in range(1000)]
    assert failed_ids(intake.handler(an_sqs_event(*records), Context())) == [f"m{number}" for number in sorted(bad)]
    assert len(kept(objects, "raw")) == 995


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("number", [0, 1, 1000])
def test_fc39_ids_in_the_answer_are_a_subset_of_those_received(number: int, objects: FaultyObjects) -> None:
    for refuses in (lambda *_: False, lambda *_: True):
        objects.refuses = refuses
        records = [record(f"m{n}", event(n) if n % 3 else "{") for n in range(number)]
        ids = failed_ids(intake.handler(an_sqs_event(*records), Context()))
        assert len(set(ids)) == len(ids)
        assert set(ids) <= {f"m{n}" for n in range(number)}
        assert "" not in ids


@pytest.mark.usefixtures("runtime")
def test_fc39_the_same_message_twice_in_one_batch_is_kept_once_and_named_once(objects: FaultyObjects) -> None:
    records = [record("m1", event(1)), record("m2", event(2)), record("m1", event(1))]
    assert failed_ids(intake.handler(an_sqs_event(*records), Context())) == []
    assert kept(objects, "raw").keys() == {"m1", "m2"}
    objects.refuses = lambda *_: True
    records = [record("m3", event(3)), record("m3", event(3))]
    assert failed_ids(intake.handler(an_sqs_event(*records), Context())) == ["m3"]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("message_id", [None, "", 5])
def test_fc39_a_record_without_an_id_is_logged_and_the_call_raises(
    message_id: Any, objects: FaultyObjects, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = record("m2", event(2)) | {"messageId": message_id}
    with pytest.raises(Invalid, match=r"Records\[1\].messageId: is missing"):
        intake.handler(an_sqs_event(record("m1", event(1)), broken), Context())
    assert [line["place"] for line in told(capsys)] == ["Records[1]"]
    assert objects.puts == 0


@pytest.mark.usefixtures("runtime")
def test_fc43_fifty_calls_at_one_instant_keep_everything_and_a_second_delivery_adds_nothing(
    objects: FaultyObjects, runtime: IntakeRuntime
) -> None:
    def ids(call: int) -> list[str]:
        return [f"../{call}/{number}/.." for number in range(20)]

    events = [an_sqs_event(*(record(one, event(call)) for one in ids(call))) for call in range(50)]
    ports = runtime.intake

    async def all_at_once() -> None:
        async with asyncio.TaskGroup() as tasks:
            for one in events:
                batch = read_records(one, Context())
                tasks.create_task(store_batch(ports, batch))

    runtime.run_once(all_at_once)
    assert len(kept(objects, "raw")) == 1000
    before = dict(objects._objects)
    for one in events:
        for again in one["Records"]:
            again["attributes"]["ApproximateReceiveCount"] = "2"
        one["Records"].reverse()
        assert failed_ids(intake.handler(one, Context())) == []
    assert objects._objects == before
    assert all(name.startswith(prefix_of("raw", DAY)) and ".." not in name for name in before)


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("sent_at", [5, "", "soon", "-1", "1e3", "+1654646400", "٣", "9" * 30])
def test_fc58_a_time_of_sending_that_is_none_raises_with_its_place(sent_at: Any, objects: FaultyObjects) -> None:
    broken = record("m1", event(1))
    broken["attributes"]["SentTimestamp"] = sent_at
    with pytest.raises(Invalid, match=r"Records\[0\].attributes.SentTimestamp: must be milliseconds"):
        intake.handler(an_sqs_event(broken), Context())
    assert objects.puts == 0


@pytest.mark.usefixtures("runtime")
def test_what_is_left_when_time_runs_out_is_returned(objects: FaultyObjects) -> None:
    records = [record(f"m{number}", event(number)) for number in range(100)]
    assert failed_ids(intake.handler(an_sqs_event(*records), Context(milliseconds=900))) == [
        f"m{number}" for number in range(100)
    ]
    assert objects.puts == 0


@pytest.mark.usefixtures("runtime")
def test_a_store_that_hangs_is_given_up_before_the_function_is_stopped(
    objects: FaultyObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> bool:
        await asyncio.sleep(60)
        return True

    monkeypatch.setattr(objects, "put", hang)
    records = [record("m1", event(1)), record("m2", "{")]
    assert failed_ids(intake.handler(an_sqs_event(*records), Context(milliseconds=1300))) == ["m1", "m2"]


@pytest.mark.usefixtures("runtime")
def test_good_events_of_a_message_are_kept_and_its_bad_ones_told(
    objects: FaultyObjects, capsys: pytest.CaptureFixture[str]
) -> None:
    body = f'[{event(1)},{{"hunter2":1}},{event(2)},5]'
    assert failed_ids(intake.handler(an_sqs_event(record("m1", body)), Context())) == []
    assert kept(objects, "raw") == {"m1": body}
    (line,) = [line for line in told(capsys) if line.get("event") == "message rejected"]
    assert (line["message_id"], line["reason"], line["rejections"]) == ("m1", "[1].specversion: is required", 2)


@pytest.mark.usefixtures("runtime")
def test_figures_of_a_batch_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    records, _ = a_batch_of_fc40()
    intake.handler(an_sqs_event(*records), Context())
    figures = {line["outcome"]: line["intake_processed_messages_total"] for line in told(capsys) if "outcome" in line}
    assert figures == {"stored": 993, "quarantined": 6, "returned": 1}


def test_a_batch_on_s3_is_zstd_that_is_read_again(ministack: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with bucket(ministack) as name:
        monkeypatch.setenv("AWS_ENDPOINT_URL", ministack.url or "")
        made = IntakeRuntime({"INTERLOCK_ENGINE": "aws", "INTERLOCK_INTAKE__BUCKET": name, "AWS_REGION": "us-east-1"})
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setattr(intake, "RUNTIME", made)
        records = [record(f"m{number}", event(number) if number else "{") for number in range(1000)]
        for _ in range(3):
            assert failed_ids(intake.handler(an_sqs_event(*records), Context())) == []
        page = made.run_once(lambda: made.engine.objects.list(""))
        assert [one.name.split("/")[0] for one in page.objects] == ["quarantine", "raw"]
        assert page.objects[1].size < 60_000
        data = made.run_once(lambda: made.engine.objects.get(page.objects[1].name))
        made.close()
    assert isinstance(made.engine.objects, ZstdObjectStore)
    lines = [read_line(line) for line in split_lines(data or b"")]
    assert {line.arrived_at for line in lines} == {START}
    assert [decode(line.body, line.arrived_at).events[0].id for line in lines] == [f"e{n}" for n in range(1, 1000)]


def test_a_function_without_a_bucket_tells_at_its_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    made = IntakeRuntime({"INTERLOCK_ENGINE": "aws"})
    monkeypatch.setattr(intake, "RUNTIME", made)
    with pytest.raises(Misconfigured, match="INTERLOCK_INTAKE__BUCKET: is not set"):
        intake.handler(an_sqs_event(record("m1", event(1))), Context())


def test_the_function_loads_no_more_than_it_needs() -> None:
    program = "import sys, entrypoints.aws_lambda.intake; print(*sys.modules)"
    environment = {"PATH": "/usr/bin", "INTERLOCK_ENGINE": "aws", "INTERLOCK_INTAKE__BUCKET": "usage-events"}
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    loaded = set(found.stdout.split())
    assert {"boto3", "zstandard"} <= loaded, "imported while AWS starts the container at full speed"
    unwanted = {"pydantic_settings", "structlog", "dependency_injector", "sqlite3", "fastapi", "grpc", "pyarrow"}
    assert not loaded & unwanted
    assert not [name for name in loaded if name.startswith("adapters.dynamodb")]
