"""The command, as tests of the command line have it."""

import asyncio
from pathlib import Path

import pytest

from adapters.memory.metrics import MemoryMetrics
from application.consume import apply_batch
from application.ingest import ingest
from domain.messages import TransitionRequested, requested_message
from entrypoints.settings import Settings
from entrypoints.wiring import make_platform, open_engine
from tests.entrypoints.cli import Interlock
from tests.examples import an_envelope


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    """The command, in an empty folder."""
    return Interlock(tmp_path, monkeypatch, capsys)


async def _fill(folder: Path) -> None:
    settings = Settings(data_dir=folder / ".interlock")
    engine = open_engine(settings)
    platform = make_platform(settings, engine, MemoryMetrics())
    envelopes = [an_envelope(f"e{n}", entity=f"N{n % 2}", time=f"2026-01-0{n + 1}T00:00:00Z") for n in range(5)]
    envelopes.append(an_envelope("e9", entity="N\u202e9", time="2025-12-31T00:00:00Z"))
    await ingest(platform, envelopes)
    request = TransitionRequested(
        event_id="e1",
        entity="N1",
        to="closed",
        actor="ada",
        command_id="c1",
        requested_at="2026-01-01T12:00:00Z",
    )
    await platform.publisher.publish([requested_message(request)])
    batch = await engine.queue.receive(100, 0)
    await apply_batch(platform, batch, max_receives=5)
    await engine.queue.delete(batch)
    await engine.aclose()


@pytest.fixture
def filled(interlock: Interlock) -> Interlock:
    """The command, beside a SQLite engine with six events."""
    asyncio.run(_fill(interlock.folder))
    return interlock
