"""Documents tell the truth: their Python runs, their links lead somewhere, their tour works against the real server."""

import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks(document: Path, language: str) -> list[str]:
    return [text for found, text in FENCE.findall(document.read_text()) if found == language]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document: Path) -> None:
    missing = [target for target in LINK.findall(document.read_text()) if not (document.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if blocks(path, "python")], ids=lambda path: str(path.relative_to(ROOT))
)
def test_python_blocks_run(document: Path) -> None:
    names: dict[str, object] = {"__name__": "document"}
    for block in blocks(document, "python"):
        exec(compile(block, str(document), "exec"), names)  # noqa: S102 - our own documents


def commands(document: Path) -> list[str]:
    """Give what a reader would type: lines that start with `$`, with their continuations."""
    found: list[str] = []
    for block in blocks(document, "console"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append(line[2:])
            elif found and found[-1].count("'") % 2:
                found[-1] += "\n" + line
    return found


@contextlib.contextmanager
def dev_server(folder: Path, *options: str, **variables: str) -> Iterator[str]:
    """Run `interlock dev` on a free port, and give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = (
        os.environ | variables | {"INTERLOCK_DATA_DIR": str(folder / "data"), "INTERLOCK_HTTP__PORT": str(port)}
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "entrypoints.cli.main", "dev", *options], env=environment, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + 30
        while True:
            assert server.poll() is None, (folder / "log").read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        assert server.wait(20) == 0


def run(command: str, address: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a documented command against the server of the test."""
    arguments = shlex.split(command.replace("localhost:8080", address))
    if arguments[0] == "interlock":
        arguments[:1] = [sys.executable, "-m", "entrypoints.cli.main"]
    environment = os.environ | variables | {"INTERLOCK_DATA_DIR": str(folder / "data"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        arguments, capture_output=True, text=True, check=False, timeout=60, env=environment, cwd=folder
    )


def until_started(address: str, event_id: str) -> dict[str, object]:
    """Wait until the worker has made an event's first transition."""
    deadline = time.monotonic() + 20
    while True:
        with urllib.request.urlopen(f"http://{address}/v1/events/{event_id}", timeout=5) as answer:
            event: dict[str, object] = json.load(answer)
        if event["state"] is not None:
            return event
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_readme_tour_works(tmp_path: Path) -> None:
    ingest, move, history, listing, activity, post = [
        line for line in commands(ROOT / "README.md") if line.startswith("curl")
    ]
    job, query = [
        line for line in commands(ROOT / "README.md") if line.startswith(("interlock daily-job", "interlock query"))
    ]
    with dev_server(tmp_path, "--no-router") as address:
        said = re.search(r"^\{\"accepted\".*$", (ROOT / "README.md").read_text(), re.MULTILINE)
        assert said is not None
        assert run(ingest, address, tmp_path).stdout == said[0]
        until_started(address, "ua-1545")
        moved = run(move, address, tmp_path).stdout
        assert json.loads(moved)["to"] == "open"
        assert run(move, address, tmp_path).stdout == moved
        assert [fact["to"] for fact in json.loads(run(history, address, tmp_path).stdout)["items"]] == [
            "to_review",
            "open",
        ]
        assert [item["event_id"] for item in json.loads(run(listing, address, tmp_path).stdout)["items"]] == ["ua-1545"]
        [item] = json.loads(run(activity, address, tmp_path).stdout)["items"]
        assert (item["id"], item["data"]) == ("ua-1545", {"arrival_delay": 42})
        assert len(json.loads(run(post, address, tmp_path).stdout)["message_ids"]) == 1
        deadline = time.monotonic() + 30
        while not list((tmp_path / "data" / "objects").rglob("*.jsonl.zst")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        loaded = run(job.replace("$(date -u +%F)", f"{datetime.now(UTC):%Y-%m-%d}"), address, tmp_path)
        assert loaded.returncode == 0, loaded.stderr
        assert json.loads(run(f"{query} --format json", address, tmp_path).stdout) == [{"type": "Usage", "events": 1}]


def test_the_page_about_account_history_works(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "account-history.md"
    ingest, read, export = [line for line in commands(page) if line.startswith(("curl", "interlock activity"))]
    with dev_server(tmp_path) as address:
        assert json.loads(run(ingest, address, tmp_path).stdout)["accepted"] == ["run-1"]
        [item] = json.loads(run(read, address, tmp_path).stdout)["items"]
        assert item["data"]["report_id"] == "R1"
        assert run(export, address, tmp_path).returncode == 0
        assert [json.loads(line) for line in (tmp_path / "acme.ndjson").read_text().splitlines()] == [item]
        assert "ada@example.com" not in json.dumps(item)


def test_r112_the_tutorial_works_with_a_lifecycle_of_its_own(tmp_path: Path) -> None:
    tutorial = ROOT / "docs" / "tutorial.md"
    (tmp_path / "turbines.json").write_text(blocks(tutorial, "json")[0])
    variables = {"INTERLOCK_LIFECYCLE__DEFINITION_FILE": str(tmp_path / "turbines.json")}
    typed = [
        line for line in commands(tutorial) if not line.startswith(("export", "source")) and line != "interlock dev"
    ]
    with dev_server(tmp_path, "--no-router", **variables) as address:
        assert run(typed[0], address, tmp_path, **variables).returncode == 0
        event = until_started(address, "alarm-1")
        assert (event["state"], event["legal_moves"]) == ("raised", ["assessed", "dismissed"])
        done = {line: run(line, address, tmp_path, **variables) for line in typed[2:5]}
        assert [one.returncode for one in done.values()] == [0, 0, 1], done
        assert "crew_sent" in done["interlock events move alarm-1 repaired"].stderr
        for line in typed[5:7]:
            assert run(line, address, tmp_path, **variables).returncode == 0, line
        history = run(typed[7] + " --json", address, tmp_path, **variables)
        assert [fact["to"] for fact in json.loads(history.stdout)["items"]] == [
            "raised",
            "assessed",
            "crew_sent",
            "repaired",
        ]


def until_said(log: Path, pattern: str) -> str:
    """Wait until a process has said something, and give the part that is wanted."""
    deadline = time.monotonic() + 30
    while (found := re.search(pattern, log.read_text())) is None:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found[1]


def outcome(told: str) -> str:
    """Give the outcome that `router explain` told."""
    return dict(line.split("\t", 1) for line in told.splitlines())["outcome"]


def test_r302_the_tutorial_of_the_router_works_and_the_router_is_not_touched(tmp_path: Path) -> None:
    tutorial = ROOT / "docs" / "tutorial-router.md"
    (tmp_path / "orders.py").write_text(blocks(tutorial, "python")[0])
    typed = [line for line in commands(tutorial) if not line.startswith("source")]
    assert typed[0] == "interlock dev"
    with dev_server(tmp_path) as address:
        temporal = until_said(tmp_path / "log", r"Temporal listens on (\S+)")
        variables = {"INTERLOCK_TEMPORAL__ADDRESS": temporal}

        def do(line: str) -> str:
            done = run(line.replace("127.0.0.1:7233", temporal), address, tmp_path, **variables)
            assert done.returncode == 0, done.stderr
            return done.stdout

        (tmp_path / "order.json").write_text(typed[1].split("'")[1])
        assert do(typed[2]) == "published 1, refused 0\n"
        assert outcome(do(typed[3])) == "catch_all"
        deadline = time.monotonic() + 20
        while "order-1" not in do(typed[4] + " --json"):
            assert time.monotonic() < deadline
        environment = os.environ | variables | {"INTERLOCK_DATA_DIR": str(tmp_path / "data"), "PYTHONPATH": str(ROOT)}
        with (tmp_path / "worker.log").open("wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "entrypoints.cli.main", *shlex.split(typed[5])[1:]],
                cwd=tmp_path,
                env=environment,
                stdout=log,
                stderr=log,
            )
        try:
            deadline = time.monotonic() + 30
            while outcome(do(typed[6])) != "start":
                assert time.monotonic() < deadline, (tmp_path / "worker.log").read_text()
            do(typed[7])
            assert "started\t1" in do(typed[8])
            do(typed[9])
            until_said(tmp_path / "log", r'("already_started": 1)')
            binary = str(Path(sys.executable).parent / "temporal")
            assert "WorkflowExecutionStarted" in do(typed[10].replace("temporal", binary, 1))
            do(typed[11])
            assert outcome(do(typed[12])) == "skip"
            assert len(typed) == 13
        finally:
            worker.terminate()
            assert worker.wait(20) == 0


def test_r307_the_skip_list_page_works(tmp_path: Path) -> None:
    (tmp_path / "reports.txt").write_text("R-1\n R-7 \n")
    told = [run(line, "", tmp_path).stdout for line in commands(ROOT / "docs" / "how-to" / "skip-list.md")]
    assert [text.splitlines()[0].split("\t")[0] for text in told] == [
        "added 2, already listed 0",
        "report_id",
        "removed 1, not listed 0",
        "added 2, already listed 0",
        "removed 2, not listed 0",
    ]
