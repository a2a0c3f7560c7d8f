"""The front door's processor as a process: gather, keep, delete what was kept, give back the rest (R-502, R-503).

Killed at any moment, it leaves messages that the queue hands out again. What it had kept of them by then is kept again,
under the same name where the batch is the same, and told apart by the events' source and id where it is not.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

import structlog

from application.intake import Intake, IntakeReport, store_batch
from domain.errors import Retryable
from domain.intake import RAW
from domain.messages import Received
from domain.retry import RetryRule
from entrypoints.failures import one_error, rejection_fields
from entrypoints.worker.taking import BACKOFF, outlast, pause, settle, tell_failures, until_the_store_answers
from ports.intake_queue import IntakeQueue

AT_A_TIME: Final = 100
"""Messages asked for in one call, so that a batch of large ones ends near `BATCH_BYTES`."""

BATCH_BYTES: Final = 64 * 1024 * 1024

_log: structlog.stdlib.BoundLogger = structlog.get_logger("interlock.worker")


class Gathering(NamedTuple):
    """How a worker takes messages.

    Attributes:
        batch: messages for one object at most.
        receivers: batches in hand side by side.
        wait_seconds: how long to wait for a message in one call; stopping takes as long.
        window_seconds: how long to gather messages after the first.
        visibility_seconds: how long the queue hides a message that was handed out.
    """

    batch: int
    receivers: int
    wait_seconds: float
    window_seconds: float
    visibility_seconds: float
    backoff: RetryRule = BACKOFF


async def process(intake: Intake, queue: IntakeQueue, how: Gathering, stop: asyncio.Event) -> None:
    """Work through the intake queue until told to stop; the batches in hand are finished first.

    Takes no message before the store answers: one that is away or not set up must cost no message a receive.

    Raises:
        Misconfigured: the queue or the store cannot work as it is set up.
    """
    await until_the_store_answers(lambda: intake.objects.list(RAW, limit=1), how.backoff, stop)
    with one_error():
        async with asyncio.TaskGroup() as tasks:
            for _ in range(how.receivers):
                tasks.create_task(_receive(intake, queue, how, stop))


async def _receive(intake: Intake, queue: IntakeQueue, how: Gathering, stop: asyncio.Event) -> None:
    attempt = 0
    while not stop.is_set():
        try:
            batch = await queue.receive(min(how.batch, AT_A_TIME), how.wait_seconds)
        except Retryable as error:
            attempt += 1
            _log.warning("no answer from the queue", code=error.code, reason=str(error), attempt=attempt)
            await pause(how.backoff, attempt, stop)
            continue
        attempt = 0
        if batch:
            started = time.monotonic()
            deadline = intake.clock.now() + timedelta(seconds=how.visibility_seconds * 2 / 3)
            await _gather(queue, how, batch, stop)
            report = await store_batch(intake, batch, deadline=deadline)
            await _finish(intake, queue, how, batch, report, stop, started)


async def _gather(queue: IntakeQueue, how: Gathering, batch: list[Received], stop: asyncio.Event) -> None:
    """Take more messages, until there are enough, the window has passed, or the process is told to stop."""
    end = time.monotonic() + min(how.window_seconds, how.visibility_seconds / 3)
    size = sum(len(message.body) for message in batch)
    while len(batch) < how.batch and size < BATCH_BYTES and not stop.is_set():
        left = end - time.monotonic()
        try:
            more = await queue.receive(min(how.batch - len(batch), AT_A_TIME), max(0.0, min(left, how.wait_seconds)))
        except Retryable:
            return  # what is in hand is kept first; the next call tells
        if not more and left <= 0:
            return
        size += sum(len(message.body) for message in more)
        batch += more


async def _finish(
    intake: Intake,
    queue: IntakeQueue,
    how: Gathering,
    batch: Sequence[Received],
    report: IntakeReport,
    stop: asyncio.Event,
    started: float,
) -> None:
    """Delete what was kept; give back what failed, once the store answers again where that may help.

    A message for which no time was left is not given back: that would count as a failure of its own, and bury it after
    a few. It comes again when its time is over, which is soon.
    """
    returned = set(report.returned)
    stale = await settle(queue, [message for message in batch if message.message_id not in returned], [])
    _tell(batch, report, stale, time.monotonic() - started)
    await outlast(report.failures, lambda: intake.objects.list(RAW, limit=1), how.backoff, stop)
    await settle(queue, [], [message for message in batch if message.message_id in report.failures])


def _tell(batch: Sequence[Received], report: IntakeReport, stale: int, seconds: float) -> None:
    tell_failures(batch, report.failures)
    for message_id, rejections in report.rejections.items():
        _log.warning("message rejected", **rejection_fields(message_id, rejections))
    _log.info(
        "batch",
        received=report.received,
        stored=report.stored,
        quarantined=report.quarantined,
        returned=len(report.returned),
        stale=stale,
        seconds=round(seconds, 3),
    )
