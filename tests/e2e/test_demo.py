"""`interlock demo` on the shipped month: real processes, real files, and counts that add up."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from entrypoints.cli import demo as command
from entrypoints.demo import run as demo
from entrypoints.demo.activity import PLANTED, History
from entrypoints.demo.intake import FrontDoor
from entrypoints.demo.operators import Latency

DEMO = [sys.executable, "-m", "entrypoints.cli.main", "demo", "--january", "--json"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_january_goes_through_everything_and_every_count_adds_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--folder", str(tmp_path / "demo")], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    summary = json.loads(done.stdout)
    assert all(summary["checks"].values())
    assert len(summary["checks"]) == 29
    assert (summary["new"], summary["duplicate"], summary["rejected"]) == (6607, 660, 5)
    assert summary["sent"] == 6607 + 660 + 5
    assert summary["facts"] == 6607 + summary["operators"]["moved"]
    assert summary["operators"]["moved"] > 1000
    assert min(summary["operators"]["repeated"], summary["operators"]["refused"]) > 50
    assert summary["operators"]["unexpected"] == 0
    assert sum(summary["states"].values()) == 6607
    assert min(summary["states"].values()) > 100
    routed = summary["routed"]
    assert (routed["events"], routed["deliveries"]) == (300, 900)
    assert (routed["started"], routed["caught"], routed["already_started"], routed["skipped"]) == (260, 20, 560, 60)
    assert routed["runs"] == {
        "ExportFlightRequestedWorkflow": 40,
        "FlightCancelledWorkflow": 40,
        "FlightDelayedWorkflow": 180,
        "UnmatchedEventWorkflow": 20,
    }
    assert {history["account"]: history["events"] for history in summary["activity"]} == {
        "000000000000": 6607,
        "acme": 240,
    }
    assert set(summary["activity"][1]["by_type"].values()) == {60}
    assert not any(secret in done.stdout for secret in PLANTED)
    door = summary["front_door"]
    assert (door["events"], door["rows"], door["broken"], door["quarantined"]) == (26398, 26398, 264, 264)
    assert door["duplicates"] >= door["repeated"] > 1000
    assert door["in_hand_when_killed"] > 0
    assert sum(flights for flights, _, _ in door["answer"].values()) == 26398


def test_a_count_that_does_not_add_up_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import typer

    def a_wrong_run(folder: Path, **_: object) -> demo.Summary:
        latency = Latency(1, 1.0, 1.0)
        door = FrontDoor(
            posts=1,
            events=1,
            repeated=0,
            broken=0,
            objects=1,
            rows=1,
            duplicates=0,
            quarantined=0,
            in_hand_when_killed=1,
            posted_per_second=1,
            job_seconds=1.0,
            answer={},
        )
        return demo.Summary(
            flights="January 2013", sent=2, new=1, duplicate=0, rejected=0, worker={}, operators={"moved": 0}, facts=1,
            states={}, activity=[History(account="a", events=0, by_type={}, example={})], reads_idle=latency,
            reads_during_ingestion=latency, ingested_per_second=1, seconds=1.0, routed=None, front_door=door,
            folder=str(folder), checks={"sent = new + duplicate + rejected": False},
        )  # fmt: skip

    monkeypatch.setattr(demo, "run", a_wrong_run)
    with pytest.raises(typer.Exit) as exit_:
        command.demo(folder=tmp_path, january=True)
    assert exit_.value.exit_code == 1


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    done = subprocess.run([*DEMO, "--folder", str(tmp_path)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "not empty" in done.stderr
    assert (tmp_path / "mine.txt").read_text() == "keep me"
