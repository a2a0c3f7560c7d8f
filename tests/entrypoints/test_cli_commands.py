"""The command line: data on stdout, one line of error on stderr, codes 0, 1 and 2 (CONTRACTS § 9)."""

import asyncio
import io
import json
import re
import stat
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from adapters.memory.metrics import MemoryMetrics
from application.consume import apply_batch
from application.ingest import ingest
from domain.errors import Invalid
from domain.messages import TransitionRequested, requested_message
from entrypoints.cli import output
from entrypoints.cli.main import app
from entrypoints.cli.session import read_duration
from entrypoints.settings import Settings
from entrypoints.wiring import make_platform, open_engine
from tests.entrypoints.cli import Interlock
from tests.examples import an_envelope

ROOT = Path(__file__).parents[2]


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    """The command, in an empty folder."""
    return Interlock(tmp_path, monkeypatch, capsys)


async def _fill(folder: Path) -> None:
    settings = Settings(data_dir=folder / ".interlock")
    engine = open_engine(settings)
    platform = make_platform(settings, engine, MemoryMetrics())
    envelopes = [an_envelope(f"e{n}", entity=f"N{n % 2}", time=f"2026-01-0{n + 1}T00:00:00Z") for n in range(5)]
    envelopes.append(an_envelope("e9", entity="N\u202e9", time="2025-12-31T00:00:00Z"))
    await ingest(platform, envelopes)
    request = TransitionRequested(
        event_id="e1",
        entity="N1",
        to="closed",
        actor="ada",
        command_id="c1",
        requested_at="2026-01-01T12:00:00Z",
    )
    await platform.publisher.publish([requested_message(request)])
    batch = await engine.queue.receive(100, 0)
    await apply_batch(platform, batch, max_receives=5)
    await engine.queue.delete(batch)
    await engine.aclose()


@pytest.fixture
def filled(interlock: Interlock) -> Interlock:
    """The command, beside a SQLite engine with six events."""
    asyncio.run(_fill(interlock.folder))
    return interlock


def commands(group: typer.Typer = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*path, command.name or command.callback.__name__.rstrip("_"))
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, (*path, inner.name or ""))


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_has_help_with_an_example_of_itself(command: tuple[str, ...], interlock: Interlock) -> None:
    run = interlock(*command, "--help")
    assert run.code == 0
    assert re.search(rf"Example:[^\n]*interlock {' '.join(command)}\b", run.out)


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_is_in_the_reference(command: tuple[str, ...]) -> None:
    assert f"`interlock {' '.join(command)}" in (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def test_the_commands_are_those_of_the_contract() -> None:
    assert {" ".join(command) for command in commands()} >= {
        "dev",
        "demo",
        "api serve",
        "worker transitions",
        "events list",
        "events show",
        "events history",
        "events move",
        "tables create",
        "token create",
        "config",
        "doctor",
    }


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["events"], ["events", "show"], ["config", "--bogus"], ["events", "list", "--limit", "0"]]
)
def test_wrong_usage_ends_with_code_2(arguments: list[str], interlock: Interlock) -> None:
    run = interlock(*arguments)
    assert run.code == 2


@pytest.mark.parametrize(
    "command",
    [["config"], ["doctor"], ["dev"], ["worker", "transitions"], ["events", "show", "e1"], ["tables", "create"]],
)
def test_a_bad_variable_ends_every_command_with_code_2_and_its_name(command: list[str], interlock: Interlock) -> None:
    run = interlock(*command, INTERLOCK_HTTP__PORT="hunter2")
    assert (run.code, run.out) == (2, "")
    assert run.err == "error: INTERLOCK_HTTP__PORT: must be: port, 0-65535; 0 takes a free one (default: 8080)\n"


@pytest.mark.parametrize(
    ("library", "command", "extra"),
    [("boto3", ["tables", "create"], "aws"), ("uvicorn", ["dev", "--port", "0"], "http")],
)
def test_r605_a_missing_extra_is_named(
    library: str, command: list[str], extra: str, interlock: Interlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.startswith(("entrypoints.cli.aws", "adapters.aws"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    run = interlock(*command, INTERLOCK_ENGINE="aws" if extra == "aws" else "memory")
    assert run.code == 1
    assert run.err.splitlines()[-1] == (
        f"error: {library} is not installed; it comes with: pip install 'interlock-platform[{extra}]'"
    )


@pytest.mark.parametrize("file", ["events.db", "queues.db"])
def test_a_damaged_file_ends_dev_with_one_line_that_names_it(file: str, interlock: Interlock) -> None:
    interlock("tables", "create")
    (interlock.folder / ".interlock" / file).write_text("this is no database, however long one looks at it" * 9)
    run = interlock("dev", "--port", "0")
    errors = [line for line in run.err.splitlines() if line.startswith("error: ")]
    assert (run.code, errors) == (1, [f"error: .interlock/{file}: is not a SQLite database"])


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_what_takes_long_shows_a_bar_on_a_terminal(*, on_a_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: on_a_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(output, "QUIET_SECONDS", 0.01)
    assert output.run(asyncio.sleep(0.2, "done"), "Reading the list") == "done"
    assert ("Reading the list" in stderr.getvalue()) is on_a_terminal
    monkeypatch.setattr(output, "QUIET_SECONDS", 5)
    before = stderr.getvalue()
    assert output.run(asyncio.sleep(0, "done"), "Reading the list") == "done"
    assert stderr.getvalue() == before


def test_config_prints_what_is_in_force_and_from_where(interlock: Interlock) -> None:
    (interlock.folder / ".env").write_text("INTERLOCK_HTTP__PORT=9000\n")
    run = interlock(
        "config",
        "--json",
        INTERLOCK_ENGINE="aws",
        INTERLOCK_HTTP__PROT="1",
        INTERLOCK_LIFECYCLE__QUEUE_URL="https://ada:hunter2@sqs.example/1/q.fifo",
    )
    told = json.loads(run.out)
    rows = {row["variable"]: (row["value"], row["from"]) for row in told["settings"]}
    assert rows["INTERLOCK_ENGINE"] == ("aws", "environment")
    assert rows["INTERLOCK_HTTP__PORT"] == (9000, ".env")
    assert rows["INTERLOCK_DATA_DIR"] == (".interlock", "default")
    assert rows["INTERLOCK_AUTH__TOKENS_FILE"] == (None, "default")
    assert rows["INTERLOCK_LIFECYCLE__QUEUE_URL"] == ("https://***@sqs.example/1/q.fifo", "environment")
    assert told["unknown"] == ["INTERLOCK_HTTP__PROT sets nothing; did you mean INTERLOCK_HTTP__PORT?"]
    lines = interlock("config")
    assert "INTERLOCK_ENGINE\taws\tenvironment" in lines.out.splitlines()
    assert lines.err == "warning: INTERLOCK_HTTP__PROT sets nothing; did you mean INTERLOCK_HTTP__PORT?\n"
    assert "hunter2" not in run.out + lines.out


def test_doctor_is_content_with_a_fresh_folder_and_makes_nothing(interlock: Interlock) -> None:
    run = interlock("doctor", "--json")
    assert run.code == 0
    assert {check["name"]: check["status"] for check in json.loads(run.out)} == {
        "lifecycle": "ok",
        "tokens file": "warning",
        "engine": "ok",
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
    }
    assert checks["tokens file"]["fix"] == "chmod 600 tokens.json"
    assert all(check["fix"] for check in checks.values())
    assert interlock("doctor").out.splitlines()[0] == "check\tstatus\tdetail\tfix"


def test_tables_create_may_be_repeated(interlock: Interlock) -> None:
    for _ in range(2):
        run = interlock("tables", "create", "--json")
        assert (run.code, json.loads(run.out)) == (0, {"INTERLOCK_DATA_DIR": str(interlock.folder / ".interlock")})
    assert {"events.db", "queues.db"} <= {file.name for file in (interlock.folder / ".interlock").iterdir()}
    assert interlock("doctor").code == 0
    run = interlock("tables", "create", INTERLOCK_ENGINE="memory")
    assert (run.code, run.err) == (0, "the memory engine keeps nothing, so there is nothing to make\n")


def listed(run_out: str) -> list[str]:
    return [item["event_id"] for item in json.loads(run_out)["items"]]


def test_r109_events_list_pages_through_an_index(filled: Interlock) -> None:
    first = filled("events", "list", "--state", "to_review", "--limit", "4", "--json")
    cursor = json.loads(first.out)["next_cursor"]
    rest = filled("events", "list", "--state", "to_review", "--limit", "4", "--json", "--cursor", cursor)
    assert listed(first.out) + listed(rest.out) == ["e9", "e0", "e1", "e2", "e3", "e4"]
    window = ("--from", "2026-01-02T00:00:00Z", "--to", "2026-01-04T00:00:00Z")
    run = filled("events", "list", "--entity", "N1", "--order", "desc", *window, "--json")
    assert listed(run.out) == ["e3", "e1"]
    lines = filled("events", "list", "--entity", "N0")
    assert lines.out.splitlines()[1].split("\t")[:4] == ["e0", "N0", "FlightDelayed", "to_review"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: state: name a state or an entity"),
        (["--state", "bogus"], "error: state: is not a state of this lifecycle"),
        (["--entity", "N1", "--from", "yesterday"], "error: --from: must be an RFC 3339 time"),
        (["--entity", "N1", "--cursor", "x"], "error: cursor: is not a cursor"),
        (["--entity", "N1", "--order", "up"], "must be asc or desc"),
    ],
)
def test_a_question_that_breaks_a_rule_is_wrong_usage(arguments: list[str], message: str, filled: Interlock) -> None:
    run = filled("events", "list", *arguments)
    assert (run.code, run.out) == (2, "")
    assert message in run.err


def test_text_from_outside_cannot_steer_a_terminal(filled: Interlock) -> None:
    run = filled("events", "show", "e9")
    assert "\u202e" not in run.out
    assert "N\\x202e9" in run.out


def test_r101_r110_events_move_moves_once_a_command_and_says_what_is_legal(filled: Interlock) -> None:
    move = ("events", "move", "e1", "open", "--reason", "called", "--actor", "ada", "--command-id", "key-1", "--json")
    first = filled(*move)
    assert first.code == 0
    transition = json.loads(first.out)
    assert list(transition) == ["event_id", "entity", "from", "to", "at", "actor", "reason", "command_id", "sequence"]
    assert (transition["from"], transition["to"], transition["sequence"]) == ("to_review", "open", 2)
    assert filled(*move).out == first.out
    assert filled(*move[:-1]).err.startswith("this command had moved it already")
    refused = filled("events", "move", "e1", "closed")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "error: event 'e1': cannot move from 'open' to 'closed'; legal now: scheduled\n"
    stale = filled("events", "move", "e1", "scheduled", "--expected-state", "to_review")
    assert stale.err == "error: event 'e1': is in state 'open', not 'to_review'\n"
    assert filled("events", "move", "e1", "open", "--actor", "x" * 257).code == 2


def test_r103_events_history_shows_transitions_and_missed_moves(filled: Interlock) -> None:
    run = filled("events", "history", "e1", "--json")
    told = json.loads(run.out)
    assert [(item["from"], item["to"], item["actor"]) for item in told["items"]] == [(None, "to_review", "ingestion")]
    assert [(item["to"], item["command_id"]) for item in told["missed"]] == [("closed", "c1")]
    lines = filled("events", "history", "e1")
    assert lines.err.startswith("missed: to closed at ")


@pytest.mark.parametrize("command", ["show", "history"])
def test_an_unknown_event_ends_with_code_1(command: str, filled: Interlock) -> None:
    run = filled("events", command, "nope")
    assert (run.code, run.out, run.err) == (1, "", "error: no event 'nope'\n")


def test_a_token_is_shown_once_and_kept_as_a_hash(interlock: Interlock) -> None:
    file = interlock.folder / "tokens.json"
    create = ("token", "create", "--name", "ada", "--scope", "operate", "--scope", "view", "--tokens-file", str(file))
    run = interlock(*create, "--expires", "12h")
    token = run.out.strip()
    assert run.code == 0
    assert token.startswith("ilk_")
    assert token.rpartition("_")[2] not in file.read_text()
    assert token not in run.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    told: dict[str, Any] = json.loads(interlock(*create, "--json").out)
    assert (told["name"], told["scopes"]) == ("ada", ["view", "operate"])
    rows = json.loads(interlock("token", "list", "--tokens-file", str(file), "--json").out)
    assert [row["name"] for row in rows] == ["ada", "ada"]
    assert told["id"] in {row["id"] for row in rows}
    assert "ada\tview, operate" in interlock("token", "list", "--tokens-file", str(file)).out
    assert interlock("doctor", INTERLOCK_AUTH__TOKENS_FILE=str(file)).code == 0


def test_a_revoked_token_is_gone_and_the_others_stay(interlock: Interlock) -> None:
    for name in ("ada", "bob"):
        interlock("token", "create", "--name", name, "--scope", "view", INTERLOCK_AUTH__TOKENS_FILE="tokens.json")
    ada, bob = json.loads(interlock("token", "list", "--json").out)
    assert interlock("token", "revoke", ada["id"]).code == 0
    assert json.loads(interlock("token", "list", "--json").out) == [bob]
    again = interlock("token", "revoke", ada["id"])
    assert (again.code, again.err) == (1, f"error: auth.tokens_file: holds no token '{ada['id']}'\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--scope", "admin"], 2, "'admin' is not one of ingest, view, operate"),
        (["--scope", "view", "--expires", "soon"], 2, "error: --expires: must be a number and a unit, such as 30d"),
        (["--scope", "view", "--expires", "0d"], 2, "error: --expires: must be a number and a unit"),
        (["--scope", "view", "--name", ""], 2, "error: name: must not be empty"),
        ([], 2, "Missing option"),
    ],
)
def test_a_token_that_cannot_be_made_is_refused(
    arguments: list[str], code: int, message: str, interlock: Interlock
) -> None:
    run = interlock("token", "create", "--name", "ada", "--tokens-file", "tokens.json", *arguments)
    assert (run.code, run.out) == (code, "")
    assert message in run.err
    assert not (interlock.folder / "tokens.json").exists()


def test_a_token_without_a_file_names_the_variable(interlock: Interlock) -> None:
    run = interlock("token", "create", "--name", "ada", "--scope", "view")
    assert (run.code, run.err) == (1, "error: INTERLOCK_AUTH__TOKENS_FILE: is not set; set it, or pass --tokens-file\n")
    run = interlock("token", "list", "--tokens-file", "missing.json")
    assert (run.code, "interlock token create" in run.err) == (1, True)


@pytest.mark.parametrize(("text", "span"), [("45s", 45), ("90m", 5400), ("12h", 43200), ("30d", 2592000)])
def test_durations(text: str, span: int) -> None:
    assert read_duration(text, "--expires") == timedelta(seconds=span)


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5d", "1w", "1 d", "٣d", "9999999d", "000s"])
def test_odd_durations_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--expires"):
        read_duration(text, "--expires")


@pytest.mark.parametrize(
    ("arguments", "variables", "code", "message"),
    [
        (["api", "serve"], {}, 1, "no tokens file: set INTERLOCK_AUTH__TOKENS_FILE"),
        (["api", "serve", "--insecure", "--host", "192.0.2.1"], {}, 1, "192.0.2.1 is not loopback"),
        (["api", "serve", "--insecure", "--host", "::"], {}, 1, ":: is not loopback"),
        (["api", "serve", "--insecure", "--host", "no.such.host.invalid"], {}, 1, "is no address"),
        (["api", "serve", "--insecure"], {"INTERLOCK_AUTH__TOKENS_FILE": "t"}, 2, "a tokens file is configured"),
        (["api", "serve"], {"INTERLOCK_AUTH__TOKENS_FILE": "t"}, 1, "t: No such file or directory; make it with"),
        (["dev", "--host", "192.0.2.1"], {}, 1, "192.0.2.1 is not loopback"),
        (["dev", "--port", "70000"], {}, 2, "less than or equal to 65535"),
    ],
)
def test_the_api_does_not_start_open_to_others(
    arguments: list[str], variables: dict[str, str], code: int, message: str, interlock: Interlock
) -> None:
    run = interlock(*arguments, **variables)
    assert (run.code, run.out) == (code, "")
    assert message in run.err
