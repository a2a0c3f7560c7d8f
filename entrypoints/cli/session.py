"""What commands start from: the settings, and the configured engine for as long as a command runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import typer

from application.platform import Platform
from domain.errors import Misconfigured
from entrypoints.cli.output import tell
from entrypoints.settings import Settings, variable
from entrypoints.sources import Loaded, load


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
