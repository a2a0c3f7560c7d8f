import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from domain.errors import Invalid
from domain.times import EARLIEST, LATEST, check_not_ahead, format_time, from_milliseconds, parse_time
from tests.examples import START

NOT_RFC3339 = "must be an RFC 3339 time with an offset"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-01-01T05:15:00Z", "2013-01-01T05:15:00.000000Z"),
        ("2013-01-01T05:15:00-05:00", "2013-01-01T10:15:00.000000Z"),
        ("2013-01-01T05:15:00+02:00", "2013-01-01T03:15:00.000000Z"),
        ("2013-01-01t05:15:00z", "2013-01-01T05:15:00.000000Z"),
        ("2013-01-01T05:15:00-00:00", "2013-01-01T05:15:00.000000Z"),
        ("2013-01-01T05:15:00+23:59", "2012-12-31T05:16:00.000000Z"),
        ("2013-01-01T05:15:00.1Z", "2013-01-01T05:15:00.100000Z"),
        ("2013-01-01T05:15:00.123456Z", "2013-01-01T05:15:00.123456Z"),
        ("2013-01-01T05:15:00.1234567Z", "2013-01-01T05:15:00.123456Z"),
        ("2013-01-01T23:59:59.999999999999Z", "2013-01-01T23:59:59.999999Z"),
        (f"2013-01-01T05:15:00.{'9' * 32}+00:00", "2013-01-01T05:15:00.999999Z"),
        ("2012-02-29T00:00:00Z", "2012-02-29T00:00:00.000000Z"),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        ("1969-12-31T23:30:00-01:00", "1970-01-01T00:30:00.000000Z"),
        ("2200-12-31T23:59:59.999999Z", "2200-12-31T23:59:59.999999Z"),
        ("2201-01-01T00:30:00+01:00", "2200-12-31T23:30:00.000000Z"),
    ],
)
def test_rfc3339_times_are_read_into_one_fixed_width_in_utc(text: str, expected: str) -> None:
    moment = parse_time(text)
    assert moment.utcoffset() == timedelta(0)
    assert format_time(moment) == expected
    assert len(format_time(moment)) == 27


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", NOT_RFC3339),
        ("2013-01-01", NOT_RFC3339),
        ("2013-01-01T05:15:00", NOT_RFC3339),
        ("2013-01-01 05:15:00Z", NOT_RFC3339),
        ("2013-01-01T05:15Z", NOT_RFC3339),
        ("2013-01-01T05:15:00,5Z", NOT_RFC3339),
        ("2013-01-01T05:15:00.Z", NOT_RFC3339),
        (f"2013-01-01T05:15:00.{'9' * 33}Z", NOT_RFC3339),
        ("2013-1-1T05:15:00Z", NOT_RFC3339),
        ("20130101T051500Z", NOT_RFC3339),
        ("2013-W01-1T05:15:00Z", NOT_RFC3339),
        ("2013-01-01T05:15:00+0500", NOT_RFC3339),
        ("2013-01-01T05:15:00+05", NOT_RFC3339),
        ("2013-01-01T05:15:00+05:75", NOT_RFC3339),
        ("2013-01-01T05:15:00+24:00", NOT_RFC3339),
        ("2013-01-01T24:00:00Z", NOT_RFC3339),
        ("2013-01-01T05:60:00Z", NOT_RFC3339),
        ("2013-01-01T05:15:00Z\n", NOT_RFC3339),
        (" 2013-01-01T05:15:00Z", NOT_RFC3339),
        ("\uff12013-01-01T05:15:00Z", NOT_RFC3339),
        ("+2013-01-01T05:15:00Z", NOT_RFC3339),
        ("12013-01-01T05:15:00Z", NOT_RFC3339),
        ("2016-12-31T23:59:60Z", "a leap second cannot be stored"),
        ("2013-01-01T05:15:60.5Z", "a leap second cannot be stored"),
        ("2013-01-01T05:15:61Z", "is not a date and time of the calendar"),
        ("2013-02-29T05:15:00Z", "is not a date and time of the calendar"),
        ("2013-13-01T05:15:00Z", "is not a date and time of the calendar"),
        ("2013-00-01T05:15:00Z", "is not a date and time of the calendar"),
        ("0000-01-01T05:15:00Z", "is not a date and time of the calendar"),
        ("0001-01-01T00:00:00+01:00", "is not a date and time of the calendar"),
        ("9999-12-31T23:59:59-01:00", "is not a date and time of the calendar"),
        ("1969-12-31T23:59:59.999999Z", "must lie in the years 1970 to 2200"),
        ("1970-01-01T00:30:00+01:00", "must lie in the years 1970 to 2200"),
        ("2201-01-01T00:00:00Z", "must lie in the years 1970 to 2200"),
        ("2200-12-31T23:30:00-01:00", "must lie in the years 1970 to 2200"),
    ],
)
def test_everything_else_is_refused_with_the_rule(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as caught:
        parse_time(text, "requested_at")
    assert caught.value.place == "requested_at"


@pytest.mark.parametrize(
    "value",
    [
        1654646400,
        1654646400123,
        "1654646400123",
        3600000,
        20000000001,
        1708008041006122940,
        -1,
        True,
        "1e3",
        "+1654646400",
        15000000000,
        "1654646400",
        1654646400.5,
        None,
        START,
    ],
)
def test_fc58_numbers_are_never_taken_for_times(value: object) -> None:
    """FC-58: a unit is never guessed; numbers, numbers in text and booleans are refused."""
    with pytest.raises(Invalid, match=NOT_RFC3339):
        parse_time(value)


def test_fc54_text_order_is_time_order_for_every_pair_of_the_case() -> None:
    """FC-54: with a varying number of fraction digits these change places as text."""
    ordered = [
        ["2026-01-01T07:05:28.991Z", "2026-01-01T07:05:29Z", "2026-01-01T07:05:29.017Z"],
        ["2026-01-01T12:00:00.1Z", "2026-01-01T12:00:00.15Z"],
        ["2026-01-01T13:30:00+02:00", "2026-01-01T12:00:00Z"],
    ]
    for texts in ordered:
        assert texts != sorted(texts)
        written = [format_time(parse_time(text)) for text in texts]
        assert written == sorted(written)
        assert {len(text) for text in written} == {27}


def test_fc54_a_time_without_a_fraction_has_the_same_width() -> None:
    assert format_time(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00.000000Z"
    assert format_time(EARLIEST) < format_time(LATEST)


def test_format_takes_any_offset_and_refuses_none() -> None:
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(east) == "2026-01-01T00:00:00.000000Z"
    with pytest.raises(Invalid, match="has no offset"):
        format_time(east.replace(tzinfo=None))


def test_at_most_24_hours_ahead_of_the_clock_to_the_microsecond() -> None:
    ahead = START + timedelta(hours=24)
    check_not_ahead(ahead, START)
    check_not_ahead(START - timedelta(days=20000), START)
    with pytest.raises(Invalid, match=re.escape("must be at most 24 hours ahead of the clock")) as caught:
        check_not_ahead(ahead + timedelta(microseconds=1), START, "requested_at")
    assert caught.value.place == "requested_at"


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1767268800123, "2026-01-01T12:00:00.123000Z"),
        (3600000, "1970-01-01T01:00:00.000000Z"),
        (7289654399999, "2200-12-31T23:59:59.999000Z"),
    ],
)
def test_fc58_milliseconds_are_read_in_their_declared_unit(count: int, expected: str) -> None:
    assert format_time(from_milliseconds(count)) == expected


@pytest.mark.parametrize("count", [-1, 7289654400000, 1708008041006122940])
def test_fc58_what_milliseconds_would_not_be_is_refused(count: int) -> None:
    with pytest.raises(Invalid, match="SentTimestamp: must be milliseconds since 1970"):
        from_milliseconds(count, "SentTimestamp")
