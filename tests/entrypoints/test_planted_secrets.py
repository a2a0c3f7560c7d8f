"""No read path shows what was planted: API, commands, export, lifecycle, errors, logs (R-403, FC-29)."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.memory.metrics import MemoryMetrics
from entrypoints.settings import Settings
from entrypoints.wiring import open_activity
from tests.activity import a_query
from tests.docs.test_documents import dev_server
from tests.entrypoints.cli import Interlock

ROOT = Path(__file__).parents[2]

# Each is as a writer may send it, in a place of its own.
PLANTED: Final = {
    "email": "grace.hopper@example.com",
    "phone": "+44 20 7946 0958",
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "bearer": "abcdef0123456789abcdef0123456789",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "password": "correct-horse-battery",
    "userinfo": "s3cr3t-in-a-url",
    "key": "ada.lovelace@example.com",
}


def an_event(number: int = 1) -> dict[str, Any]:
    """Give an event with all of them, in dicts, lists, pairs, JSON in strings, keys and attributes."""
    p = PLANTED
    return {
        "specversion": "1.0",
        "id": f"run-{number}",
        "source": f"https://bot:{p['userinfo']}@example.com/reports",
        "type": "ReportRunCompletedEvent",
        "subject": "R1",
        "time": f"2026-01-01T10:00:{number:02}Z",
        "apikey": p["password"],
        "data": {
            "account_id": "acme",
            "report_id": "R1",
            "number": number,
            "recipients": [{"name": "x", "contact": {"email": p["email"]}}, [[p["email"]]]],
            "note": f"call {p['phone']}, or write {p['email']}; card {p['card']}, iban {p['iban']}",
            "headers": [{"key": "Authorization", "value": f"Bearer {p['bearer']}"}, {"name": "x", "value": "kept"}],
            "raw": json.dumps({"inner": json.dumps({"token": p["jwt"], "text": f"id {p['aws']}"})}),
            "API_KEY": p["password"],
            "password": {"old": p["password"], "hints": [p["password"]]},
            "by_person": {p["key"]: {"visits": 3}, "Grace": 1},
            "tokenizer": "bpe",
            "token": None,
        },
    }


def check(where: str, text: str) -> None:
    """Hold a text to show nothing that was planted."""
    shown = [name for name, secret in PLANTED.items() if secret in text]
    assert shown == [], f"{where} shows {shown}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Run `interlock dev`, ingest events, and keep what each path answered."""
    folder = tmp_path_factory.mktemp("planted")
    answers: dict[str, str] = {}

    def curl(name: str, path: str, body: object = None) -> None:
        arguments = ["curl", "-s", f"http://{address}{path}"]
        if body is not None:
            arguments += [
                "-H",
                "Content-Type: application/json",
                "-d",
                body if isinstance(body, str) else json.dumps(body),
            ]
        run = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=30)
        answers[name] = run.stdout

    with dev_server(folder) as address:
        curl("ingest", "/v1/events", [an_event(number) for number in range(1, 8)])
        assert len(json.loads(answers["ingest"])["accepted"]) == 7
        curl("activity", "/v1/activity?account=acme")
        curl("activity, filtered", "/v1/activity?account=acme&report_id=R1&order=asc&limit=2")
        cursor = json.loads(answers["activity, filtered"])["next_cursor"]
        answers["cursor"] = cursor
        curl("activity, next page", f"/v1/activity?account=acme&report_id=R1&order=asc&limit=2&cursor={cursor}")
        curl("activity, foreign cursor", f"/v1/activity?account=acme&cursor={cursor}")
        curl("history", "/v1/events/run-1/history")
        curl("metrics", "/metrics")
        curl("a broken event", "/v1/events", json.dumps(an_event(9)).replace('"number": 9', '"number": NaN'))
        curl("an event that may not be", "/v1/events", [{**an_event(9), "time": "yesterday"}])
    answers["log"] = (folder / "log").read_text()
    return folder, answers


def test_r403_the_api_and_its_log_show_nothing(world: tuple[Path, dict[str, str]]) -> None:
    _, answers = world
    for name, text in answers.items():
        check(name, text)
    items = json.loads(answers["activity"])["items"]
    assert [item["data"]["number"] for item in items] == [7, 6, 5, 4, 3, 2, 1]
    assert [item["id"] for item in json.loads(answers["activity, next page"])["items"]] == ["run-3", "run-4"]
    assert json.loads(answers["activity, foreign cursor"])["status"] == 400
    assert json.loads(answers["a broken event"])["status"] == 400


def test_r403_what_is_not_secret_survives_with_its_shape(world: tuple[Path, dict[str, str]]) -> None:
    _, answers = world
    item, sent = json.loads(answers["activity"])["items"][-1], an_event()
    assert (item["id"], item["type"], item["subject"]) == ("run-1", sent["type"], "R1")
    data = item["data"]
    assert data.keys() == sent["data"].keys()
    for name in ("account_id", "report_id", "number", "tokenizer", "token"):
        assert data[name] == sent["data"][name]
    assert [len(data["recipients"]), len(data["headers"]), len(data["by_person"])] == [2, 2, 2]
    assert data["headers"][1] == {"name": "x", "value": "kept"}
    assert data["password"].keys() == {"old", "hints"}


def test_r403_what_is_stored_is_as_it_was_sent(world: tuple[Path, dict[str, str]]) -> None:
    stored = b"".join(path.read_bytes() for path in (world[0] / "data").glob("activity.db*"))
    assert PLANTED["email"].encode() in stored


def test_r403_commands_show_nothing(
    world: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interlock = Interlock(world[0], monkeypatch, capsys)
    monkeypatch.setenv("INTERLOCK_DATA_DIR", str(world[0] / "data"))
    account = ("--account", "acme")
    for command in (
        ("activity", "list", *account),
        ("activity", "list", *account, "--json"),
        ("activity", "export", *account),
        ("activity", "export", *account, "--out", "acme.ndjson"),
        ("activity", "list", *account, "--cursor", "zz"),
        ("events", "history", "run-1", "--json"),
        ("doctor",),
        ("config",),
    ):
        run = interlock(*command)
        check(" ".join(command), run.out + run.err)
    exported = (world[0] / "acme.ndjson").read_text()
    check("the file", exported)
    assert len(exported.splitlines()) == 7


def test_r403_pseudonyms_show_nothing_and_stay_the_same(world: tuple[Path, dict[str, str]]) -> None:
    environment = os.environ | {
        "INTERLOCK_DATA_DIR": str(world[0] / "data"),
        "INTERLOCK_REDACTION__PSEUDONYM_KEY": "sixteen bytes at least",
        "PYTHONPATH": str(ROOT),
    }
    run = subprocess.run(
        [sys.executable, "-m", "entrypoints.cli.main", "activity", "export", "--account", "acme"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=world[0],
        timeout=60,
    )
    check("pseudonyms", run.stdout)
    emails = {json.loads(line)["data"]["recipients"][0]["contact"]["email"] for line in run.stdout.splitlines()}
    assert len(emails) == 1


def test_r403_the_reader_itself_shows_nothing(world: tuple[Path, dict[str, str]]) -> None:
    """Straight from the one class that all of the above ask, in both orders."""

    async def read() -> str:
        engine = open_activity(Settings(data_dir=world[0] / "data"), MemoryMetrics())
        pages = [await engine.history.page(a_query(descending=descending)) for descending in (False, True)]
        await engine.aclose()
        assert [len(page.items) for page in pages] == [7, 7]
        return repr(pages) + json.dumps([page.items for page in pages])

    check("the reader", asyncio.run(read()))
