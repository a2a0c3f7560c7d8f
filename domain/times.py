"""The one time parser and the one time format (FC-54, FC-58).

Everything stored or compared as text is UTC with six fraction digits and `Z`, 27 characters,
so that order by text is order by time.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from domain.errors import Invalid

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
MAX_AHEAD = timedelta(hours=24)
_LATEST_MILLISECONDS = (LATEST - EARLIEST) // timedelta(milliseconds=1)

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?P<second>\d\d)(?P<fraction>\.\d{1,32})?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_LONGEST = 64
_FORM = "must be an RFC 3339 time with an offset, such as 2013-01-01T05:15:00Z"


def parse_time(text: object, place: str = "time") -> datetime:
    """Read an RFC 3339 time with an offset (RFC 3339 § 5.6; CONTRACTS § 1).

    Fraction digits beyond microseconds are cut, not rounded: a time never moves into the next second.
    Numbers, numbers in text and times without an offset are refused, never guessed (FC-58).

    Args:
        text: for example `2013-01-01T05:15:00-05:00`.
        place: the name of the field, for the error.

    Returns:
        The time in UTC, between the years 1970 and 2200.

    Raises:
        Invalid: with `place` and the rule that is broken.
    """
    found = _read(text) if isinstance(text, str) and len(text) <= _LONGEST else _FORM
    if isinstance(found, str):
        raise Invalid(place, found)
    return found


@lru_cache(maxsize=64)  # an event's time is read when it is checked, and again wherever it is used
def _read(text: str) -> datetime | str:
    """Give the time, or the rule that is broken."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return _FORM
    if match["second"] == "60":
        return "a leap second cannot be stored; send second 59 or the next minute"
    fraction = match["fraction"]
    if fraction and len(fraction) > 7:  # noqa: PLR2004 - a point and six digits
        text = text.replace(fraction, fraction[:7])
    try:
        moment = datetime.fromisoformat(text.upper())
        if moment.tzinfo is not UTC:
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return "is not a date and time of the calendar"
    return moment if EARLIEST <= moment <= LATEST else "must lie in the years 1970 to 2200"


def format_time(moment: datetime) -> str:
    """Write a time in the one fixed-width form: `2013-01-01T10:15:00.000000Z`.

    Args:
        moment: a time with an offset.

    Raises:
        Invalid: when the time has no offset.
    """
    if moment.tzinfo is not UTC:
        if moment.tzinfo is None:
            raise Invalid("time", "has no offset")
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def from_milliseconds(count: int, place: str = "time") -> datetime:
    """Read a time that is declared to be in milliseconds since 1970, such as SQS gives; other units are not guessed.

    Raises:
        Invalid: with `place`; it does not lie in the years 1970 to 2200.
    """
    if not 0 <= count <= _LATEST_MILLISECONDS:
        raise Invalid(place, "must be milliseconds since 1970, in the years 1970 to 2200")
    return EARLIEST + timedelta(milliseconds=count)


def check_not_ahead(moment: datetime, now: datetime, place: str = "time") -> None:
    """Refuse a time more than 24 h ahead of the clock (CONTRACTS § 1).

    Raises:
        Invalid: with `place`.
    """
    if moment - now > MAX_AHEAD:
        raise Invalid(place, "must be at most 24 hours ahead of the clock")
