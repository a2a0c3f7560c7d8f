"""The router's handler: its answers, its log, and what it loads (R-301, R-303, FC-14, FC-21, goal G19)."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.memory.workflow_starter import MemoryStarter
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from domain.errors import Invalid, Misconfigured, Unavailable
from domain.routing import Offer
from domain.skip_list import SkipEntry, SkipKey
from entrypoints.aws_lambda import router
from entrypoints.aws_lambda.router import RouterRuntime
from ports.workflow_catalog import WorkflowCatalog
from tests.entrypoints.lambda_events import Context

ROOT = Path(__file__).parents[2]
TYPE = "ReportRunCompletedEvent"
WORKFLOW = f"{TYPE}Workflow"


def an_event(envelope_id: str = "e1", detail_type: object = TYPE, **detail: object) -> dict[str, Any]:
    return {
        "version": "0",
        "id": envelope_id,
        "detail-type": detail_type,
        "source": "reports",
        "account": "111122223333",
        "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "region": "eu-west-1",
        "resources": [],
        "detail": detail,
    }


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[RouterRuntime]:
    """A container whose workflow server is the one in memory."""
    made = RouterRuntime({"INTERLOCK_ENGINE": "memory"})
    made.starter = MemoryStarter(SystemClock(), RandomIds())
    offer = Offer("w", (WORKFLOW, "ExportRequestedWorkflow"), ("events", "exports"), in_an_hour())
    made.runner.run(made.stores.catalog.publish(offer))
    monkeypatch.setattr(router, "RUNTIME", made)
    yield made
    made.close()


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def starter_of(runtime: RouterRuntime) -> MemoryStarter:
    assert isinstance(runtime.starter, MemoryStarter)
    return runtime.starter


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_r301_the_answer_is_that_of_the_contract(runtime: RouterRuntime) -> None:
    answer = router.handler(an_event(), Context())
    run = starter_of(runtime).runs[f"{WORKFLOW}-e1"]
    assert answer == {
        "outcome": "started",
        "workflow": WORKFLOW,
        "workflow_id": f"{WORKFLOW}-e1",
        "run_id": run.run_id,
        "task_queue": "events",
        "attempts": 1,
    }
    assert router.handler(an_event(), Context()) == {**answer, "outcome": "already_started"}
    assert run.request.envelope.data == {}
    assert router.handler(an_event("e2", "ExportRequested"), Context())["task_queue"] == "exports"


def test_r307_a_listed_report_is_answered_as_skipped(runtime: RouterRuntime) -> None:
    entry = SkipEntry(SkipKey("", "R1"), "wrong", datetime.now(UTC))
    runtime.runner.run(runtime.skip_list.store.add([entry]))
    answer = router.handler(an_event(report_id="R1"), Context())
    assert (answer["outcome"], answer["run_id"], answer["attempts"]) == ("skipped", None, 0)
    assert router.handler(an_event(report_id="R2"), Context())["outcome"] == "started"


@pytest.mark.parametrize(
    "detail_type", ["", "order placed", "Order.Placed.v2", "x" * 200, 7, None, ["a"], "a\nb", "é" * 128]
)
def test_fc21_any_type_that_is_not_known_is_caught_with_the_original_text(
    runtime: RouterRuntime, detail_type: object
) -> None:
    answer = router.handler(an_event(detail_type=detail_type, amount=7), Context())
    assert (answer["outcome"], answer["workflow"]) == ("caught", "UnmatchedEventWorkflow")
    (run,) = starter_of(runtime).runs.values()
    attributes = run.request.envelope.attributes()
    original = attributes.get("detailtype", attributes["type"])
    assert original == detail_type or detail_type is None
    assert attributes["data"] == {"amount": 7}
    assert run.request.workflow == "UnmatchedEventWorkflow"


def test_fc21_a_missing_type_is_caught_too(runtime: RouterRuntime) -> None:
    event = an_event()
    del event["detail-type"]
    assert router.handler(event, Context())["outcome"] == "caught"
    assert len(starter_of(runtime).runs) == 1


@pytest.mark.usefixtures("runtime")
def test_fc14_where_the_id_was_found_is_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    router.handler(an_event("e1"), Context())
    router.handler(an_event("e2", event_id="E"), Context())
    router.handler(an_event("e3", event_id="E"), Context())
    lines = [line for line in logged(capsys) if "event_id_from" in line]
    assert [(line["workflow_id"], line["event_id_from"], line["outcome"]) for line in lines] == [
        (f"{WORKFLOW}-e1", "envelope", "started"),
        (f"{WORKFLOW}-E", "detail", "started"),
        (f"{WORKFLOW}-E", "detail", "already_started"),
    ]
    assert all(line["why"] == f"a worker serves {WORKFLOW} on the task queue events" for line in lines)


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(
    "event", [None, [], "text", {}, {"Records": []}, {"id": "e1", "source": "s", "detail": float("nan")}]
)
def test_what_is_no_event_raises_and_the_log_says_why_and_never_what(
    event: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Invalid):
        router.handler(event, Context())
    line = logged(capsys)[-1]
    assert (line["level"], line["event"]) == ("error", "event not routed")
    assert line["reason"]


def test_no_content_of_an_event_is_logged(runtime: RouterRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    router.handler(an_event(secret="hunter2"), Context())
    with pytest.raises(Invalid):
        router.handler({**an_event(secret="hunter2"), "source": "hun ter"}, Context())
    assert "hunter2" not in capsys.readouterr().out
    assert len(starter_of(runtime).runs) == 1


def test_fc24_stores_that_do_not_answer_are_told_and_what_was_known_is_used(
    runtime: RouterRuntime, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = SkipEntry(SkipKey("", "R1"), "wrong", datetime.now(UTC))
    runtime.runner.run(runtime.skip_list.store.add([entry]))
    assert router.handler(an_event("e1", report_id="R1"), Context())["outcome"] == "skipped"

    async def away(*_: object) -> Any:
        raise Unavailable("settings", "away")

    monkeypatch.setattr(runtime.stores.catalog, "offers", away)
    monkeypatch.setattr(runtime.skip_list.store, "everything", away)
    clock = LaterClock(60)
    for reader in (runtime.router.catalog, runtime.skip_list.reader):
        monkeypatch.setattr(reader, "_clock", clock)
    assert router.handler(an_event("e2", report_id="R1"), Context())["outcome"] == "skipped"
    assert router.handler(an_event("e3", report_id="R2"), Context())["outcome"] == "started"
    told = [line["event"] for line in logged(capsys) if line.get("level") == "warning"]
    assert any("the skip list did not answer; the last known one is used" in line for line in told)
    assert any("the catalog did not answer; the last known workflows are used" in line for line in told)


class LaterClock(SystemClock):
    """The machine's clock, ahead by so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._ahead = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self._ahead


def test_a_start_that_fails_for_good_raises_within_the_functions_time(
    runtime: RouterRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> Any:
        await asyncio.sleep(0)
        raise Unavailable("Temporal", "UNAVAILABLE: gone")

    monkeypatch.setattr(runtime.starter, "start", away)
    with pytest.raises(Unavailable, match=r"gone \(asked [1-5] times\)"):
        router.handler(an_event(), Context(400))


def test_a_variable_that_cannot_work_fails_the_start_of_the_function() -> None:
    with pytest.raises(Misconfigured, match="INTERLOCK_ROUTER__MAX_ATTEMPTS"):
        RouterRuntime({"INTERLOCK_ROUTER__MAX_ATTEMPTS": "0"})


def test_the_catalog_is_a_store_of_the_engine(runtime: RouterRuntime) -> None:
    catalog: WorkflowCatalog = runtime.stores.catalog
    assert [offer.worker for offer in runtime.runner.run(catalog.offers())] == ["w"]


@pytest.mark.parametrize(("engine", "foreign"), [("aws", {"sqlite3"}), ("sqlite", {"boto3", "botocore"})])
def test_g19_the_router_loads_no_library_of_another_job(engine: str, foreign: set[str], tmp_path: Path) -> None:
    """In a fresh interpreter, set up as in production; nothing is opened by loading it.

    `grpc` is not in the list: the SDK of Temporal loads it where it finds it, and needs it not.
    """
    code = "import sys, entrypoints.aws_lambda.router as module\nmodule.RUNTIME.starter\nprint(*sys.modules)\n"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"INTERLOCK_ENGINE": engine, "INTERLOCK_DATA_DIR": str(tmp_path / "data"), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    modules = set(run.stdout.split())
    loaded = {name.partition(".")[0] for name in modules}
    assert {"pydantic", "temporalio"} <= loaded
    assert not loaded & {
        *foreign,
        "dependency_injector",
        "dotenv",
        "fastapi",
        "httpx",
        "mangum",
        "prometheus_client",
        "pyarrow",
        "pydantic_settings",
        "redis",
        "rich",
        "starlette",
        "structlog",
        "typer",
        "uvicorn",
    }
    assert "temporalio.worker" not in modules
    assert not (tmp_path / "data").exists()
