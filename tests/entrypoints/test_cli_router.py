"""`interlock router …` and `interlock worker temporal`, as people run them (R-303, R-308)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.routing import Caught, Offer, catch_all_id
from entrypoints.engines.router import RouterStores
from entrypoints.settings import Settings
from tests.entrypoints.cli import Interlock
from tests.examples import START, an_envelope
from tests.redis_engines import free_port
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
TYPE = "ReportRunCompletedEvent"


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    return Interlock(tmp_path, monkeypatch, capsys)


def with_stores(folder: Path, work: Callable[[RouterStores], Awaitable[Any]]) -> Any:
    """Do something in the stores that commands in this folder use."""

    async def run() -> Any:
        stores = RouterStores(Settings(data_dir=folder / ".interlock"))
        try:
            return await work(stores)
        finally:
            await stores.aclose()

    return asyncio.run(run())


def serve(folder: Path, *types: str) -> None:
    names = tuple(f"{one}Workflow" for one in types)
    offer = Offer("w", names, ("events", "exports"), datetime.now(UTC) + timedelta(hours=1))
    with_stores(folder, lambda stores: stores.catalog.publish(offer))


def catch(folder: Path, *event_ids: str, event_type: str = TYPE) -> None:
    async def record(stores: RouterStores) -> None:
        for event_id in event_ids:
            envelope = an_envelope(event_id, type=event_type, data={"secret": "hunter2"})
            await stores.caught.record(Caught(catch_all_id(event_type, event_id), START, envelope, "no worker"))

    with_stores(folder, record)


def test_r308_explain_tells_where_an_event_would_go(interlock: Interlock) -> None:
    serve(interlock.folder, TYPE)
    run = interlock("router", "explain", TYPE, "--id", "e1", "--json")
    assert run.code == 0
    assert json.loads(run.out) == {
        "outcome": "start",
        "workflow": f"{TYPE}Workflow",
        "workflow_id": f"{TYPE}Workflow-e1",
        "task_queue": "events",
        "why": f"a worker serves {TYPE}Workflow on the task queue events",
    }
    assert "outcome\tcatch_all" in interlock("router", "explain", "Nope").out
    interlock("skiplist", "add", "R1", "--reason", "wrong")
    skipped = interlock("router", "explain", TYPE, "--report", "R1")
    assert "why\ton the skip list: wrong" in skipped.out


def test_r303_what_was_caught_is_listed_without_its_content(interlock: Interlock) -> None:
    assert interlock("router", "caught").err == "nothing was caught\n"
    catch(interlock.folder, "e1", "e2")
    catch(interlock.folder, "e3", event_type="Order placed\u202e")
    run = interlock("router", "caught", "--json")
    assert [(row["type"], row["event_id"], row["why"]) for row in json.loads(run.out)] == [
        ("Order placed\u202e", "e3", "no worker"),
        (TYPE, "e1", "no worker"),
        (TYPE, "e2", "no worker"),
    ]
    assert "hunter2" not in run.out
    assert len(json.loads(interlock("router", "caught", "--type", TYPE, "--limit", "1", "--json").out)) == 1
    assert "\u202e" not in interlock("router", "caught").out


def test_r308_replay_starts_what_has_a_workflow_by_now_and_says_it(interlock: Interlock, temporal_address: str) -> None:
    event_ids = [uuid.uuid4().hex for _ in range(3)]
    catch(interlock.folder, *event_ids)
    interlock("router", "caught", INTERLOCK_TEMPORAL__ADDRESS=temporal_address)
    assert json.loads(interlock("router", "replay", "--json").out)["fates"] == {"waiting": 3}
    serve(interlock.folder, TYPE)
    dry = interlock("router", "replay", "--dry-run")
    assert (dry.out, dry.err) == ("fate\tevents\nstarted\t3\n", "a dry run: nothing was started\n")
    assert json.loads(interlock("router", "replay", "--json").out) == {
        "seen": 3,
        "dry_run": False,
        "fates": {"started": 3},
        "stopped": False,
    }
    assert interlock("router", "replay").out == "fate\tevents\nreplayed_before\t3\n"
    assert interlock("router", "caught").err == "nothing was caught\n"
    rows = json.loads(interlock("router", "caught", "--all", "--json").out)
    assert all(row["replayed_at"] for row in rows)
    assert len(rows) == 3


def test_r308_a_replay_that_cannot_start_an_event_says_which_and_ends_with_1(interlock: Interlock) -> None:
    catch(interlock.folder, "e1")
    serve(interlock.folder, TYPE)
    address = f"127.0.0.1:{free_port()}"
    run = interlock("router", "replay", INTERLOCK_TEMPORAL__ADDRESS=address, INTERLOCK_ROUTER__MAX_ATTEMPTS="1")
    assert (run.code, run.out) == (1, "fate\tevents\nfailed\t1\n")
    assert f"failed: UnmatchedEventWorkflow-{TYPE}-e1: Temporal is unavailable" in run.err
    assert json.loads(interlock("router", "caught", "--json").out)[0]["replayed_at"] is None


def test_commands_of_the_router_refuse_an_engine_of_one_process(interlock: Interlock) -> None:
    for command in (["router", "explain", "A"], ["router", "replay"], ["router", "caught"], ["worker", "temporal"]):
        run = interlock(*command, INTERLOCK_ENGINE="memory")
        assert run.code == 2
        assert "INTERLOCK_ENGINE: is memory" in run.err


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"TLS_CA_FILE": "missing.pem"}, "INTERLOCK_TEMPORAL__TLS_CA_FILE: missing.pem cannot be read"),
        (
            {"TLS_KEY_FILE": "a.key"},
            "INTERLOCK_TEMPORAL__TLS_CERTIFICATE_FILE: is not set; INTERLOCK_TEMPORAL__TLS_KEY",
        ),
        ({"TLS_CERTIFICATE_FILE": "a.pem"}, "INTERLOCK_TEMPORAL__TLS_KEY_FILE: is not set"),
    ],
)
def test_certificates_that_cannot_work_are_named(interlock: Interlock, variables: dict[str, str], reason: str) -> None:
    given = {f"INTERLOCK_TEMPORAL__{name}": value for name, value in variables.items()}
    run = interlock("worker", "temporal", "--queue", "events", **given)
    assert run.code == 2
    assert reason in run.err


def test_a_module_without_workflows_ends_the_worker_before_it_starts(interlock: Interlock) -> None:
    run = interlock("worker", "temporal", "--workflows", "no.such.module")
    assert run.code == 1
    assert run.err == "error: module no.such.module: is not found in the working folder, nor on Python's path\n"


def test_doctor_looks_at_a_server_that_is_configured_and_at_what_it_remembers(
    interlock: Interlock, temporal_address: str
) -> None:
    def seen(**variables: str) -> dict[str, str]:
        rows = json.loads(interlock("doctor", "--json", **variables).out)
        return next((row for row in rows if row["name"] == "temporal"), {})

    assert seen() == {}
    found = seen(INTERLOCK_TEMPORAL__ADDRESS=temporal_address)
    assert (found["status"], found["fix"]) == ("ok", "")
    assert "namespace default: closed workflows are kept for 24 h" in found["detail"]
    found = seen(INTERLOCK_ROUTER__REMEMBERED_HOURS="24")
    assert found["status"] == "warning"
    assert found["fix"] == "set INTERLOCK_ROUTER__REMEMBERED_HOURS to less than 24, or keep them longer"
    found = seen(INTERLOCK_TEMPORAL__NAMESPACE="nowhere")
    assert found["status"] == "failed"
    assert "Namespace nowhere is not found" in found["detail"]
    assert seen(INTERLOCK_TEMPORAL__ADDRESS=f"127.0.0.1:{free_port()}")["status"] == "failed"


# ------------------------------------------------------------------------------------------------------- the process
@contextmanager
def a_worker(folder: Path, address: str, *more: str) -> Iterator["subprocess.Popen[str]"]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    environment |= {"INTERLOCK_DATA_DIR": str(folder / ".interlock"), "INTERLOCK_TEMPORAL__ADDRESS": address}
    command = [sys.executable, "-m", "entrypoints.cli.main", "worker", "temporal", *more]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def queues_served(folder: Path) -> list[tuple[str, ...]]:
    offers: list[Offer] = with_stores(folder, lambda stores: stores.catalog.offers())
    return sorted(offer.task_queues for offer in offers if offer.until > datetime.now(UTC))


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_r306_each_task_queue_is_a_process_and_all_end_together(tmp_path: Path, temporal_address: str) -> None:
    more = ("--workflows", "tests.temporal_workflows")
    with a_worker(tmp_path, temporal_address, *more) as worker:
        wait_until(lambda: queues_served(tmp_path) == [("events",), ("exports",)])
        both = children(worker.pid)
        assert len(both) == 2
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
        assert not any(map(is_alive, both))
    log = (tmp_path / "log").read_text()
    assert log.startswith("Interlock runs the catch-all, ExportRequestedWorkflow, ReportRunCompletedEventWorkflow on ")
    assert log.endswith("stopped; nothing is in hand\n")


def test_a_process_that_ends_by_itself_ends_the_others_and_a_killed_parent_leaves_none(
    tmp_path: Path, temporal_address: str
) -> None:
    with a_worker(tmp_path, temporal_address) as worker:
        wait_until(lambda: len(children(worker.pid)) == 2 and len(queues_served(tmp_path)) == 2)
        one, other = children(worker.pid)
        os.kill(one, signal.SIGKILL)
        assert worker.wait(30) == 1
        assert not is_alive(other)
    assert "a process ended by itself, so all were stopped" in (tmp_path / "log").read_text()
    with a_worker(tmp_path, temporal_address) as worker:
        wait_until(lambda: len(children(worker.pid)) == 2 and len(queues_served(tmp_path)) == 4)
        both = children(worker.pid)
        worker.kill()
        wait_until(lambda: not any(map(is_alive, both)))
