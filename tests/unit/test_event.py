import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.errors import BadCursor, Invalid
from domain.event import (
    Head,
    ListQuery,
    Position,
    check_query,
    event_ids,
    fact_key,
    first_head,
    ingest_command_id,
    list_key,
    read_cursor,
    recorded,
    write_cursor,
)
from domain.times import format_time, parse_time
from tests.examples import START, a_record, an_envelope, facts_of, head_after

QUERY = ListQuery(state="open", entity="N14228", earliest=START, latest=START + timedelta(days=1))


def a_head(event_id: str = "e1") -> Head:
    return head_after(a_record(event_id), facts_of(event_id, 1)[0])


def test_an_event_has_its_own_id_and_a_second_one_that_no_envelope_can_have() -> None:
    first, second = event_ids(an_envelope("e1", source="/s"))
    assert first == "e1"
    assert len(second) == 129
    assert event_ids(an_envelope("e1", source="/s")) == (first, second)
    with pytest.raises(Invalid):
        an_envelope(second)


def test_second_ids_and_command_ids_are_framed() -> None:
    pairs = [("/a", "b"), ("/", "ab"), ("/a,", "b"), ("/ab", "b"), ("/a'", "b"), ("b", "/a")]
    envelopes = [an_envelope(event_id, source=source) for source, event_id in pairs]
    assert len({event_ids(envelope)[1] for envelope in envelopes}) == len(pairs)
    assert len({ingest_command_id(envelope) for envelope in envelopes}) == len(pairs)


def test_r110_the_command_id_is_the_same_for_every_copy() -> None:
    assert ingest_command_id(an_envelope(data=1)) == ingest_command_id(an_envelope(data=2, entity="other"))


def test_a_record_and_a_first_head_need_a_subject() -> None:
    envelope = an_envelope(subject=None)
    with pytest.raises(Invalid, match="is required"):
        recorded(envelope, "e1", START)
    with pytest.raises(Invalid, match="is required"):
        first_head(envelope, "e1", "to_review", START)


def test_a_first_head_stands_at_zero_and_takes_its_arrival_where_it_has_no_time() -> None:
    timed = first_head(an_envelope(), "e1", "to_review", START)
    assert timed == Head(
        "e1", "N14228", "FlightDelayed", "/flights/nyc", datetime(2026, 1, 1, 10, tzinfo=UTC), "to_review", 0, START
    )
    assert first_head(an_envelope(time=None), "e1", "to_review", START).occurred_at == START


def test_fc54_sort_keys_order_by_time_and_then_by_tie_breaker() -> None:
    """FC-54: also numbers, which as text would put "10" before "9"."""
    moments = [
        "2026-01-01T07:05:28.991Z",
        "2026-01-01T07:05:29Z",
        "2026-01-01T07:05:29.017Z",
        "2026-01-01T10:00:00+02:00",
    ]
    times = [parse_time(text) for text in moments]
    facts = [fact_key(at, sequence) for at in times for sequence in (1, 2, 9, 10, 11, 99, 100, 10**9)]
    assert facts == sorted(set(facts))
    heads = [list_key(at, event_id) for at in times for event_id in ("", "#", "10", "9", "a", "~")]
    assert heads == sorted(set(heads))


def test_fc54_windows_include_both_ends() -> None:
    """FC-54: a key lies in a window of times exactly when its time does; ends are compared as text."""
    first, last = START, START + timedelta(minutes=1)
    inside = [first, first + timedelta(microseconds=1), last - timedelta(microseconds=1), last]
    outside = [first - timedelta(microseconds=1), last + timedelta(microseconds=1)]
    after_last = f"{format_time(last)}#\U0010ffff"
    for moment in inside:
        assert format_time(first) <= list_key(moment, "x" * 128) <= after_last
    for moment in outside:
        assert not format_time(first) <= list_key(moment, "x" * 128) <= after_last


@pytest.mark.parametrize(
    "query",
    [
        ListQuery(state="open"),
        ListQuery(entity="N14228"),
        ListQuery(entity="x" * 256, state="closed", descending=True),
        ListQuery(state="open", limit=1),
        ListQuery(state="open", limit=500),
        ListQuery(state="open", earliest=START, latest=START),
    ],
)
def test_r109_lists_that_an_index_answers_are_taken(query: ListQuery) -> None:
    check_query(query)


@pytest.mark.parametrize(
    ("query", "place", "reason"),
    [
        (ListQuery(), "state", "name a state or an entity"),
        (ListQuery(earliest=START), "state", "name a state or an entity"),
        (ListQuery(entity=""), "entity", "must have 1 to 256 characters"),
        (ListQuery(entity="x" * 257), "entity", "must have 1 to 256 characters"),
        (ListQuery(state="open", limit=0), "limit", "must lie between 1 and 500"),
        (ListQuery(state="open", limit=-1), "limit", "must lie between 1 and 500"),
        (ListQuery(state="open", limit=501), "limit", "must lie between 1 and 500"),
        (
            ListQuery(state="open", earliest=START + timedelta(microseconds=1), latest=START),
            "from",
            "must not be later",
        ),
    ],
)
def test_r109_other_lists_are_refused_with_the_parameter(query: ListQuery, place: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as caught:
        check_query(query)
    assert caught.value.place == place


def text_of(cursor: str) -> list[Any]:
    found: list[Any] = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    return found


def cursor_of(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_a_cursor_continues_its_query_at_any_limit() -> None:
    head = a_head()
    cursor = write_cursor(QUERY, head)
    assert cursor.isascii()
    assert not set(cursor) & set("+/=")
    for limit in (1, 50, 500):
        assert read_cursor(QUERY._replace(limit=limit), cursor) == QUERY._replace(
            limit=limit, after=Position(head.occurred_at, "e1")
        )


@pytest.mark.parametrize(
    "change",
    [
        {"state": "closed"},
        {"state": None},
        {"entity": "other"},
        {"entity": None},
        {"earliest": None},
        {"latest": START + timedelta(days=2)},
        {"descending": True},
    ],
)
def test_a_cursor_of_another_query_is_refused(change: dict[str, Any]) -> None:
    cursor = write_cursor(QUERY, a_head())
    with pytest.raises(BadCursor, match="belongs to another query"):
        read_cursor(QUERY._replace(**change), cursor)


def test_a_cursor_whose_position_was_changed_is_refused() -> None:
    occurred_at, event_id, digest = text_of(write_cursor(QUERY, a_head()))
    assert read_cursor(QUERY, cursor_of([occurred_at, event_id, digest])).after is not None
    for changed in (
        [format_time(START), event_id, digest],
        [occurred_at, "e2", digest],
        [occurred_at, event_id, "0" * 16],
        [occurred_at, event_id, ""],
        [occurred_at, event_id, None],
        [occurred_at, event_id, [digest]],
    ):
        with pytest.raises(BadCursor):
            read_cursor(QUERY, cursor_of(changed))


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "====",
        "e30",
        "é",
        "\ud800",
        "a b",
        "+/+/",
        "W10\n",
        cursor_of({}),
        cursor_of({"a": 1, "b": 2, "c": 3}),
        cursor_of("abc"),
        cursor_of([]),
        cursor_of([1, 2]),
        cursor_of([1, "e1", "x"]),
        cursor_of([format_time(START), 5, "x"]),
        cursor_of([format_time(START), None, "x"]),
        cursor_of([format_time(START), "\ud800", "x"]),
        cursor_of([format_time(START), "e" * 130, "x"]),
        cursor_of(["2026-01-01", "e1", "x"]),
        cursor_of([format_time(START), "e1", "x", "y"]),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        base64.urlsafe_b64encode(b"[" * 50_000).decode(),
        base64.urlsafe_b64encode(b"[1,2," + b"9" * 5000 + b"]").decode(),
        base64.urlsafe_b64encode(b"[1,2,NaN]").decode(),
        "A" * 100_000,
    ],
    ids=lambda cursor: ascii(cursor[:20]),
)
def test_text_that_is_no_cursor_is_refused_with_one_kind_of_error(cursor: str) -> None:
    with pytest.raises(BadCursor) as caught:
        read_cursor(QUERY, cursor)
    assert caught.value.place == "cursor"
