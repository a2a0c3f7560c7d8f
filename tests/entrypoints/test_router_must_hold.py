"""What the router must hold on a real Temporal server (R-301 to R-305)."""

import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import ServiceClient
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from adapters.sqlite.database import Database
from adapters.temporal.connection import Target, Temporal, connect
from adapters.temporal.workflow_history import TemporalHistory
from adapters.temporal.workflow_starter import MAX_PAYLOAD_BYTES, TemporalStarter
from application.remember import remember_completed
from domain.envelope import envelope_from
from domain.errors import InterlockError, Invalid, Misconfigured, TooLarge, Unavailable
from domain.routing import Offer, Started, StartRequest
from entrypoints.aws_lambda import router
from entrypoints.aws_lambda.router import RouterRuntime
from tests import temporal_engines
from tests.entrypoints.lambda_events import Context
from tests.examples import an_envelope
from tests.temporal_engines import TemporalServer
from tests.temporal_workflows import ReportRunCompletedEventWorkflow
from tests.waiting import until

ROOT = Path(__file__).parents[2]
TYPE = "ReportRunCompletedEvent"
WORKFLOW = f"{TYPE}Workflow"


def an_event(
    event_id: str, *, detail_type: str = TYPE, age: timedelta = timedelta(), **detail: object
) -> dict[str, Any]:
    """Give an event as EventBridge hands it to a function."""
    return {
        "version": "0",
        "id": event_id,
        "detail-type": detail_type,
        "source": "reports",
        "account": "111122223333",
        "time": (datetime.now(UTC) - age).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "region": "eu-west-1",
        "resources": [],
        "detail": detail,
    }


def variables(folder: Path, address: str, **more: str) -> dict[str, str]:
    return {
        "INTERLOCK_DATA_DIR": str(folder / "data"),
        "INTERLOCK_TEMPORAL__ADDRESS": address,
        **{f"INTERLOCK_{name}": value for name, value in more.items()},
    }


def a_runtime(monkeypatch: pytest.MonkeyPatch, folder: Path, address: str, **more: str) -> RouterRuntime:
    """Give the handler a container of its own, whose catalog says that a worker is there."""
    runtime = RouterRuntime(variables(folder, address, **more))
    monkeypatch.setattr(router, "RUNTIME", runtime)
    offer = Offer("w", (WORKFLOW,), ("events", "exports"), datetime.now(UTC) + timedelta(hours=1))
    runtime.runner.run(runtime.stores.catalog.publish(offer))
    return runtime


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, temporal_address: str) -> Iterator[RouterRuntime]:
    made = a_runtime(monkeypatch, tmp_path, temporal_address)
    yield made
    made.close()


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" not in line]


# ------------------------------------------------------------------------------------------------------ many at once
EVENTS, DELIVERIES, PROCESSES, FAILING = 400, 5, 4, 40


def deliver(folder: Path, address: str, shares: Sequence[Sequence[dict[str, Any]]]) -> Counter[str]:
    """Deliver shares of events from a process each, at once, and add up the outcomes."""
    processes = []
    for number, share in enumerate(shares):
        file = folder / f"share-{number}"
        file.write_text("\n".join(json.dumps(event) for event in share))
        command = [sys.executable, "-m", "tests.entrypoints.router_process", str(folder / "data"), address, str(file)]
        processes.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
    outcomes: Counter[str] = Counter()
    for process in processes:
        out, _ = process.communicate(timeout=90)
        assert process.returncode == 0
        outcomes.update(json.loads(out))
    return outcomes


async def runs_of(client: Client, prefix: str) -> Counter[tuple[str, WorkflowExecutionStatus | None]]:
    query = f"WorkflowId STARTS_WITH '{WORKFLOW}-{prefix}'"
    return Counter([(run.id, run.status) async for run in client.list_workflows(query)])


@pytest.mark.slow
def test_r304_400_events_5_deliveries_4_processes_one_run_each(tmp_path: Path, temporal_address: str) -> None:
    """All are delivered before a worker runs any; then the failed ones, and no others, start again."""
    prefix = f"must-hold-{uuid.uuid4().hex[:8]}-"
    events = [an_event(f"{prefix}{number}", do="fail") for number in range(FAILING)]
    events += [an_event(f"{prefix}{number}") for number in range(FAILING, EVENTS)]
    settings = RouterRuntime(variables(tmp_path, temporal_address))
    offer = Offer("w", (WORKFLOW,), ("events", "exports"), datetime.now(UTC) + timedelta(hours=1))
    settings.runner.run(settings.stores.catalog.publish(offer))
    settings.close()

    copies = [[event for event in events for _ in range(2 if process == 0 else 1)] for process in range(PROCESSES)]
    assert sum(map(len, copies)) == EVENTS * DELIVERIES
    outcomes = deliver(tmp_path, temporal_address, copies)
    assert outcomes == {"started": EVENTS, "already_started": EVENTS * (DELIVERIES - 1)}

    async def after() -> None:
        client = await connect(Target(temporal_address), lazy=False)

        async def closed(number: int) -> bool:
            query = f"WorkflowId STARTS_WITH '{WORKFLOW}-{prefix}' AND ExecutionStatus != 'Running'"
            return (await client.count_workflows(query)).count == number

        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "entrypoints.cli.main", "worker", "temporal"),
            *("--workflows", "tests.temporal_workflows"),
            cwd=ROOT,
            env={"PATH": "", **variables(tmp_path, temporal_address)},
        )
        try:
            await until(lambda: closed(EVENTS), seconds=60)
            first = await runs_of(client, prefix)
            assert set(first.values()) == {1}
            assert len(first) == EVENTS
            again = await asyncio.to_thread(deliver, tmp_path, temporal_address, [events])
            assert again == {"started": FAILING, "already_started": EVENTS - FAILING}
            await until(lambda: closed(EVENTS + FAILING), seconds=60)
        finally:
            worker.terminate()
            assert await worker.wait() == 0
        statuses = Counter(status for _, status in (await runs_of(client, prefix)).elements())
        assert statuses == {
            WorkflowExecutionStatus.COMPLETED: EVENTS - FAILING,
            WorkflowExecutionStatus.FAILED: 2 * FAILING,
        }

    asyncio.run(after())


# ------------------------------------------------------------------------------------------------- failures, for good
def test_r305_temporal_down_raises_within_the_deadline_and_the_redelivery_succeeds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with temporal_engines.server() as server:
        runtime = a_runtime(monkeypatch, tmp_path, server.address)
        assert router.handler(an_event("e1"), Context())["outcome"] == "started"
        server.stop()
        started = time.monotonic()
        with pytest.raises(Unavailable, match=r"Temporal is unavailable: UNAVAILABLE: .*asked [1-5] times"):
            router.handler(an_event("e2"), Context(3000))
        assert time.monotonic() - started < 3
        line = lines_of(capsys)[-1]
        assert (line["level"], line["code"]) == ("error", "unavailable")
        server.start()
        assert router.handler(an_event("e2"), Context())["outcome"] == "started"
        assert router.handler(an_event("e1"), Context())["outcome"] == "already_started"
        runtime.close()


def test_fc22_calls_of_one_container_and_of_two_succeed_and_a_dropped_connection_is_remade(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with temporal_engines.server() as server:
        runtime = a_runtime(monkeypatch, tmp_path, server.address)
        outcomes = [router.handler(an_event(f"e{number}"), Context())["outcome"] for number in range(3)]
        server.stop()
        server.start()
        outcomes.append(router.handler(an_event("e3"), Context())["outcome"])
        other = a_runtime(monkeypatch, tmp_path / "other", server.address)
        outcomes.append(router.handler(an_event("e4"), Context())["outcome"])
        monkeypatch.setattr(router, "RUNTIME", runtime)
        outcomes.append(router.handler(an_event("e5"), Context())["outcome"])
        assert outcomes == ["started"] * 6
        runtime.close()
        other.close()


def test_fc22_a_client_is_made_once_for_each_loop() -> None:
    temporal = Temporal(Target("127.0.0.1:1"))

    async def twice() -> tuple[Client, Client]:
        return await temporal.client(), await temporal.client()

    first, again = asyncio.run(twice())
    other, _ = asyncio.run(twice())
    assert first is again
    assert other is not first


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every call that goes to a Temporal server, by name."""
    made: list[str] = []
    kind: Any = sys.modules["temporalio.service"]._BridgeServiceClient
    send = kind._rpc_call

    async def counted(self: ServiceClient, rpc: str, *arguments: Any, **more: Any) -> Any:
        made.append(rpc)
        return await send(self, rpc, *arguments, **more)

    monkeypatch.setattr(kind, "_rpc_call", counted)
    return made


def refusal(event: dict[str, Any], kind: type[InterlockError], capsys: pytest.CaptureFixture[str]) -> str:
    """Have the handler refuse an event, and give the reason, which is in the log as well."""
    with pytest.raises(kind) as refused:
        router.handler(event, Context())
    line = lines_of(capsys)[-1]
    assert (line["level"], line["event"], line["code"]) == ("error", "event not routed", refused.value.code)
    assert line["reason"] == str(refused.value)
    return str(refused.value)


def test_r305_a_wrong_namespace_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    temporal_address: str,
    calls: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    runtime = a_runtime(monkeypatch, tmp_path, temporal_address, TEMPORAL__NAMESPACE="nowhere")
    assert refusal(an_event("e1"), Misconfigured, capsys) == "Temporal: NOT_FOUND: Namespace nowhere is not found."
    assert calls == ["start_workflow_execution"]
    runtime.close()


@pytest.mark.usefixtures("runtime")
def test_fc18_an_event_that_is_too_large_is_never_sent(calls: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    reason = refusal(an_event("e1", text="x" * 300_000), TooLarge, capsys)
    assert reason.endswith("; the limit is 262144")
    assert calls == []


def test_r305_an_invalid_argument_is_asked_once(
    runtime: RouterRuntime, calls: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    class Mangling(TemporalStarter):
        async def start(self, request: StartRequest, seconds: float, /) -> Started:
            return await super().start(replace(request, task_queue=""), seconds)

    runtime.starter = Mangling(Temporal(Target(runtime.settings.temporal.address)))
    reason = refusal(an_event("e1"), Invalid, capsys)
    assert reason == "Temporal refused the request: INVALID_ARGUMENT: missing task queue name"
    assert calls == ["start_workflow_execution"]


def test_fc18_a_payload_that_temporal_would_refuse_is_not_sent(runtime: RouterRuntime, calls: list[str]) -> None:
    size = MAX_PAYLOAD_BYTES + 1
    event = an_envelope("e1", type=TYPE, time=datetime.now(UTC).isoformat())
    attributes = event.attributes() | {"data": "x" * size}
    event = envelope_from(attributes, max_bytes=None)
    with pytest.raises(TooLarge) as refused:
        runtime.runner.run(runtime.router.route(event, lambda: 10.0))
    assert refused.value.size > size
    assert refused.value.limit == MAX_PAYLOAD_BYTES
    assert calls == []


# ----------------------------------------------------------------------------------------------------- what it costs
@pytest.mark.usefixtures("runtime")
def test_g26_a_warm_event_is_one_call_to_temporal_and_none_to_a_store(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = uuid.uuid4().hex
    router.handler(an_event(f"{prefix}-warm", report_id="R1"), Context())
    del calls[:]
    asked: list[object] = []
    ask = Database._ask

    async def counted(self: Database, *arguments: Any) -> Any:
        asked.append(arguments)
        return await ask(self, *arguments)

    monkeypatch.setattr(Database, "_ask", counted)
    for number in range(20):
        router.handler(an_event(f"{prefix}-{number}", report_id="R1"), Context())
        router.handler(an_event(f"{prefix}-{number}", report_id="R1"), Context())
    assert calls == ["start_workflow_execution"] * 40
    assert asked == []


# -------------------------------------------------------------------------------------------------------- the ledger
def test_r304_an_event_whose_history_was_deleted_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And one that is not looked up in the ledger would be: the server itself takes its id for a new one."""
    with temporal_engines.server() as server:
        runtime = a_runtime(monkeypatch, tmp_path, server.address)
        event, unseen = an_event("e1", age=timedelta(hours=30)), an_event("e2", age=timedelta(hours=1))
        first = router.handler(event, Context())
        assert [first["outcome"], router.handler(unseen, Context())["outcome"]] == ["started", "started"]
        asyncio.run(complete(server.address, first["workflow_id"]))
        history = TemporalHistory(Temporal(Target(server.address)))

        async def is_written() -> bool:
            await remember_completed(history, runtime.stores.ledger, runtime.router.clock)
            return await runtime.stores.ledger.find(first["workflow_id"]) is not None

        asyncio.run(until(is_written))
        assert router.handler(event, Context())["outcome"] == "already_started"
        forget_everything(server)
        assert router.handler(event, Context()) == {**first, "outcome": "already_started", "attempts": 0}
        assert router.handler(unseen, Context())["outcome"] == "started"
        runtime.close()


async def complete(address: str, workflow_id: str) -> None:
    """Run workflows until this one has completed."""
    client = await connect(Target(address), lazy=False)
    workflows, runner = [ReportRunCompletedEventWorkflow], UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue="events", workflows=workflows, workflow_runner=runner):
        await client.get_workflow_handle(workflow_id).result()


def forget_everything(server: TemporalServer) -> None:
    server.stop()
    for file in server.folder.glob("temporal.db*"):
        file.unlink()
    server.start()
