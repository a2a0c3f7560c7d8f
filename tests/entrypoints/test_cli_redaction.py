"""`interlock redaction check`: what a policy does to a sample, with nothing of what it matches (R-403)."""

import io
import json
from pathlib import Path

import pytest

from entrypoints.cli import redaction
from tests.entrypoints.cli import Interlock

SAMPLE = """\
{"specversion": "1.0", "id": "1", "source": "/x", "type": "OrderPlaced", "data": {"from": {"email": "a@b.co"}}}
{"note": "call +4915112345678, Bearer hunter2abc", "hunter2@x.org": 1}

{"password": "hunter2", "password": "hunter3"}
hunter2
{}
"""


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    """The command, in a folder that holds a sample."""
    (tmp_path / "sample.ndjson").write_text(SAMPLE)
    return Interlock(tmp_path, monkeypatch, capsys)


def test_r403_a_check_tells_what_matched_where_and_what_never_did_and_no_secret(interlock: Interlock) -> None:
    run = interlock("redaction", "check", "sample.ndjson")
    assert run.code == 1
    assert run.out.splitlines() == [
        "rule\tplace\tcount",
        "form credentials\tnote\t1",
        "form email\t*\t1",
        "form phone\tnote\t1",
        "personal name email\tfrom.email\t1",
    ]
    assert "never matched: form private_key, " in run.err
    assert "3 payloads: 2 changed, 0 of them masked whole" in run.err
    assert "line 4: is a duplicate key" in run.err
    assert "line 5: expected a JSON value at character 0" in run.err
    assert not any(secret in run.out + run.err for secret in ("hunter", "a@b.co", "+4915", "x.org"))


def test_a_check_as_json(interlock: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b'{"token": 1}\n')

    monkeypatch.setattr("sys.stdin", Stdin)
    run = interlock("redaction", "check", "-", "--json")
    told = json.loads(run.out)
    assert run.code == 0
    assert told["matches"] == [{"rule": "secret name token", "place": "token", "count": 1}]
    assert (told["payloads"], told["changed"], told["masked_whole"], told["unreadable"]) == (1, 1, 0, [])
    assert "secret name token" not in told["unmatched"]


def test_a_policy_can_be_tried_before_it_is_set(interlock: Interlock) -> None:
    policy = {"secret_names": ["badge"], "safe": {"OrderPlaced": ["from.email"], "Other": ["note"]}}
    (interlock.folder / "policy.json").write_text(json.dumps(policy))
    run = interlock("redaction", "check", "sample.ndjson", "--policy", "policy.json", "--type", "Other")
    assert run.out.splitlines() == ["rule\tplace\tcount", "form credentials\tnote\t1", "form email\t*\t1"]
    assert "secret name badge" in run.err
    assert (
        interlock("redaction", "check", "sample.ndjson", INTERLOCK_REDACTION__POLICY_FILE="policy.json").out != run.out
    )


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("nothing.ndjson",), 1, "No such file"),
        ((".",), 1, "Is a directory"),
        (("sample.ndjson", "--policy", "nothing.json"), 2, "nothing.json cannot be read"),
        (("sample.ndjson", "--policy", "sample.ndjson"), 2, "sample.ndjson: "),
        ((), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_read_is_named(interlock: Interlock, arguments: tuple[str, ...], code: int, told: str) -> None:
    run = interlock("redaction", "check", *arguments)
    assert run.code == code
    assert told in run.err
    assert "hunter" not in run.out + run.err


def test_a_line_without_end_is_not_taken_in(interlock: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "MAX_LINE", 100)
    (interlock.folder / "long.ndjson").write_text('{"a": 1}\n"' + "x" * 200)
    run = interlock("redaction", "check", "long.ndjson")
    assert run.code == 1
    assert "line 2: is over 100 bytes; the rest of the file was not read" in run.err
    assert "1 payloads" in run.err


def test_a_long_sample_shows_how_far_it_is_read_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stderr = Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setattr(redaction, "QUIET_SECONDS", -1.0)
    lines = [b"{}\n"] * 5
    assert list(redaction._lines(io.BytesIO(b"".join(lines)), 15)) == lines
    assert "Reading the sample" in stderr.getvalue()
