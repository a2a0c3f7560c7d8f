"""`interlock doctor`: each thing that may be wrong is named with its fix, and nothing is made."""

import asyncio
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from domain.errors import Misconfigured
from domain.messages import Outgoing
from entrypoints.cli import aws, sqlite
from entrypoints.groups.lifecycle import LifecycleSettings
from entrypoints.settings import Settings
from entrypoints.wiring import open_engine
from tests.entrypoints.cli import Interlock, Run
from tests.redis_engines import free_port, server


def test_doctor_is_content_with_a_fresh_folder_and_makes_nothing(interlock: Interlock) -> None:
    run = interlock("doctor", "--json")
    assert run.code == 0
    assert {check["name"]: check["status"] for check in json.loads(run.out)} == {
        "lifecycle": "ok",
        "tokens file": "warning",
        "engine": "ok",
        "dedup": "ok",
    }
    assert list(interlock.folder.iterdir()) == []


def test_doctor_names_each_fault_with_its_fix_and_ends_with_code_1(interlock: Interlock) -> None:
    (interlock.folder / ".interlock").mkdir()
    for name in ("events.db", "queues.db"):
        (interlock.folder / ".interlock" / name).write_text("this is no database, however long one looks at it" * 9)
    (interlock.folder / "tokens.json").write_text("[]")
    (interlock.folder / "tokens.json").chmod(0o644)
    run = interlock(
        "doctor",
        "--json",
        INTERLOCK_AUTH__TOKENS_FILE="tokens.json",
        INTERLOCK_LIFECYCLE__DEFINITION_FILE="missing.json",
        INTERLOCK_ENGIN="x",
    )
    assert run.code == 1
    checks = {check["name"]: check for check in json.loads(run.out)}
    assert {name: check["status"] for name, check in checks.items()} == {
        "variables": "warning",
        "lifecycle": "failed",
        "tokens file": "failed",
        "engine": "failed",
        "dedup": "ok",
    }
    assert checks["tokens file"]["fix"] == "chmod 600 tokens.json"
    assert all(check["fix"] for check in checks.values() if check["status"] != "ok")
    assert interlock("doctor").out.splitlines()[0] == "check\tstatus\tdetail\tfix"


def found_by_doctor(run: Run) -> dict[str, tuple[str, str]]:
    return {check["name"]: (check["status"], check["detail"]) for check in json.loads(run.out)}


def test_doctor_asks_each_target_of_the_dedup_cache(interlock: Interlock) -> None:
    assert found_by_doctor(interlock("doctor", "--json"))["dedup"][0] == "ok"
    run = interlock("doctor", "--json", INTERLOCK_DEDUP__BACKEND="redis")
    assert (run.code, found_by_doctor(run)["dedup"][0]) == (1, "failed")
    with server() as primary:
        urls = {
            "INTERLOCK_DEDUP__BACKEND": "redis",
            "INTERLOCK_DEDUP__PRIMARY_URL": primary.url,
            "INTERLOCK_DEDUP__SECONDARY_URL": f"redis://user:secret@127.0.0.1:{free_port()}",
        }
        run = interlock("doctor", "--json", **urls)
        found = found_by_doctor(run)
    assert (run.code, found["dedup primary"]) == (1, ("ok", "redis: answers"))
    assert found["dedup secondary"][0] == "failed"
    assert "secret" not in run.out + run.err


@pytest.mark.parametrize("file", ["events.db", "queues.db", "activity.db"])
def test_doctor_opens_each_file_that_is_there(file: str, interlock: Interlock) -> None:
    (interlock.folder / ".interlock").mkdir()
    (interlock.folder / ".interlock" / file).write_bytes(bytes(range(256)) * 16)
    run = interlock("doctor", "--json")
    assert run.code == 1
    assert found_by_doctor(run)["engine"] == ("failed", f".interlock/{file}: is not a SQLite database")
    assert [there.name for there in (interlock.folder / ".interlock").iterdir()] == [file]


@pytest.mark.parametrize("folder", ["/proc", "/proc/nope", "/proc/nope/deeper", "file", "file/below"])
def test_doctor_finds_a_data_folder_that_takes_no_files(folder: str, interlock: Interlock) -> None:
    (interlock.folder / "file").touch()
    run = interlock("doctor", "--json", INTERLOCK_DATA_DIR=folder)
    assert (run.code, found_by_doctor(run)["engine"][0]) == (1, "failed")
    assert [there.name for there in interlock.folder.iterdir()] == ["file"]


def test_doctor_tells_of_events_in_states_that_the_lifecycle_has_lost(filled: Interlock) -> None:
    assert filled("events", "move", "e0", "open").code == 0
    assert found_by_doctor(filled("doctor", "--json"))["states"][0] == "ok"
    moves = {"open": ["closed"], "closed": []}
    definition = {"name": "shorter", "initial": "open", "terminal": ["closed"], "moves": moves}
    (filled.folder / "lifecycle.json").write_text(json.dumps(definition))
    run = filled("doctor", "--json", INTERLOCK_LIFECYCLE__DEFINITION_FILE="lifecycle.json")
    lost = ("warning", "events are in states that the lifecycle does not have: to_review")
    assert (run.code, found_by_doctor(run)["states"]) == (0, lost)


def test_r109_doctor_finds_states_and_dead_letters_by_an_index(filled: Interlock) -> None:
    for file, statement in (("events.db", sqlite.STATES), ("queues.db", sqlite.DEAD)):
        with closing(sqlite3.connect(filled.folder / ".interlock" / file)) as connection:
            steps = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert [step for step in steps if "heads" in step or "messages" in step]
        assert not [step for step in steps if step.startswith("SCAN") and step != "SCAN states"], steps


async def _bury(folder: Path) -> None:
    settings = Settings(data_dir=folder / ".interlock", lifecycle=LifecycleSettings(max_receives=1))
    engine = open_engine(settings)
    await engine.publisher.publish([Outgoing("N1", "d1", "no message of ours")])
    for _ in range(2):
        await engine.queue.release(await engine.queue.receive(10, 0))
    await engine.aclose()


def test_doctor_counts_dead_letters(interlock: Interlock) -> None:
    interlock("tables", "create")
    assert found_by_doctor(interlock("doctor", "--json"))["dead letters"] == ("ok", "none")
    asyncio.run(_bury(interlock.folder))
    run = interlock("doctor", "--json")
    assert (run.code, found_by_doctor(run)["dead letters"]) == (0, ("warning", "1 wait in .interlock/queues.db"))


def test_doctor_does_not_have_tables_made_where_aws_does_not_answer(
    interlock: Interlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    run = interlock("doctor", "--json", INTERLOCK_ENGINE="aws")
    (table,) = (check for check in json.loads(run.out) if check["name"] == "table")
    assert table["status"] == "failed"
    assert table["fix"] == "check the network, AWS_REGION and AWS_ENDPOINT_URL, then look again"
    missing = Misconfigured("DynamoDB", "DescribeTable answered X: it does not exist; see `interlock tables create`")
    assert aws.fix_for("make it")(missing) == "make it"
    assert "rights" in aws.fix_for("make it")(Misconfigured("DynamoDB", "DescribeTable answered AccessDeniedException"))
    assert aws.fix_for("make it")(Misconfigured("INTERLOCK_LIFECYCLE__QUEUE_URL", "is not set")) == "make it"


def test_doctor_and_token_commands_do_not_wait_for_a_pipe(interlock: Interlock) -> None:
    os.mkfifo(interlock.folder / "tokens.json")
    run = interlock("doctor", "--json", INTERLOCK_AUTH__TOKENS_FILE="tokens.json")
    assert "must be a regular file" in found_by_doctor(run)["tokens file"][1]
    for command in (["list"], ["revoke", "0"], ["create", "--name", "ada", "--scope", "view"]):
        run = interlock("token", *command)
        assert (run.code, "must be a regular file" in run.err) == (1, True)
