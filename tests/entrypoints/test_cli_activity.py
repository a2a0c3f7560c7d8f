"""`interlock activity`: the same complete and redacted history on the command line (R-402, R-403; CONTRACTS § 9)."""

import asyncio
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from adapters.memory.metrics import MemoryMetrics
from application.activity import record
from domain.envelope import Envelope
from entrypoints.cli import activity
from entrypoints.settings import Settings
from entrypoints.wiring import open_activity
from tests.entrypoints.cli import Interlock
from tests.examples import an_envelope

ROOT = Path(__file__).parents[2]
EVENTS = 1203


def an_event(number: int) -> Envelope:
    return an_envelope(
        f"e{number}",
        type="Rare" if number in {7, 1200} else "Often",
        time=f"2026-01-01T10:{number // 60 % 60:02}:{number % 60:02}Z",
        data={"account_id": "acme", "number": number, "report_id": f"R{number % 2}", "email": "p@example.com"},
    )


async def _fill(folder: Path) -> None:
    engine = open_activity(Settings(data_dir=folder / ".interlock"), MemoryMetrics())
    answers = await record(engine.feed, [an_event(number) for number in range(EVENTS)])
    assert set(answers) == {"recorded"}
    await engine.aclose()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an account's activity, to be copied."""
    folder = tmp_path_factory.mktemp("filled")
    asyncio.run(_fill(folder))
    return folder


@pytest.fixture
def interlock(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Interlock:
    """The command, beside a SQLite engine with an account's activity."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return Interlock(tmp_path, monkeypatch, capsys)


def numbers(lines: str) -> list[int]:
    return [json.loads(line)["data"]["number"] for line in lines.splitlines()]


def test_lists_newest_first_and_goes_on_with_a_cursor_in_another_process(interlock: Interlock) -> None:
    first = interlock("activity", "list", "--account", "acme", "--limit", "3", "--json")
    assert first.code == 0
    page = json.loads(first.out)
    assert [item["data"]["number"] for item in page["items"]] == [1202, 1201, 1200]
    assert "p@example.com" not in first.out
    assert page["items"][0]["data"]["email"]
    more = ("activity", "list", "--account", "acme", "--limit", "2", "--json", "--cursor", page["next_cursor"])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    run = subprocess.run(
        [sys.executable, "-m", "entrypoints.cli.main", *more],
        cwd=interlock.folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert [item["data"]["number"] for item in json.loads(run.stdout)["items"]] == [1199, 1198]


def test_a_table_for_people_names_the_cursor(interlock: Interlock) -> None:
    run = interlock("activity", "list", "--account", "acme", "--type", "Rare", "--order", "asc", "--limit", "1")
    assert run.code == 0
    header, row = run.out.splitlines()
    assert header.split("\t") == ["time", "type", "subject", "id", "data"]
    assert row.split("\t")[:4] == ["2026-01-01T10:00:07.000000Z", "Rare", "N14228", "e7"]
    assert "p@example.com" not in run.out
    assert run.err.startswith("more: --cursor ")


def test_r402_exports_everything_once_in_order(interlock: Interlock) -> None:
    run = interlock("activity", "export", "--account", "acme")
    assert run.code == 0
    assert numbers(run.out) == list(range(EVENTS))
    assert run.err == f"{EVENTS} events\n"
    assert "p@example.com" not in run.out
    rare = interlock("activity", "export", "--account", "acme", "--type", "Rare", "--order", "desc")
    assert numbers(rare.out) == [1200, 7]
    window = ("--from", "2026-01-01T10:00:10Z", "--to", "2026-01-01T10:00:12Z", "--report-id", "R0")
    assert numbers(interlock("activity", "export", "--account", "acme", *window).out) == [10, 12]
    nobody = interlock("activity", "export", "--account", "nobody")
    assert (nobody.code, nobody.out, nobody.err) == (0, "", "0 events\n")


def test_a_file_is_there_once_it_is_whole(interlock: Interlock) -> None:
    run = interlock("activity", "export", "--account", "acme", "--out", "acme.ndjson")
    assert (run.code, run.out) == (0, "")
    assert numbers((interlock.folder / "acme.ndjson").read_text(encoding="utf-8")) == list(range(EVENTS))
    (interlock.folder / "acme.ndjson").write_text("before")
    database = interlock.folder / ".interlock" / "activity.db"
    database.write_bytes(b"no database at all" * 1000)
    run = interlock("activity", "export", "--account", "acme", "--out", "acme.ndjson")
    assert run.code == 1
    assert (interlock.folder / "acme.ndjson").read_text() == "before"
    assert [path.name for path in interlock.folder.iterdir() if "unfinished" in path.name] == []


def test_a_link_stays_a_link_and_its_file_is_replaced(interlock: Interlock) -> None:
    target, link = interlock.folder / "target.ndjson", interlock.folder / "link.ndjson"
    target.write_text("before")
    link.symlink_to(target.name)
    assert interlock("activity", "export", "--account", "acme", "--out", "link.ndjson").code == 0
    assert link.is_symlink()
    assert numbers(target.read_text(encoding="utf-8")) == list(range(EVENTS))


def test_a_pipe_is_written_to_and_stays_one(interlock: Interlock) -> None:
    pipe = interlock.folder / "pipe"
    os.mkfifo(pipe)
    read = "import shutil, sys; shutil.copyfileobj(open(sys.argv[1]), open(sys.argv[2], 'w'))"
    copy = interlock.folder / "copy"
    with subprocess.Popen([sys.executable, "-c", read, str(pipe), str(copy)]) as reader:
        try:
            assert interlock("activity", "export", "--account", "acme", "--out", "pipe").code == 0
            reader.wait(30)
        finally:
            reader.kill()
    assert numbers(copy.read_text(encoding="utf-8")) == list(range(EVENTS))
    assert pipe.is_fifo()


def test_two_exports_to_one_place_at_once_both_end_well(interlock: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one begins and ends while the first one writes."""
    command = [sys.executable, "-m", "entrypoints.cli.main", "activity", "export", "--account", "acme", "--out", "both"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    codes: list[int] = []
    once = activity._writer  # pyright: ignore[reportPrivateUsage]

    def writer(file: TextIO) -> Callable[[str], None]:
        run = subprocess.run(
            command, cwd=interlock.folder, env={**environment, "PYTHONPATH": str(ROOT)}, check=False, timeout=60
        )
        codes.append(run.returncode)
        return once(file)

    monkeypatch.setattr(activity, "_writer", writer)
    codes.append(interlock("activity", "export", "--account", "acme", "--out", "both").code)
    assert codes == [0, 0]
    assert numbers((interlock.folder / "both").read_text(encoding="utf-8")) == list(range(EVENTS))
    assert [path.name for path in interlock.folder.iterdir() if "unfinished" in path.name] == []


def test_a_folder_that_is_not_there_is_told(interlock: Interlock) -> None:
    run = interlock("activity", "export", "--account", "acme", "--out", "none/acme.ndjson")
    assert run.code == 1
    assert run.err.startswith("error: No such file or directory")


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("list", "--account", ""),
        ("list", "--account", "a", "--order", "up"),
        ("list", "--account", "a", "--limit", "501"),
        ("list", "--account", "a", "--from", "yesterday"),
        ("list", "--account", "a", "--cursor", "zz"),
        ("export",),
        ("export", "--account", "x" * 257),
        ("export", "--account", "a", "--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"),
    ],
)
def test_wrong_usage_is_two(interlock: Interlock, arguments: tuple[str, ...]) -> None:
    run = interlock("activity", *arguments)
    assert (run.code, run.out) == (2, "")
    assert run.err


def test_a_cursor_key_that_was_replaced_still_reads(interlock: Interlock) -> None:
    old, new = "o" * 32, "n" * 32
    listed = ("activity", "list", "--account", "acme", "--limit", "2", "--json")
    cursor = json.loads(interlock(*listed, INTERLOCK_ACTIVITY__CURSOR_KEYS=old).out)["next_cursor"]
    assert interlock(*listed, "--cursor", cursor, INTERLOCK_ACTIVITY__CURSOR_KEYS=f"{new},{old}").code == 0
    refused = interlock(*listed, "--cursor", cursor, INTERLOCK_ACTIVITY__CURSOR_KEYS=new)
    assert refused.code == 2
    assert "cursor" in refused.err


def test_r403_a_policy_file_masks_more_and_a_key_makes_pseudonyms(interlock: Interlock) -> None:
    listed = ("activity", "list", "--account", "acme", "--limit", "2", "--json")
    (interlock.folder / "redaction.json").write_text('{"personal_names": ["number"]}')
    run = interlock(
        *listed,
        INTERLOCK_REDACTION__POLICY_FILE="redaction.json",
        INTERLOCK_REDACTION__PSEUDONYM_KEY="sixteen bytes at least",
    )
    first, second = (item["data"] for item in json.loads(run.out)["items"])
    assert first["number"] not in {1201, 1202}
    assert first["email"] == second["email"] != "***"
    (interlock.folder / "redaction.json").write_text('{"names": []}')
    broken = interlock(*listed)
    assert broken.code == 2
    assert "INTERLOCK_REDACTION__POLICY_FILE: redaction.json: names" in broken.err
    missing = interlock(*listed, INTERLOCK_REDACTION__POLICY_FILE="none.json")
    assert missing.code == 2
    assert "none.json cannot be read" in missing.err


def test_tables_create_makes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interlock = Interlock(tmp_path, monkeypatch, capsys)
    assert interlock("tables", "create").code == 0
    assert (tmp_path / ".interlock" / "activity.db").exists()


def test_a_terminal_sees_how_far_an_export_is(interlock: Interlock) -> None:
    """On a terminal of its own, as a person has it."""
    leader, follower = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "entrypoints.cli.main", "activity", "export", "--account", "acme", "--out", "a.ndjson"],
        cwd=interlock.folder,
        env={**environment, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        stderr=follower,
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            chunk = os.read(leader, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(leader)
    assert process.wait(30) == 0
    assert b"Exporting" in shown
    assert f"{EVENTS} events".encode() in shown
