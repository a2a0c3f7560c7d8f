"""Declared columns: what a declaration may say, how it may grow, and what fits a column (FC-46)."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import Invalid
from domain.event_schema import (
    BASE_COLUMNS,
    MAX_COLUMNS,
    MAX_DEPTH,
    MOST_VIEWS,
    EventSchema,
    check_view,
    evolve,
    new_views,
    read_schema,
    schema_from,
    view_of,
)
from domain.typed_columns import compile_schema

WHOLE: dict[str, Any] = {
    "type": "FlightDelayed",
    "view": "delays",
    "columns": [
        {"name": "arrival_delay", "type": "long", "field": "arrivalDelay"},
        {"name": "fare", "type": "decimal(10,2)"},
        {"name": "crew", "type": {"list": {"struct": [{"name": "name", "type": "string"}]}}},
    ],
}


def declared(*columns: dict[str, Any], **more: Any) -> EventSchema:
    return schema_from({"type": "T", "columns": list(columns), **more})


def typed(type_: Any, value: Any) -> Any:
    found = compile_schema(declared({"name": "v", "type": type_}))({"v": value})
    assert found is not None
    return found["v"]


def test_a_declaration_is_written_as_it_was_read() -> None:
    schema = read_schema(json.dumps(WHOLE).encode())
    assert schema.to_json() == WHOLE
    assert schema_from(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"type": None}, "type"),
        ({"type": ""}, "type"),
        ({"type": "x" * 129}, "type"),
        ({"view": "Delays"}, "view"),
        ({"view": "events"}, "view"),
        ({"view": "time"}, "view"),
        ({"view": "x" * 64}, "view"),
        ({"columns": None}, "columns"),
        ({"columns": {}}, "columns"),
        ({"columns": [1]}, "columns[0]"),
        ({"columns": [{"name": "Id", "type": "long"}]}, "columns[0].name"),
        ({"columns": [{"name": "é", "type": "long"}]}, "columns[0].name"),
        ({"columns": [{"name": "1a", "type": "long"}]}, "columns[0].name"),
        ({"columns": [{"name": "a", "type": "long"}, {"name": "a", "type": "long"}]}, "columns[1].name"),
        ({"columns": [{"name": "time", "type": "timestamp"}]}, "columns[0].name"),
        ({"columns": [{"name": "a", "type": "int"}]}, "columns[0].type"),
        ({"columns": [{"name": "a"}]}, "columns[0].type"),
        ({"columns": [{"name": "a", "type": "decimal(39,2)"}]}, "columns[0].type"),
        ({"columns": [{"name": "a", "type": "decimal(2,3)"}]}, "columns[0].type"),
        ({"columns": [{"name": "a", "type": {"list": "int"}}]}, "columns[0].type.list"),
        ({"columns": [{"name": "a", "type": {"struct": []}}]}, "columns[0].type.struct"),
        ({"columns": [{"name": "a", "type": {"map": "long"}}]}, "columns[0].type"),
        ({"columns": [{"name": "a", "type": "long", "field": ""}]}, "columns[0].field"),
        ({"columns": [{"name": "a", "type": "long", "default": 1}]}, "columns[0].default"),
        ({"extra": 1}, "extra"),
    ],
)
def test_fc46_a_declaration_that_cannot_work_is_refused_with_the_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(Invalid) as caught:
        schema_from({**WHOLE, **change})
    assert caught.value.place == place


def test_declarations_are_bounded() -> None:
    columns = [{"name": f"c{number}", "type": "long"} for number in range(MAX_COLUMNS + 1)]
    assert len(declared(*columns[:-1]).columns) == MAX_COLUMNS
    with pytest.raises(Invalid, match="at most 500"):
        declared(*columns)
    deep: Any = "long"
    for _ in range(MAX_DEPTH - 1):
        deep = {"list": deep}
    declared({"name": "a", "type": deep})
    with pytest.raises(Invalid, match="nested deeper"):
        declared({"name": "a", "type": {"list": deep}})
    struct: Any = "long"
    for _ in range(MAX_DEPTH):
        struct = {"struct": [{"name": "a", "type": struct}]}
    with pytest.raises(Invalid, match="nested deeper"):
        declared({"name": "a", "type": struct})


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("string", "", ""),
        ("boolean", False, False),
        ("long", 2, 2),
        ("long", 2.0, 2),
        ("long", -(2**63), -(2**63)),
        ("double", 2, 2.0),
        ("double", 1.5, 1.5),
        ("decimal(4,2)", 1.5, Decimal("1.50")),
        ("decimal(4,2)", "99.99", Decimal("99.99")),
        ("decimal(4,2)", 7, Decimal("7.00")),
        ("decimal(38,2)", "123456789012345678901234567890123456.7", Decimal("123456789012345678901234567890123456.70")),
        ("decimal(38,0)", "-" + "9" * 38, Decimal("-" + "9" * 38)),
        ("date", "2013-01-31", date(2013, 1, 31)),
        ("timestamp", "2013-01-31T10:00:00.5+01:00", datetime(2013, 1, 31, 9, 0, 0, 500_000, tzinfo=UTC)),
        ("json", {"a": [1, None]}, '{"a":[1,null]}'),
        ("json", "x", '"x"'),
        ({"list": "double"}, [1, None, 2.5], [1.0, None, 2.5]),
        ({"struct": [{"name": "a", "type": "long", "field": "A"}]}, {"A": 1, "a": 2, "b": 3}, {"a": 1}),
        ("long", None, None),
    ],
)
def test_fc46_values_that_fit(type_: Any, value: Any, expected: Any) -> None:
    found = typed(type_, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("type_", "value", "place"),
    [
        ("string", 1, "data.v"),
        ("boolean", 1, "data.v"),
        ("boolean", "true", "data.v"),
        ("long", True, "data.v"),
        ("long", 2.5, "data.v"),
        ("long", 2**63, "data.v"),
        ("long", 1e300, "data.v"),
        ("long", "2", "data.v"),
        ("double", "x", "data.v"),
        ("double", True, "data.v"),
        ("decimal(4,2)", 1.234, "data.v"),
        ("decimal(4,2)", 100, "data.v"),
        ("decimal(4,2)", "NaN", "data.v"),
        ("decimal(4,2)", "1e999999999", "data.v"),
        ("decimal(4,2)", "x", "data.v"),
        ("decimal(4,2)", True, "data.v"),
        ("date", "2013-02-30", "data.v"),
        ("date", "20130131", "data.v"),
        ("date", "1969-12-31", "data.v"),
        ("timestamp", "2013-01-31T10:00:00", "data.v"),
        ("timestamp", 1359626400, "data.v"),
        ({"list": "long"}, 1, "data.v"),
        ({"list": "long"}, [1, "x"], "data.v[1]"),
        ({"struct": [{"name": "a", "type": "long", "field": "A"}]}, {"A": "x"}, "data.v.A"),
        ({"struct": [{"name": "a", "type": "long"}]}, [], "data.v"),
    ],
)
def test_fc46_values_that_do_not_fit_name_their_place_and_not_themselves(type_: Any, value: Any, place: str) -> None:
    with pytest.raises(Invalid) as caught:
        typed(type_, value)
    assert caught.value.place == place
    assert "as its column is declared" in caught.value.reason or "must" in caught.value.reason


def test_an_event_without_data_has_no_typed_columns() -> None:
    make = compile_schema(declared({"name": "v", "type": "long"}))
    assert make(None) is None
    assert make({}) == {"v": None}
    with pytest.raises(Invalid, match="data: must be a JSON object"):
        make([1])


def test_fc46_columns_are_added_at_any_depth() -> None:
    old = declared(
        {"name": "s", "type": {"list": {"struct": [{"name": "a", "type": "long"}, {"name": "z", "type": "long"}]}}}
    )
    inner = [{"name": name, "type": "long"} for name in ("a", "m", "z")]
    new = declared({"name": "t", "type": "string"}, {"name": "s", "type": {"list": {"struct": inner}}})
    assert evolve(old, new) == new


@pytest.mark.parametrize(
    ("new", "place"),
    [
        ({"columns": []}, "columns"),
        ({"columns": [{"name": "a", "type": "double"}]}, "columns[0].type"),
        ({"columns": [{"name": "a", "type": "long", "field": "A"}]}, "columns[0].field"),
        ({"columns": [{"name": "b", "type": "long"}]}, "columns"),
        ({"columns": [{"name": "a", "type": "long"}], "view": "other"}, "view"),
    ],
)
def test_fc46_columns_never_change_or_go_away(new: dict[str, Any], place: str) -> None:
    old = declared({"name": "a", "type": "long"})
    with pytest.raises(Invalid) as caught:
        evolve(old, schema_from({"type": "T", **new}))
    assert caught.value.place == place


def test_a_view_may_get_another_name_while_it_has_no_columns() -> None:
    assert evolve(declared(), declared({"name": "a", "type": "long"}, view="other")).view == "other"


@pytest.mark.parametrize(
    ("type_", "view"),
    [
        ("FlightDelayed", "flight_delayed"),
        ("com.acme.OrderPlaced", "com_acme_order_placed"),
        ("HTTPRequest2xx", "httprequest2xx"),
        ("a--b", "a_b"),
    ],
)
def test_views_are_named_after_types(type_: str, view: str) -> None:
    assert view_of(type_) == view


@given(st.text(min_size=1, max_size=128))
def test_any_type_gives_a_legal_view(type_: str) -> None:
    view = view_of(type_)
    assert schema_from({"type": type_, "view": view, "columns": []}).view == view
    assert view not in BASE_COLUMNS


def test_views_of_types_that_are_seen_never_meet_and_are_bounded() -> None:
    known = {"A.b": EventSchema("A.b", "a_b", ())}
    found = new_views(known, ["a b", "A.b", "a-b", "events"])
    assert [schema.type for schema in found] == ["a b", "a-b", "events"]
    assert len({"a_b", *(schema.view for schema in found)}) == 4
    assert len(new_views(known, [f"t{number}" for number in range(MOST_VIEWS + 5)])) == MOST_VIEWS - 1


def test_a_view_belongs_to_one_type() -> None:
    known = {"A": EventSchema("A", "a", ())}
    check_view(known, EventSchema("A", "a", ()))
    with pytest.raises(Invalid, match="another event type's"):
        check_view(known, EventSchema("B", "a", ()))
