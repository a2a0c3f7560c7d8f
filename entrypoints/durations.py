"""Spans of time as people write them: `30d`, `12h`, `90m`, `45s`."""

import re
from datetime import timedelta
from typing import Final

from domain.errors import Invalid

_DURATION: Final = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read_duration(text: str, place: str) -> timedelta:
    """Read a span of time such as `30d`, `12h`, `90m` or `45s`.

    Raises:
        Invalid: with the place.
    """
    match = _DURATION.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise Invalid(place, "must be a number and a unit, such as 30d, 12h, 90m or 45s")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
