"""Spans of time as people write them: `30d`, `12h`, `90m`, `45s`."""

import re
from datetime import timedelta
from typing import Final

from domain.errors import Invalid

_DURATION: Final = re.compile(r"0*(\d*)([smhd])(?<=\d.)", re.ASCII)
_DIGITS: Final = 6
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read_duration(text: str, place: str) -> timedelta:
    """Read a span of time such as `30d`, `12h`, `90m` or `45s`.

    Raises:
        Invalid: with the place.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Invalid(place, "must be a number and a unit, such as 30d, 12h, 90m or 45s")
    if not match[1]:
        raise Invalid(place, "must be more than nothing")
    if len(match[1]) > _DIGITS:
        raise Invalid(place, f"must have at most {_DIGITS} digits; take a larger unit, or a shorter time")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
