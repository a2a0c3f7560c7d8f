"""The daily rule: from a line to rows and rejections (R-506)."""

import base64
import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.daily import Rule, days_to_load, order_of, quarantine_of
from domain.errors import Malformed
from domain.event_schema import schema_from
from domain.intake import RawMessage, split_lines, write_line
from domain.times import format_time
from tests import nasty

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
RULE = Rule([schema_from({"type": "Priced", "columns": [{"name": "v", "type": "double"}]})])


def an_event(**attributes: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "e1", "source": "/shop", "type": "Priced", **attributes}


def line(body: object) -> bytes:
    return write_line(RawMessage("m1", NOON, 1, body if isinstance(body, str) else json.dumps(body)))


def test_r506_an_event_without_a_time_happened_when_it_arrived() -> None:
    (row,), rejected = RULE.rows(line(an_event()))
    assert (row.time, row.arrived_at, rejected) == (NOON, NOON, None)


def test_null_data_and_no_data_are_two_things() -> None:
    assert [RULE.rows(line(event))[0][0].data for event in (an_event(), an_event(data=None))] == [None, "null"]


@pytest.mark.parametrize("data", [{"v": 1, "x": "é"}, [1, 2.5, None], "text", True, 0.1, {"a": {"b": []}}])
def test_data_is_kept_as_json_text(data: Any) -> None:
    (row,), _ = Rule().rows(line(an_event(data=data)))
    assert row.data is not None
    assert json.loads(row.data) == data
    assert row.typed is None


def test_binary_data_is_kept_among_the_extensions() -> None:
    packed = base64.b64encode(b"\x00\x01").decode()
    (row,), _ = RULE.rows(line(an_event(data_base64=packed)))
    assert (row.data, json.loads(row.extensions or "")) == (None, {"data_base64": packed})


def test_each_event_of_a_batch_keeps_its_place() -> None:
    batch = [an_event(id="a"), an_event(id=""), an_event(id="c", data={"v": "x"}), an_event(id="d")]
    rows, rejected = RULE.rows(line(batch))
    assert [(row.id, row.position) for row in rows] == [("a", 0), ("d", 3)]
    assert rejected is not None
    assert [str(one) for one in rejected.rejections] == [
        "[1].id: must not be empty",
        "[2].data.v: must be a number, as its column is declared",
    ]
    kept = json.loads(rejected.line())
    assert kept["reason"] == "[1].id: must not be empty (and 1 more events)"
    assert (kept["stage"], kept["message_id"], kept["body"]) == ("validate", "m1", json.dumps(batch))


def test_a_batch_of_only_bad_events_gives_no_row() -> None:
    rows, rejected = RULE.rows(line([an_event(id=""), an_event(time="yesterday")]))
    assert rows == []
    assert rejected is not None
    assert len(rejected.rejections) == 2


@pytest.mark.parametrize("broken", [b"", b"{", b"null", b"{}", b'{"message_id":1}', b"\xff"])
def test_a_line_that_is_none_means_a_damaged_object(broken: bytes) -> None:
    with pytest.raises(Malformed):
        RULE.rows(broken)


def test_quarantine_is_named_by_its_messages_alone() -> None:
    rejected = [RULE.rows(write_line(RawMessage(f"m{number}", NOON, 1, "{")))[1] for number in range(3)]
    kept = [one for one in rejected if one is not None]
    name, content = quarantine_of(kept)
    assert name == quarantine_of(reversed(kept))[0]
    assert name.startswith("quarantine/date=2026-01-31/")
    assert len(split_lines(content)) == 3


def test_days_to_load() -> None:
    assert days_to_load(date(2026, 3, 1), 2) == [date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1)]
    assert days_to_load(date(2026, 3, 1), 0) == [date(2026, 3, 1)]


@given(st.integers(0, 2**32))
def test_any_message_gives_rows_and_rejections_that_add_up_and_the_same_again(seed: int) -> None:
    rule = Rule(nasty.SCHEMAS)
    for message in nasty.messages(20, seed):
        rows, rejected = rule.rows(write_line(message))
        assert (rows, rejected) == rule.rows(write_line(message))
        refused = 0 if rejected is None else len(rejected.rejections)
        assert len(rows) + refused >= 1
        assert len({row.position for row in rows}) == len(rows)
        assert [order_of(row) for row in rows] == sorted(order_of(row) for row in rows)
        for row in rows:
            assert len(format_time(row.time)) == 27
        if rejected is not None:
            assert json.loads(rejected.line())["body"] == message.body
