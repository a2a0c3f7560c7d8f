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
from entrypoints.settings import Settings, variable
from entrypoints.sources import Loaded, load

_DURATION: Final = re.compile(r"0*(\d*)([smhd])(?<=\d.)", re.ASCII)
_DIGITS: Final = 6
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def loaded() -> Loaded:
    """Read the settings; a bad one is wrong usage and ends the command with code 2."""
    try:
        return load()
    except Misconfigured as error:
        tell(f"error: {error}")
        raise typer.Exit(2) from None


def shared_settings() -> Settings:
    """Read the settings, for what works beside other processes.

    Raises:
        Misconfigured: the engine is one that other processes cannot reach.
    """
    settings = loaded().settings
    if settings.engine == "memory":
        raise Misconfigured(
            variable(("engine",)), "is memory, which lives in one process alone: use `interlock dev`, or sqlite"
        )
    return settings


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
    if match is None:
        raise Invalid(place, "must be a number and a unit, such as 30d, 12h, 90m or 45s")
    if not match[1]:
        raise Invalid(place, "must be more than nothing")
    if len(match[1]) > _DIGITS:
        raise Invalid(place, f"must have at most {_DIGITS} digits; take a larger unit, or a shorter time")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
