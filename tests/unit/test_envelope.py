"""Each rule of CONTRACTS § 1, broken one by one and kept at its boundary."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from functools import partial
from typing import Any

import pytest
from pydantic import JsonValue

from domain.envelope import (
    MAX_BATCH,
    MAX_EVENT_BYTES,
    Envelope,
    check_size,
    envelope_from,
    framed_digest,
    read_batch,
    read_envelope,
    require_subject,
    with_time,
)
from domain.errors import Invalid, Malformed, TooLarge
from domain.eventbridge import strictly_from_eventbridge
from domain.messages import EventIngested, ingested_message, read_message
from domain.times import format_time
from tests.examples import START, an_envelope


class Absent(Enum):
    """Marks a field to leave out; an enum, so that a test's name is the same in every process."""

    FIELD = auto()


ABSENT = Absent.FIELD
CONTROL = "must not hold control characters"
URI = "must be a URI reference (RFC 3986)"


def attributes(**changes: Any) -> dict[str, Any]:
    """Give a legal event as JSON; a change to `ABSENT` leaves the attribute out."""
    event = {
        "specversion": "1.0",
        "id": "e1",
        "source": "/flights/nyc",
        "type": "FlightDelayed",
        "subject": "N14228",
        "time": "2026-01-01T10:00:00Z",
        "data": {"minutes": 42},
        **changes,
    }
    return {name: value for name, value in event.items() if value is not ABSENT}


def readers(event: dict[str, Any], now: datetime | None = None) -> list[Callable[[], Envelope]]:
    """Give the two ways in: the wire form, and an event out of a batch that was read before."""
    raw = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    return [partial(read_envelope, raw, now), partial(envelope_from, event, now)]


BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"specversion": ABSENT}, "specversion", "is required"),
    ({"specversion": "1.1"}, "specversion", "must be '1.0'"),
    ({"specversion": "0.3"}, "specversion", "must be '1.0'"),
    ({"specversion": 1.0}, "specversion", "must be '1.0'"),
    ({"specversion": None}, "specversion", "must be '1.0'"),
    ({"id": ABSENT}, "id", "is required"),
    ({"id": ""}, "id", "must not be empty"),
    ({"id": "x" * 129}, "id", "must have at most 128 characters"),
    ({"id": "é" * 129}, "id", "must have at most 128 characters"),
    ({"id": 7}, "id", "must be a string"),
    ({"id": None}, "id", "must be a string"),
    ({"id": True}, "id", "must be a string"),
    ({"id": ["e1"]}, "id", "must be a string"),
    ({"id": "a\nb"}, "id", CONTROL),
    ({"id": "a\n"}, "id", CONTROL),
    ({"id": "\x00"}, "id", CONTROL),
    ({"id": "a\x7f"}, "id", CONTROL),
    ({"id": "a\x85"}, "id", CONTROL),
    ({"source": ABSENT}, "source", "is required"),
    ({"source": ""}, "source", "must not be empty"),
    ({"source": "s" * 257}, "source", "must have at most 256 characters"),
    ({"source": 1}, "source", "must be a string"),
    ({"source": "two words"}, "source", URI),
    ({"source": "/é"}, "source", URI),
    ({"source": "/%zz"}, "source", URI),
    ({"source": "/%4"}, "source", URI),
    ({"source": "/a\n"}, "source", URI),
    ({"source": '/"x"'}, "source", URI),
    ({"type": ABSENT}, "type", "is required"),
    ({"type": ""}, "type", "must not be empty"),
    ({"type": "T" * 129}, "type", "must have at most 128 characters"),
    ({"type": 5}, "type", "must be a string"),
    ({"type": "T\t"}, "type", CONTROL),
    ({"subject": ""}, "subject", "must not be empty"),
    ({"subject": "s" * 257}, "subject", "must have at most 256 characters"),
    ({"subject": 5}, "subject", "must be a string"),
    ({"subject": "a\x1f"}, "subject", CONTROL),
    ({"time": ""}, "time", "must be an RFC 3339 time with an offset"),
    ({"time": "2026-01-01T10:00:00"}, "time", "must be an RFC 3339 time with an offset"),
    ({"time": "yesterday"}, "time", "must be an RFC 3339 time with an offset"),
    ({"time": 1654646400}, "time", "must be a string"),
    ({"time": True}, "time", "must be a string"),
    ({"time": "2016-12-31T23:59:60Z"}, "time", "a leap second cannot be stored"),
    ({"time": "2026-02-30T00:00:00Z"}, "time", "is not a date and time of the calendar"),
    ({"time": "1969-12-31T23:59:59.999999Z"}, "time", "must lie in the years 1970 to 2200"),
    ({"time": "2201-01-01T00:00:00Z"}, "time", "must lie in the years 1970 to 2200"),
    ({"datacontenttype": 1}, "datacontenttype", "must be a string"),
    ({"datacontenttype": ""}, "datacontenttype", "must not be empty"),
    ({"dataschema": "not a uri"}, "dataschema", URI),
    ({"dataschema": 1}, "dataschema", "must be a string"),
    ({"traceParent": "x"}, "traceParent", "is no attribute name"),
    ({"trace-parent": "x"}, '["trace-parent"]', "is no attribute name"),
    ({"trace_parent": "x"}, "trace_parent", "is no attribute name"),
    ({"tracé": "x"}, "tracé", "is no attribute name"),
    ({"": "x"}, '[""]', "is no attribute name"),
    ({"a\n": "x"}, '["a\\n"]', "is no attribute name"),
]


@pytest.mark.parametrize(("change", "place", "reason"), BROKEN, ids=[ascii(case[0])[:60] for case in BROKEN])
def test_each_rule_broken_alone_is_refused_with_its_place(change: dict[str, Any], place: str, reason: str) -> None:
    event = attributes(**change)
    for refused in readers(event):
        with pytest.raises(Invalid, match=re.escape(reason)) as caught:
            refused()
        assert caught.value.place == place
        assert caught.value.steps == (next(iter(change)),)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "x"},
        {"id": "x" * 128},
        {"id": "😀" * 128},
        {"id": " "},
        {"id": "a#b/c\\d"},
        {"source": "s" * 256},
        {"source": "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"},
        {"source": "https://example.org/a?b=c#d"},
        {"source": "/%C3%A9"},
        {"type": "T" * 128},
        {"type": "日本"},
        {"subject": ABSENT},
        {"subject": None},
        {"subject": "s" * 256},
        {"time": ABSENT},
        {"time": None},
        {"time": "1970-01-01T00:00:00Z"},
        {"time": "2200-12-31T23:59:59.999999Z"},
        {"time": "2026-01-01t10:00:00.1234567-00:00"},
        {"data": ABSENT},
        {"data": None},
        {"data": "text"},
        {"data": 0},
        {"data": False},
        {"data": []},
        {"data": {"id": 1, "": {}}},
        {"datacontenttype": "application/json"},
        {"dataschema": "https://example.org/schema"},
        {"traceparent": "00-1"},
        {"a1": [1, {"b": None}], "copy": "x", "json": 1.5, "self": True, "schema": {}},
    ],
    ids=lambda change: ascii(change)[:60],
)
def test_each_boundary_is_taken_and_comes_back_as_it_came(change: dict[str, Any]) -> None:
    event = attributes(**change)
    for envelope in (read_envelope(json.dumps(event).encode()), envelope_from(event)):
        assert json.loads(envelope.to_json()) == event
        assert envelope.attributes() == event


def test_r105_the_subject_is_required_on_the_lifecycle_path_only() -> None:
    assert require_subject(an_envelope()) == "N14228"
    for subject in (ABSENT, None):
        envelope = envelope_from(attributes(subject=subject))
        with pytest.raises(Invalid, match="is required") as caught:
            require_subject(envelope)
        assert caught.value.place == "subject"


def test_times_are_at_most_24_hours_ahead_of_the_clock() -> None:
    for ahead, accepted in ((timedelta(hours=24), True), (timedelta(hours=24, microseconds=1), False)):
        event = attributes(time=format_time(START + ahead))
        for read in readers(event, START):
            if accepted:
                assert read().occurred_at == START + ahead
            else:
                with pytest.raises(Invalid, match="at most 24 hours ahead") as caught:
                    read()
                assert caught.value.place == "time"


def test_a_time_is_read_in_utc_and_kept_as_it_came() -> None:
    envelope = an_envelope(time="2026-01-01t12:00:00.5+02:00")
    assert envelope.occurred_at == datetime(2026, 1, 1, 10, 0, 0, 500000, tzinfo=UTC)
    assert envelope.time == "2026-01-01t12:00:00.5+02:00"
    assert envelope_from(attributes(time=ABSENT)).occurred_at is None


def test_an_absent_time_becomes_the_time_of_arrival() -> None:
    absent = envelope_from(attributes(time=ABSENT, traceparent="00-1"))
    assert with_time(absent, START).attributes() == attributes(time=format_time(START), traceparent="00-1")
    present = an_envelope()
    assert with_time(present, START) is present


def sized(size: int, character: str = "x", **changes: Any) -> bytes:
    """Give an event of exactly so many bytes."""
    empty = json.dumps(attributes(data="", **changes), ensure_ascii=False, separators=(",", ":")).encode()
    width = len(character.encode())
    filler = character * ((size - len(empty)) // width) + "y" * ((size - len(empty)) % width)
    raw = json.dumps(attributes(data=filler, **changes), ensure_ascii=False, separators=(",", ":")).encode()
    assert len(raw) == size
    return raw


@pytest.mark.parametrize("character", ["x", "é", "😀"])
def test_fc33_the_whole_event_has_at_most_256_kib_as_utf8(character: str) -> None:
    fits = sized(MAX_EVENT_BYTES, character)
    assert read_envelope(fits) == envelope_from(json.loads(fits))
    large = sized(MAX_EVENT_BYTES + 1, character)
    for refused in readers(json.loads(large)):
        with pytest.raises(TooLarge, match="is 262145 bytes; the limit is 262144") as caught:
            refused()
        assert (caught.value.size, caught.value.limit) == (MAX_EVENT_BYTES + 1, MAX_EVENT_BYTES)


def test_fc33_size_is_checked_before_the_text_is_read() -> None:
    with pytest.raises(TooLarge):
        read_envelope(b"\xff" * (MAX_EVENT_BYTES + 1))


def test_fc33_limits_are_settings() -> None:
    check_size(10, 10)
    with pytest.raises(TooLarge, match="is 11 bytes; the limit is 10"):
        check_size(11, 10)


@pytest.mark.parametrize(
    "raw",
    [
        sized(MAX_EVENT_BYTES, time=ABSENT),
        json.dumps(attributes(data=["X"])).replace('"X"', ",".join(["1e15"] * 40_000)).encode(),
        json.dumps(attributes(data="\ufffe" * 80_000), ensure_ascii=False).encode(),
        json.dumps(attributes(data=["X"])).replace('"X"', "[" * 62 + "]" * 62).encode(),
    ],
    ids=["no time", "numbers that grow", "characters that grow", "64 levels deep"],
)
def test_what_ingestion_accepts_the_consumer_reads(raw: bytes) -> None:
    """An event at a limit gets larger and deeper inside its message; refused there, it would poison its group."""
    envelope = with_time(read_envelope(raw), START)
    assert read_message(ingested_message(envelope).body) == EventIngested(envelope)


@pytest.mark.parametrize(
    ("name", "opening", "leaf", "closing"),
    [("data", "[", "", "]"), ("data", '{"a":', "1", "}"), ("ext", "[", "", "]"), ("ext", '{"a":', "1", "}")],
)
def test_an_event_may_be_64_levels_deep_in_every_wrapping(name: str, opening: str, leaf: str, closing: str) -> None:
    for depth, accepted in ((63, True), (64, False)):
        value = opening * depth + leaf + closing * depth
        raw = json.dumps(attributes(**{name: "X"})).replace('"X"', value).encode()
        message = '{"kind":"event_ingested","event":' + raw.decode() + "}"
        if accepted:
            envelope = read_envelope(raw)
            assert [envelope_from(event) for event in read_batch(b"[" + raw + b"]")] == [envelope]
            assert read_message(message) == EventIngested(envelope)
        else:
            for refused in (
                lambda raw=raw: read_envelope(raw),
                lambda raw=raw: read_batch(b"[" + raw + b"]"),
                lambda message=message: read_message(message),
            ):
                with pytest.raises(Malformed, match="nested deeper than 64 levels"):
                    refused()


@pytest.mark.parametrize(
    ("raw", "place", "reason"),
    [
        (b'{"specversion":"1.0","id":"a","id":"a","source":"/s","type":"T"}', "id", "is a duplicate key"),
        (b'{"specversion":"1.0","id":"a","source":"/s","type":"T","x":1,"x" :1}', "x", "is a duplicate key"),
        (b'{"specversion":"1.0","id":"a\\"","source":"/s","type":"T","data":{"k":1,"k":2}}', "data.k", "duplicate"),
        (b'{"specversion":"1.0","id":"a","source":"/s","type":"T","data":{"a":[{"p":NaN}]}}', "data.a[0].p", "NaN"),
        (b'{"specversion":"1.0","id":"a","source":"/s","type":"T","data":[1,1e400]}', "data[1]", "outside the range"),
        (b'{"specversion":"1.0","id":"a","source":"/s","type":"T","ext":12345678901234567}', "ext", "longer than"),
        (b'{"specversion":"1.0","id":"\\ud800","source":"/s","type":"T"}', "id", "half of a surrogate pair"),
        (b"[]", "", "must be a JSON object"),
        (b'"event"', "", "must be a JSON object"),
        (b"null", "", "must be a JSON object"),
    ],
)
def test_fc28_the_strict_reader_guards_the_wire_form(raw: bytes, place: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as caught:
        read_envelope(raw)
    assert caught.value.place == place


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30.40", 30.4),
        ("0.30000000000000004", 0.1 + 0.2),
        ("1e-7", 1e-7),
        ("true", True),
        ('""', ""),
        ("[]", []),
        ("{}", {}),
    ],
)
def test_fc28_json_goes_in_and_comes_out_equal(text: str, value: object) -> None:
    envelope = read_envelope(json.dumps(attributes(data="X")).replace('"X"', text).encode())
    assert envelope.data == value
    assert type(envelope.data) is type(value)
    again = read_envelope(envelope.to_json().encode())
    assert again == envelope
    assert type(again.data) is type(value)


@pytest.mark.parametrize("text", [str(10**40), "NaN", "Infinity", "-Infinity", "1e400", "1" * 39])
def test_fc28_what_a_double_cannot_hold_is_refused_with_its_path(text: str) -> None:
    raw = json.dumps(attributes(data={"items": [0, {"price": "X"}]})).replace('"X"', text).encode()
    with pytest.raises(Invalid) as caught:
        read_envelope(raw)
    assert caught.value.place == "data.items[1].price"


@pytest.mark.parametrize("value", [None, "x", 1, [], ["x"]])
def test_an_event_of_a_batch_must_be_an_object(value: Any) -> None:
    with pytest.raises(Invalid, match="must be a JSON object"):
        envelope_from(value)


def test_a_batch_is_an_array_of_1_to_1000() -> None:
    assert len(read_batch(b"[" + b",".join([b"1"] * MAX_BATCH) + b"]")) == MAX_BATCH
    for raw, reason in (
        (b"{}", "must be a JSON array"),
        (b"null", "must be a JSON array"),
        (b"[]", "not 0"),
        (b"[" + b",".join([b"1"] * (MAX_BATCH + 1)) + b"]", "not 1001"),
    ):
        with pytest.raises(Invalid, match=reason):
            read_batch(raw)


EVENTBRIDGE: dict[str, Any] = {
    "version": "0",
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "EC2 Instance State-change Notification",
    "source": "aws.ec2",
    "account": "111122223333",
    "time": "2026-01-01T10:00:00Z",
    "region": "us-west-1",
    "resources": ["arn:aws:ec2:us-west-1:111122223333:instance/i-1"],
    "detail": {"instance-id": "i-1", "state": "terminated"},
}


def test_an_eventbridge_event_maps_to_the_envelope() -> None:
    """CONTRACTS § 1: type = detail-type, data = detail, the rest extensions."""
    assert strictly_from_eventbridge({**EVENTBRIDGE, "replay-name": "r1"}).attributes() == {
        "specversion": "1.0",
        "id": EVENTBRIDGE["id"],
        "type": "EC2 Instance State-change Notification",
        "source": "aws.ec2",
        "time": "2026-01-01T10:00:00Z",
        "data": EVENTBRIDGE["detail"],
        "account": "111122223333",
        "region": "us-west-1",
        "resources": EVENTBRIDGE["resources"],
        "replayname": "r1",
    }


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("change", "path", "reason"),
    [
        ({"detail-type": ""}, ("detail-type",), "must not be empty"),
        ({"detail-type": "T" * 129}, ("detail-type",), "at most 128 characters"),
        ({"detail-type": 5}, ("detail-type",), "must be a string"),
        ({"detail-type": ABSENT}, ("detail-type",), "is required"),
        ({"id": ABSENT}, ("id",), "is required"),
        ({"source": "my app"}, ("source",), "URI reference"),
        ({"time": 5}, ("time",), "must be a string"),
        ({"Odd": 1}, ("Odd",), "is no attribute name"),
        ({"detail": {"x": [1, float("nan")]}}, ("detail", "x", 1), "NaN and Infinity"),
        ({"detail": float("inf")}, ("detail",), "NaN and Infinity"),
        ({"detail": {"n": 10**40}}, ("detail", "n"), "longer than a double"),
        ({"detail": {"s": "\ud800"}}, ("detail", "s"), "half of a surrogate pair"),
        ({"detail": {"\udfff": 1}}, ("detail",), "half of a surrogate pair"),
        ({"detail": nested(65)}, ("detail", *[0] * 63), "nested deeper than 64"),
        ({"detail": nested(20_000)}, (), "nested deeper than 64"),
        ({"detail": "x" * MAX_EVENT_BYTES}, (), "the limit is 262144"),
    ],
    ids=lambda value: ascii(value)[:40] if isinstance(value, dict) and "detail" not in value else None,
)
def test_fc28_an_eventbridge_event_is_held_to_the_same_rules(
    change: dict[str, Any], path: tuple[str | int, ...], reason: str
) -> None:
    """The Lambda runtime reads leniently: NaN and half surrogates reach us as values. Places are EventBridge's own."""
    event = {name: value for name, value in {**EVENTBRIDGE, **change}.items() if value is not ABSENT}
    with pytest.raises(Invalid, match=reason) as caught:
        strictly_from_eventbridge(event)
    assert caught.value.steps == path


def test_digests_are_framed_so_that_no_two_lists_of_parts_meet() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("a", "b", "c"), ('a","b',), ("", "abc"), ("abc", ""), ()]
    assert len({framed_digest(*each) for each in parts}) == len(parts)
    assert framed_digest("event_ingested", "/s", "é") == (
        "528c47d8ec29324356893b700385367bbd7288e80806ff6dbdfa349883384ec0"
    )


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"data_base64": "aGk="}, None),
        ({"data_base64": ""}, None),
        ({"data_base64": "aGk"}, "must be base64"),
        ({"data_base64": "aG k="}, "must be base64"),
        ({"data_base64": 5}, "must be base64"),
        ({"data_base64": None}, "must be base64"),
        ({"data_base64": "aGk=", "data": 1}, "excludes 'data'"),
    ],
    ids=ascii,
)
def test_binary_data_is_base64_text_in_the_place_of_data(more: dict[str, JsonValue], reason: str | None) -> None:
    event: dict[str, JsonValue] = {"specversion": "1.0", "id": "e1", "source": "/s", "type": "T", **more}
    raw = json.dumps(event).encode()
    if reason is None:
        assert read_envelope(raw).attributes() == event
        assert envelope_from(event).attributes() == event
        return
    readers: list[Callable[[], object]] = [lambda: read_envelope(raw), lambda: envelope_from(event)]
    for read in readers:
        with pytest.raises(Invalid, match=reason) as caught:
            read()
        assert caught.value.place == "data_base64"
