"""`interlock events publish` and `interlock worker events`: onto the bus, and from its queue to workflows (§ 9)."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from domain.errors import Invalid
from entrypoints.cli.output import Json, emit, run, say, tell
from entrypoints.cli.session import shared_settings
from entrypoints.settings import YIELDING, Settings

if TYPE_CHECKING:
    from domain.envelope import Envelope
    from domain.errors import InterlockError

MAX_BYTES: Final = 64 * 1024 * 1024
AT_ONCE: Final = 1000


def publish(
    file: Annotated[Path, typer.Argument(help="File of events; - for standard input.", allow_dash=True)],
    as_json: Json = False,
) -> None:
    """Publish CloudEvents to the event bus: one, an array, or one a line. All are checked before the first is sent.

    Example: interlock events publish events.jsonl

    Exit code 1 where the bus refused some; the others are published.
    """
    settings = shared_settings()
    events = list(_events(_read(file)))
    answers = run(_publish(settings, events), "Publishing")
    refused = [
        {"index": index, "id": event.id, "reason": str(answer)}
        for index, (event, answer) in enumerate(zip(events, answers, strict=True))
        if answer is not None
    ]
    if as_json:
        emit({"published": len(events) - len(refused), "refused": refused})
    else:
        say(f"published {len(events) - len(refused)}, refused {len(refused)}")
        for one in refused[:10]:
            tell(f"refused: event {one['index']} ({one['id']}): {one['reason']}")
    if refused:
        raise typer.Exit(1)


def events(
    batch: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Events at a time; the engine's if not given.")
    ] = None,
    receivers: Annotated[int | None, typer.Option(min=1, max=64, help="Batches in hand side by side.")] = None,
) -> None:
    """Start a workflow for each event of the bus's queue, without Lambda; stop with Ctrl-C or SIGTERM.

    Example: INTERLOCK_ENGINE=aws interlock worker events --receivers 8
    """
    settings = shared_settings()
    if settings.engine == "sqlite":
        os.nice(YIELDING)
    asyncio.run(_drain(settings, batch, receivers))


async def _publish(settings: Settings, events: "list[Envelope]") -> "list[InterlockError | None]":
    from entrypoints.engines.event_bus import EventBusEngine

    engine = EventBusEngine(settings)
    try:
        answers: list[InterlockError | None] = []
        for start in range(0, len(events), AT_ONCE):
            answers += await engine.bus.publish(events[start : start + AT_ONCE])
        return answers
    finally:
        await engine.aclose()


async def _drain(settings: Settings, batch: int | None, receivers: int | None) -> None:
    from adapters.prometheus.metrics import PrometheusMetrics
    from entrypoints.cli.serve import until_told
    from entrypoints.engines.event_bus import EventBusEngine
    from entrypoints.engines.router import make_router, make_starter, open_stores
    from entrypoints.logs import set_up
    from entrypoints.wiring import open_skip_list
    from entrypoints.worker.events import Draining, drain

    set_up()
    metrics = PrometheusMetrics()
    engine, skip_list, stores = EventBusEngine(settings), open_skip_list(settings, metrics), open_stores(settings)
    how = Draining(
        batch or engine.batch, receivers or engine.receivers, engine.wait_seconds, settings.bus.visibility_seconds
    )
    with until_told() as stop:
        try:
            router = make_router(settings, stores, make_starter(settings), skip_list.reader, metrics)
            queue = engine.queue
            tell(f"Interlock routes events (engine {settings.engine}, Temporal {settings.temporal.address})")
            await drain(router, queue, how, stop)
        finally:
            for opened in (engine, skip_list, stores):
                await opened.aclose()
    tell("stopped; nothing is in hand")


def _read(file: Path) -> bytes:
    """Read all of it.

    Raises:
        Invalid: over 64 MiB.
    """
    if str(file) == "-":
        raw = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin else b""
    else:
        with file.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise Invalid(str(file), f"holds more than {MAX_BYTES} bytes; publish it in parts")
    return raw


def _events(raw: bytes) -> "Iterator[Envelope]":
    """Read events: an array of them, one alone, or one a line; empty lines are none.

    Raises:
        Invalid: naming the event or the line, and the rule that is broken.
    """
    from domain.envelope import envelope_from, read_batch, read_envelope
    from domain.errors import Malformed
    from domain.json_reader import read_json

    if raw.lstrip()[:1] == b"[":
        for index, value in enumerate(read_batch(raw)):
            with _at(f"event {index}"):
                event = envelope_from(value)
            yield event
        return
    lines = [(number, line) for number, line in enumerate(raw.splitlines(), 1) if line.strip()]
    if not lines:
        raise Invalid("", "there is no event")
    try:
        read_json(lines[0][1])
    except Malformed:
        yield read_envelope(raw)  # one event over several lines, or none
        return
    for number, line in lines:
        with _at(f"line {number}"):
            event = read_envelope(line)
        yield event


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Say where the event stands whose rule is broken."""
    try:
        yield
    except Invalid as error:
        raise Invalid(where, str(error)) from None
