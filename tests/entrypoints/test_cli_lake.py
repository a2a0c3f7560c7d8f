"""`interlock daily-job`, `query` and `schema` (CONTRACTS § 9)."""

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.intake import RawMessage
from tests.contracts.event_table import event, message
from tests.entrypoints.cli import Interlock
from tests.lakes import put_raw

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
EVIL = "=cmd()\u202e\x1b[31m"


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    return Interlock(tmp_path, monkeypatch, capsys)


@pytest.fixture
def filled(interlock: Interlock) -> Interlock:
    """A lake of three events and a reject."""
    (interlock.folder / "priced.json").write_text(
        json.dumps(
            {"type": "Priced", "columns": [{"name": "v", "type": "double"}, {"name": "d", "type": "decimal(6,2)"}]}
        )
    )
    assert interlock("schema", "register", "priced.json").code == 0
    messages = [
        message(1, event("e1", data={"v": 1, "d": 1.5})),
        message(2, [event("e2", time="2026-01-30T00:00:00Z", data={"v": 2.5, "name": 'a,b\n"c"'}), event("e1")]),
        message(3, event("e3", type='it\'s; drop table "x"', source="/x")),
        RawMessage("m4", NOON, 1, "{"),
    ]
    put_raw(interlock.folder / ".interlock", messages)
    assert interlock("daily-job", "--date", "2026-01-31").code == 0
    return interlock


def test_daily_job_prints_a_report_that_adds_up(interlock: Interlock) -> None:
    put_raw(interlock.folder / ".interlock", [message(1, event("e1")), message(2, event("e1")), message(3, "{")])
    run = interlock("daily-job", "--date", "2026-01-31", "--json")
    report = json.loads(run.out)
    assert (run.code, run.err) == (0, "")
    assert [report[name] for name in ("events", "rows", "duplicates", "rejects")] == [3, 1, 1, 1]
    again = interlock("daily-job", "--date", "2026-01-31")
    assert "events\t0" in again.out
    read = interlock("daily-job", "--date", "2026-01-31", "--again")
    assert "duplicates\t2" in read.out


def test_daily_job_fails_where_an_object_is_damaged_and_loads_the_rest(interlock: Interlock) -> None:
    objects = interlock.folder / ".interlock" / "objects"
    name = put_raw(interlock.folder / ".interlock", [message(1, event("e1"))])
    (objects / name).write_bytes(b"damaged")
    put_raw(interlock.folder / ".interlock", [message(2, event("e2"))])
    run = interlock("daily-job", "--date", "2026-01-31")
    assert run.code == 1
    assert f"damaged: {name} is no zstd frame" in run.err
    assert "rows\t1" in run.out


@pytest.mark.parametrize("day", ["31.1.2026", "2026-02-30", "", "20260131", "2026-W05-6", "0001-01-01", "2201-01-01"])
def test_daily_job_refuses_what_is_no_day(interlock: Interlock, day: str) -> None:
    run = interlock("daily-job", "--date", day)
    assert (run.code, run.err) == (2, "error: --date: must be a day such as 2026-01-31\n")


def test_the_memory_engine_has_no_lake(interlock: Interlock) -> None:
    run = interlock("query", "select 1", INTERLOCK_ENGINE="memory")
    assert run.code == 2
    assert "INTERLOCK_ENGINE" in run.err


def test_query_as_a_table_for_programs(filled: Interlock) -> None:
    run = filled("query", "select id, time, data from events order by id")
    assert run.out.splitlines() == [
        "id\ttime\tdata",
        'e1\t2026-01-31T12:00:00.000000Z\t{"v":1,"d":1.5}',
        'e2\t2026-01-30T00:00:00.000000Z\t{"v":2.5,"name":"a,b\\n\\"c\\""}',
        "e3\t2026-01-31T12:00:00.000000Z\t",
    ]


def test_query_as_json(filled: Interlock) -> None:
    run = filled("query", "--format", "json", "select id, v, d, position from priced order by id")
    assert json.loads(run.out) == [
        {"id": "e1", "v": 1.0, "d": "1.50", "position": 0},
        {"id": "e2", "v": 2.5, "d": None, "position": 0},
    ]
    assert json.loads(filled("query", "--format", "json", "select * from priced where false").out) == []
    odd = "select 'NaN'::double a, [1, null] b, {'x': date '2026-01-31'} c, 'a'::blob d, time '10:00:00' e, 1 = 1 f"
    assert json.loads(filled("query", "--format", "json", odd).out) == [
        {"a": "nan", "b": [1, None], "c": {"x": "2026-01-31"}, "d": "YQ==", "e": "10:00:00", "f": True}
    ]


def test_query_as_json_keeps_columns_of_one_name_apart(filled: Interlock) -> None:
    joined = "select e.id, p.id, 1 as id_1, p.id from events e join priced p using (source, id) where p.id = 'e1'"
    assert json.loads(filled("query", "--format", "json", joined).out) == [
        {"id": "e1", "id_2": "e1", "id_1": 1, "id_3": "e1"}
    ]


def test_query_as_csv(filled: Interlock) -> None:
    run = filled("query", "--format", "csv", "select id, data, v, v > 2 as high from priced order by id")
    assert list(csv.reader(io.StringIO(run.out))) == [
        ["id", "data", "v", "high"],
        ["e1", '{"v":1,"d":1.5}', "1.0", "false"],
        ["e2", '{"v":2.5,"name":"a,b\\n\\"c\\""}', "2.5", "true"],
    ]


def test_views_of_types_with_odd_names(filled: Interlock) -> None:
    shown = json.loads(filled("schema", "show", "--json").out)
    views = {one["type"]: one["view"] for one in shown}
    view = views['it\'s; drop table "x"']
    assert filled("query", f"select count(*) n from {view}").out == "n\n1\n"  # noqa: S608 - the name is ours
    assert filled("query", "select count(*) n from events e join priced p using (source, id)").out == "n\n2\n"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "must be one SELECT"),
        ("select 1; select 2", "must be one SELECT"),
        ("drop view priced", "must be one SELECT"),
        ("insert into events select * from events", "must be one SELECT"),
        ("copy (select 1) to 'x.csv'", "must be one SELECT"),
        ("set memory_limit = '9GB'", "must be one SELECT"),
        ("attach 'x.db'", "must be one SELECT"),
        ("install httpfs", "must be one SELECT"),
        ("pragma database_list", "must be one SELECT"),
        ("selec 1", "syntax error"),
        ("select nope from events", "nope"),
        ("select * from read_csv('/etc/passwd')", "file system operations are disabled"),
        ("select * from read_text('/etc/passwd')", "file system operations are disabled"),
        ("select * from glob('/etc/*')", "file system operations are disabled"),
        ("select * from '/etc/passwd'", "does not exist"),
        ("select * from table", ""),
        ("select 1/0 + 'x'::int", "Conversion"),
        ("select getenv('HOME')", "getenv"),
    ],
)
def test_query_reads_the_table_and_nothing_else(filled: Interlock, sql: str, reason: str) -> None:
    run = filled("query", sql)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("error: query: ")
    assert reason in run.err
    assert sorted(path.name for path in filled.folder.iterdir()) == [".interlock", "priced.json"]


def test_query_of_a_lake_that_was_never_filled(interlock: Interlock) -> None:
    assert interlock("query", "select count(*) n from events").out == "n\n0\n"


def test_schema_is_registered_shown_and_grows(interlock: Interlock) -> None:
    file = interlock.folder / "t.json"
    file.write_text(json.dumps({"type": "T", "columns": [{"name": "a", "type": "long", "field": "A"}]}))
    assert interlock("schema", "register", "t.json").out == "T\tt\t1 columns\n"
    assert interlock("schema", "show", "T").out.splitlines() == [
        "type\tview\tcolumn\tfield\tcolumn type",
        "T\tt\ta\tA\tlong",
    ]
    file.write_text(json.dumps({"type": "T", "columns": [{"name": "b", "type": "long"}]}))
    refused = interlock("schema", "register", "t.json")
    assert (refused.code, refused.err) == (
        2,
        "error: columns: lacks 'a', which is registered; columns are never dropped\n",
    )
    assert interlock("schema", "show", "U").code == 2
    assert interlock("schema", "register", "none.json").code == 1
    assert interlock("schema", "register", "/dev/zero").err == "error: /dev/zero: it must be a regular file\n"
    file.write_text("{")
    assert interlock("schema", "register", "t.json").code == 2
