"""The command line: data on stdout, one line of error on stderr, codes 0, 1 and 2 (CONTRACTS § 9)."""

import asyncio
import io
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import pytest
import typer

from domain.errors import Invalid
from entrypoints.cli import output
from entrypoints.cli.main import app, main
from entrypoints.durations import read_duration
from tests.entrypoints.cli import Interlock, Run

ROOT = Path(__file__).parents[2]


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
    monkeypatch.delattr("entrypoints.cli.aws", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    run = interlock(*command, INTERLOCK_ENGINE="aws" if extra == "aws" else "memory")
    assert run.code == 1
    assert run.err.splitlines()[-1] == (
        f"error: {library} is not installed; it comes with: pip install 'interlock-platform[{extra}]'"
    )


@pytest.mark.parametrize("file", ["events.db", "queues.db", "activity.db"])
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
    assert rows["INTERLOCK_LIFECYCLE__QUEUE_URL"] == ("https://[user_info]@sqs.example/1/q.fifo", "environment")
    assert told["unknown"] == ["INTERLOCK_HTTP__PROT sets nothing; did you mean INTERLOCK_HTTP__PORT?"]
    lines = interlock("config")
    assert "INTERLOCK_ENGINE\taws\tenvironment" in lines.out.splitlines()
    assert lines.err == "warning: INTERLOCK_HTTP__PROT sets nothing; did you mean INTERLOCK_HTTP__PORT?\n"
    assert "hunter2" not in run.out + lines.out


@pytest.mark.parametrize(
    "command", [["worker", "transitions"], ["api", "serve", "--insecure"], ["events", "show", "e1"]], ids=" ".join
)
def test_the_memory_engine_is_refused_where_it_would_be_another_processs(
    command: list[str], interlock: Interlock
) -> None:
    run = interlock(*command, INTERLOCK_ENGINE="memory")
    assert (run.code, run.out) == (2, "")
    assert run.err == (
        "error: INTERLOCK_ENGINE: is memory, which lives in one process alone: use `interlock dev`, or sqlite\n"
    )


@pytest.mark.parametrize("command", [["dev", "--port", "0"], ["worker", "transitions"]], ids=" ".join)
def test_a_process_opens_its_engine_before_it_says_that_it_works(command: list[str], interlock: Interlock) -> None:
    """Both on aws, where an address is missing, and on sqlite, where a file is damaged."""
    topic = "arn:aws:sns:us-east-1:000000000000:lifecycle.fifo"
    run = interlock(*command, INTERLOCK_ENGINE="aws", AWS_REGION="us-east-1", INTERLOCK_LIFECYCLE__TOPIC_ARN=topic)
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert run.err.startswith("error: INTERLOCK_LIFECYCLE__QUEUE_URL: is not set")
    (interlock.folder / ".interlock").mkdir()
    (interlock.folder / ".interlock" / "queues.db").write_bytes(bytes(range(256)) * 16)
    run = interlock(*command, INTERLOCK_ENGINE="sqlite")
    assert (run.code, run.err) == (1, "error: .interlock/queues.db: is not a SQLite database\n")


def test_the_version_is_that_of_the_package(interlock: Interlock) -> None:
    assert interlock("--version") == Run(0, version("interlock-platform") + "\n", "")


@pytest.mark.parametrize("command", [["dev", "--port", "0"], ["events", "show", "e1"], ["worker", "transitions"]])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ('{"name": "x", "initial": "a", "terminal": [], "moves": {"a": "b"}}', "moves.a: must be a list of states"),
        ('{"name": "x", "initial": "a", "terminal": "a", "moves": {"a": []}}', "terminal: must be a list of states"),
        ('{"name": "x", "initial": "a", "terminal": [], "moves": ["a"]}', "moves: must be a JSON object"),
    ],
)
def test_a_lifecycle_that_cannot_work_is_code_2_in_plain_words(
    command: list[str], content: str | None, message: str, interlock: Interlock
) -> None:
    if content:
        (interlock.folder / "l.json").write_text(content)
    run = interlock(*command, INTERLOCK_LIFECYCLE__DEFINITION_FILE="l.json")
    assert run.code == 2
    assert run.err.startswith("error: INTERLOCK_LIFECYCLE__DEFINITION_FILE: l.json")
    assert message in run.err
    assert run.err.count("\n") == 1


@pytest.mark.parametrize("content", ["garbage", "INTERLOCK_ENGINE", 'INTERLOCK_ENGINE="aws'])
def test_a_file_of_variables_that_is_not_read_whole_ends_a_command_with_code_2(
    content: str, interlock: Interlock
) -> None:
    (interlock.folder / ".env").write_text(f"# mine\n\n{content}\n")
    run = interlock("config")
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("error: .env, line 3: is not NAME=value")
    assert run.err.count("\n") == 1


def bare(arguments: list[str], folder: Path, stdout: int | IO[bytes]) -> "subprocess.CompletedProcess[bytes]":
    """Run a command in a process of its own, because what Python does at its end counts too."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return subprocess.run(
        [sys.executable, "-m", "entrypoints.cli.main", *arguments],
        cwd=ROOT,
        env=environment | {"INTERLOCK_DATA_DIR": str(folder)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments", [["events", "list", "--state", "open"], ["config", "--json"], ["--version"], ["--help"]], ids=" ".join
)
def test_output_that_nobody_takes_is_one_line_and_code_1(arguments: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        run = bare(arguments, tmp_path, full)
    assert (run.returncode, run.stderr.count(b"\n")) == (1, 1)
    assert b"No space left on device" in run.stderr


def test_a_reader_that_has_gone_is_one_line_and_code_1(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        run = bare(["events", "list", "--state", "open"], tmp_path, writer)
    finally:
        os.close(writer)
    assert (run.returncode, run.stderr) == (1, b"error: standard output is unavailable: Broken pipe\n")


def test_output_that_is_closed_is_one_line_and_code_1(
    interlock: Interlock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        closed.setattr(sys, "argv", ["interlock", "config"])
        with pytest.raises(SystemExit) as end:
            main()
    assert interlock.folder.exists()
    assert (end.value.code, capsys.readouterr().err) == (1, "error: standard output is unavailable: it is closed\n")


@pytest.mark.parametrize("arguments", [["events", "show"], ["events", "list", "--entity"], ["token", "revoke"]])
def test_bytes_that_are_no_text_are_wrong_usage(arguments: list[str], interlock: Interlock) -> None:
    run = interlock(*arguments, os.fsdecode(b"a\xff"))
    assert (run.code, run.out, run.err) == (2, "", f"error: argument {len(arguments) + 1}: is not UTF-8 text\n")


def test_who_has_no_login_name_is_asked_for_one(filled: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", raising(KeyError("getpwuid(): uid not found: 1234")))
    run = filled("events", "move", "e1", "open")
    assert (run.code, "say who moves it" in run.err) == (2, True)
    assert filled("events", "move", "e1", "open", "--actor", "ada").code == 0


def raising(error: Exception) -> Callable[[], str]:
    def fail() -> str:
        raise error

    return fail


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
    assert token.split("_", 2)[2] not in file.read_text()
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
    assert (again.code, again.err) == (
        1,
        f"error: tokens.json: holds no token '{ada['id']}'; see `interlock token list`\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--scope", "admin"], 2, "'admin' is not one of ingest, view, operate"),
        (["--scope", "view", "--expires", "soon"], 2, "error: --expires: must be a number and a unit, such as 30d"),
        (["--scope", "view", "--expires", "0d"], 2, "error: --expires: must be more than nothing"),
        (["--scope", "view", "--expires", "9" * 5000 + "d"], 2, "error: --expires: must have at most 6 digits"),
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
    assert (run.code, run.err) == (2, "error: INTERLOCK_AUTH__TOKENS_FILE: is not set; set it, or pass --tokens-file\n")
    run = interlock("token", "list", "--tokens-file", "missing.json")
    assert (run.code, run.err) == (1, "error: missing.json: does not exist; make it with `interlock token create`\n")
    run = interlock("token", "create", "--name", "ada", "--scope", "view", "--tokens-file", "no/such/t.json")
    assert (run.code, run.err) == (1, "error: no/such/t.json: does not exist; make no/such first\n")


@pytest.mark.parametrize(
    ("text", "span"), [("45s", 45), ("0000000045s", 45), ("90m", 5400), ("12h", 43200), ("30d", 2592000)]
)
def test_durations(text: str, span: int) -> None:
    assert read_duration(text, "--expires") == timedelta(seconds=span)


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5d", "1w", "1 d", "٣d", "9999999d", "000s"])
def test_odd_durations_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--expires"):
        read_duration(text, "--expires")


@pytest.mark.parametrize(
    ("arguments", "variables", "code", "message"),
    [
        (["api", "serve"], {}, 2, "INTERLOCK_AUTH__TOKENS_FILE: is not set; make one with"),
        (["api", "serve", "--insecure", "--host", "192.0.2.1"], {}, 2, "192.0.2.1 is not loopback"),
        (["api", "serve", "--insecure", "--host", "::"], {}, 2, ":: is not loopback"),
        (["api", "serve", "--insecure", "--host", "no.such.host.invalid"], {}, 2, "is no address"),
        (["api", "serve", "--insecure", "--host", "a..b"], {}, 2, "a..b is no name of a host"),
        (["dev", "--host", "a" * 70], {}, 2, "is no name of a host"),
        (["api", "serve", "--insecure"], {"INTERLOCK_AUTH__TOKENS_FILE": "t"}, 2, "a tokens file is configured"),
        (["api", "serve"], {"INTERLOCK_AUTH__TOKENS_FILE": "t"}, 2, "t: No such file or directory; make it with"),
        (["dev", "--host", "192.0.2.1"], {}, 2, "192.0.2.1 is not loopback"),
        (["dev", "--port", "70000"], {}, 2, "less than or equal to 65535"),
    ],
)
def test_the_api_does_not_start_open_to_others(
    arguments: list[str], variables: dict[str, str], code: int, message: str, interlock: Interlock
) -> None:
    run = interlock(*arguments, **variables)
    assert (run.code, run.out) == (code, "")
    assert message in run.err
