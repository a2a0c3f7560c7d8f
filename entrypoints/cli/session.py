"""What commands start from: the settings, and the configured engine for as long as a command runs."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import typer

from application.platform import Platform
from domain.errors import Invalid, Misconfigured
from entrypoints.cli.output import tell
from entrypoints.settings import Settings
from entrypoints.sources import Loaded, load

_DURATION: Final = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def loaded() -> Loaded:
    """Read the settings; a bad one is wrong usage and ends the command with code 2."""
    try:
        return load()
    except Misconfigured as error:
        tell(f"error: {error}")
        raise typer.Exit(2) from None


@asynccontextmanager
async def open_platform(settings: Settings) -> AsyncIterator[Platform]:
    """Give the platform of the configured engine to a command that does not ingest, and close it afterwards."""
    from adapters.memory.metrics import MemoryMetrics
    from entrypoints.wiring import make_platform, open_engine

    engine = open_engine(settings)
    try:
        yield make_platform(settings, engine, MemoryMetrics(), publishing=False)
    finally:
        await engine.aclose()


def read_duration(text: str, place: str) -> timedelta:
    """Read a span of time such as `30d`, `12h`, `90m` or `45s`.

    Raises:
        Invalid: with the place.
    """
    match = _DURATION.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise Invalid(place, "must be a number and a unit, such as 30d, 12h, 90m or 45s")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
