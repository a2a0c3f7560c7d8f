"""`interlock skiplist`: ids from arguments, a file or standard input."""

import io
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.entrypoints.cli import Interlock


class Stdin(NamedTuple):
    """Standard input that holds bytes."""

    buffer: io.BytesIO


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    return Interlock(tmp_path, monkeypatch, capsys)


def typed(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(io.BytesIO(text)))


def listed(interlock: Interlock, *options: str) -> list[str]:
    return [entry["report_id"] for entry in json.loads(interlock("skiplist", "list", *options, "--json").out)]


def test_r307_add_list_and_remove(interlock: Interlock) -> None:
    assert interlock("skiplist", "add", "R1", "R2", " R1 ", "--type", "T", "--reason", "why").out == (
        "added 2, already listed 1\n"
    )
    assert json.loads(interlock("skiplist", "add", "R1", "--json").out) == {"added": 1, "already_listed": 0}
    assert listed(interlock) == ["R1", "R1", "R2"]
    assert listed(interlock, "--type", "T") == ["R1", "R2"]
    assert interlock("skiplist", "list").out.splitlines()[0] == "report_id\tevent_type\treason\tadded_at"
    assert json.loads(interlock("skiplist", "remove", "R1", "R9", "--type", "T", "--json").out) == {
        "removed": 1,
        "not_listed": 1,
    }
    assert interlock("skiplist", "remove", "R2", "--type", "T").out == "removed 1, not listed 0\n"
    interlock("skiplist", "remove", "R1")
    run = interlock("skiplist", "list")
    assert (run.code, run.out, run.err) == (0, "", "nothing is listed\n")


def test_ids_come_from_a_file_or_from_standard_input(interlock: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    file = interlock.folder / "ids.txt"
    file.write_bytes("\ufeffR1\r\n\r\n  R2 \nR3".encode())
    assert interlock("skiplist", "add", "--file", str(file)).out == "added 3, already listed 0\n"
    typed(monkeypatch, b"R3\nR4\n")
    assert interlock("skiplist", "add").out == "added 1, already listed 1\n"
    assert listed(interlock) == ["R1", "R2", "R3", "R4"]


def test_more_ids_than_one_call_takes_go_in_several(interlock: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, b"".join(b"R%d\n" % number for number in range(25_000)))
    assert interlock("skiplist", "add").out == "added 25000, already listed 0\n"
    assert len(listed(interlock)) == 25_000


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (("add",), b"", "report_ids: must hold 1 to 10000 ids, not 0"),
        (("add", "R1", ""), b"", "report id 2: must have 1 to 256 bytes"),
        (("add",), b"R\n" * 10_001 + b"x" * 257, "report id 10002: must have 1 to 256 bytes"),
        (("add",), b"R1\n\xff\n", "line 2 of standard input: must be UTF-8"),
        (("add", "R1", "--file", "ids.txt"), b"", "--file: comes instead of ids as arguments"),
        (("add", "R1", "--type", "T" * 129), b"", "event_type: must have at most 128"),
        (("add", "R1", "--reason", "x" * 501), b"", "reason: must have at most 500"),
        (("remove",), b"", "report_ids: must hold 1 to 10000 ids, not 0"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_input_is_wrong_usage_and_changes_nothing(
    interlock: Interlock, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], text: bytes, message: str
) -> None:
    typed(monkeypatch, text)
    run = interlock("skiplist", *arguments)
    assert run.code == 2
    assert message in run.err
    assert listed(interlock) == []


def test_a_file_that_is_not_there_and_a_list_of_one_process_fail(interlock: Interlock) -> None:
    assert "no.txt" in interlock("skiplist", "add", "--file", "no.txt").err
    run = interlock("skiplist", "add", "R1", INTERLOCK_ENGINE="memory")
    assert run.code == 2
    assert "INTERLOCK_ENGINE" in run.err
