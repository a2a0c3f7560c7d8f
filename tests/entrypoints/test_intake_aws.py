"""The front door on AWS's protocols: made, looked at, and worked through (R-501 to R-504)."""

import asyncio
import json
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from adapters.memory.metrics import MemoryMetrics
from domain.errors import Misconfigured, Unavailable
from domain.intake import read_line, split_lines
from entrypoints.engines.intake import IntakeEngine
from entrypoints.settings import read_variables
from entrypoints.wiring import make_gathering, make_intake
from entrypoints.worker.intake import process
from tests.engines import REGION, Engine
from tests.entrypoints.cli import Interlock
from tests.examples import an_envelope


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    return Interlock(tmp_path, monkeypatch, capsys)


@pytest.fixture
def variables(ministack: Engine, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of a front door of this test's own, as `tables create` is given them."""
    if ministack.url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", ministack.url)
        monkeypatch.setenv("AWS_REGION", REGION)
    name = f"interlock-test-{uuid4().hex[:12]}"
    return {
        "INTERLOCK_ENGINE": "aws",
        "INTERLOCK_EVENTS__TABLE": name,
        "INTERLOCK_INTAKE__BUCKET": name,
        "INTERLOCK_INTAKE__QUEUE_URL": f"http://queues.example/000000000000/{name}",
        "INTERLOCK_INTAKE__VISIBILITY_SECONDS": "30",
        "INTERLOCK_INTAKE__WINDOW_SECONDS": "0",
    }


def test_tables_create_makes_bucket_and_queues_and_doctor_looks_at_them(
    interlock: Interlock, variables: dict[str, str]
) -> None:
    name = variables["INTERLOCK_INTAKE__BUCKET"]
    create = ("tables", "create", "--name", name, "--json")
    made = json.loads(interlock(*create, **variables).out)
    assert json.loads(interlock(*create, **variables).out) == made
    assert made["INTERLOCK_INTAKE__BUCKET"] == name
    assert made["INTERLOCK_INTAKE__QUEUE_URL"].endswith(f"/{name}")
    looked = interlock("doctor", "--json", **{**variables, **made})
    found = {check["name"]: (check["status"], check["detail"]) for check in json.loads(looked.out)}
    assert found["bucket"] == ("ok", f"{name}, without objects yet")
    assert found["intake queue"][0] == "ok"
    assert found["intake queue"][1].endswith(f"dead letters to {name}-dead")
    wrong = {**variables, **made, "INTERLOCK_INTAKE__MAX_RECEIVES": "7", "INTERLOCK_INTAKE__BUCKET": f"{name}-not"}
    told = {check["name"]: check for check in json.loads(interlock("doctor", "--json", **wrong).out)}
    assert (
        told["intake queue"]["detail"] == "INTERLOCK_INTAKE__MAX_RECEIVES: is 7, but the queue has 5: make them agree"
    )
    assert told["bucket"]["status"] == "failed"
    assert "interlock tables create" in told["bucket"]["fix"]


async def _work(variables: dict[str, str], bodies: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Send texts, work until they are gone, and give their ids, and those that are kept by kind."""
    settings = read_variables(variables)
    engine = IntakeEngine(settings)
    stop = asyncio.Event()
    ids = await engine.queue.send(bodies)
    intake = make_intake(engine, MemoryMetrics())
    how = make_gathering(settings)._replace(wait_seconds=0, receivers=2)
    kept: dict[str, list[str]] = {}
    worker = asyncio.create_task(process(intake, engine.queue, how, stop))
    async with asyncio.timeout(60):
        while sum(map(len, kept.values())) < len(ids) and not worker.done():
            kept = {}
            for one in (await engine.objects.list("")).objects:
                lines = split_lines(await engine.objects.get(one.name) or b"")
                kept.setdefault(one.name.split("/")[0], []).extend(read_line(line).message_id for line in lines)
            await asyncio.sleep(0.05)
    stop.set()
    await worker
    assert await engine.queue.receive(10, 0) == []
    await engine.aclose()
    return ids, kept


def test_r502_the_worker_empties_the_queue_into_the_bucket(interlock: Interlock, variables: dict[str, str]) -> None:
    made = json.loads(
        interlock("tables", "create", "--name", variables["INTERLOCK_EVENTS__TABLE"], "--json", **variables).out
    )
    bodies = [an_envelope(f"e{number}").to_json() if number % 10 else "{" for number in range(150)]
    with capture_logs() as logs:
        ids, kept = asyncio.run(_work({**variables, **made}, bodies))
    assert sorted(kept["raw"] + kept["quarantine"]) == sorted(ids)
    assert len(kept["quarantine"]) == 15
    for line in logs:
        if line["event"] == "batch":
            assert line["received"] == line["stored"] + line["quarantined"] + line["returned"]


@pytest.mark.anyio
async def test_a_bucket_that_is_not_there_is_told_and_one_that_does_not_answer_may_answer_later(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = IntakeEngine(read_variables(variables))
    with pytest.raises(Misconfigured, match="S3: PutObject answered NoSuchBucket: it does not exist"):
        await engine.objects.put("raw/a", b"x")
    with pytest.raises(Misconfigured, match="S3: ListObjectsV2 answered NoSuchBucket"):
        await engine.objects.list("raw/")
    await engine.aclose()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    engine = IntakeEngine(read_variables(variables))
    with pytest.raises(Unavailable, match="S3"):
        await engine.objects.put("raw/a", b"x")
    await engine.aclose()
